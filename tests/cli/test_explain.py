from __future__ import annotations

from collections.abc import Callable

from simkit.spec.explanations import explanations
from tests.cli.projects import Done

Call = Callable[..., Done]


def test_an_id_is_explained(simkit: Call) -> None:
    done = simkit("explain", "NET-04")

    assert done.code == 0
    assert done.out.splitlines() == [
        "NET-04 retry-storm (warning)",
        "  rule     no call is made more than 5 times",
        "  cause    Two layers retry, the client library and a decorator around it, so their "
        "attempts",
        "           multiply.",
        "  fix      Limit the attempts, in one layer: the client library makes its own beside "
        "yours.",
        "           to keep it as it is, give a reason: `lints: {NET-04: the reason}`",
    ]


def test_a_message_may_be_copied_without_quotes(simkit: Call) -> None:
    done = simkit("explain", "state.orders", "does", "not", "match")

    assert done.out.startswith("mismatch (a claim does not hold)\n")


def test_what_keeps_a_file_from_running_cannot_be_turned_off(simkit: Call) -> None:
    assert "lints:" not in simkit("explain", "VAL-02").out
    assert "lints: {VAL-14: " in simkit("explain", "VAL-14").out


def test_every_id_is_listed(simkit: Call) -> None:
    listed = [line.split()[0] for line in simkit("explain").out.splitlines()]

    assert listed == list(explanations())


def test_an_unknown_id_is_answered_with_the_nearest(simkit: Call) -> None:
    assert simkit("explain", "HND-13") == Done(
        2,
        "",
        "nothing is known under `HND-13`\n"
        "  did you mean `HND-12`?\n"
        "  `simkit explain` lists every id. A message is found by its own words, too: copy it "
        "whole, in quotes.\n",
    )
