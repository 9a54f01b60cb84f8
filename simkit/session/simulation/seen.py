"""Elements in outcomes: names, messages, records.

Each equals the same values as the plain one. But comparing it with a value that it can never equal,
or accessing an unknown name in it, raises ValueError: the answer would always be no, and `assert …
!= …` would always hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, TypeVar

from msgspec.structs import astuple

from simkit.checks.findings import Finding
from simkit.core.errors import MatcherError
from simkit.core.messages import Dropped, JsonValue, Message, ToolCall
from simkit.language.matching.expected import Expected, Looked, plain
from simkit.language.matching.kinds import CALLS, ERROR, Kind, check_kind
from simkit.language.matching.values import ToolName
from simkit.session.simulation.asking import QuestionScope, advice_for, unknown
from simkit.spec.scenario.claim_names import ENTRIES
from simkit.trace.events import ErrorFacts

_PLAIN: Final = (str, bytes, int, float, Mapping, list, tuple, set, frozenset)
"""Types whose values equal only their own kind; other types may define equality."""
__tracebackhide__ = True
_ValueT = TypeVar("_ValueT")
_values: Final[Callable[[Any], tuple[Any, ...]]] = astuple


class Name(str):
    """A name that is compared with known names only."""

    __slots__ = ("noun", "subject")
    subject: QuestionScope
    noun: str

    def __eq__(self, other: object) -> bool:
        if str.__eq__(self, other) is True:
            return True
        if not isinstance(other, str):
            return NotImplemented
        if other and not isinstance(other, Name):
            self.subject.check_name(self.noun, other)
        return False

    __ne__ = object.__ne__
    __hash__ = str.__hash__

    def __reduce__(self) -> Any:
        return str, (str(self),)


class SeenTool(Name):
    """The name of an offered tool."""

    __slots__ = ("offered",)
    offered: ToolName

    @property
    def definition(self) -> dict[str, Any]:
        """Return its ``description``, its ``parameters``, and whether it is ``strict``."""
        return self.offered.definition


def name(text: str, noun: str, subject: QuestionScope) -> Name:
    """Return a text as a name of a kind: an ``agent``, a ``tool``, a ``section``, …"""
    name = Name(text)
    name.subject, name.noun = subject, noun
    return name


def _name(text: Any, noun: str, subject: QuestionScope) -> Any:
    return name(text, noun, subject) if text and isinstance(text, str) else text


def refuse_plain(expected: object, claim: str, noun: str) -> None:
    """Raise ValueError for a plain value, which no element can ever equal."""
    plain(expected)  # This rejects a matcher that was not called.
    if isinstance(expected, _PLAIN) and not isinstance(expected, Looked):
        raise ValueError(f"{expected!r} is never equal to {noun}: {advice_for(claim)}")


# Messages


class _SeenStruct(Looked):
    """A value of a trace: it equals the same value, and refuses what it can never equal."""

    __slots__ = ()
    base: ClassVar[Any]
    """The library's own type of such values."""
    claim: ClassVar[str] = ""
    noun: ClassVar[str] = ""
    key: ClassVar[str] = ""
    """The field whose text it equals, too."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, self.base):
            return _values(self) == _values(other)
        if self.key and isinstance(other, str):
            return bool(getattr(self, self.key) == other)
        self.refuse(other)
        return NotImplemented

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        text: str = self.base.__repr__(self)
        return f"{self.base.__name__}{text[text.index('(') :]}"

    def refuse(self, other: object) -> None:
        """Raise ValueError for a value that it can never equal."""
        refuse_plain(other, self.claim, self.noun)


class SeenCall(_SeenStruct, ToolCall, frozen=True, gc=False):
    """One call in a message."""

    base = ToolCall

    def looked_at(self, expected: Expected) -> Any:
        return self

    def refuse(self, other: object) -> None:
        _refuse_call(other)


class SeenCalls(Looked, tuple[ToolCall, ...]):
    """The calls in a message."""

    __slots__ = ()

    def looked_at(self, expected: Expected) -> Any:
        check(expected.source, CALLS)
        return self

    def __contains__(self, expected: object) -> bool:
        _refuse_call(expected)
        return super().__contains__(expected)


def _refuse_call(expected: object) -> None:
    if isinstance(expected, (*_PLAIN, Message)):
        raise ValueError(
            f"{expected!r} is never equal to a tool call: write "
            '`partial({"tool": …, "args": …})` of `simkit.matchers`'
        )


class SeenMessage(_SeenStruct, Message, frozen=True, gc=False):
    """One message of a context."""

    base, claim, noun = Message, "messages", "a message"

    def looked_at(self, expected: Expected) -> Any:
        role = self.role
        if isinstance(role, Name):
            role.subject.check("messages", {"$has": [expected.source]})
        return self


def seen_message(message: Message, subject: QuestionScope) -> SeenMessage:
    """Return a message with names that are compared with known names only."""
    calls = SeenCalls(
        SeenCall(call.id, _name(call.name, "tool", subject), call.args, call.to, call.is_ordinary)
        for call in message.calls
    )
    return SeenMessage(
        _name(message.role, "role", subject),
        message.content,
        message.id,
        _name(message.agent, "agent", subject),
        message.turn,
        calls,
        message.call_id,
        _name(message.tool, "tool", subject),
        message.data,
        _name(message.section, "section", subject),
    )


class SeenDrop(_SeenStruct, Dropped, frozen=True, gc=False):
    """A message that a history dropped."""

    base, claim, noun = Dropped, "dropped", "what was dropped"

    def looked_at(self, expected: Expected) -> Any:
        if isinstance(self.by, Name):
            self.by.subject.check("dropped", {"$has": [expected.source]})
        return self


def seen_drop(drop: Dropped, subject: QuestionScope) -> SeenDrop:
    """Return a dropped message with names that are compared with known names only."""
    return SeenDrop(
        seen_message(drop.message, subject),
        _name(drop.what, "kind of cut", subject),
        _name(drop.by, "filter", subject),
    )


# Mappings


class Record(Looked, dict[str, JsonValue]):
    """A handoff, a tool call, a log record or an item that was left out."""

    __slots__ = ("claim", "subject")
    __hash__ = None

    def __init__(self, fields: Mapping[str, JsonValue], claim: str, subject: QuestionScope) -> None:
        named = ENTRIES[claim].names
        super().__init__(
            (key, _name(value, named[key], subject) if key in named else value)
            for key, value in fields.items()
        )
        self.claim, self.subject = claim, subject

    def looked_at(self, expected: Expected) -> Any:
        self.subject.check(self.claim, {"$has": [expected.source]})
        return dict(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            refuse_record(other, self.claim)
            return super().__eq__(other)
        refuse_plain(other, self.claim, ENTRIES[self.claim].noun)
        return NotImplemented

    def __contains__(self, key: object) -> bool:
        self._check(key)
        return super().__contains__(key)

    def __missing__(self, key: str) -> Any:
        self._check(key)
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value under a possible key."""
        self._check(key)
        return super().get(key, default)

    def _check(self, key: object) -> None:
        fields = ENTRIES[self.claim]
        if fields.keys and key not in fields.keys:
            raise ValueError(unknown(f"field of {fields.noun}", str(key), fields.keys))


