"""Lines of a simulated model that are written in scenarios: `replies_of: refund.scenario.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit.core.errors import SourceError
from simkit.language.paths import with_texts
from simkit.language.yaml import Document, SourcePath
from simkit.spec.fields import shown_value
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import SCENARIO_SUFFIX, items_in
from simkit.spec.scenario.turns import waits

KEY: Final = "replies_of"
_MORE_KEYS: Final = ("weight",)


def with_replies_of(library: Library, document: Document) -> Document:
    """Return a simulation with the lines that its models borrow from scenarios.

    Raise SourceError for a file that is not there, or that has no line of the agent.
    """
    models = document.data.get("models") if isinstance(document.data, dict) else None
    if not isinstance(models, dict):
        return document
    changed = {
        agent: _borrowed(library, document, agent, lines)
        for agent, lines in models.items()
        if any(_names_file(line) for line in _listed(lines))
    }
    if not changed:
        return document
    return document.with_data({**document.data, "models": {**models, **changed}})


def _listed(lines: Any) -> Sequence[Any]:
    return lines if isinstance(lines, list) else [lines]


def _names_file(line: Any) -> bool:
    return isinstance(line, Mapping) and KEY in line


def _borrowed(library: Library, document: Document, agent: str, lines: Any) -> list[Any]:
    result: list[Any] = []
    for place, line in enumerate(_listed(lines)):
        if not _names_file(line):
            result.append(line)
            continue
        at: SourcePath = ("models", agent, place) if isinstance(lines, list) else ("models", agent)
        for key in line:
            if key not in (KEY, *_MORE_KEYS):
                known = (KEY, *_MORE_KEYS)
                raise document.error(
                    (*at, key), f"unknown key `{key}`", word=key, known=known, key=True
                )
        weight = {"weight": line["weight"]} if "weight" in line else {}
        for reply in _lines_in(library, document, agent, line[KEY], (*at, KEY)):
            as_mapping = reply if isinstance(reply, Mapping) else {"text": reply}
            result.append({**as_mapping, **weight} if weight else reply)
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
    file = Path(document.file).parent / name
    if not name.endswith(SCENARIO_SUFFIX) or not file.is_file():
        files = tuple(sorted(path.name for path in file.parent.glob(f"*{SCENARIO_SUFFIX}")))
        raise document.error(at, f"there is no scenario file `{name}`", word=name, known=files)
    known: dict[bytes, Any] = {}
    agents: dict[str, None] = {}
    for item in items_in(str(file), library.cache):
        scenario = library.prepared(item)
        for place, turn in enumerate(scenario.document.data["turns"]):
            for other, lines in (turn.get("replies") or {}).items():
                agents[other] = None
                if other == agent:
                    for line in _listed(lines):
                        if waits(line):
                            path = ("turns", place, "replies", agent)
                            where = scenario.document.position(path)
                            problem = (
                                "a line that repeats an earlier reply has no meaning elsewhere"
                            )
                            raise SourceError(where, problem)
                        known.setdefault(msgspec.json.encode(line), line)
    if not known:
        raise document.error(
            at, f"`{name}` has no line of agent `{agent}`", word=agent, known=tuple(agents)
        )
    # References are resolved; what is left is meant literally, where references are read at all.
    is_read = document.mentions("${")
    for line in known.values():
        yield with_texts(line, lambda text: text.replace("${", "$${")) if is_read else line
