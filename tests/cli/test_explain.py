from __future__ import annotations

from collections.abc import Callable

from simkit.spec.explanations import explanations
from tests.cli.projects import Done

Call = Callable[..., Done]


def test_an_id_is_explained(simkit: Call) -> None:
    done = simkit("explain", "NET-04")

    net_04 = explanations()["NET-04"]
    assert done.code == 0
    assert done.out.startswith(
        f"NET-04 retry-storm (warning)\n  rule     {net_04.rule}\n  cause    "
    )
    words = " ".join(done.out.split())
    assert f"cause {net_04.cause} fix {net_04.fix} to keep it" in words
    assert words.endswith("`lints: {NET-04: the reason}`")
    assert max(map(len, done.out.splitlines())) <= 100


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
        "whole, in quotes.\n"
        "  Errors of a file end with their own advice; `simkit validate FILE` prints their ids.\n",
    )
