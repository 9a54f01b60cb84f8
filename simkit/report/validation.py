"""Reports of ``simkit validate``: JSON, GitHub annotations, and a summary line.

::

    {"simkit": "0.1.0",              the version that checked
     "problems": [                   in the order of files and lines
       {"code", "name",              as in docs/reference/validate.md
        "severity",                  E or W
        "file", "line", "column",    0 where an error has no place
        "at",                        the path inside the document
        "what", "near", "known", "advice"}],
     "summary": {"files", "scenarios", "errors", "warnings", "turned_off", "exit_code"}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from simkit.core.text import counted
from simkit.report.github import annotation_at, split_place
from simkit.spec.validation.problems import Problem, Report
from simkit.spec.validation_catalogue import CODES


def json_text(report: Report, version: str, exit_code: int) -> str:
    """Return the JSON object, indented."""
    whole = {
        "simkit": version,
        "problems": [_object(problem) for problem in report.problems],
        "summary": {
            "files": report.files,
            "scenarios": report.scenarios,
            "errors": report.count("E"),
            "warnings": report.count("W"),
            "turned_off": report.turned_off,
            "exit_code": exit_code,
        },
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def _object(problem: Problem) -> dict[str, Any]:
    file, line, column = split_place(problem.where)
    return {
        "code": problem.code,
        "name": CODES[problem.code].name,
        "severity": problem.severity,
        "file": file,
        "line": line,
        "column": column,
        "at": problem.at,
        "what": problem.what,
        "near": problem.near,
        "known": problem.known,
        "advice": problem.advice,
    }


def github_lines(report: Report) -> Iterator[str]:
    """Yield one workflow command for each problem."""
    for problem in report.problems:
        level: Any = "error" if problem.severity == "E" else "warning"
        lines = problem.text.split("\n")[1:]
        message = "\n".join([problem.what, *(line.strip() for line in lines)])
        title = f"{problem.code} {CODES[problem.code].name}"
        yield annotation_at(level, problem.where, message, title)


def verdict(report: Report) -> str:
    """Return the last line: the number of checked files, and the result."""
    numbers = f"{counted(report.files, 'file')}, {counted(report.scenarios, 'scenario')}"
    lines = [
        counted(report.count(severity), noun)
        for severity, noun in (("E", "error"), ("W", "warning"))
        if report.count(severity)
    ]
    off = f" ({report.turned_off} turned off)" if report.turned_off else ""
    return f"{numbers}: {', '.join(lines) or 'fine'}{off}"
