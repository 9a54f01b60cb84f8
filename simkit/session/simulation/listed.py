"""Lists that a test looks at: compared as a whole, and asked only for what may be in them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from simkit.checks.scope import event_fields
from simkit.core.messages import Message
from simkit.language.matching.kinds import FINDING, list_of
from simkit.matchers import Expected, Looked, plain
from simkit.session.simulation.asking import QuestionScope
from simkit.session.simulation.seen import (
    FIELDS,
    Named,
    Record,
    check,
    finding_fields,
    name,
    refuse_plain,
    refuse_record,
    seen_drop,
    seen_finding,
    seen_message,
)

ItemT = TypeVar("ItemT")
_FINDINGS: Final = list_of(FINDING, "a list of findings")


class Listed(Looked, list[ItemT]):
    """A list that is compared as a whole, so that every matcher in the other one was asked.

    Whoever asks whether something is in it that no element can ever be gets a ValueError: the
    answer would be no, whatever the run did.
    """

    __hash__ = None
    claim: ClassVar[str] = ""
    """The claim of a scenario file that speaks of such a list."""
    noun: ClassVar[str] = ""
    """What its elements are."""

    def __init__(self, items: Iterable[Any], subject: QuestionScope) -> None:
        super().__init__(self.wrap(item, subject) for item in items)
        self.subject = subject

    @classmethod
    def wrap(cls, item: Any, subject: QuestionScope) -> Any:
        """Return an element as the test looks at it."""
        return item

    def fields(self, item: ItemT) -> Any:
        """Return an element as a matcher is held against it."""
        return item

    def refuse_never(self, expected: object) -> None:
        """Raise ValueError for what no element is ever equal to."""
        if isinstance(expected, Expected):
            self.check_all([expected.source])
        elif not isinstance(expected, Looked):
            self.refuse_plain(expected)

    def refuse_plain(self, expected: object) -> None:
        """Raise ValueError for a plain value that no element is ever equal to."""
        refuse_plain(expected, self.claim, self.noun)

    def check_all(self, matchers: list[Any]) -> None:
        """Raise ValueError for matchers of elements that could match none."""
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
        """Return how many elements are equal to something that they may be equal to."""
        self.refuse_never(expected)
        return sum(self._is(item, expected) for item in self)

    def index(self, expected: Any, start: Any = 0, stop: Any = sys.maxsize) -> int:
        """Return where the first element stands that is equal."""
        self.refuse_never(expected)
        for place in range(*slice(start, stop).indices(len(self))):
            if self._is(self[place], expected):
                return place
        raise ValueError(f"{expected!r} is not in the list")

    def __getitem__(self, place: Any) -> Any:
        item = super().__getitem__(place)
        return self._of(item) if isinstance(place, slice) else item

    def __add__(self, other: Any) -> Any:
        return self._of([*self, *other])

    def copy(self) -> Any:
        """Return the same list once more."""
        return self._of(self)

    def _of(self, items: Iterable[Any]) -> Any:
        copy = type(self).__new__(type(self))
        list.__init__(copy, items)
        copy.subject = self.subject
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
    """Messages in order."""

    claim, noun = "messages", "a message"

    @classmethod
    def wrap(cls, item: Any, subject: QuestionScope) -> Any:
        return seen_message(item, subject)


class Drops(Listed[Any]):
    """What histories left out."""

    claim, noun = "dropped", "what was dropped"

    @classmethod
    def wrap(cls, item: Any, subject: QuestionScope) -> Any:
        return seen_drop(item, subject)


class Contexts(Listed[Any]):
    """What each of an agent's calls received."""

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


class Names(Listed[Any]):
    """Names of sections, tools or agents."""

    kind_of_name: ClassVar[str] = ""

    @classmethod
    def wrap(cls, item: Any, subject: QuestionScope) -> Any:
        return name(item, cls.kind_of_name, subject)

    def refuse_plain(self, expected: object) -> None:
        if isinstance(expected, str):
            self.subject.check_name(self.kind_of_name, expected)
        else:
            self.check_all([plain(expected)])


class Sections(Names):
    """Names of sections."""

    claim, kind_of_name = "sections", "section"


class Tools(Names):
    """Names of tools."""

    claim, kind_of_name = "tools", "tool"


class Targets(Names):
    """Names of agents to which control may be passed."""

    claim, kind_of_name = "handoffs_of", "agent"


class Agents(Listed[Any]):
    """Agents in start order; parallel ones as a list."""

    claim = "agents"

    @classmethod
    def wrap(cls, item: Any, subject: QuestionScope) -> Any:
        if isinstance(item, str):
            return name(item, "agent", subject)
        return [name(agent, "agent", subject) for agent in item]

    def refuse_plain(self, expected: object) -> None:
        self.check_all([plain(expected)])


class Records(Listed[Any]):
    """Mappings that a claim speaks of."""

    @classmethod
    def wrap(cls, item: Any, subject: QuestionScope) -> Any:
        return Record(item, cls.claim, subject)

    def refuse_plain(self, expected: object) -> None:
        if isinstance(expected, Mapping):
            refuse_record(expected, self.claim)
            self.check_all([plain(expected)])
        else:
            refuse_plain(expected, self.claim, FIELDS[self.claim].noun)


class Handoffs(Records):
    """Requests to pass control."""

    claim = "handoffs"


class ToolCalls(Records):
    """Tool calls in order."""

    claim = "tool_calls"


class LogRecords(Records):
    """Log records in order."""

    claim = "logs"


class LeftOut(Records):
    """Items that sections left out."""

    claim = "left_out"


class Events(Listed[Any]):
    """Events in order; matchers are held against their fields."""

    claim, noun = "events", "an event"

    def fields(self, item: Any) -> Any:
        return event_fields(item)


class Findings(Listed[Any]):
    """Findings; each is equal to its lint's id, and matchers are held against its fields."""

    claim, noun = "findings", "a finding"

    @classmethod
    def wrap(cls, item: Any, subject: QuestionScope) -> Any:
        return seen_finding(item, subject)

    def fields(self, item: Any) -> Any:
        return finding_fields(item)

    def check_all(self, matchers: list[Any]) -> None:
        for matcher in matchers:
            check(matcher, FINDING)
        self.subject.check("findings", matchers)

    def refuse_plain(self, expected: object) -> None:
        if isinstance(expected, str):
            self.subject.check_name("lint", expected)
        else:
            super().refuse_plain(expected)

    def looked_at(self, expected: Expected) -> Any:
        check(expected.source, _FINDINGS)
        self.subject.check("findings", expected.source)
        return [self.fields(item) for item in self]


class Channels(Named[Any]):
    """The channels' values; messages in one are looked at as those of a context are."""

    def __init__(self, values: Mapping[str, Any], subject: QuestionScope) -> None:
        super().__init__(values, "state", "channel", subject)

    def __getitem__(self, channel: str) -> Any:
        return self._wrap(super().__getitem__(channel))

    def get(self, channel: str, default: Any = None) -> Any:
        """Return the value of a channel that there is."""
        return self._wrap(super().get(channel, default))

    def values(self) -> Any:
        """Return the values, each as the test looks at it."""
        return [self._wrap(value) for value in super().values()]

    def items(self) -> Any:
        """Return channels and values, each as the test looks at it."""
        return [(channel, self._wrap(value)) for channel, value in super().items()]

    def _wrap(self, value: Any) -> Any:
        # Not before it is asked for: a conversation may have thousands of messages.
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        if is_list and value and all(isinstance(item, Message) for item in value):
            return Messages(value, self.subject)
        return value
