"""An exploration that proves nothing says so, and fails where it is asked to."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Done, write
from tests.explore.test_explore import SOUND
from tests.explore.test_simulations import DESK, UNJUDGED

Call = Callable[..., Done]
SKIPPED = SOUND + "---\nscenario: a\npipeline: desk\nskip: not now\nturns: [{user: Hi.}]\n"
NEEDY = SKIPPED.replace("skip: not now", "needs: [a-library-of-nobody]")
LACKS = "needs a-library-of-nobody, which is not installed: pip install a-library-of-nobody"


def test_where_everything_is_skipped_nothing_was_explored(simkit: Call) -> None:
    write("a/one.scenario.yaml", SKIPPED)
    write("a/two.scenario.yaml", NEEDY)

    assert simkit("explore", "a") == Done(
        0,
        "a/one.scenario.yaml::a: skipped: not now\n"
        f"a/two.scenario.yaml::a: skipped: {LACKS}\n"
        "nothing was explored: 2 skipped\n",
        "",
    )
    assert simkit("replay", "a").code == 0


def test_a_missing_library_is_an_error_where_needs_must_be_met(simkit: Call) -> None:
    write("a/one.scenario.yaml", NEEDY)
    write("a/two.scenario.yaml", SOUND + "---\nscenario: b\npipeline: desk\nturns: [{user: Hi.}]\n")

    done = simkit("explore", "a", "--needs-met", "--runs", "2")

    assert done.code == 2 == simkit("replay", "a", "--needs-met").code
    assert f"a/one.scenario.yaml:{NEEDY.count(chr(10)) - 1}:8: {LACKS}\n  at needs\n" in done.err
    # What can be explored is explored all the same.
    assert "a::desk:\n2 conversations" in done.out
    assert "nothing was explored" not in done.out


def test_a_claim_that_was_never_judged_fails_a_strict_exploration(simkit: Call) -> None:
    write("a.simulation.yaml", DESK + UNJUDGED)

    lax = simkit("explore", "a.simulation.yaml", "--runs", "5")
    strict = simkit("explore", "a.simulation.yaml", "--runs", "5", "--strict")

    line = "always.state.refunds: no conversation judged it: what it speaks of never happened"
    assert (lax.code, strict.code) == (0, 1)
    assert line not in lax.out
    assert line in strict.out.splitlines()
