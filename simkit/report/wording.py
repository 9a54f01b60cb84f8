"""Wording of values and times in reports: on one line, always the same."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeAlias

from simkit.core.messages import Dropped, Message, ToolCall
from simkit.language.paths import as_text

WIDTH: Final = 100
"""The columns of a line; a user's own text is never wrapped."""

_columns: ContextVar[int] = ContextVar("columns", default=WIDTH)
"""The columns of lines that are made now: a narrow terminal has fewer than WIDTH."""

Tone = Literal["good", "bad", "warning", "quiet", "strong"]
Paint: TypeAlias = Callable[[str, Tone], str]
"""Applies a tone to a text, for example as the terminal's colours."""


def columns() -> int:
    """Return the number of columns of a line here."""
    return _columns.get()


def set_columns(count: int) -> None:
    """Limit later lines to the columns of a terminal, at most WIDTH."""
    _columns.set(min(WIDTH, count))


def plain(text: str, _tone: Tone) -> str:
    """Return the text as it is: for files, pipes and tests."""
    return text


def moment(at_ms: int) -> str:
    """Return a virtual time since the start, with at most three digits if it is long."""
    if at_ms < 10_000:
        return f"{at_ms} ms"
    seconds = at_ms / 1000
    if seconds < 600:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def value_text(value: Any) -> str:
    """Return a value on one line: a message as speaker and text, any other value as JSON."""
    if isinstance(value, Dropped):
        return f"{message_text(value.message)} ({value.what} by {value.by})"
    if isinstance(value, Message):
        return message_text(value)
    if isinstance(value, str):
        return as_text([value])[1:-1]
    if isinstance(value, Mapping):
        body = ", ".join(f"{value_text(str(k))}: {value_text(v)}" for k, v in value.items())
        return f"{{{body}}}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return f"[{', '.join(value_text(item) for item in value)}]"
    return as_text(value)


def message_text(message: Message) -> str:
    """Return a message on one line: its speaker, and its content."""
    by = f" {message.agent}" if message.agent else ""
    calls = [call_text(call) for call in message.calls]
    text = " ".join(part for part in (" ".join(message.content.split()), *calls) if part)
    return f"{message.role}{by}: {text or 'nothing'}"


def call_text(call: ToolCall) -> str:
    """Return a tool call as code: ``log_meal(food: "pizza")``."""
    if not isinstance(call.args, Mapping):
        return f"{call.name}({value_text(call.args)}){_passes_to(call)}"
    args = ", ".join(f"{name}: {value_text(value)}" for name, value in call.args.items())
    return f"{call.name}({args}){_passes_to(call)}"


def _passes_to(call: ToolCall) -> str:
    """Return `` → billing`` for a handoff call whose name does not show the target."""
    return f" → {call.to}" if call.to else ""


def wrapped(
    text: str, first: str = "", rest: str | None = None, width: int | None = None
) -> list[str]:
    """Return a text in lines of at most ``width`` columns, its own line ends kept.

    ``first`` is the prefix of the first line, ``rest`` of the others (default: as many spaces).
    """
    rest = " " * len(first) if rest is None else rest
    width = columns() if width is None else width
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lead = rest if lines else first
        lines += textwrap.wrap(
            paragraph,
            width,
            initial_indent=lead,
            subsequent_indent=rest,
            tabsize=4,
            replace_whitespace=False,
            drop_whitespace=True,
            break_on_hyphens=False,
        ) or [lead.rstrip()]
    return lines


def block(lines: Iterable[str]) -> str:
    """Return lines as one text, indented as what belongs to a scenario is."""
    return "\n".join(f"    {line}".rstrip() for line in lines).rstrip()
