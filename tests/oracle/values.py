"""The values of the second model, and the small languages of the files: paths, matchers, reducers.

Where the documents leave the words of a message open, an ``Open`` stands for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

EMPTY = {"append": [], "union": [], "by_id": [], "merge": {}, "add": 0}


class NotThere:
    """What a path leads to where nothing is."""


NOT_THERE = NotThere()


@dataclass(eq=False)
class Open:
    """A text of which the documents tell some of its parts, in their order unless ``anyhow``.

    What stands under ``without`` is no part of it.
    """

    parts: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    anyhow: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str) or any(part in other for part in self.without):
            return False
        place = 0
        for part in self.parts:
            place = other.find(part, 0 if self.anyhow else place)
            if place < 0:
                return False
            place += len(part)
        return True


class JsonText(str):
    """A value that is shown as JSON, also if it is a text or empty."""


@dataclass(eq=False)
class Entry:
    """A message; the same one wherever it stands."""

    role: str
    content: Any
    agent: str | None = None
    calls: tuple[tuple[str, Any], ...] = ()
    answers: str = ""
    run: Run | None = None
    """In which it was said; what nobody said in a run is seen by all."""
    number: int = field(default_factory=count(1).__next__)
    """The order in which messages were said, which in the log of a group is not their order."""


@dataclass
class Handoff:
    """One request to pass control."""

    source: str
    target: str
    contract: Mapping[str, Any]
    query: str | None
    payload: Any
    outcome: str = "made"

    def root(self) -> dict[str, Any]:
        """Returns what ``${handoff}`` is."""
        return {
            "from": self.source, "to": self.target, "type": self.contract.get("type", "handoff"),
            "mode": self.mode, "query": self.query, "payload": self.payload,
        }  # fmt: skip

    @property
    def mode(self) -> str:
        """Whether control comes back, and whose the reply is."""
        return str(self.contract.get("mode", "transfer"))


@dataclass
class Run:
    """One activation of an agent."""

    agent: str
    received: dict[str, Any]
    input: Any
    started: int
    output: Any = None
    final: Entry | None = None
    entries: list[Entry] = field(default_factory=list)
    tools: list[tuple[str, Any]] = field(default_factory=list)
    tools_called: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    update: dict[str, Any] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    """Channels that it wrote more than once: how its update sums them up is not said."""
    passed: Handoff | None = None
    branch: Branch | None = None
    log: list[Entry] = field(default_factory=list)
    """What was said before it; or, where it goes on after a question, before the run that asked."""
    is_over: bool = False

    def add(self, update: Mapping[str, Any]) -> None:
        """Adds to what it left in the channels."""
        self.twice |= update.keys() & self.update.keys()
        self.update |= update


@dataclass(eq=False)
class Branch:
    """One way of a parallel group: what its runs see, and what they say."""

    state: dict[str, Any]
    before: list[Entry]
    outer: Branch | None
    entries: list[Entry | Group] = field(default_factory=list)

    @property
    def log(self) -> list[Entry]:
        """What its runs see of the log."""
        return [*self.before, *flat(self.entries, self)]


@dataclass(eq=False)
class Group:
    """Where a parallel group stands in a log: its branches, in their order."""

    branches: list[Branch]


def flat(log: list[Entry | Group], inside: Branch | None) -> Generator[Entry]:
    """Yields a log's messages; of a group, those of runs that are over."""
    for entry in log:
        if isinstance(entry, Entry):
            yield entry
            continue
        for branch in entry.branches:
            for message in flat(branch.entries, inside):
                if message.run is None or message.run.is_over:
                    yield message


@dataclass
class Question:
    """A run asks the user, and waits."""

    question: Any


class TurnEnds(Exception):
    """The turn ends before its flow does."""

    def __init__(self, error: str | None) -> None:
        super().__init__(error)
        self.error = error


@dataclass
class Turn:
    """What became of one user message."""

    runs: list[Run] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)
    reply: Any = None
    state: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    interrupt: Any = None
    tools: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    """The calls of summarising agents: what they are shown."""


Work = Generator["int | Question", Any, Any]
"""Something that takes time: it yields virtual milliseconds, or a question and gets the answer."""


@dataclass
class Waiting:
    """A turn whose work waits for the user."""

    work: Work
    user: Any
    question: Entry


def as_json(value: Any, *, spaced: bool = False) -> str:
    """Returns a value as a provider carries it."""
    plain = (
        [plain_message(item) for item in value] if isinstance(value, list) else plain_message(value)
    )
    return json.dumps(plain, ensure_ascii=False, separators=None if spaced else (",", ":"))


