from __future__ import annotations

import json

from simkit.cli.validate import github_lines, json_text, verdict
from simkit.spec.validation.problems import Problem, Report

REPORT = Report(
    files=2,
    scenarios=1,
    problems=(
        Problem("VAL-03", "a.yaml:3:5", "unknown agent `b`", "turns[0]", "a", ("a", "c")),
        Problem("VAL-14", "b.yaml:1:2", "no agent has tool `pay`", advice="Remove it, or use it."),
    ),
    turned_off=3,
)


def test_problems_are_annotations_with_their_code_as_title() -> None:
    assert list(github_lines(REPORT)) == [
        "::error file=a.yaml,line=3,col=5,title=VAL-03 unknown-name::unknown agent `b`%0A"
        "at turns[0]%0Adid you mean `a`?   known: a, c",
        "::warning file=b.yaml,line=1,col=2,title=VAL-14 unused::no agent has tool `pay`%0A"
        "Remove it, or use it.",
    ]


def test_problems_are_objects_with_all_their_keys() -> None:
    assert json.loads(json_text(REPORT, "1.2.3", 2)) == {
        "simkit": "1.2.3",
        "problems": [
            {
                "code": "VAL-03", "name": "unknown-name", "severity": "E",
                "file": "a.yaml", "line": 3, "column": 5, "at": "turns[0]",
                "what": "unknown agent `b`", "near": "a", "known": ["a", "c"], "advice": "",
            },
            {
                "code": "VAL-14", "name": "unused", "severity": "W",
                "file": "b.yaml", "line": 1, "column": 2, "at": "",
                "what": "no agent has tool `pay`", "near": "", "known": [],
                "advice": "Remove it, or use it.",
            },
        ],
        "summary": {
            "files": 2, "scenarios": 1, "errors": 1, "warnings": 1, "turned_off": 3,
            "exit_code": 2,
        },
    }  # fmt: skip


def test_the_last_line_counts_what_was_checked_and_found() -> None:
    assert verdict(REPORT) == "2 files, 1 scenario: 1 error, 1 warning (3 turned off)"
    assert verdict(Report(1, 0, ())) == "1 file, 0 scenarios: fine"
