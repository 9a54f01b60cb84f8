"""GitHub workflow commands: findings as annotations at their lines of a pull request. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from posixpath import join, normpath
from typing import Final, Literal, TypeAlias

from simkit.report.results import Group, Result, grouped
from simkit.report.text import detail_lines, following_lines, headline, passed_over_words

Level: TypeAlias = Literal["error", "warning", "notice"]
PLACED: Final = re.compile(r"(?P<where>[^\n]+?:\d+:\d+): (?P<what>.*)", re.DOTALL)
"""An error that begins with its place."""


def annotation(
    level: Level, message: str, *, file: str = "", line: int = 0, column: int = 0, title: str = ""
) -> str:
    """Return one workflow command, which GitHub shows at the file's line."""
    fields = {
        "file": file,
        "line": str(line) if line else "",
        "col": str(column) if column else "",
        "title": title,
    }
    properties = ",".join(f"{key}={_property(value)}" for key, value in fields.items() if value)
    return f"::{level}{' ' if properties else ''}{properties}::{_data(message)}"


def annotation_at(level: Level, where: str, message: str, title: str = "") -> str:
    """Return the command for a place ``file:line:column``, whose numbers may be missing."""
    file, line, column = split_place(where)
    return annotation(level, message, file=file, line=line, column=column, title=title)


def result_annotations(
    results: Sequence[Result],
    folder: str = "",
    redact: Callable[[str], str] = lambda text: text,
) -> Iterator[str]:
    """Yield a workflow command for every finding and every broken file, the errors first.

    ``folder`` is the folder of the results' files, relative to the root of the repository, from
    which GitHub counts paths. GitHub shows only the first of many commands.
    """
    annotations = list(chain.from_iterable(_annotations_of(result) for result in results))
    for kind in ("error", "warning", "notice"):
        for level, where, message, name in annotations:
            if level == kind:
                file, line, column = split_place(where)
                yield annotation(
                    level,
                    redact(message),
                    file=_from_root(file, folder),
                    line=line,
                    column=column,
                    title=redact(name),
                )


def _annotations_of(result: Result) -> Iterator[tuple[Level, str, str, str]]:
    """Yield level, place, message and title of everything to report about a scenario."""
    title = result.name or result.file
    if result.error:
        placed = PLACED.match(result.error)
        where = placed["where"] if placed else f"{result.file}:{result.line}"
        yield "error", where, placed["what"] if placed else result.error, title
    for group in (*grouped(result.findings), *grouped(result.warnings)):
        level: Level = "warning" if group.cause.severity == "W" else "error"
        yield level, group.cause.where, _message(group), title
    if result.passed_over:
        where = f"{result.file}:{result.line}"
        yield "notice", where, passed_over_words(result.passed_over), title


def _message(group: Group) -> str:
    lines = (headline(group.cause), *detail_lines(group.cause), *following_lines(group))
    return "\n".join(lines)


def _from_root(file: str, folder: str) -> str:
    path = file.replace("\\", "/")
    return normpath(join(folder, path)) if path else ""


def split_place(where: str) -> tuple[str, int, int]:
    """Return file, line and column of ``file:line:column``; 0 for a missing number."""
    head, _, tail = where.rpartition(":")
    if not tail.isdigit():
        return where, 0, 0
    file, _, line = head.rpartition(":")
    if not line.isdigit():
        return head, int(tail), 0
    return file, int(line), int(tail)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
