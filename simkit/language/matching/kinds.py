"""Kinds of values: reject a matcher that can never hold in its place.

``excludes: [[{$contains: x}]]`` would always hold, because no message is a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from simkit.core.errors import MatcherError
from simkit.core.messages import ROLE_ALIASES
from simkit.core.text import near
from simkit.language.matching.lists import unique_parts
from simkit.language.matching.mappings import DROPPED_FIELDS, MESSAGE_FIELDS
from simkit.language.matching.misses import Path, line
from simkit.language.matching.operators import (
    OF_ELEMENTS,
    OF_NUMBERS,
    OF_TEXTS,
    OF_VALUE,
    inner_matchers,
    is_operator,
    operator_meant,
)
from simkit.language.paths import first_step, unescaped

_ANY_VALUE: Final = ("$any", "$absent", "$schema", "$type")
_LISTS: Final = (*OF_ELEMENTS, "$len", "$contains", "$regex")
_MAPPINGS: Final = ("$exact", "$keys", "$len", "$contains", "$regex")


class Kind(NamedTuple):
    """A kind of value in claims, such as a message or a list of agents."""

    noun: str
    """Its name in messages to the user, such as ``a message``."""
    operators: tuple[str, ...]
    """The operators that can hold for it, beside those for any value."""
    takes: Callable[[Any], bool]
    """Whether a scalar can be equal to it."""
    fields: Mapping[str, Kind] | None = None
    """The keys of a mapping or message; None if they are not known."""
    element: Kind | None = None
    """The kind of a list's elements; None if any kind."""
    is_mapping: bool = False
    """Whether it is a mapping that may have more keys than ``fields``."""
    advice: str = ""
    key_advice: str = ""
    """Advice on an unknown key."""
    others: Kind | None = None
    """The kind of a mapping's values under keys outside ``fields``; None if any kind."""
    items_min: int = 0
    """The smallest number of elements of a list of this kind."""
    is_lower: bool = False
    """Whether the keys of this mapping are in lower case."""


Check: TypeAlias = Callable[[Any], None]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


TEXT: Final = Kind("a text", OF_TEXTS, lambda value: value is None or isinstance(value, str))
NUMBER: Final = Kind(
    "a number",
    OF_NUMBERS,
    lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    advice="Compare numbers by `{$lte: 100}` or `{$gte: 1}`.",
)
ROLE: Final = TEXT._replace(
    noun="the role of a message",
    takes=lambda value: isinstance(value, str) and value in ROLE_ALIASES,
    advice="Roles are `system`, `user`, `assistant` and `tool`.",
)


def list_of(element: Kind | None, noun: str) -> Kind:
    """Return the kind of a list; ``element`` None means any elements."""
    return Kind(noun, _LISTS, lambda _: False, element=element)


CALLS: Final = list_of(None, "a list of tool calls")


def _message(noun: str, fields: tuple[str, ...]) -> Kind:
    own = {"role": ROLE, "turn": NUMBER, "calls": CALLS}
    own |= dict.fromkeys(("content", "text", "data"), ANYTHING)
    return Kind(
        noun,
        OF_TEXTS,
        lambda value: value is not None,
        {name: own.get(name, TEXT) for name in fields},
        advice="A message is matched by a text, `{role: …, content: …}` or `{user: …}`.",
        key_advice="or name a role: `{user: …}`",
    )


ANYTHING: Final = Kind("any value", (), lambda _: True)
MESSAGE: Final = _message("a message", MESSAGE_FIELDS)
DROPPED: Final = _message("what was dropped", DROPPED_FIELDS)
MESSAGES: Final = list_of(MESSAGE, "a list of messages")
DROPS: Final = list_of(DROPPED, "a list of what was dropped")
NAME: Final = TEXT._replace(noun="a name", takes=_is_text)
NAMES: Final = list_of(TEXT, "a list of names")
_TRUTH: Final = Kind("true or false", (), lambda value: isinstance(value, bool))


def mapping_of(
    others: Kind | None,
    noun: str,
    fields: Mapping[str, Kind] | None = None,
    *,
    may_be_null: bool = False,
) -> Kind:
    """Return the kind of a mapping with known ``fields`` and ``others`` under all other keys."""
    return Kind(
        noun,
        _MAPPINGS,
        (lambda value: value is None) if may_be_null else (lambda _: False),
        fields,
        is_mapping=True,
        others=others,
    )


