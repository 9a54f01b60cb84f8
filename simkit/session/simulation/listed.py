"""Lists in outcomes: compared as a whole, and searched only for possible elements."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from simkit.core.messages import Message
from simkit.language.matching.expected import Expected, Looked, plain
from simkit.language.matching.kinds import FINDING, list_of
from simkit.session.simulation import seen
from simkit.session.simulation.asking import QuestionScope
from simkit.spec.scenario.claim_names import ENTRIES
from simkit.trace.views import event_fields

__tracebackhide__ = True
ItemT = TypeVar("ItemT")
_FINDINGS: Final = list_of(FINDING, "a list of findings")


_NOUNS: Final = {"sections": "section", "tools": "tool", "handoffs_of": "agent"}
"""The names in a list, by its claim."""


class Listed(Looked, list[ItemT]):
    """A list that is compared as a whole, so that every matcher in the other one is evaluated.

    A search for something that no element can ever be raises ValueError: it would always fail,
    whatever the run did.
    """

    __hash__ = None
    claim = ""
    """The claim of a scenario file about such a list."""
    noun: ClassVar[str] = ""
    """The noun for its elements."""

    def __init__(self, items: Iterable[Any], subject: QuestionScope, claim: str = "") -> None:
        self.subject, self.claim = subject, claim or self.claim
        super().__init__(map(self.wrap, items))

    def wrap(self, item: Any) -> Any:
        """Return an element for a test."""
        return item

    def fields(self, item: ItemT) -> Any:
        """Return an element for a matcher."""
        return item

    def refuse_never(self, expected: object) -> None:
        """Raise ValueError for a value that no element can ever equal."""
        if isinstance(expected, Expected):
            self.check_all([expected.source])
        elif not isinstance(expected, Looked):
            self.refuse_plain(expected)

    def refuse_plain(self, expected: object) -> None:
        """Raise ValueError for a plain value that no element can ever equal."""
        seen.refuse_plain(expected, self.claim, self.noun)

    def check_all(self, matchers: list[Any]) -> None:
        """Raise ValueError for matchers of elements that can never match."""
        self.subject.check(self.claim, {"$has": matchers})

    def looked_at(self, expected: Expected) -> Any:
        self.subject.check(self.claim, expected.source)
        return [self.fields(item) for item in self]

    def _is(self, item: ItemT, expected: object) -> bool:
        return bool((self.fields(item) if isinstance(expected, Expected) else item) == expected)

    def __contains__(self, expected: object) -> bool:
        self.refuse_never(expected)
        return any(self._is(item, expected) for item in self)

    def count(self, expected: Any) -> int:
        """Return the number of elements that equal a possible element."""
        self.refuse_never(expected)
        return sum(self._is(item, expected) for item in self)

    def index(self, expected: Any, start: Any = 0, stop: Any = sys.maxsize) -> int:
        """Return the index of the first equal element."""
        self.refuse_never(expected)
        for index in range(*slice(start, stop).indices(len(self))):
            if self._is(self[index], expected):
                return index
        raise ValueError(f"{expected!r} is not in the list")

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(index)
        return self._of(item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> Any:
        return self._of([*self, *other])

    def copy(self) -> Any:
        """Return a copy of the list."""
        return self._of(self)

    def _of(self, items: Iterable[Any]) -> Any:
        copy = type(self).__new__(type(self))
        list.__init__(copy, items)
        copy.subject, copy.claim = self.subject, self.claim
        return copy

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, tuple)):
            self._refuse_whole(other)
            return NotImplemented
        for item in other:
            self.refuse_never(item)
        same = [self._is(item, two) for item, two in zip(self, other, strict=False)]
        return len(self) == len(other) and all(same)

    def _refuse_whole(self, other: object) -> None:
        if isinstance(other, (str, bytes, int, float, Mapping)):
            raise ValueError(f"{other!r} is never equal to a list: write a list, or `in`")


class Messages(Listed[Any]):
    """A list of messages in order."""

    claim, noun = "messages", "a message"

    def wrap(self, item: Any) -> Any:
        return seen.seen_message(item, self.subject)


class Drops(Listed[Any]):
    """A list of messages that histories dropped."""

    claim, noun = "dropped", "what was dropped"

    def wrap(self, item: Any) -> Any:
        return seen.seen_drop(item, self.subject)


class Contexts(Listed[Any]):
    """A list of contexts, one for each of an agent's calls."""

    noun = "a context"

    def check_all(self, matchers: list[Any]) -> None:
        for matcher in matchers:
            self.subject.check("messages", matcher)

    def refuse_plain(self, expected: object) -> None:
        if not isinstance(expected, (list, tuple)):
            raise ValueError(
                f"{expected!r} is never equal to a context: look into each, "
                f"`for context in run.contexts({self.subject.agent!r})`"
            )

    def looked_at(self, expected: Expected) -> Any:
        return self


