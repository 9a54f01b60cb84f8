"""Users' functions that scenarios in tests name as ``tests.functions:name``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from simkit.core.messages import Handoff, Message

Root = Mapping[str, Any]


class Meal(BaseModel):
    food: str
    kcal: int = 0


# Reducers


def longest(current: str | None, update: str) -> str:
    return update if len(update) > len(current or "") else str(current)


def growing_in_place(current: list[Any] | None, update: Any) -> list[Any]:
    current = current if current is not None else []
    current.append(update)
    return current


_draws = iter(range(1_000_000))


def drawing(_current: Any, _update: Any) -> int:
    return next(_draws)


def failing(*_args: Any, **_kwargs: Any) -> Any:
    raise ValueError("out of order")


# Function agents


def count_letters(root: Root) -> dict[str, int]:
    return {"letters": len(root["user"])}


async def count_letters_later(root: Root) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"letters": len(root["user"])}


def shout(root: Root) -> str:
    return str(root["user"]).upper()


def shout_and_print(root: Root) -> str:
    print("{}")
    return shout(root)


def nothing(_root: Root) -> None:
    return None


def odd_keys(_root: Root) -> dict[Any, Any]:
    return {"text": "Hello", 1: "one", None: "none"}


def what_came(root: Root) -> dict[str, Any]:
    return {key: root[key] for key in ("input", "task", "upstream")}


def pass_on(root: Root) -> Handoff:
    return Handoff("other", query="go on", payload={"said": root["user"]})


def pass_to_nobody(_root: Root) -> Handoff:
    return Handoff("nobody")


def change_state(root: Root) -> str:
    root["state"]["facts"]["seen"] = True
    root["state"]["items"].append("new")
    root["state"]["extra"] = 1
    return "done"


# Tools


def add(a: int, b: int = 1) -> int:
    return a + b


async def add_later(a: int, b: int = 1) -> int:
    await asyncio.sleep(0)
    return a + b


def named(name: str, report: str = "none", function: str = "none") -> str:
    return f"{name}, {report}, {function}"


def whole(args: Mapping[str, Any], /) -> list[str]:
    return sorted(args)


# Sections, filters, replies


def summary_of_state(root: Root) -> Any:
    return {"agent": root["agent"], "facts": root["state"].get("facts")}


def no_section(_root: Root) -> None:
    return None


def meddling_section(root: Root) -> str:
    root["state"]["facts"]["meddled"] = True
    return "text"


def without_secrets(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if "secret" not in message.content]


def without_last(messages: Sequence[Message]) -> list[Message]:
    return list(messages[:-1])


def in_capitals(messages: Sequence[Message]) -> list[Message]:
    return [Message(m.role, m.content.upper(), m.id, m.agent, m.turn, m.calls) for m in messages]


def answer(messages: Sequence[Mapping[str, str]]) -> str:
    return f"I was sent {len(messages)} messages, last: {messages[-1]['content']}"


def answer_in_json(_messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    return {"json": {"from": "function"}}


def answer_nonsense(_messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    return {"txt": "typo"}


def answer_with_call(_messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    return {"calls": {"look": {}}}


def answer_with_typo(_messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    return {"calls": {"log_meals": {}}}


# Functions whose modules keep something from call to call

_data: dict[str, Any] = {}
_calls: dict[str, int] = {}


def first_name(name: str) -> str:
    return str(_data.setdefault("name", name))


def calls_so_far() -> int:
    _calls["n"] = _calls.get("n", 0) + 1
    return _calls["n"]


# Models that share something outside of the pipeline

LEDGER = {"total": 0}
_totals: dict[str, int] = {}


def opened(messages: list[dict[str, str]]) -> Any:
    LEDGER["total"] = 0
    return {"json": {"to": {"parallel": ["a", "b", "c"]}}}


def clerk(messages: list[dict[str, str]]) -> Any:
    """Reads the total in its first answer, and writes it in its second one."""
    name = messages[0]["content"]
    if messages[-1]["role"] == "user":
        _totals[name] = LEDGER["total"]
        return {"calls": [{"look": {}}]}
    LEDGER["total"] = _totals[name] + 1
    return str(LEDGER["total"])


def is_short(view: Any) -> bool | str:
    """A predicate that holds of one turn."""
    return len(view.turns) == 1 or "it is long"
