"""Lines and conversations that a simulation borrows from scenarios.

With `says_of: FILE`, a user says what a scenario's user says, with variations. With
`replies_of: FILE`, a model answers lines that are written in scenarios.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simkit.core.errors import SourceError
from simkit.language.paths import literal
from simkit.language.yaml import Document, SourcePath, packed
from simkit.spec.fields import shown_value
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import SCENARIO_SUFFIX, ScenarioCase, items_in, items_named, parted
from simkit.spec.scenario.moments import WHOLE, waits
from simkit.spec.scenario.simulated_users import END

SAYS_OF: Final = "says_of"
_BESIDE_SAYS_OF: Final = ("persona", "answers", "sessions")
"""The keys that such a user may have beside it."""
AS_RECORDED: Final = 8
"""The weight of what came next, beside 1 for the message once more and 1 for one that is left out.
"""


def with_says_of(library: Library, document: Document) -> Document:
    """Return a simulation with the conversations that its users borrow from scenarios.

    Raise SourceError for a scenario that is not there, or whose user says nothing.
    """
    changed = {
        name: _with_states(library, document, user, ("users", name))
        for name, user in _entries(document, "users")
        if isinstance(user, Mapping) and SAYS_OF in user
    }
    return _with_entries(document, "users", changed)


def _entries(document: Document, key: str) -> Iterable[tuple[str, Any]]:
    """Return the entries of a mapping at the top of a document; none if it is no mapping."""
    entries = document.data.get(key) if isinstance(document.data, dict) else None
    return entries.items() if isinstance(entries, dict) else ()


def _with_entries(document: Document, key: str, changed: Mapping[str, Any]) -> Document:
    if not changed:
        return document
    return document.with_data({**document.data, key: {**document.data[key], **changed}})


def _with_states(
    library: Library, document: Document, user: Mapping[str, Any], at: SourcePath
) -> dict[str, Any]:
    """Return a user with a state for each message of a scenario."""
    for key in user:
        if key not in (SAYS_OF, *_BESIDE_SAYS_OF) and not str(key).startswith("x-"):
            raise document.error(
                (*at, key),
                f"`{key}` has no meaning beside `{SAYS_OF}`: the scenario says what the user says",
                key=True,
            )
    turns = _turns_of(library, document, user[SAYS_OF], (*at, SAYS_OF))
    messages = [turn for turn in turns if "user" in turn]
    if not messages:
        raise document.error((*at, SAYS_OF), f"the user of `{user[SAYS_OF]}` says nothing")
    # References are resolved; what is left is meant literally, where references are read at all.
    is_read = document.mentions("${")
    states = {}
    for index, turn in enumerate(messages):
        says = turn["user"]
        state = {"says": literal(says) if is_read else says, "then": _next(index, len(messages))}
        states[_name(index)] = {**state, **({"pause": turn["pause"]} if "pause" in turn else {})}
    rest = {key: user[key] for key in user if key != SAYS_OF}
    answers = [turn["resume"] for turn in turns if "resume" in turn]
    return {**({"answers": answers} if answers else {}), **rest, "states": states}


def _items_of(
    library: Library, document: Document, name: str, at: SourcePath
) -> Sequence[ScenarioCase]:
    """Return the scenarios of a file beside a document."""
    file = Path(document.file).parent / name
    if not name.endswith(SCENARIO_SUFFIX) or not os.path.isfile(file):
        files = tuple(sorted(path.name for path in file.parent.glob(f"*{SCENARIO_SUFFIX}")))
        raise document.error(at, f"there is no scenario file `{name}`", word=name, known=files)
    return items_in(str(file), library.cache)


def _only_item(library: Library, document: Document, name: Any, at: SourcePath) -> ScenarioCase:
    """Return the one scenario of this name; else raise an error at its mention."""
    if not isinstance(name, str):
        raise document.error(at, f"must be the name of a scenario file, not {shown_value(name)}")
    path, chosen = parted(name)
    items = _items_of(library, document, path, at)
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
    of_session = [turn for turn in turns if turn.get("session") == first]
    # The turns have such references as they are written; only `waiting` tells them from texts.
    for index, turn in sorted(scenario.waiting.items()):
        if index == WHOLE or turn.get("session") != first:
            continue
        if waits([turn.get(key) for key in ("user", "resume")]):
            where = scenario.document.position(("turns", index))
            raise SourceError(where, "a message that repeats a reply has no meaning elsewhere")
    return of_session


def _name(index: int) -> str:
    return f"message {index + 1}"


def _next(index: int, count: int) -> dict[str, int]:
    """Return what follows a message: mostly the next one; rarely the same, or the one after."""
    following = [_name(later) if later < count else END for later in (index + 1, index + 2)]
    weights = {following[0]: AS_RECORDED, _name(index): 1}
    weights[following[1]] = weights.get(following[1], 0) + 1
    return weights


REPLIES_OF: Final = "replies_of"
_BESIDE_REPLIES_OF: Final = ("weight",)


def with_replies_of(library: Library, document: Document) -> Document:
    """Return a simulation with the lines that its models borrow from scenarios.

    Raise SourceError for a file that is not there, or that has no line of the agent.
    """
    changed = {
        agent: _borrowed(library, document, agent, lines)
        for agent, lines in _entries(document, "models")
        if any(_names_file(line) for line in as_list(lines))
    }
    return _with_entries(document, "models", changed)


def as_list(lines: Any) -> Sequence[Any]:
    """Return lines as a list, also a single one."""
    return lines if isinstance(lines, list) else [lines]


def _names_file(line: Any) -> bool:
    return isinstance(line, Mapping) and REPLIES_OF in line


def _borrowed(library: Library, document: Document, agent: str, lines: Any) -> list[Any]:
    result: list[Any] = []
    for index, line in enumerate(as_list(lines)):
        if not _names_file(line):
            result.append(line)
            continue
        at: SourcePath = ("models", agent, index) if isinstance(lines, list) else ("models", agent)
        for key in line:
            if key not in (REPLIES_OF, *_BESIDE_REPLIES_OF):
                known = (REPLIES_OF, *_BESIDE_REPLIES_OF)
                raise document.error(
                    (*at, key), f"unknown key `{key}`", word=key, known=known, key=True
                )
        weight = {"weight": line["weight"]} if "weight" in line else {}
        for reply in _lines_in(library, document, agent, line[REPLIES_OF], (*at, REPLIES_OF)):
            as_mapping = reply if isinstance(reply, Mapping) else {"text": reply}
            result.append({**as_mapping, **weight})
    return result


def _lines_in(
    library: Library, document: Document, agent: str, name: Any, at: SourcePath
) -> Iterator[Any]:
    """Yield the lines of an agent in a file's scenarios, each once."""
    if not isinstance(name, str):
        raise document.error(
            at,
            f"must be the name of a scenario file, not {shown_value(name)}",
            advice="For several files, give each a line of its own.",
        )
    recorded: dict[bytes, Any] = {}
    agents: dict[str, None] = {}
    for item in _items_of(library, document, name, at):
        scenario = library.prepared(item)
        for index, turn in enumerate(scenario.document.data["turns"]):
            for other, lines in (turn.get("replies") or {}).items():
                agents[other] = None
                if other == agent:
                    for line in as_list(lines):
                        if waits(line):
                            path = ("turns", index, "replies", agent)
                            where = scenario.document.position(path)
                            problem = (
                                "a line that repeats an earlier reply has no meaning elsewhere"
                            )
                            raise SourceError(where, problem)
                        recorded.setdefault(packed(line), line)
    if not recorded:
        raise document.error(
            at, f"`{name}` has no line of agent `{agent}`", word=agent, known=tuple(agents)
        )
    # References are resolved; what is left is meant literally, where references are read at all.
    is_read = document.mentions("${")
    for line in recorded.values():
        yield literal(line) if is_read else line
