"""A desk that keeps what was booked in a place of each kind; its source holds that, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import openai

HOTELS = {"luxury": "Grand Plaza", "cheap": "Motel Six"}
ROOMS: dict[str, str] = {}
BY_GUEST: dict[str, dict[str, str]] = defaultdict(dict)
KNOWN: dict[str, dict[str, Any]] = {"guest": {"hotel": None}}
NIGHTS: dict[str, int] = {}
VIP: list[bool] = []
LAST = ""
CACHE: dict[str, str] = {}
IN_CONTEXT: ContextVar[list[str]] = ContextVar("booked")
IN_CONTEXT.set([])


class Rooms:
    of_class = ""

    def __init__(self) -> None:
        self.own: list[str] = []


STORE = Rooms()


def by_default(*new: str, rooms: list[str] = []) -> list[str]:  # noqa: B006
    rooms += new
    return rooms


def by_attribute() -> None:
    pass


by_attribute.last = ""  # type: ignore[attr-defined]


def _new_place() -> Callable[..., str]:
    last = ""

    def place(*new: str) -> str:
        nonlocal last
        last = new[0] if new else last
        return last

    return place


by_closure = _new_place()


def _by_name(hotel: str) -> None:
    global LAST
    LAST = hotel


PLACES: dict[str, tuple[Callable[[str], object], Callable[[], object]]] = {
    "dictionary": (lambda hotel: ROOMS.update(guest=hotel), lambda: ROOMS),
    "default": (lambda hotel: BY_GUEST["guest"].update(at=hotel), lambda: BY_GUEST["guest"]),
    "entry": (lambda hotel: KNOWN["guest"].update(hotel=hotel), lambda: KNOWN["guest"]["hotel"]),
    "number": (lambda hotel: NIGHTS.update(guest=3), lambda: NIGHTS.get("guest", 0)),
    "truth": (lambda hotel: VIP.append(True), lambda: bool(VIP)),
    "name": (_by_name, lambda: LAST),
    "class": (lambda hotel: setattr(Rooms, "of_class", hotel), lambda: Rooms.of_class),
    "object": (lambda hotel: STORE.own.append(hotel), lambda: STORE.own),
    "argument": (by_default, by_default),
    "attribute": (
        lambda hotel: setattr(by_attribute, "last", hotel),
        lambda: vars(by_attribute)["last"],
    ),
    "closure": (by_closure, by_closure),
    "context": (lambda hotel: IN_CONTEXT.get().append(hotel), lambda: IN_CONTEXT.get()),
    "constant beside it": (lambda hotel: ROOMS.update(guest=hotel), lambda: (HOTELS, ROOMS)),
    # The next ones are right code.
    "constant": (lambda hotel: ROOMS.update(guest=hotel), lambda: HOTELS),
    "cache": (
        lambda hotel: CACHE.setdefault("luxury", hotel),
        lambda: CACHE.setdefault("luxury", HOTELS["luxury"]),
    ),
    "choice": (lambda hotel: ROOMS.update(guest=hotel), lambda: HOTELS["luxury"]),
    "own": (lambda hotel: (ROOMS.clear(), ROOMS.update(guest=hotel)), lambda: ""),
}


def run(text: str) -> str | None:
    """Book in a place, `book number`, or ask with what is in it."""
    verb, name = text.split(" ", 1)
    write, read = PLACES[name]
    if verb == "book":
        write(HOTELS["luxury"])
    prompt = f"You sell rooms. Booked: {read()}"
    messages: Any = [{"role": "system", "content": prompt}, {"role": "user", "content": text}]
    reply = openai.OpenAI().chat.completions.create(model="m", messages=messages)
    return reply.choices[0].message.content
