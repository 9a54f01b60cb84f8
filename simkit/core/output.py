"""The one door for text that leaves the process: terminal, pipes, annotations, summaries, pytest.

What is said of a scenario holds texts of others: of models, tools, users, files. Through the door

- secrets are replaced (`redact`);
- characters that command a terminal, or that are not seen, are shown as escapes: ``\\x1b``,
  ``\\u202e``. The escapes are those of JSON where JSON has such characters, so that the same
  door serves both;
- what commands a CI server (``::error``, ``##[group]``, ``##vso[…]``) is taken apart by such an
  escape. GitHub reads commands at the start of a line, others read theirs anywhere.

Colours and annotations of simkit's own are marked by a number that is drawn for the process, which
no text can know; the door puts the real sequences in. `tests/test_output.py` holds every module to
it: nobody else writes to a stream.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from simkit.core.errors import OutputFailed, OutputUnread
from simkit.core.redact import Redactor, secrets_written_in
from simkit.core.redact.names import secrets_of

T = TypeVar("T")

SEQUENCES: Final[Mapping[str, str]] = {
    "good": "\x1b[32m",
    "bad": "\x1b[31m",
    "warning": "\x1b[33m",
    "quiet": "\x1b[2m",
    "strong": "\x1b[1m",
    "end": "\x1b[0m",
    "clear": "\r\x1b[2K",
}
"""What simkit itself tells a terminal."""

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Controls (but tab and line feed), line separators, bidirectional controls, tags, what has no
width; the joiners that scripts and emoji need are none of them."""
_LINE_COMMAND: Final = re.compile(r"^(\s*)::", re.MULTILINE)
_COMMAND: Final = re.compile(r"##(?=\[|[a-z]+\[)", re.IGNORECASE)


class _Marks:
    """The marks of this process."""

    def __init__(self, number: str) -> None:
        self.number = number
        self.pattern = re.compile(f"\x00{number}:([a-z]+)\x00")

    def of(self, name: str) -> str:
        return f"\x00{self.number}:{name}\x00"


_marks = _Marks(os.urandom(8).hex())


def marks() -> str:
    """Return the number of this process's marks, for a process that makes texts for it."""
    return _marks.number


def share_marks(number: str) -> None:
    """Mark texts as the process does that prints them."""
    global _marks
    _marks = _Marks(number)


def mark(name: str) -> str:
    """Return what the door turns into one of `SEQUENCES`; it has no place in any other text."""
    return _marks.of(name)


def styled(text: str, tone: str) -> str:
    """Return a text with marks for a tone around it."""
    return f"{mark(tone)}{text}{mark('end')}"


def visible(text: str) -> str:
    """Return the text with every character that is not seen, or commands, as its escape."""
    return _HIDDEN.sub(_escape, text)


def neutral(text: str) -> str:
    """Return the text with every command to a CI server taken apart."""
    return _COMMAND.sub(r"#\\u0023", _LINE_COMMAND.sub(r"\1:\\u003a", text))


def clean(text: str, redactor: Redactor | None = None) -> str:
    """Return the text as it may leave the process; marks become the terminal's sequences."""
    return _rendered(text, redactor, lambda part: neutral(visible(part)))


def redacted(text: str, redactor: Redactor) -> str:
    """Return a text without secrets that is still to pass the door: its marks stay."""
    parts = _marks.pattern.split(text)
    parts[::2] = redactor.pieces(parts[::2])
    parts[1::2] = map(mark, parts[1::2])
    return "".join(parts)


def without_secrets(value: T, redactor: Redactor) -> T:
    """Return a struct or a tuple of structs, of its own kind, with every secret replaced."""
    encoded = msgspec.json.encode(value)
    line = redactor.line(encoded)
    return value if line == encoded else msgspec.json.decode(line, type=type(value))


_read: Final[set[str]] = set()
"""Secrets of the files that this process has read."""


def note_secrets(data: Any) -> None:
    """Let no secret that stands in a user's document leave by this door."""
    _read.update(secrets_written_in(data))


def current_redactor() -> Redactor:
    """Return what knows the secrets of the environment as it is now, and of files read here."""
    return _redactor(tuple(sorted(_read.union(secrets_of(os.environ)))))


@lru_cache(maxsize=4)
def _redactor(secrets: tuple[str, ...]) -> Redactor:
    return Redactor({}, literals=secrets)


def echo(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Write a text, through the door, to stdout or stderr."""
    _write(clean(text) + end, err)


def echo_json(text: str) -> None:
    """Write a JSON text, through the door, to stdout; it stays JSON."""
    line = text.encode("utf-8", "surrogatepass")
    redacted = current_redactor().line(line)
    if redacted != line:
        text = json.dumps(json.loads(redacted), indent=2, ensure_ascii=False)
    _write(neutral(visible(text)) + "\n", False)


def command(line: str, redactor: Redactor | None = None) -> str:
    """Return one workflow command of simkit's own as it may leave the process."""

    def quoted(part: str) -> str:
        return _COMMAND.sub(r"#\\u0023", visible(part.replace("\n", "%0A")))

    return _rendered(line, redactor, quoted)


def echo_commands(lines: Iterable[str]) -> None:
    """Write workflow commands of simkit's own, one a line, to stdout."""
    for line in lines:
        _write(command(line) + "\n", False)


def _rendered(text: str, redactor: Redactor | None, quote: Callable[[str], str]) -> str:
    parts = _marks.pattern.split(text)
    # A secret of which a part is coloured is one secret.
    parts[::2] = map(quote, (redactor or current_redactor()).pieces(parts[::2]))
    parts[1::2] = (SEQUENCES.get(name, "") for name in parts[1::2])
    return "".join(parts)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return f"\\x{code:02x}"
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"


def _write(text: str, err: bool) -> None:
    stream: Any = sys.stderr if err else sys.stdout
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # Of another kind: click takes a BrokenPipeError for exit code 1, which means findings.
        raise OutputUnread("nobody reads any longer") from None
    except (OSError, ValueError) as problem:
        name = "stderr" if err else "stdout"
        why = problem.strerror if isinstance(problem, OSError) else "it is closed"
        raise OutputFailed(f"{name} cannot be written to: {why}") from None
