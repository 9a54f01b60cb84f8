"""What a matcher can hold of: one that can never hold where it stands is refused.

``excludes: [[{$contains: x}]]`` would hold whatever the run does, since no message is a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from simkit.errors import MatcherError, ReferenceInvalid
from simkit.matching.compiling import is_operator
from simkit.matching.mappings import DROPPED_FIELDS, MESSAGE_FIELDS
from simkit.matching.misses import Path
from simkit.matching.rendering import line
from simkit.messages import ROLE_ALIASES
from simkit.paths import parse

_JOINING: Final = ("$all", "$either", "$in")
_ANY_VALUE: Final = ("$any", "$absent", "$eq", "$ne", "$schema", "$type")
_TEXTS: Final = ("$contains", "$starts", "$ends", "$regex", "$len")
_NUMBERS: Final = ("$gt", "$gte", "$lt", "$lte", "$approx")
_LISTS: Final = ("$each", "$has", "$in_order", "$unordered", "$len", "$contains")
_MAPPINGS: Final = ("$exact", "$keys", "$len", "$contains")


class Kind(NamedTuple):
    """One kind of value that claims speak of."""

    noun: str
    """``a message``, as messages to the user call it."""
    operators: tuple[str, ...]
    """The operators that can hold of it, beside those for any value."""
    takes: Callable[[Any], bool]
    """Whether a scalar can be equal to it."""
    fields: Mapping[str, Kind] | None = None
    """The keys of one that is a mapping or a message, if they are known."""
    element: Kind | None = None
    """What a list of this kind holds."""
    is_mapping: bool = False
    """Whether it is a mapping that has other keys than ``fields``, too."""
    advice: str = ""
    key_advice: str = ""
    """What else may stand where a key is unknown."""


Check: TypeAlias = Callable[[Any], None]

TEXT: Final = Kind("a text", _TEXTS, lambda value: value is None or isinstance(value, str))
NUMBER: Final = Kind(
    "a number", _NUMBERS,
    lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
)  # fmt: skip
ROLE: Final = TEXT._replace(
    noun="the role of a message",
    takes=lambda value: isinstance(value, str) and value in ROLE_ALIASES,
    advice="Roles are `system`, `user`, `assistant` and `tool`.",
)
_TEXT_FIELDS: Final = ("agent", "section", "id", "tool", "call_id", "what", "by")


def list_of(element: Kind | None, noun: str) -> Kind:
    """Returns the kind of a list whose elements are of a kind; None is any."""
    return Kind(noun, _LISTS, lambda _: False, element=element)


CALLS: Final = list_of(None, "a list of tool calls")


def _message(noun: str, fields: tuple[str, ...]) -> Kind:
    kinds = {name: TEXT for name in fields if name in _TEXT_FIELDS}
    own = {**kinds, "role": ROLE, "turn": NUMBER, "calls": CALLS}
    return Kind(
        noun, _TEXTS, lambda _: True, {name: own.get(name, ANYTHING) for name in fields},
        advice="A message is matched by a text, `{role: …, content: …}` or `{user: …}`.",
        key_advice="or name a role: `{user: …}`",
    )  # fmt: skip


ANYTHING: Final = Kind("any value", (), lambda _: True)
MESSAGE: Final = _message("a message", MESSAGE_FIELDS)
DROPPED: Final = _message("what was dropped", DROPPED_FIELDS)
MESSAGES: Final = list_of(MESSAGE, "a list of messages")
DROPS: Final = list_of(DROPPED, "a list of what was dropped")
NAMES: Final = list_of(TEXT, "a list of names")
SHARES: Final = Kind("a mapping of shares", _MAPPINGS, lambda _: False, is_mapping=True)
SETTINGS: Final = SHARES._replace(noun="a mapping of settings")


def _record(noun: str, texts: tuple[str, ...], numbers: tuple[str, ...] = ()) -> Kind:
    fields = {**dict.fromkeys(texts, TEXT), **dict.fromkeys(numbers, NUMBER)}
    return Kind(
        noun, _MAPPINGS, lambda _: False, fields, is_mapping=True,
        advice=f"It is matched by a mapping: `{{{texts[0]}: …}}`.",
    )  # fmt: skip


AGENTS: Final = list_of(
    Kind(
        "an agent's name, or a list of those that run side by side", (*_TEXTS, *_LISTS),
        lambda value: isinstance(value, str), element=TEXT,
    ),
    "a list of agents",
)  # fmt: skip
HANDOFFS: Final = list_of(
    _record("a handoff", ("to", "from", "type", "mode", "outcome")), "a list of handoffs"
)
TOOL_CALLS: Final = list_of(
    _record("a tool call", ("tool", "agent", "call_id"), ("called_at", "returned_at")),
    "a list of tool calls",
)
ERROR: Final = Kind(
    "an error", _MAPPINGS, lambda value: value is None,
    {"type": TEXT, "message": TEXT, "agent": TEXT, "status": NUMBER},
    advice="Only alone is a text an error's type; elsewhere write `{type: …}`.",
)  # fmt: skip
LOGS: Final = list_of(
    _record("a log record", ("message", "level", "logger")), "a list of log records"
)
EVENTS: Final = list_of(_record("an event", ("kind",), ("at", "turn")), "a list of events")


def check_kind(matcher: Any, kind: Kind, at: Path = ()) -> None:
    """Raises MatcherError for the first matcher that can hold of nothing of this kind."""
    if kind is ANYTHING:
        return
    if isinstance(matcher, (list, tuple)):
        if not _is_listed(kind):
            raise _never(f"the list {line(matcher)}", kind, at)
        _check_all(matcher, kind.element, at)
    elif not isinstance(matcher, Mapping):
        if not kind.takes(matcher):
            raise _never(line(matcher), kind, at)
    else:
        for key, operand in matcher.items():
            if is_operator(key):
                _check_operator(key, operand, kind, (*at, key))
            else:
                _check_field(key, operand, kind, at)


def _check_operator(key: str, operand: Any, kind: Kind, at: Path) -> None:
    if key in _JOINING:
        for place, one in enumerate(operand):
            check_kind(one, kind, (*at, place))
    elif key == "$not":
        check_kind(operand, kind, at)
    elif key in ("$eq", "$ne") and isinstance(operand, (str, int, float)):
        if not kind.takes(operand):
            raise _never(f"`{key}: {line(operand)}`", kind, at)
    elif key in _ANY_VALUE:
        return
    elif key not in kind.operators:
        raise _never(f"`{key}`", kind, at)
    elif _is_listed(kind) and key in ("$each", "$has", "$in_order", "$unordered"):
        if key == "$each" or not isinstance(operand, (list, tuple)):
            if kind.element is not None:
                check_kind(operand, kind.element, at)
        else:
            _check_all(operand, kind.element, at)


def _is_listed(kind: Kind) -> bool:
    return kind.operators is _LISTS or kind.element is not None


def _check_all(matchers: Any, element: Kind | None, at: Path) -> None:
    for place, one in enumerate(matchers):
        if element is not None:
            check_kind(one, element, (*at, place))


def _check_field(key: str, operand: Any, kind: Kind, at: Path) -> None:
    if kind.is_mapping:
        field = (kind.fields or {}).get(key)
        if field is not None:
            check_kind(operand, field, (*at, key))
        return
    if _is_listed(kind) and key.startswith("["):
        return
    if kind.fields is None:
        raise _never(f"the key `{key}`", kind, (*at, key))
    if key in ROLE_ALIASES and "role" in kind.fields:
        return  # Its operand is held against the content, which may be any value.
    first = _first(key)
    if first not in kind.fields:
        known = tuple(kind.fields)
        what = f"{kind.noun} has no `{key}`, so this could never match"
        raise MatcherError((*at, key), what, str(first), known, kind.key_advice)
    if first == key:
        check_kind(operand, kind.fields[key], (*at, key))


def _first(key: str) -> str | int:
    try:
        return parse(key)[0]
    except ReferenceInvalid:
        return key


def _never(what: str, kind: Kind, at: Path) -> MatcherError:
    return MatcherError(at, f"{what} can never match {kind.noun}", "", (), kind.advice)
