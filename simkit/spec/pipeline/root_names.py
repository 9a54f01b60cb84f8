"""Names in ``${…}`` and in ``when``: paths over the root that runs, rules and sections see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from simkit.core.errors import MessageInvalid, ReferenceInvalid
from simkit.core.messages import ROLE_ALIASES, Message, ToolCall
from simkit.language.matching.operators import OF_VALUE, inner_matchers
from simkit.language.paths import follow, parse, references_in, walk
from simkit.language.yaml import Document, SourcePath, near
from simkit.spec.fields import ANYTHING
from simkit.trace.store import canonical

ROOTS: Final[tuple[str, ...]] = (
    "agent", "handoff", "input", "now", "run", "state", "task", "upstream", "user",
)  # fmt: skip
RUN_FIELDS: Final = (
    "agent", "reply", "output", "final_message", "messages", "tools_called", "tool_results",
    "tool_calls", "took_ms", "usage", "timestamps",
)  # fmt: skip
HANDOFF_FIELDS: Final = ("from", "to", "type", "mode", "query", "payload")


def check_references(
    document: Document, at: SourcePath, channels: tuple[str, ...], keys: Collection[str] = ()
) -> None:
    """Raise SourceError for the first reference below ``at`` to an unknown name.

    ``keys`` are those of payloads that contracts name; a payload may have more, so that only a
    misspelt one of them is an error. The operands of a ``when`` are values, no templates: they are
    skipped.
    """
    for path, text, _ in words_below(document, at):
        try:
            references = references_in(text)
        except ReferenceInvalid as problem:
            raise document.error(path, str(problem)) from None
        for _, reference in references:
            _check_path(document, path, reference, f"${{{reference}}}", channels)
            key = reference.removeprefix("handoff.payload.")
            other = near(key, keys) if key != reference and key not in keys else ""
            if other and not key.startswith(other) and not other.startswith(key):
                label = f"`${{{reference}}}` leads nowhere: no contract has a payload key `{key}`"
                raise document.error(path, label, word=key, known=tuple(keys))


def check_when(document: Document, at: SourcePath, matcher: Any, channels: tuple[str, ...]) -> None:
    """Raise SourceError for the first unknown key of a ``when``."""
    for path, key in keys_in(matcher, at):
        _check_path(document, path, key, key, channels, key=True)
        if key in ("state", "run", "handoff"):
            for inner, name in keys_in(follow(document.data, path), path):
                full = f"{key}.{name}"
                _check_path(document, inner, full, full, channels, key=True)


def keys_in(matcher: Any, at: SourcePath) -> Iterator[tuple[SourcePath, str]]:
    """Yield the plain keys of a matcher, also inside ``$not`` and the like."""
    if not isinstance(matcher, Mapping):
        return
    for key, operand in matcher.items():
        if not key.startswith("$"):
            yield (*at, key), key
        elif key in OF_VALUE:
            for path, inner in inner_matchers(key, operand, (*at, key)):
                yield from keys_in(inner, path)


def leads_to(path: str, known: Iterable[str]) -> bool:
    """Return whether a path begins with one of the known names, which may contain dots."""
    if known is ANYTHING:
        return True
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in known)


def _check_path(
    document: Document,
    at: SourcePath,
    path: str,
    reference: str,
    channels: tuple[str, ...],
    key: bool = False,
) -> None:
    """Reject a path over the root with an unknown name."""
    try:
        head, *tail = (str(part) for part in parse(path))
    except ReferenceInvalid as problem:
        raise document.error(at, str(problem), key=key) from None
    inside = {
        "state": (channels, "no channel is named"),
        "run": (RUN_FIELDS, "a run has no"),
        "handoff": (HANDOFF_FIELDS, "a handoff has no"),
    }
    if head not in ROOTS:
        word, known, noun = head, ROOTS, "there is no"
    elif tail and head in inside:
        word, (known, noun) = tail[0], inside[head]
        if word in known or leads_to(path[len(head) :].lstrip("."), known):
            return
    else:
        return
    label = f"`{reference}` leads nowhere: {noun} `{word}`"
    raise document.error(at, label, word=word, known=known, key=key)


def words_below(document: Document, at: SourcePath) -> Iterator[tuple[SourcePath, str, bool]]:
    """Yield the texts below a place that can contain references, each with its path.

    A mapping's keys come before its values; they have True as the third item.
    """
    for path, inner in walk(follow(document.data, at), at, is_passed_over):
        key = path[-1] if len(path) > len(at) else None
        if isinstance(key, str):
            if is_passed_over(key):
                continue
            yield path, key, True
        if isinstance(inner, str):
            yield path, inner, False


def is_passed_over(key: str) -> bool:
    """Return whether the value under a key cannot contain references."""
    return key == "when" or key.startswith("x-")


# Messages in files and functions: `{user: …}`, or `role`, `content` and other fields.


SHORT: Final = ("user", "assistant", "system", "developer", "human", "ai")
"""Roles that may be a key, with the content as the value."""
FIELDS: Final = ("content", "agent", "calls", "call_id", "tool")
"""Fields of a message beside its role."""
_OWN: Final = ("id", "turn", "section", "data")
"""Fields that the log adds to a message; functions see them and may return them."""
_CALL_FIELDS: Final = ("id", "tool", "name", "args")
_CALL: Final = "A call is written `{id: c1, tool: find_order, args: {order: 4711}}`."
_MESSAGE: Final = (
    "A message is a text, `{user: …}`, or `{role: …, content: …}`; other values are said as "
    "`{assistant: {…}}`."
)


def is_written_message(value: Any) -> bool:
    """Return whether a value of code or of a model is meant as a message, not as content."""
    if not isinstance(value, Mapping):
        return False
    if "role" in value:
        is_known = isinstance(value["role"], str) and value["role"] in ROLE_ALIASES
        return is_known and ("content" in value or "calls" in value)
    roles = [key for key in value if key in SHORT]
    return len(roles) == 1 and set(value) <= {*roles, *FIELDS}


def message_of(value: Any, agent: str | None = None) -> Message:
    """Return the message for a value; ``agent`` wrote it if the value names no other agent.

    Raise MessageInvalid for anything that would be lost, such as an unknown key.
    """
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        if value is None or isinstance(value, (list, tuple)):
            problem = "nothing" if value is None else "a list"
            raise MessageInvalid(
                (), f"a message must be a text or a mapping, not {problem}", advice=_MESSAGE
            )
        return message_from("assistant", value, agent)
    role, content = _role_and_content(value)
    _check_fields(value)
    speaker = value.get("agent", agent if "role" in value or role == "assistant" else None)
    message = message_from(role, content, speaker)
    return msgspec.structs.replace(
        message,
        calls=_calls(value.get("calls")),
        call_id=value.get("call_id") or "",
        tool=value.get("tool") or "",
    )


def message_from(role: str, content: Any, agent: str | None) -> Message:
    """Return a message with this content: a text as it is, any other value as JSON."""
    if isinstance(content, str):
        return Message(role, content, agent=agent)
    value = canonical(content)
    return Message(role, msgspec.json.encode(value).decode(), agent=agent, data=value)


def _role_and_content(value: Mapping[str, Any]) -> tuple[str, Any]:
    if "role" in value:
        role = value["role"]
        if not isinstance(role, str) or role not in ROLE_ALIASES:
            raise MessageInvalid(
                ("role",),
                f"unknown role `{role}`",
                str(role),
                ("user", "assistant", "system", "tool"),
            )
        return ROLE_ALIASES[role], value.get("content", "")
    roles = [key for key in value if key in SHORT]
    if len(roles) == 1 and "content" not in value:
        return ROLE_ALIASES[roles[0]], value[roles[0]]
    if roles:
        raise MessageInvalid((), "a message has one role and one content", advice=_MESSAGE)
    strange = next((str(key) for key in value if key not in FIELDS), "")
    raise MessageInvalid((), "this says no role, so it is no message", strange, SHORT, _MESSAGE)


def _check_fields(value: Mapping[str, Any]) -> None:
    roles = ("role",) if "role" in value else SHORT
    for key in value:
        if key not in roles and key not in FIELDS:
            raise MessageInvalid(
                (key,), f"unknown key of a message `{key}`", str(key), ("role", *FIELDS)
            )
    for key in ("agent", "call_id", "tool"):
        if value.get(key) is not None and not isinstance(value[key], str):
            raise MessageInvalid((key,), f"`{key}` must be a text")


def _calls(value: Any) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise MessageInvalid(("calls",), "`calls` must be a list", advice=_CALL)
    return tuple(_call(call, ("calls", index)) for index, call in enumerate(value))


def _call(value: Any, at: SourcePath) -> ToolCall:
    if isinstance(value, ToolCall):
        return value
    if not isinstance(value, Mapping):
        raise MessageInvalid(at, "a call must be a mapping", advice=_CALL)
    for key in value:
        if key not in _CALL_FIELDS:
            raise MessageInvalid(
                (*at, key), f"unknown key of a call `{key}`", str(key), _CALL_FIELDS, _CALL
            )
    name, identity = value.get("tool", value.get("name")), value.get("id")
    if not isinstance(name, str) or not isinstance(identity, str):
        raise MessageInvalid(at, "a call needs `id` and `tool`, both texts", advice=_CALL)
    return ToolCall(identity, name, canonical(value.get("args") or {}))


def without_own(value: Any) -> Any:
    """Return a message from code without the fields that the log had added."""
    if not isinstance(value, Mapping):
        return value
    return {key: value_ for key, value_ in value.items() if key not in _OWN}
