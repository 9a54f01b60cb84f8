"""Lists that a test looks at: compared as a whole, and asked only for what may be in them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from simkit.checks.scope import event_fields
from simkit.core.messages import Message
from simkit.language.matching.kinds import FINDING, list_of
from simkit.matchers import Expected, Looked, plain
from simkit.session.simulation.asking import Asked
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

Item = TypeVar("Item")
_FINDINGS: Final = list_of(FINDING, "a list of findings")


class Listed(Looked, list[Item]):
    """A list that is compared as a whole, so that every matcher in the other one was asked.

    Whoever asks whether something is in it that no element can ever be gets a ValueError: the
    answer would be no, whatever the run did.
    """

    __hash__ = None
    claim: ClassVar[str] = ""
    """The claim of a scenario file that speaks of such a list."""
    noun: ClassVar[str] = ""
    """What its elements are."""

    def __init__(self, items: Iterable[Any], asked: Asked) -> None:
        super().__init__(self.seen(one, asked) for one in items)
        self.asked = asked

    @classmethod
    def seen(cls, item: Any, asked: Asked) -> Any:
        """Returns an element as the test looks at it."""
        return item

    def fields(self, item: Item) -> Any:
        """Returns an element as a matcher is held against it."""
        return item

    def refuse_never(self, wanted: object) -> None:
        """Raises ValueError for what no element is ever equal to."""
        if isinstance(wanted, Expected):
            self.check_all([wanted.source])
        elif not isinstance(wanted, Looked):
            self.refuse_plain(wanted)

    def refuse_plain(self, wanted: object) -> None:
        """Raises ValueError for a plain value that no element is ever equal to."""
        refuse_plain(wanted, self.claim, self.noun)

    def check_all(self, matchers: list[Any]) -> None:
        """Raises ValueError for matchers of elements that could match none."""
        self.asked.check(self.claim, {"$has": matchers})

    def looked_at(self, wanted: Expected) -> Any:
        self.asked.check(self.claim, wanted.source)
        return [self.fields(one) for one in self]

    def _is(self, item: Item, wanted: object) -> bool:
        return bool((self.fields(item) if isinstance(wanted, Expected) else item) == wanted)

    def __contains__(self, wanted: object) -> bool:
        self.refuse_never(wanted)
        return any(self._is(one, wanted) for one in self)

    def count(self, wanted: Any) -> int:
        """Returns how many elements are equal to something that they may be equal to."""
        self.refuse_never(wanted)
        return sum(self._is(one, wanted) for one in self)

    def index(self, wanted: Any, start: Any = 0, stop: Any = sys.maxsize) -> int:
        """Returns where the first element stands that is equal."""
        self.refuse_never(wanted)
        for place in range(*slice(start, stop).indices(len(self))):
            if self._is(self[place], wanted):
                return place
        raise ValueError(f"{wanted!r} is not in the list")

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return self._of(found) if isinstance(place, slice) else found

    def __add__(self, other: Any) -> Any:
        return self._of([*self, *other])

    def copy(self) -> Any:
        """Returns the same list once more."""
        return self._of(self)

    def _of(self, items: Iterable[Any]) -> Any:
        made = type(self).__new__(type(self))
        list.__init__(made, items)
        made.asked = self.asked
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, tuple)):
            self._refuse_whole(other)
            return NotImplemented
        for one in other:
            self.refuse_never(one)
        same = [self._is(one, two) for one, two in zip(self, other, strict=False)]
        return len(self) == len(other) and all(same)

    def _refuse_whole(self, other: object) -> None:
        if isinstance(other, (str, bytes, int, float, Mapping)):
            raise ValueError(f"{other!r} is never equal to a list: write a list, or `in`")


class Messages(Listed[Any]):
    """Messages in order."""

    claim, noun = "messages", "a message"

    @classmethod
    def seen(cls, item: Any, asked: Asked) -> Any:
        return seen_message(item, asked)


class Drops(Listed[Any]):
    """What histories left out."""

    claim, noun = "dropped", "what was dropped"

    @classmethod
    def seen(cls, item: Any, asked: Asked) -> Any:
        return seen_drop(item, asked)


class Contexts(Listed[Any]):
    """What each of an agent's calls received."""

    noun = "a context"

    def check_all(self, matchers: list[Any]) -> None:
        for one in matchers:
            self.asked.check("messages", one)

    def refuse_plain(self, wanted: object) -> None:
        if not isinstance(wanted, (list, tuple)):
            raise ValueError(
                f"{wanted!r} is never equal to a context: look into each, "
                f"`for context in run.contexts({self.asked.agent!r})`"
            )

    def looked_at(self, wanted: Expected) -> Any:
        return self


class Names(Listed[Any]):
    """Names of sections, tools or agents."""

    kind_of_name: ClassVar[str] = ""

    @classmethod
    def seen(cls, item: Any, asked: Asked) -> Any:
        return name(item, cls.kind_of_name, asked)

    def refuse_plain(self, wanted: object) -> None:
        if isinstance(wanted, str):
            self.asked.check_name(self.kind_of_name, wanted)
        else:
            self.check_all([plain(wanted)])


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
    def seen(cls, item: Any, asked: Asked) -> Any:
        if isinstance(item, str):
            return name(item, "agent", asked)
        return [name(one, "agent", asked) for one in item]

    def refuse_plain(self, wanted: object) -> None:
        self.check_all([plain(wanted)])


class Records(Listed[Any]):
    """Mappings that a claim speaks of."""

    @classmethod
    def seen(cls, item: Any, asked: Asked) -> Any:
        return Record(item, cls.claim, asked)

    def refuse_plain(self, wanted: object) -> None:
        if isinstance(wanted, Mapping):
            refuse_record(wanted, self.claim)
            self.check_all([plain(wanted)])
        else:
            refuse_plain(wanted, self.claim, FIELDS[self.claim].noun)


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
    def seen(cls, item: Any, asked: Asked) -> Any:
        return seen_finding(item, asked)

    def fields(self, item: Any) -> Any:
        return finding_fields(item)

    def check_all(self, matchers: list[Any]) -> None:
        for one in matchers:
            check(one, FINDING)
        self.asked.check("findings", matchers)

    def refuse_plain(self, wanted: object) -> None:
        if isinstance(wanted, str):
            self.asked.check_name("lint", wanted)
        else:
            super().refuse_plain(wanted)

    def looked_at(self, wanted: Expected) -> Any:
        check(wanted.source, _FINDINGS)
        self.asked.check("findings", wanted.source)
        return [self.fields(one) for one in self]


class Channels(Named[Any]):
    """The channels' values; messages in one are looked at as those of a context are."""

    def __init__(self, held: Mapping[str, Any], asked: Asked) -> None:
        super().__init__(held, "state", "channel", asked)

    def __getitem__(self, channel: str) -> Any:
        return self._seen(super().__getitem__(channel))

    def get(self, channel: str, default: Any = None) -> Any:
        """Returns the value of a channel that there is."""
        return self._seen(super().get(channel, default))

    def values(self) -> Any:
        """Returns the values, each as the test looks at it."""
        return [self._seen(one) for one in super().values()]

    def items(self) -> Any:
        """Returns channels and values, each as the test looks at it."""
        return [(channel, self._seen(one)) for channel, one in super().items()]

    def _seen(self, held: Any) -> Any:
        # Not before it is asked for: a conversation may have thousands of messages.
        is_list = isinstance(held, Sequence) and not isinstance(held, str)
        if is_list and held and all(isinstance(one, Message) for one in held):
            return Messages(held, self.asked)
        return held
