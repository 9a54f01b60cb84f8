"""The pytest plugin, from outside: every test is a run of pytest in a new process."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.desk import (
    BROKEN,
    FAILS,
    HOLDS,
    ROOT,
    SEVERAL,
    collected,
    install,
    named,
    report_of,
    write,
)
from tests.processes import run_python


@pytest.fixture(autouse=True)
def _installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    install(pytester, monkeypatch)


@pytest.mark.slow
def test_every_scenario_and_every_row_is_an_item(pytester: pytest.Pytester) -> None:
    rows = named(
        HOLDS.replace("the clerk answers", "asked in ${column.town}"),
        "examples: [{town: Berlin}, {town: Oslo}]",
    )
    numbered = named(HOLDS, "examples: [{a: 1}, {a: 2}]")
    write(pytester, a__several=SEVERAL, a__rows=f"{rows}---\n{numbered}", b__several=SEVERAL)

    result = pytester.runpytest_subprocess("--collect-only", "-q")

    assert collected(result) == [
        "a/rows.scenario.yaml::asked in Berlin",
        "a/rows.scenario.yaml::asked in Oslo",
        "a/rows.scenario.yaml::the clerk answers [1]",
        "a/rows.scenario.yaml::the clerk answers [2]",
        "a/several.scenario.yaml::first",
        "a/several.scenario.yaml::second",
        "a/several.scenario.yaml::third",
        "b/several.scenario.yaml::first",
        "b/several.scenario.yaml::second",
        "b/several.scenario.yaml::third",
    ]


@pytest.mark.slow
def test_items_run_in_one_process_and_in_several(pytester: pytest.Pytester) -> None:
    write(pytester, a__several=SEVERAL, b__several=SEVERAL, fails=FAILS)

    alone = pytester.runpytest_subprocess()
    spread = pytester.runpytest_subprocess("-n2")

    alone.assert_outcomes(passed=6, failed=1)
    spread.assert_outcomes(passed=6, failed=1)
    assert report_of(spread, "the clerk is late").splitlines()[1:] == (
        report_of(alone, "the clerk is late").splitlines()
    )


@pytest.mark.slow
def test_a_failure_shows_the_findings_and_how_to_see_them_again(pytester: pytest.Pytester) -> None:
    write(pytester, scenarios__late=FAILS)

    result = pytester.runpytest_subprocess()

    assert report_of(result, "the clerk is late") == (
        "scenarios/late.scenario.yaml:7:21: reply does not match (turn 1)\n"
        "    expect: {reply: Good evening.}\n"
        '  wanted "Good evening.", found "Good day."\n'
        "  the last run with an output is clerk's\n"
        "\n"
        "    turn  time  agent  sent  tokens  dropped  answered   state written\n"
        "    ----  ----  -----  ----  ------  -------  ---------  -------------\n"
        "       1  0 ms  user                          Hello      messages\n"
        "          0 ms  clerk     2       6        0  Good day.  messages\n"
        "\n"
        "reproduce: simkit replay 'scenarios/late.scenario.yaml::the clerk is late' --seed 0"
    )


@pytest.mark.slow
def test_the_seed_of_the_command_line_is_the_one_to_reproduce_with(
    pytester: pytest.Pytester,
) -> None:
    write(pytester, late=named(FAILS, "seed: 5"))

    own = pytester.runpytest_subprocess()
    other = pytester.runpytest_subprocess("--simkit-seed", "8127")

    assert report_of(own, "the clerk is late").endswith("--seed 5")
    assert report_of(other, "the clerk is late").endswith("--seed 8127")


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_a_collection_error(pytester: pytest.Pytester) -> None:
    write(pytester, holds=HOLDS, torn=HOLDS.replace("pipeline: desk", "\tpipeline: desk"))

    result = pytester.runpytest_subprocess()

    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert report_of(result, "ERROR collecting torn.scenario.yaml") == (
        "torn.scenario.yaml:3:1: a tab cannot indent or separate\n  use spaces"
    )


@pytest.mark.slow
def test_a_scenario_that_cannot_be_run_fails_with_the_sentence_alone(
    pytester: pytest.Pytester,
) -> None:
    write(pytester, x=BROKEN)

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(failed=1)
    assert report_of(result, "nobody knows the clerk") == (
        "x.scenario.yaml:6:15: unknown agent `clerc`\n"
        "  at turns[0].replies.clerc\n"
        "  did you mean `clerk`?   known: clerk, manager"
    )


@pytest.mark.slow
def test_a_scenario_is_skipped_with_its_reason_even_if_it_is_broken(
    pytester: pytest.Pytester,
) -> None:
    write(pytester, x=named(BROKEN, "skip: waits for the clerk"))

    result = pytester.runpytest_subprocess("-rs")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] x.scenario.yaml: waits for the clerk"])


@pytest.mark.slow
def test_a_scenario_whose_needs_are_not_met_is_skipped_unless_they_must_be(
    pytester: pytest.Pytester,
) -> None:
    write(pytester, x=named(HOLDS, "needs: [pytest, 'own-kit>=1.2']"))
    reason = "needs own-kit>=1.2, which is not installed: pip install 'own-kit>=1.2'"

    skipped = pytester.runpytest_subprocess("-rs")
    failed = pytester.runpytest_subprocess("--simkit-needs-met")

    skipped.assert_outcomes(skipped=1)
    skipped.stdout.fnmatch_lines([f"SKIPPED [[]1[]] x.scenario.yaml: {reason}"])
    failed.assert_outcomes(failed=1)
    assert report_of(failed, "the clerk answers") == f"x.scenario.yaml:4:8: {reason}\n  at needs"


@pytest.mark.slow
def test_needs_that_are_met_or_no_requirements_are_run(pytester: pytest.Pytester) -> None:
    write(pytester, a=named(HOLDS, "needs: [pytest]"), b=named(HOLDS, "needs: [own kit]"))

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["b.scenario.yaml:4:9: `own kit` is no distribution with versions"])


@pytest.mark.slow
def test_xfail_excuses_findings_and_nothing_else(pytester: pytest.Pytester) -> None:
    known, lenient = "xfail: known since May", "xfail: {reason: flaky, strict: false}"
    write(
        pytester,
        a=named(FAILS, known),
        b=named(HOLDS, known),
        c=named(HOLDS, lenient),
        d=named(BROKEN, known),
    )

    result = pytester.runpytest_subprocess("-rxX")

    result.assert_outcomes(xfailed=1, xpassed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*XPASS(strict)* known since May",
            "d.scenario.yaml:*: unknown agent `clerc`",
            "XFAIL a.scenario.yaml::the clerk is late - known since May",
            "XPASS c.scenario.yaml::the clerk answers - flaky",
        ],
        consecutive=False,
    )


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-s",)])
def test_code_that_ends_the_process_does_not_end_the_tests_as_passed(
    options: tuple[str, ...], pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(leaving="import os\n\n\ndef leave(message):\n    os._exit(0)\n")
    pytester.path.joinpath("a.scenario.yaml").write_text(
        "scenario: it leaves\npipeline: leaving:leave\napp: {path: [.]}\nturns: [{user: hi}]\n",
        encoding="utf-8",
    )

    result = pytester.runpytest_subprocess(*options)

    assert result.ret == 2
    result.stderr.fnmatch_lines(["*leaving.py:5: the code under test called os._exit(0)*"])


@pytest.mark.slow
def test_tags_are_marks_also_where_markers_are_strict(pytester: pytest.Pytester) -> None:
    write(pytester, a=named(HOLDS, "tags: [slow, late-night]"), b=HOLDS)
    arguments = ("--strict-markers", "--collect-only", "-q")

    slow = pytester.runpytest_subprocess(*arguments, "-m", "slow and late-night")
    rest = pytester.runpytest_subprocess(*arguments, "-m", "not slow")

    assert collected(slow) == ["a.scenario.yaml::the clerk answers"]
    assert collected(rest) == ["b.scenario.yaml::the clerk answers"]


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["skip", "_own"])
def test_a_tag_that_means_something_to_pytest_is_refused(
    pytester: pytest.Pytester, tag: str
) -> None:
    write(pytester, a=named(HOLDS, f"tags: [{tag}]"))

    result = pytester.runpytest_subprocess()

    assert report_of(result, "ERROR collecting a.scenario.yaml") == (
        f"a.scenario.yaml:1:1: '{tag}' cannot be a tag of scenario 'the clerk answers'\n"
        "  Tags become marks of pytest, whose own marks and names that start with `_` are taken."
    )


@pytest.mark.slow
def test_items_are_selected_by_word_and_by_node_id(pytester: pytest.Pytester) -> None:
    write(pytester, a=SEVERAL, b=HOLDS)
    arguments = ("--collect-only", "-q")

    by_word = pytester.runpytest_subprocess(*arguments, "-k", "second or answers")
    by_id = pytester.runpytest_subprocess(*arguments, "a.scenario.yaml::third")

    assert collected(by_word) == ["a.scenario.yaml::second", "b.scenario.yaml::the clerk answers"]
    assert collected(by_id) == ["a.scenario.yaml::third"]


@pytest.mark.slow
def test_a_run_can_stop_at_the_first_failure_and_repeat_it_alone(pytester: pytest.Pytester) -> None:
    write(pytester, a=f"{HOLDS}---\n{FAILS}", b=HOLDS)

    stopped = pytester.runpytest_subprocess("-x")
    again = pytester.runpytest_subprocess("--lf")

    stopped.assert_outcomes(passed=1, failed=1)
    again.assert_outcomes(failed=1, deselected=0)


@pytest.mark.slow
def test_junit_tells_the_file_the_name_and_the_findings(pytester: pytest.Pytester) -> None:
    write(pytester, scenarios__late=FAILS)

    pytester.runpytest_subprocess("--junitxml=junit.xml")

    case = ElementTree.parse(pytester.path / "junit.xml").getroot().find(".//testcase")
    assert case is not None
    failure = case.find("failure")
    assert failure is not None
    assert (case.get("classname"), case.get("name")) == (
        "scenarios.late.scenario.yaml",
        "the clerk is late",
    )
    assert 'wanted "Good evening.", found "Good day."' in (failure.text or "")


@pytest.mark.slow
def test_warnings_fail_nothing_and_are_counted(pytester: pytest.Pytester) -> None:
    vacuous = HOLDS.replace(
        "reply: Good day.", "reply: Good day., context: {clerk: {excludes: [{$contains: pizza}]}}"
    )
    write(pytester, a=vacuous, b=HOLDS)

    result = pytester.runpytest_subprocess("-W", "error", "-rA")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "*Captured simkit warnings call*",
            "a.scenario.yaml:7:*: warning RUN-03: *",
            "simkit: 1 warning in 1 scenario; -rA shows them",
        ]
    )


@pytest.mark.slow
def test_a_lint_turned_off_is_in_the_report(pytester: pytest.Pytester) -> None:
    write(pytester, a=named(HOLDS, "lints: {RUN-03: the claim is a reminder}"))

    result = pytester.runpytest_subprocess("-rA")

    result.stdout.fnmatch_lines(
        ["*Captured simkit lints turned off call*", "RUN-03: the claim is a reminder"]
    )


@pytest.mark.slow
def test_other_files_are_never_read(pytester: pytest.Pytester) -> None:
    for name in ("a.yaml", "scenario.yaml", "b.scenario.yml", "c.scenario.yaml.bak", "d.yml"):
        (pytester.path / name).write_text("\tno: [YAML", encoding="utf-8")

    result = pytester.runpytest_subprocess(".", "a.yaml", "--collect-only", "-q")

    assert collected(result) == []
    assert "no tests" in result.stdout.str()


@pytest.mark.slow
def test_the_cache_of_pytest_can_be_left_out(pytester: pytest.Pytester) -> None:
    write(pytester, a=HOLDS)

    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_file_is_read_once_for_all_its_items(pytester: pytest.Pytester) -> None:
    write(pytester, a=SEVERAL, b=SEVERAL)
    pytester.makeconftest(
        """
        import simkit.language.yaml.documents as documents

        reads = []
        read = documents.read
        documents.read = lambda path: reads.append(path) or read(path)

        def pytest_sessionfinish():
            print("read:", sorted(reads))
        """
    )

    result = pytester.runpytest_subprocess("-s")

    result.assert_outcomes(passed=6)
    files = "['a.scenario.yaml', 'b.scenario.yaml', 'desk.pipeline.yaml']"
    result.stdout.fnmatch_lines([f"*read: {files.replace('[', '[[]', 1)}"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "loaded"),
    [({}, []), ({"a": HOLDS}, ["msgspec", "yaml"])],
    ids=["no scenario", "a scenario, collected"],
)
def test_what_is_not_needed_yet_is_not_loaded(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    loaded: list[str],
) -> None:
    write(pytester, **files)
    pytester.makeconftest(
        """
        import sys

        def pytest_sessionfinish():
            heavy = {"click", "msgspec", "pydantic", "tabulate", "vcr", "yaml"}
            print("loaded:", sorted(heavy & set(sys.modules)))
        """
    )

    # Plugins of others, which may load pydantic, are left out: this is about ours.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_subprocess("-p", "simkit.pytest_plugin", "-s", "--collect-only")

    result.stdout.fnmatch_lines([f"*loaded: [[]{str(loaded)[1:]}"])


@pytest.mark.slow
@pytest.mark.parametrize("others", [False, True], ids=["scenarios alone", "beside a test"])
def test_the_collector_leaves_out_what_scenarios_load_where_no_fixture_can_be_in_it(
    pytester: pytest.Pytester, others: bool
) -> None:
    write(pytester, a=HOLDS)
    if others:
        pytester.makepyfile("def test_other(): pass")
    pytester.makeconftest(
        """
        import gc

        def pytest_sessionfinish():
            print("left out:", gc.get_freeze_count() > 10_000, gc.isenabled())
        """
    )

    result = pytester.runpytest_subprocess("-s")

    result.assert_outcomes(passed=2 if others else 1)
    result.stdout.fnmatch_lines([f"*left out: {not others} True"])


def test_importing_the_plugin_costs_pytest_nothing_to_speak_of() -> None:
    report = "import sys, pytest; had = set(sys.modules); import simkit.pytest_plugin; " + (
        "print(sorted(set(sys.modules) - had))"
    )

    done = run_python("-c", report, folder=ROOT)

    assert done.stdout.strip() == "['simkit', 'simkit.pytest_plugin']"


@pytest.mark.slow
def test_what_pytest_does_not_find_is_told_with_what_was_near(pytester: pytest.Pytester) -> None:
    write(pytester, a=SEVERAL)
    pytester.path.joinpath("desk.feature").write_text("Feature: The desk\n", encoding="utf-8")

    result = pytester.runpytest_subprocess("desk.feature", "a.scenario.yaml::secnd")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    feature = "desk.feature: pytest runs a feature through a module. Save this as test_desk.py"
    assert feature in result.stderr.str()
    name = "there is no scenario 'secnd'; did you mean `second`? known: first, second, third"
    assert name in result.stderr.str()


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--simkit-hmtl=x", "is no option `--simkit-hmtl`; did you mean `--simkit-html`? known:"),
        ("--simkit-seed=abc", "--simkit-seed: must be a whole number, not 'abc'"),
        ("--simkit-runs=0", "--simkit-runs: must be a whole number of at least 1, not '0'"),
    ],
)
def test_a_wrong_option_is_told_with_what_was_near(
    pytester: pytest.Pytester, option: str, text: str
) -> None:
    result = pytester.runpytest_inprocess(option)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert text in result.stderr.str()
