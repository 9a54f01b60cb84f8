from __future__ import annotations

from collections.abc import Callable

import pytest

from simkit.language import expressions
from tests.cli.projects import ECHO, Done, write

CLAIMED = """\
---
version: 1
scenario: it is slow
pipeline: echo
turns: [{user: hi, replies: {a: %s}, expect: {reply: {$regex: "^(a|aa)+$"}}}]
""" % ("a" * 60 + "!")


def test_an_endless_expression_is_one_clear_error(
    simkit: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expressions, "CPU_SECONDS_MAX", 0.05)
    write("scenarios/slow.scenario.yaml", ECHO + CLAIMED)

    done = simkit("replay")

    assert done.code == 2
    assert "the regular expression `^(a|aa)+$` found no answer within 0.05 s of work" in done.out
    assert "slow.scenario.yaml:" in done.out
    assert "itself failed" not in done.out
    assert "4 scenarios: 3 held, 1 broken" in done.out
