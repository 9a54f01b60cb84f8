"""The only way for text to leave the process: terminal, pipes, annotations, summaries, pytest.

Reports about a scenario contain texts of others: of models, tools, users, files. In every text

- secrets are replaced (`redact`);
- characters that control a terminal, or are invisible, are shown as escapes: ``\\x1b``,
  ``\\u202e``. They are JSON's escapes where JSON has such characters, so that JSON stays JSON;
- commands to a CI server (``::error``, ``##[group]``, ``##vso[…]``) are broken by such an
  escape. GitHub reads commands at the start of a line, others read them anywhere.

Colours and annotations of simkit itself are marked by a number that is drawn for the process, which
no other text can know; this module replaces the marks by the real sequences.
`tests/core/test_output.py` checks that no other module writes to a stream.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from simkit.core.answers import current_answer
from simkit.core.errors import OutputFailed, OutputUnread
from simkit.core.redact import Redactor, redactor_of
from simkit.core.redact.shapes import secrets_of
from simkit.core.text import late_pattern

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
"""The escape sequences that simkit itself sends to a terminal."""

_HIDDEN: Final = late_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Control characters (except tab and line feed), line separators, bidirectional controls, tags
and characters without width; joiners that scripts and emoji need are not among them."""
_LINE_COMMAND: Final = late_pattern(r"^(\s*)::", re.MULTILINE)
_COMMAND: Final = late_pattern(r"##(?=\[|[a-z]+\[)", re.IGNORECASE)


_number = os.urandom(8).hex()
"""The number in the marks of this process."""


def marks() -> str:
    """Return the number in this process's marks, for a process that writes texts for it."""
    return _number


def share_marks(number: str) -> None:
    """Use the marks of the process that prints the texts."""
    global _number
    _number = number


def mark(name: str) -> str:
    """Return a mark that `clean` replaces by one of `SEQUENCES`; it works in no other process."""
    return f"\x00{_number}:{name}\x00"


def styled(text: str, tone: str) -> str:
    """Return a text with marks for a tone around it."""
    return f"{mark(tone)}{text}{mark('end')}"


def visible(text: str) -> str:
    """Return the text with every invisible or control character as an escape."""
    return _HIDDEN.sub(_escape, text)


def neutral(text: str) -> str:
    """Return the text with every command to a CI server broken."""
    return _COMMAND.sub(r"#\\u0023", _LINE_COMMAND.sub(r"\1:\\u003a", text))


def clean(text: str, redactor: Redactor | None = None) -> str:
    """Return the text as it may leave the process; marks become terminal sequences."""
    return _rendered(text, redactor, lambda part: neutral(visible(part)))


def without_secrets(value: T, redactor: Redactor) -> T:
    """Return a struct or a tuple of structs, of the same type, with every secret replaced."""
    encoded = msgspec.json.encode(value)
    line = redactor.line(encoded)
    return value if line == encoded else msgspec.json.decode(line, type=type(value))


_read: Final[set[str]] = set()
"""Secrets of the files that this process has read."""


def note_secrets(secrets: Iterable[str]) -> None:
    """Register the secrets of a user's document, so that no output contains them."""
    _read.update(secrets)


def current_redactor() -> Redactor:
    """Return the redactor for the secrets of the environment and of the files read so far."""
    return redactor_of(frozenset(_read.union(secrets_of(os.environ))))


def echo(text: str = "", *, err: bool = False) -> None:
    """Write a cleaned text to stdout or stderr; an answer in JSON takes what stdout would get."""
    answer = current_answer()
    if answer is not None:
        (answer.messages if err else answer.printed).append(text)
    if answer is None or err:
        _write(clean(text) + "\n", err)


def json_document(text: str) -> str:
    """Return a JSON text as it may leave the process, to a screen or to a file; it stays JSON."""
    line = text.encode("utf-8", "surrogatepass")
    redacted = current_redactor().line(line)
    if redacted != line:
        text = json.dumps(json.loads(redacted), indent=2, ensure_ascii=False)
    return neutral(visible(text))


def echo_json(text: str, *, at_once: bool = False) -> None:
    """Write a cleaned JSON text to stdout; it stays JSON.

    The object is a part of the command's answer, if a program asked for one, unless the program
    needs it ``at_once``.
    """
    answer = current_answer()
    if answer is not None and not at_once:
        answer.fields.update(json.loads(text))
        return
    _write(json_document(text) + "\n", False)


def picture(text: str) -> str:
    """Return a picture in a text format as it may leave the process, to a screen or to a file."""
    return visible(current_redactor().text(text))


def echo_picture(text: str) -> None:
    """Write a picture of which `picture` was made to stdout."""
    _write(text + "\n", False)


def command(line: str) -> str:
    """Return one workflow command of simkit's own as it may leave the process."""

    def quoted(part: str) -> str:
        return _COMMAND.sub(r"#\\u0023", visible(part.replace("\n", "%0A")))

    return _rendered(line, None, quoted)


def echo_commands(lines: Iterable[str]) -> None:
    """Write workflow commands of simkit's own, one a line, to stdout."""
    for line in lines:
        _write(command(line) + "\n", False)


def _rendered(text: str, redactor: Redactor | None, quote: Callable[[str], str]) -> str:
    parts = re.split(f"\x00{_number}:([a-z]+)\x00", text)
    # A secret that is partly coloured is still one secret.
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
        # This is another exception type, because click exits with 1 on BrokenPipeError, which means
        # findings.
        raise OutputUnread("nobody reads any longer") from None
    except (OSError, ValueError) as problem:
        name = "stderr" if err else "stdout"
        why = problem.strerror if isinstance(problem, OSError) else "it is closed"
        raise OutputFailed(f"{name} cannot be written to: {why}") from None