SETTINGS: Final = mapping_of(None, "a mapping of settings")
SHARES: Final = mapping_of(NUMBER, "a mapping of shares")
PREFIX: Final = Kind(
    "a prefix",
    _MAPPINGS,
    lambda _: False,
    {"share": NUMBER, "tokens": NUMBER, "provider": _TRUTH},
    advice="It is matched by a mapping: `{share: {$gte: 0.9}, tokens: {$gte: 1024}}`.",
)
STATE: Final = mapping_of(None, "the state")
UPDATE: Final = mapping_of(None, "an update of the state", may_be_null=True)
TOOL: Final = Kind(
    "a tool",
    OF_TEXTS,
    _is_text,
    {
        "name": TEXT,
        "description": TEXT,
        "parameters": mapping_of(None, "a JSON Schema", may_be_null=True),
        "strict": _TRUTH,
        "server": TEXT,
    },
    advice="A tool is matched by its name, or by `{name: …, description: …}`.",
)
TOOLS: Final = list_of(TOOL, "a list of tools")
ARGUMENTS: Final = mapping_of(None, "a call's arguments")
HEADERS: Final = mapping_of(TEXT, "a request's headers")._replace(is_lower=True)
SYSTEM: Final = TEXT._replace(noun="the system instructions", takes=_is_text)
MODEL: Final = TEXT._replace(noun="a model's name", takes=_is_text)
QUERY: Final = TEXT._replace(noun="the query", takes=_is_text)
GOAL: Final = TEXT._replace(noun="a goal's id")
CONTEXT: Final = mapping_of(
    MESSAGES,
    "a context",
    {"sections": NAMES, "messages": MESSAGES, "tools": NAMES, "agent": TEXT, "turn": NUMBER},
)._replace(advice="It is matched by a mapping: `{history: …}`, `{turn: 2}`.")
"""The kind that a reply line's ``when`` is matched with: sections, or the whole context."""


def _record(noun: str, texts: tuple[str, ...], numbers: tuple[str, ...] = ()) -> Kind:
    fields = {**dict.fromkeys(texts, TEXT), **dict.fromkeys(numbers, NUMBER)}
    return Kind(
        noun,
        _MAPPINGS,
        lambda _: False,
        fields,
        is_mapping=True,
        advice=f"It is matched by a mapping: `{{{texts[0]}: …}}`.",
    )


RAN: Final = Kind(
    "an agent's name, or a list of those that run side by side",
    (*OF_TEXTS, *_LISTS),
    _is_text,
    element=TEXT,
    items_min=2,
    advice="A parallel group has two agents or more: write the name of one without brackets.",
)
AGENTS: Final = list_of(RAN, "a list of agents")
HANDOFF: Final = _record("a handoff", ("to", "from", "type", "mode", "outcome"))
HANDOFFS: Final = list_of(HANDOFF, "a list of handoffs")
ROOT: Final = mapping_of(
    None,
    "what a run sees",
    {
        "agent": TEXT,
        "now": TEXT,
        "task": TEXT,
        "state": STATE,
        "run": mapping_of(None, "a run", {"agent": TEXT, "messages": MESSAGES}, may_be_null=True),
        "handoff": HANDOFF._replace(takes=lambda value: value is None),
    },
)._replace(advice="It is matched by a mapping: `{state: {…}}`, `{user: …}`.")
"""The kind that the ``when`` of rules and sections in a pipeline is matched with."""
FINDING: Final = _record("a finding", ("id", "agent", "section"), ("turn", "call"))
ITEM_LEFT_OUT: Final = _record("what was left out", ("channel", "section", "by"))
LEFT_OUT: Final = list_of(ITEM_LEFT_OUT, "a list of what was left out")
TOOL_CALL: Final = _record(
    "a tool call", ("tool", "agent", "call_id"), ("called_at", "returned_at")
)
TOOL_CALLS: Final = list_of(TOOL_CALL, "a list of tool calls")
ERROR: Final = Kind(
    "an error",
    _MAPPINGS,
    lambda value: value is None,
    {"type": TEXT, "message": TEXT, "agent": TEXT, "status": NUMBER},
    advice="Only alone is a text an error's type; elsewhere write `{type: …}`.",
)
LOG: Final = _record("a log record", ("message", "level", "logger"))
LOGS: Final = list_of(LOG, "a list of log records")
EVENTS: Final = list_of(_record("an event", ("kind",), ("at", "turn")), "a list of events")


def check_kind(matcher: Any, kind: Kind, at: Path = ()) -> None:
    """Raise MatcherError for the first part that can never hold for this kind."""
    if kind is ANYTHING:
        return
    if isinstance(matcher, (list, tuple)):
        _check_list(matcher, kind, at)
    elif not isinstance(matcher, Mapping):
        if not kind.takes(matcher):
            advice = kind.advice or "Put brackets around all: `[…]`." * _is_listed(kind)
            raise _never(line(matcher), kind._replace(advice=advice), at)
    else:
        _check_roles(matcher, kind, at)
        for key, operand in matcher.items():
            if is_operator(key):
                _check_operator(key, operand, kind, (*at, key))
            else:
                _check_field(key, operand, kind, at)


