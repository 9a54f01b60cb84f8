"""`--simkit-update`, from outside: every test is a run of pytest in a new process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.desk import FAILS, HOLDS, PIPELINE, install

pytestmark = pytest.mark.slow

EVENING = FAILS.replace("the clerk is late", "another is late")
FIXED = FAILS.replace("Good evening.", "Good day.")


@pytest.fixture(autouse=True)
def _project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a pipeline, where simkit is installed."""
    install(pytester, monkeypatch)
    (pytester.path / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")


def write(pytester: pytest.Pytester, *texts: str) -> Path:
    """Writes scenarios into one file."""
    file = pytester.path / "a.scenario.yaml"
    file.write_text("---\n".join(texts), encoding="utf-8")
    return file


def update_of(result: pytest.RunResult) -> list[str]:
    """What the run says it changed."""
    lines = result.outlines
    start = next(n for n, line in enumerate(lines) if line.strip("= ") == "simkit update") + 1
    end = next(n for n, line in enumerate(lines) if n >= start and line.startswith("==="))
    return lines[start:end]


CHANGED = [
    "--- a.scenario.yaml",
    "+++ a.scenario.yaml (new)",
    "@@ -11,4 +11,4 @@",
    " turns:",
    "   - user: Hello",
    "     replies: {clerk: Good day.}",
    "-    expect: {reply: Good evening.}",
    "+    expect: {reply: Good day.}",
    "1 file changed; run again",
]


@pytest.mark.parametrize("mode", ["--simkit-update", "--simkit-update=fix"])
def test_failing_claims_are_changed_and_hold_in_the_next_run(
    pytester: pytest.Pytester, mode: str
) -> None:
    file = write(pytester, HOLDS, FAILS)

    result = pytester.runpytest_subprocess(mode)
    again = pytester.runpytest_subprocess()

    result.assert_outcomes(passed=1, failed=1)
    assert (
        update_of(result)[2:]
        == [line.replace("-11,4 +11,4", "-12,4 +12,4") for line in CHANGED[2:]]
        or update_of(result) == CHANGED
    )
    assert file.read_text() == f"{HOLDS}---\n{FIXED}"
    again.assert_outcomes(passed=2)


def test_processes_of_xdist_propose_and_one_writes(pytester: pytest.Pytester) -> None:
    file = write(pytester, FAILS, EVENING, HOLDS)

    result = pytester.runpytest_subprocess("--simkit-update", "-n", "2")

    result.assert_outcomes(passed=1, failed=2)
    assert update_of(result)[-1] == "1 file changed; run again"
    assert "Good evening" not in file.read_text()


def test_claims_are_created_where_there_are_none(pytester: pytest.Pytester) -> None:
    bare = HOLDS.replace("    expect: {reply: Good day.}\n", "")
    file = write(pytester, bare, FAILS)

    result = pytester.runpytest_subprocess("--simkit-update=create")
    again = pytester.runpytest_subprocess("-k", "answers")

    result.assert_outcomes(passed=1, failed=1)
    assert file.read_text().startswith(f"{bare}    expect:\n      agents: [clerk]\n")
    assert file.read_text().endswith(f"---\n{FAILS}")
    again.assert_outcomes(passed=1, deselected=1)


def test_an_expected_failure_stays(pytester: pytest.Pytester) -> None:
    known = FAILS.replace("turns:", "xfail: bug 12\nturns:")
    file = write(pytester, known)

    result = pytester.runpytest_subprocess("--simkit-update")

    result.assert_outcomes(xfailed=1)
    assert "".join(update_of(result)) == "0 files changed"
    assert file.read_text() == known


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--simkit-update"], {"CI": "true"},
         "*--simkit-update changes scenario files, and is refused in CI (CI is set)*"),
        (["--simkit-update", "--simkit-seed=3"], {},
         "*--simkit-update writes what the scenarios' own seeds give, not --simkit-seed*"),
        (["--simkit-update", "a.scenario.yaml"], {},
         "*'a.scenario.yaml' is neither `fix` nor `create`; write `--simkit-update=fix` before*"),
    ],
)  # fmt: skip
def test_a_call_that_may_not_write_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: list[str],
    environment: dict[str, str], message: str,
) -> None:  # fmt: skip
    file = write(pytester, FAILS)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    result = pytester.runpytest_subprocess(*arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert file.read_text() == FAILS
