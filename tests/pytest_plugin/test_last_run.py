"""A session of pytest is the last run, as a replay is: `view`, `judge` and `diff` show it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from simkit.pytest_plugin.runs import SMALL, KeptSession, text_of_run
from simkit.report.last_run import Ledger, RunEntry
from tests.cli.projects import ECHO
from tests.plugins import OTHERS_OFF
from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """\
version: 1
scenario: it answers
pipeline: echo.pipeline.yaml
turns: [{user: hi, replies: {a: hello}, expect: {reply: %s}}]
"""
STORY = """
Feature: Desk
  Scenario: A story
    Given the pipeline "echo"
    When the user says "hi"
    And a replies "hello"
    Then the reply is "wrong"
"""
CODE = """
from pytest_bdd import scenarios
from simkit.bdd import *

scenarios("desk.feature")

def test_sim(sim):
    talk = sim("echo.pipeline.yaml")
    assert talk.say("hi", replies={"a": ["hello"]}).reply == "hello"
"""


@pytest.fixture(autouse=True)
def _folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_ADDOPTS", OTHERS_OFF)
    (pytester.path / "echo.pipeline.yaml").write_text(ECHO, encoding="utf-8")
    write(pytester, "hello")


def write(pytester: pytest.Pytester, reply: str, name: str = "echo", scenarios: int = 1) -> None:
    texts = [SCENARIO.replace("it answers", f"no {i}") % reply for i in range(scenarios)]
    (pytester.path / f"{name}.scenario.yaml").write_text("---\n".join(texts), encoding="utf-8")


def simkit(*words: str) -> str:
    done = run_python("-m", "simkit", *words)
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_commands_show_the_session_of_pytest_that_ran_last(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    simkit("replay", ".")
    write(pytester, "wrong")
    pytester.runpytest_subprocess(*options).assert_outcomes(failed=1)

    assert "1 failed" in simkit("judge")
    assert Ledger().failed() == ("echo.scenario.yaml::no 0",)
    last = Ledger().last()
    assert last is not None
    assert last.unkept == 0


@pytest.mark.slow
def test_of_a_large_session_failing_scenarios_are_kept(pytester: pytest.Pytester) -> None:
    write(pytester, "hello", "many", SMALL)
    write(pytester, "wrong")
    pytester.runpytest_subprocess().assert_outcomes(passed=SMALL, failed=1)

    last = Ledger().last()
    assert last is not None
    traces = [entry.id for entry in last.scenarios if entry.trace]
    assert traces == ["echo.scenario.yaml::no 0"]
    assert len([*Path(".simkit/traces").iterdir()]) == 1
    assert len(last.scenarios) == SMALL + 1


@pytest.mark.slow
def test_commands_show_stories_and_say_that_conversations_keep_no_trace(
    pytester: pytest.Pytester,
) -> None:
    simkit("replay", ".")
    (pytester.path / "desk.feature").write_text(STORY, encoding="utf-8")
    pytester.makepyfile(CODE)
    page = ("--simkit-html", "page.html", "--junitxml", "junit.xml")
    done = pytester.runpytest_subprocess(*page, "-k", "story or sim")
    done.assert_outcomes(passed=1, failed=1)
    link = "page.html#desk-feature-a-story-9c03efe8"
    assert link in done.stdout.str()
    junit = Path("junit.xml").read_text(encoding="utf-8")
    assert "reply does not match (turn 1)&#10;reproduce: pytest" in junit
    assert junit.count(link) == junit.count("simkit.digest") == 1

    for command in ("judge", "view", "diff --base .simkit"):
        text = simkit(*command.split())
        note = "no trace of the 1 test with `sim` that pytest ran last"
        assert note in text, command
    assert "skipped: 1 scenario: pytest judges features" in simkit("judge")
    assert "1 passed" in simkit("replay", ".")
    assert "no trace" not in simkit("judge")


@pytest.mark.slow
@pytest.mark.usefixtures("pytester")
def test_a_damaged_list_is_said_and_ignored() -> None:
    simkit("replay", ".")
    Path(".simkit/last.json").write_bytes(b'{"version": 1, "failed": ["\xff"]}')

    text = simkit("replay", ".")

    assert text.count("last.json is damaged and not used; the next run writes it anew") == 1
    assert "1 passed" in text
    assert "damaged" not in simkit("replay", ".")


def test_of_a_session_each_trace_is_kept_that_a_report_carried(cwd: Path) -> None:
    session = KeptSession()
    wrong = RunEntry("a::b", "failed", trace=Ledger().place("a::b"))
    session.take(text_of_run(wrong, True, b"{}\n"))
    session.take(text_of_run(RunEntry("a::c", "passed"), False, b""))
    session.take("")
    session.close()

    last = Ledger().last()
    assert last is not None
    assert (last.failed, last.unkept, len(last.scenarios)) == (("a::b",), 1, 2)
    assert [file.read_bytes() for file in (cwd / ".simkit/traces").iterdir()] == [b"{}\n"]


def test_no_link_is_written_through(cwd: Path) -> None:
    strange = cwd / "strange"
    for name in ("", "last.json", "traces", "runs"):
        Ledger("mine").close([], [])
        (strange / "traces").mkdir(parents=True)
        (strange / "traces" / "a.jsonl").write_bytes(b"a")
        (strange / "last.json").write_bytes(b"{}")
        place, target = Path("mine", name), strange / name
        place.rename("away")
        place.symlink_to(target if name != "runs" else strange)

        ledger = Ledger("mine")
        with pytest.raises(OSError, match="is a link, and simkit writes through none"):
            ledger.close([RunEntry("x", "passed")], [])

        assert (strange / "last.json").read_bytes() == b"{}"
        assert [file.name for file in (strange / "traces").iterdir()] == ["a.jsonl"]
        for tree in ("strange", "mine", "away"):
            _remove(cwd / tree)


def _remove(tree: Path) -> None:
    if tree.is_dir() and not tree.is_symlink():
        for path in tree.iterdir():
            _remove(path)
        tree.rmdir()
    else:
        tree.unlink(missing_ok=True)


def test_what_an_earlier_version_stored_is_read() -> None:
    text = b'{"version":1,"scenarios":[{"id":"a","outcome":"passed"}],"failed":[]}'

    from simkit.report.last_run import Last

    assert msgspec.json.decode(text, type=Last).unkept == 0