def _check_list(matcher: Any, kind: Kind, at: Path) -> None:
    """Check a list, which is complete and ordered."""
    if not _is_listed(kind):
        raise _never(f"the list {line(matcher)}", kind, at)
    if kind.element is not None:
        for index, inner in enumerate(matcher):
            check_kind(inner, kind.element, (*at, index))
    if len(matcher) < kind.items_min:
        raise _never(f"the list {line(matcher)}", kind, at)


def _check_roles(matcher: Mapping[str, Any], kind: Kind, at: Path) -> None:
    """Reject a message with two roles: ``{user: …, assistant: …}``."""
    if kind.is_mapping or "role" not in (kind.fields or {}):
        return
    roles = [key for key in matcher if key in ROLE_ALIASES and (key != "tool" or "role" in matcher)]
    other_keys = [key for key in roles if key != "tool"]
    if len(other_keys) > 1 or (other_keys and "role" in matcher):
        names = " and ".join(
            f"`{key}`" for key in (["role"] if "role" in matcher else []) + other_keys
        )
        problem = f"{names} stand for a role each, and {kind.noun} has one"
        raise MatcherError((*at, other_keys[-1]), problem, "", (), "Match each message by itself.")


def _check_operator(key: str, operand: Any, kind: Kind, at: Path) -> None:
    if key in OF_VALUE and key != "$exact":
        for path, inner in inner_matchers(key, operand, at):
            check_kind(inner, kind, path)
    elif key in ("$eq", "$ne"):
        if not _may_equal(operand, kind):
            raise _never(f"`{key}: {line(operand)}`", kind, at)
    elif key not in _ANY_VALUE:
        if key not in kind.operators:
            raise _never(f"`{key}`", kind, at)
        if key == "$exact" and kind.is_mapping:
            for name, inner in operand.items():
                _check_field(name, inner, kind, at)
        elif _is_listed(kind):
            _check_elements(key, operand, kind, at)


def _check_elements(key: str, operand: Any, kind: Kind, at: Path) -> None:
    """Check an operator on a list."""
    if key == "$unordered":
        _check_list(operand, kind, at)
    elif kind.element is not None and key in OF_ELEMENTS:
        for path, inner in inner_matchers(key, operand, at):
            check_kind(inner, kind.element, path)
        for name in unique_parts(operand, at)[0] if key == "$unique" else ():
            check_kind({name: {"$any": True}}, kind.element, at)


def _may_equal(value: Any, kind: Kind) -> bool:
    """Return whether a value of this kind may be equal to a value, as ``$eq`` compares."""
    if isinstance(value, (list, tuple)):
        return _is_listed(kind)
    if isinstance(value, Mapping):
        # A message never equals a mapping: its fields are matched one by one.
        return kind.is_mapping or (kind.fields is not None and "role" not in kind.fields)
    return value is None or kind.takes(value)


def _is_listed(kind: Kind) -> bool:
    return kind.operators is _LISTS or kind.element is not None


def _check_key(key: str, operand: Any, kind: Kind, at: Path) -> None:
    """Check a key of a mapping, which may have other keys too."""
    name = unescaped(key)
    if kind.is_lower and name != name.lower():
        problem = f"the key `{key}` can never match {kind.noun}: their names are in small letters"
        raise MatcherError((*at, key), problem, "", (), f"Write `{name.lower()}`.")
    field = (kind.fields or {}).get(name) or (None if "." in name or "[" in name else kind.others)
    if field is not None:
        check_kind(operand, field, (*at, key))


def _check_field(key: str, operand: Any, kind: Kind, at: Path) -> None:
    if kind.is_mapping:
        _check_key(key, operand, kind, at)
        return
    if _is_listed(kind) and key.startswith("["):
        return
    if kind.fields is None:
        raise _naming_operator(key, _never(f"the key `{key}`", kind, (*at, key)))
    if key in ROLE_ALIASES and "role" in kind.fields:
        return  # The operand is matched with the content, which may be any value.
    first = first_step(key)
    if first not in kind.fields:
        known = tuple(kind.fields)
        problem = f"{kind.noun} has no `{key}`, so this could never match"
        role = near(key, ROLE_ALIASES) if "role" in kind.fields else ""
        advice = f"or did you mean the role `{role}`?" if role else kind.key_advice
        raise _naming_operator(key, MatcherError((*at, key), problem, str(first), known, advice))
    if first == key:
        check_kind(operand, kind.fields[key], (*at, key))


def _naming_operator(key: str, problem: MatcherError) -> MatcherError:
    """Return the error, which says that the operator was meant if a key is one without its `$`."""
    name = operator_meant(key)
    if not name:
        return problem
    advice = f"Write `{name}`: without `$` it is a key."
    return MatcherError(problem.path, problem.what, "", (), advice)


def _never(problem: str, kind: Kind, at: Path) -> MatcherError:
    return MatcherError(at, f"{problem} can never match {kind.noun}", "", (), kind.advice)
