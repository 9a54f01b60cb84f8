"""Users of a simulation who say what a scenario's user says, with variations: `says_of: FILE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simkit.core.errors import SourceError
from simkit.language.paths import with_texts
from simkit.language.yaml import Document, SourcePath
from simkit.spec.fields import shown_value
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import SCENARIO_SUFFIX, ScenarioCase, items_in, items_named, parted
from simkit.spec.scenario.simulated_users import END
from simkit.spec.scenario.turns import WHOLE, waits

KEY: Final = "says_of"
_MORE_KEYS: Final = ("persona", "answers", "sessions")
"""The keys that such a user may have beside it."""
AS_RECORDED: Final = 8
"""The weight of what came next, beside 1 for the message once more and 1 for one that is left out.
"""


def with_says_of(library: Library, document: Document) -> Document:
    """Return a simulation with the conversations that its users borrow from scenarios.

    Raise SourceError for a scenario that is not there, or whose user says nothing.
    """
    users = document.data.get("users") if isinstance(document.data, dict) else None
    if not isinstance(users, dict):
        return document
    changed = {
        name: _with_states(library, document, user, ("users", name))
        for name, user in users.items()
        if isinstance(user, Mapping) and KEY in user
    }
    if not changed:
        return document
    return document.with_data({**document.data, "users": {**users, **changed}})


def _with_states(
    library: Library, document: Document, user: Mapping[str, Any], at: SourcePath
) -> dict[str, Any]:
    """Return a user with a state for each message of a scenario."""
    for key in user:
        if key not in (KEY, *_MORE_KEYS) and not str(key).startswith("x-"):
            raise document.error(
                (*at, key),
                f"`{key}` has no meaning beside `{KEY}`: the scenario says what the user says",
                key=True,
            )
    turns = _turns_of(library, document, user[KEY], (*at, KEY))
    messages = [turn for turn in turns if "user" in turn]
    if not messages:
        raise document.error((*at, KEY), f"the user of `{user[KEY]}` says nothing")
    # References are resolved; what is left is meant literally, where references are read at all.
    is_read = document.mentions("${")
    states = {}
    for place, turn in enumerate(messages):
        says = turn["user"]
        state = {
            "says": with_texts(says, lambda text: text.replace("${", "$${")) if is_read else says,
            "then": _next(place, len(messages)),
        }
        states[_name(place)] = {**state, **({"pause": turn["pause"]} if "pause" in turn else {})}
    rest = {key: user[key] for key in user if key != KEY}
    answers = [turn["resume"] for turn in turns if "resume" in turn]
    return {**({"answers": answers} if answers else {}), **rest, "states": states}


def _only_item(library: Library, document: Document, name: Any, at: SourcePath) -> ScenarioCase:
    """Return the one scenario of this name; else raise an error at its mention."""
    if not isinstance(name, str):
        raise document.error(at, f"must be the name of a scenario file, not {shown_value(name)}")
    path, chosen = parted(name)
    file = Path(document.file).parent / path
    if not path.endswith(SCENARIO_SUFFIX) or not file.is_file():
        files = tuple(sorted(path_.name for path_ in file.parent.glob(f"*{SCENARIO_SUFFIX}")))
        raise document.error(at, f"there is no scenario file `{path}`", word=path, known=files)
    items = items_in(str(file), library.cache)
    try:
        items = items_named(path, items, chosen) if chosen else items
    except SourceError as problem:
        raise document.error(at, problem.what, word=chosen, advice=problem.advice) from None
    if len(items) != 1:
        names = ", ".join(dict.fromkeys(item.name for item in items))
        raise document.error(
            at, f"`{name}` holds several scenarios", advice=f"Name one, `{path}::NAME`: {names}."
        )
    return items[0]


def _turns_of(library: Library, document: Document, name: Any, at: SourcePath) -> Sequence[Any]:
    """Return the turns of a scenario's first session, as data."""
    scenario = library.prepared(_only_item(library, document, name, at))
    turns = scenario.document.data["turns"]
    first = turns[0].get("session")
    own = [turn for turn in turns if turn.get("session") == first]
    # The turns have such references as they are written; only `waiting` tells them from texts.
    for place, turn in sorted(scenario.waiting.items()):
        if place == WHOLE or turn.get("session") != first:
            continue
        if waits([turn.get(key) for key in ("user", "resume")]):
            where = scenario.document.position(("turns", place))
            raise SourceError(where, "a message that repeats a reply has no meaning elsewhere")
    return own


def _name(place: int) -> str:
    return f"message {place + 1}"


def _next(place: int, count: int) -> dict[str, int]:
    """Return what follows a message: mostly the next one; rarely the same, or the one after."""
    following = [_name(later) if later < count else END for later in (place + 1, place + 2)]
    weights = {following[0]: AS_RECORDED, _name(place): 1}
    weights[following[1]] = weights.get(following[1], 0) + 1
    return weights