def refuse_record(expected: Mapping[str, Any], claim: str) -> None:
    """Raise ValueError for a plain mapping with other keys than a record's required ones."""
    fields = ENTRIES[claim]
    lacking = sorted(fields.required - expected.keys())
    if lacking and not isinstance(expected, Record):
        raise ValueError(
            f"{expected!r} is never equal to {fields.noun}, which has `{lacking[0]}` too: "
            f"{advice_for(claim)}"
        )


class Named(Looked, dict[str, _ValueT]):
    """A mapping whose keys are names: channels, or agents."""

    __slots__ = ("claim", "noun", "subject")
    __hash__ = None

    def __init__(
        self, values: Mapping[str, _ValueT], claim: str, noun: str, subject: QuestionScope
    ) -> None:
        super().__init__(values)
        self.claim, self.noun, self.subject = claim, noun, subject

    def looked_at(self, expected: Expected) -> Any:
        if self.claim == "state":
            self.subject.check("state", expected.source)
        else:
            self._check_keys(expected.source if isinstance(expected.source, Mapping) else ())
        return dict(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            self._check_keys(other)
        elif isinstance(other, _PLAIN):
            raise ValueError(f"{other!r} is never equal to a mapping of each {self.noun}")
        return super().__eq__(other)

    def __contains__(self, key: object) -> bool:
        self._check_keys((key,))
        return super().__contains__(key)

    def __missing__(self, key: str) -> Any:
        self._check_keys((key,))
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value under a known name."""
        self._check_keys((key,))
        return super().get(key, default)

    def _check_keys(self, keys: Iterable[object]) -> None:
        for key in keys:
            if not isinstance(key, str):
                raise ValueError(f"{key!r} is no {self.noun}")
            if not dict.__contains__(self, key) and not key.startswith("$"):
                self.subject.check_name(self.noun, key)


# Findings and errors


class SeenFinding(_SeenStruct, Finding, frozen=True, gc=False):
    """A finding; it equals its lint's id."""

    base, claim, noun, key = Finding, "findings", "a finding", "id"

    def looked_at(self, expected: Expected) -> Any:
        if isinstance(self.id, Name):
            self.id.subject.check("findings", [expected.source])
        return finding_fields(self)


def seen_finding(finding: Finding, subject: QuestionScope) -> SeenFinding:
    """Return a finding with names that are compared with known names only."""
    values = dict(zip(Finding.__struct_fields__, astuple(finding), strict=True))
    values |= {
        "id": _name(finding.id, "lint", subject),
        "agent": _name(finding.agent, "agent", subject),
    }
    return SeenFinding(**values)


def finding_fields(finding: Finding) -> dict[str, Any]:
    """Return a finding's fields for claims."""
    fields: dict[str, Any] = {"id": finding.id, "turn": finding.turn, "what": finding.what}
    more = {"agent": finding.agent or None, "call": finding.call}
    return fields | {key: value for key, value in more.items() if value is not None}


class SeenError(_SeenStruct, ErrorFacts, frozen=True, gc=False):
    """The error of a turn; it equals its type."""

    base, claim, noun, key = ErrorFacts, "error", "an error", "type"

    def looked_at(self, expected: Expected) -> Any:
        check(expected.source, ERROR)
        return {
            "type": self.type,
            "message": self.message,
            "agent": self.agent or None,
            "status": self.status,
        }


def seen_error(error: ErrorFacts, subject: QuestionScope) -> SeenError:
    """Return an error with a type that is compared with known types only."""
    return SeenError(
        _name(error.type, "type of an error", subject),
        error.message,
        _name(error.agent, "agent", subject),
        error.status,
    )


def check(matcher: Any, kind: Kind) -> None:
    """Raise ValueError for a matcher that can never match a kind."""
    try:
        check_kind(matcher, kind)
    except MatcherError as problem:
        raise ValueError(
            f"{problem}; {problem.advice}" if problem.advice else str(problem)
        ) from None