def plain_message(value: Any) -> Any:
    """Returns a message as a mapping, anything else as it is."""
    return {"role": value.role, "content": value.content} if isinstance(value, Entry) else value


def as_text(value: Any, *, spaced: bool = False) -> str:
    """Returns what a value is within a text."""
    return value if isinstance(value, str) else as_json(value, spaced=spaced)


def at(value: Any, path: str) -> Any:
    """Returns what a path leads to."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for step in re.findall(r"[^.\[\]]+|\[-?\d+\]", path):
        if step.startswith("[") and isinstance(value, Sequence):
            place = int(step[1:-1])
            if not -len(value) <= place < len(value):
                return NOT_THERE
            value = value[place]
        elif isinstance(value, Entry) and step in ("role", "content", "agent"):
            value = getattr(value, step)
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            return NOT_THERE
    return value


def filled(template: Any, root: Mapping[str, Any]) -> Any:
    """Returns a template with its references followed."""
    if isinstance(template, Mapping):
        return {filled(k, root): filled(v, root) for k, v in template.items()}
    if isinstance(template, list):
        return [filled(item, root) for item in template]
    if not isinstance(template, str):
        return template
    alone = re.fullmatch(r"\$\{([^}]*)\}", template)
    if alone:
        value = at(root, alone[1])
        return None if value is NOT_THERE else value

    def text(match: re.Match[str]) -> str:
        result = at(root, match[1])
        return as_text(None if result is NOT_THERE else result, spaced=True)

    return re.sub(r"\$\{([^}]*)\}", text, template)


def holds(matcher: Any, value: Any) -> bool:
    """Says whether a matcher holds of a value: the operators that the generator uses."""
    if isinstance(matcher, Mapping) and all(key.startswith("$") for key in matcher):
        return all(_operator(name, expected, value) for name, expected in matcher.items())
    if isinstance(matcher, Mapping):
        return all(holds(expected, at(value, key)) for key, expected in matcher.items())
    if isinstance(matcher, list):
        return isinstance(value, list) and len(matcher) == len(value) and all(
            map(holds, matcher, value)
        )  # fmt: skip
    return isinstance(value, bool) == isinstance(matcher, bool) and bool(matcher == value)


def _operator(name: str, expected: Any, value: Any) -> bool:
    if name == "$not":
        return not holds(expected, value)
    if name == "$any":
        return value is not NOT_THERE
    if name == "$contains":
        return value is not NOT_THERE and expected in as_text(value)
    if name == "$gte":
        return isinstance(value, (int, float)) and value >= expected
    raise AssertionError(name)


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Says whether a value satisfies a JSON Schema: the keywords that the generator uses."""
    kinds = {"object": dict, "string": str, "integer": int}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return False
    if not isinstance(value, dict):
        return True
    return all(key in value for key in schema.get("required", ())) and all(
        fits(inner, value[key]) for key, inner in schema.get("properties", {}).items()
        if key in value
    )  # fmt: skip


def joined(reducer: Any, now: Any, update: Any) -> Any:
    """Returns a channel's value after a write."""
    if isinstance(update, Mapping) and set(update) == {"$set"}:
        return update["$set"]
    kind, options = (reducer, {}) if isinstance(reducer, str) else next(iter(reducer.items()))
    if kind == "replace":
        return update
    if kind == "append":
        items = update if isinstance(update, list) else [update]
        whole = [*now, *(item for item in items if item is not None)]
        return whole[-options["last"] :] if options else whole
    if kind == "merge":
        return _merged(now, update, deep=options == "deep")
    if kind == "add":
        return now + update
    if kind == "union":
        items = update if isinstance(update, list) else [update]
        return _united(now, items)
    assert kind == "by_id"
    items = update if isinstance(update, list) else [update]
    whole = list(now)
    for item in items:
        places = [i for i, old in enumerate(whole) if old["id"] == item["id"]]
        if places:
            whole[places[0]] = item
        else:
            whole.append(item)
    return whole


def _merged(now: Any, update: Any, *, deep: bool) -> Any:
    whole = dict(now)
    for key, value in update.items():
        both = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
        whole[key] = _merged(whole[key], value, deep=True) if deep and both else value
    return whole


def _united(now: list[Any], items: Iterable[Any]) -> list[Any]:
    whole = list(now)
    for item in items:
        if item not in whole:
            whole.append(item)
    return whole


def tokens_of(text: str) -> int:
    """Returns a text's size: a token for every four characters begun."""
    return -(-len(text) // 4)


OPEN_ARGS = object()
"""The arguments of a handoff's call, of which the documents do not speak."""
