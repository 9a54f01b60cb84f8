"""The answer of a command to a program: one JSON object, whose keys are stable.

::

    {"simkit": "0.1.0",     the version that answered
     "command": "replay",
     "exit_code": 0,        as the process ends
     "error": null,         why there is no result: {"type", "message", …}, exit code 2, 130 or 143
     …                      the command's own keys
     "wrote": ["FILE"],     the files that it wrote, without traces of `.simkit`
     "printed": ["TEXT"],   what people would read on stdout, line by line, where no key says it
     "messages": ["TEXT"]}  what it said on stderr

`simkit schema answers` prints the JSON Schema of all of them. A command adds its keys with `answer`
and `answer_row`, prints for people with `echo`, and does not ask which of the two is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from simkit.core.errors import SimkitError, SourceError

SCHEMA: Final = Path(__file__).with_name("answers.schema.json")
"""The JSON Schema of all answers."""


@dataclass
class Answer:
    """The answer of the command that this process runs, as far as it is known."""

    command: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    wrote: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def text(self, version: str, exit_code: int) -> str:
        """Return the JSON object, indented."""
        folder = os.getcwd()
        files = [os.path.relpath(file, folder) for file in self.wrote if os.path.lexists(file)]
        import msgspec  # Imported here because `simkit --help` must not load it.

        head = {"simkit": version, "command": self.command, "exit_code": exit_code}
        whole = {
            **head,
            "error": self.error,
            **{key: value for key, value in self.fields.items() if key not in head},
            "wrote": [*dict.fromkeys(files)],
            "printed": _lines(self.printed),
            "messages": _lines(self.messages),
        }
        return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def _lines(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in text.splitlines() if line.strip()]


_answers: Final[list[Answer]] = []


def wants_json(words: Sequence[str]) -> bool:
    """Return whether the words of a command line ask for an answer in JSON."""
    words = words[: words.index("--")] if "--" in words else words  # The rest are no options.
    if {"-h", "--help", "--version"} & {*words}:
        return False
    return "--format=json" in words or ("--format", "json") in pairwise(words)


@contextmanager
def answering() -> Iterator[Answer]:
    """Collect what a command prints, writes and adds into an answer."""
    _answers.append(Answer())
    try:
        yield _answers[-1]
    finally:
        _answers.pop()


def current_answer() -> Answer | None:
    """Return the answer that is being collected; None where people read what is printed."""
    return _answers[-1] if _answers else None


def answer(**fields: Any) -> None:
    """Add keys to the answer, if a program asked for one."""
    if _answers:
        _answers[-1].fields.update(fields)


def answer_row(key: str, row: Mapping[str, Any]) -> None:
    """Add a row to a list of the answer, if a program asked for one."""
    if _answers:
        _answers[-1].fields.setdefault(key, []).append(row)


def note_written(file: str | Path) -> None:
    """Add a file to those that the command wrote."""
    if _answers:
        _answers[-1].wrote.append(os.path.abspath(file))


def refuse(problem: BaseException, message: str) -> None:
    """Say in the answer why there is no result."""
    if not _answers:
        return
    kind = type(problem).__name__ if isinstance(problem, SimkitError) else "Bug"
    if isinstance(problem, KeyboardInterrupt):
        kind = "Stopped"
    elif type(problem).__module__.startswith("click"):
        kind = "UsageError"
    error: dict[str, Any] = {"type": kind, "message": message}
    if isinstance(problem, SourceError):
        names = ("where", "what", "at", "near", "known", "advice")
        error |= {name: getattr(problem, name) for name in names}
    _answers[-1].error = error