class NameList(Listed[Any]):
    """A list of names of sections, of tools, or of agents to which control may be passed."""

    def wrap(self, item: Any) -> Any:
        return seen.name(item, _NOUNS[self.claim], self.subject)

    def refuse_plain(self, expected: object) -> None:
        if isinstance(expected, str):
            self.subject.check_name(_NOUNS[self.claim], expected)
        else:
            self.check_all([plain(expected)])


class Tools(NameList):
    """The offered tools; matchers apply to their definitions, too."""

    def wrap(self, item: Any) -> Any:
        tool = seen.SeenTool(item)
        tool.subject, tool.noun, tool.offered = self.subject, "tool", item
        return tool

    def fields(self, item: Any) -> Any:
        return item.offered

    def refuse_plain(self, expected: object) -> None:
        if isinstance(expected, Mapping):
            seen.refuse_plain(expected, self.claim, "a tool")
        super().refuse_plain(expected)


class Agents(Listed[Any]):
    """A list of agents in start order; parallel ones are a list."""

    claim = "agents"

    def wrap(self, item: Any) -> Any:
        if isinstance(item, str):
            return seen.name(item, "agent", self.subject)
        return [seen.name(agent, "agent", self.subject) for agent in item]

    def refuse_plain(self, expected: object) -> None:
        self.check_all([plain(expected)])


class Records(Listed[Any]):
    """A list of handoffs, tool calls, log records or items that sections left out."""

    def wrap(self, item: Any) -> Any:
        return seen.Record(item, self.claim, self.subject)

    def refuse_plain(self, expected: object) -> None:
        if isinstance(expected, Mapping):
            seen.refuse_record(expected, self.claim)
            self.check_all([plain(expected)])
        else:
            seen.refuse_plain(expected, self.claim, ENTRIES[self.claim].noun)


class Events(Listed[Any]):
    """A list of events in order; matchers apply to their fields."""

    claim, noun = "events", "an event"

    def fields(self, item: Any) -> Any:
        return event_fields(item)


class Findings(Listed[Any]):
    """A list of findings; each equals its lint's id, and matchers apply to its fields."""

    claim, noun = "findings", "a finding"

    def wrap(self, item: Any) -> Any:
        return seen.seen_finding(item, self.subject)

    def fields(self, item: Any) -> Any:
        return seen.finding_fields(item)

    def check_all(self, matchers: list[Any]) -> None:
        for matcher in matchers:
            seen.check(matcher, FINDING)
        self.subject.check("findings", matchers)

    def refuse_plain(self, expected: object) -> None:
        if isinstance(expected, str):
            self.subject.check_name("lint", expected)
        else:
            super().refuse_plain(expected)

    def looked_at(self, expected: Expected) -> Any:
        seen.check(expected.source, _FINDINGS)
        self.subject.check("findings", expected.source)
        return [self.fields(item) for item in self]


class Channels(seen.Named[Any]):
    """The channels' values; messages in them are like those of contexts."""

    def __init__(self, values: Mapping[str, Any], subject: QuestionScope) -> None:
        super().__init__(values, "state", "channel", subject)

    def __getitem__(self, channel: str) -> Any:
        return self._wrap(super().__getitem__(channel))

    def get(self, channel: str, default: Any = None) -> Any:
        """Return the value of an existing channel."""
        return self._wrap(super().get(channel, default))

    def values(self) -> Any:
        """Return the values for a test."""
        return [self._wrap(value) for value in super().values()]

    def items(self) -> Any:
        """Return channels and values for a test."""
        return [(channel, self._wrap(value)) for channel, value in super().items()]

    def _wrap(self, value: Any) -> Any:
        # Only on access: a conversation may have thousands of messages.
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        if is_list and value and all(isinstance(item, Message) for item in value):
            return Messages(value, self.subject)
        return value
