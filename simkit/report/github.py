"""GitHub workflow commands: findings as annotations at their lines of a pull request. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

Level: TypeAlias = Literal["error", "warning", "notice"]


def annotation(
    level: Level, message: str, *, file: str = "", line: int = 0, column: int = 0, title: str = ""
) -> str:
    """Returns one workflow command, which GitHub shows at the file's line."""
    places = {
        "file": file,
        "line": str(line) if line else "",
        "col": str(column) if column else "",
        "title": title,
    }
    given = ",".join(f"{key}={_property(value)}" for key, value in places.items() if value)
    return f"::{level}{' ' if given else ''}{given}::{_data(message)}"


def annotation_at(level: Level, where: str, message: str, title: str = "") -> str:
    """The same for a place written as ``file:line:column``, of which the ends may be missing."""
    file, line, column = split_place(where)
    return annotation(level, message, file=file, line=line, column=column, title=title)


def split_place(where: str) -> tuple[str, int, int]:
    """Returns file, line and column of ``file:line:column``; 0 for what is not there."""
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
