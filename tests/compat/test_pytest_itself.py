"""What pytest itself can do, with scenarios: folders, names, modes, selections, broken files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.desk import BROKEN, FAILS, HOLDS, PIPELINE, SEVERAL, collected, report_of, write

TORN = HOLDS.replace("pipeline: desk", "\tpipeline: desk")
MODES = ["prepend", "append", "importlib"]
ODD = "Späti am Eck/mit leerzeichen é"
"""A folder's name as people give it."""
COUNTS = """
import sys

calls, opened = 0, []

def count(frame, event, _argument):
    global calls
    if event == "call" and "simkit" in frame.f_code.co_filename:
        calls += 1

def note(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".scenario.yaml"):
        opened.append(str(arguments[0]))

def pytest_collection():
    sys.addaudithook(note)
    sys.setprofile(count)

def pytest_collection_finish(session):
    sys.setprofile(None)
    print(f"items={len(session.items)} calls={calls} opened={len(opened)} files={len(set(opened))}")
"""


@pytest.mark.slow
def test_collecting_ten_thousand_items_is_linear_and_reads_each_file_once(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(COUNTS)
    counts = []
    for folder, files in (("few", 10), ("many", 100)):
        for file in range(files):
            text = "---\n".join(HOLDS.replace("the clerk", f"clerk {n}") for n in range(100))
            write(pytester, **{f"{folder}__f{file}": text})
        result = pytester.runpytest_subprocess("-s", "--collect-only", "-qq", folder)
        line = next(line for line in result.outlines if line.startswith("items="))
        counts.append({k: int(v) for k, v in (part.split("=") for part in line.split())})

    few, many = counts
    assert (few["items"], few["opened"], few["files"]) == (1_000, 10, 10)
    assert (many["items"], many["opened"], many["files"]) == (10_000, 100, 100)
    assert many["calls"] <= 10 * few["calls"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_import_mode_finds_scenarios_features_and_their_functions(
    pytester: pytest.Pytester, mode: str
) -> None:
    for folder in ("a", "b"):
        write(pytester, **{f"{folder}__same": SEVERAL})
    (pytester.path / "shop.py").write_text("def check(view):\n    return True\n", encoding="utf-8")
    checked = HOLDS.replace("{reply: Good day.}", '{satisfies: "shop:check"}')
    write(pytester, checked=checked)
    # Python's own tests need different names in two of the modes; scenarios do not.
    (pytester.path / "a" / "test_one.py").write_text("def test_it(): pass\n", encoding="utf-8")
    (pytester.path / "b" / "test_two.py").write_text("def test_it(): pass\n", encoding="utf-8")

    result = pytester.runpytest_subprocess(f"--import-mode={mode}")

    result.assert_outcomes(passed=9)


@pytest.mark.slow
def test_the_rootdir_may_be_another_folder_than_the_working_directory(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]")
    write(pytester, services__coach__late=FAILS)
    monkeypatch.chdir(pytester.path / "services")

    inside = pytester.runpytest_subprocess("-v")
    outside = pytester.runpytest_subprocess("-v", "--rootdir", "coach", "coach")

    for result, node in (
        (inside, "coach/late.scenario.yaml::the clerk is late FAILED*"),
        (outside, "late.scenario.yaml::the clerk is late FAILED*"),
    ):
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([f"*{node}"])
        # What is printed can be opened and typed where one is.
        lines = report_of(result, "the clerk is late").splitlines()
        assert lines[0].startswith("coach/late.scenario.yaml:7:21: reply does not match")
        assert lines[-1] == (
            "reproduce: simkit replay 'coach/late.scenario.yaml::the clerk is late' --seed 0"
        )


@pytest.mark.slow
def test_names_with_spaces_and_letters_of_all_kinds(pytester: pytest.Pytester) -> None:
    late = FAILS.replace("the clerk is late", "Käse – zu spät ☕")
    write(pytester, **{ODD.replace("/", "__") + "__ünïcode file": f"{HOLDS}---\n{late}"})
    file = f"{ODD}/ünïcode file.scenario.yaml"

    listed = pytester.runpytest_subprocess("--collect-only", "-q", ODD)
    stopped = pytester.runpytest_subprocess("-x", "--junitxml=junit.xml", ODD)
    again = pytester.runpytest_subprocess("--lf", "-v")
    chosen = pytester.runpytest_subprocess(f"{file}::the clerk answers", "-n2")
    by_word = pytester.runpytest_subprocess("-k", "Käse and not answers", "--collect-only", "-q")

    names = [f"{file}::the clerk answers", f"{file}::Käse – zu spät ☕"]
    assert collected(listed) == names
    stopped.assert_outcomes(passed=1, failed=1)
    again.assert_outcomes(failed=1)
    chosen.assert_outcomes(passed=1)
    assert collected(by_word) == [names[1]]
    cases = ElementTree.parse(pytester.path / "junit.xml").getroot().iter("testcase")
    assert [case.get("name") for case in cases] == ["the clerk answers", "Käse – zu spät ☕"]


@pytest.mark.slow
def test_a_broken_file_stops_no_good_one_if_that_is_asked_for(pytester: pytest.Pytester) -> None:
    write(pytester, a=HOLDS, torn=TORN, x=BROKEN, z=SEVERAL)

    strict = pytester.runpytest_subprocess()
    chosen = pytester.runpytest_subprocess("a.scenario.yaml", "z.scenario.yaml")

    assert strict.ret == pytest.ExitCode.INTERRUPTED
    chosen.assert_outcomes(passed=4)
    for processes in ("-n0", "-n2"):
        lenient = pytester.runpytest_subprocess(processes, "--continue-on-collection-errors")
        lenient.assert_outcomes(passed=4, failed=1, errors=1)
        lenient.stdout.fnmatch_lines(["torn.scenario.yaml:3:1: a tab cannot indent or separate"])


@pytest.mark.slow
def test_a_users_own_collectors_stay_theirs(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        class Note(pytest.File):
            def collect(self):
                yield Line.from_parent(self, name="line")

        class Line(pytest.Item):
            def runtest(self): pass

        def pytest_collect_file(file_path, parent):
            if file_path.suffix in (".yaml", ".txt"):
                return Note.from_parent(parent, path=file_path)
        """
    )
    write(pytester, a=HOLDS)
    (pytester.path / "note.txt").touch()

    result = pytester.runpytest_subprocess("--collect-only", "-q")

    assert collected(result) == [
        "a.scenario.yaml::line",
        "a.scenario.yaml::the clerk answers",
        "desk.pipeline.yaml::line",
        "note.txt::line",
    ]


@pytest.mark.slow
def test_a_conftest_can_mark_skip_and_order_scenarios(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            items.reverse()
            items[0].add_marker(pytest.mark.skip(reason="not today"))
            items[1].add_marker("slow")

        def pytest_configure(config):
            config.addinivalue_line("markers", "slow: takes its time")
        """
    )
    write(pytester, a=SEVERAL)

    result = pytester.runpytest_subprocess("-v", "--strict-markers", "-rs", "-m", "")

    result.assert_outcomes(passed=2, skipped=1)
    ran = [line.split("::")[1].split(" [")[0].strip() for line in result.outlines if "%]" in line]
    assert ran == ["third SKIPPED (not today)", "second PASSED", "first PASSED"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "without", ["cacheprovider", "terminal", "junitxml", "capture", "logging", "warnings", "bdd"]
)
def test_pytest_may_lack_plugins_of_its_own(pytester: pytest.Pytester, without: str) -> None:
    write(pytester, a=HOLDS)

    result = pytester.runpytest_subprocess("-p", f"no:{without}", "-W", "error")

    assert result.ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_without_simkit_scenarios_are_files_like_others(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The name is that of the entry point: plugins must be found as they are installed.
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    monkeypatch.delenv("PYTEST_PLUGINS")
    write(pytester, a=HOLDS, torn=TORN)
    pytester.makepyfile("def test_it(): pass")

    result = pytester.runpytest_subprocess("-p", "no:simkit")

    result.assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_scenario_named_alone_is_run_wherever_it_is(
    pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory
) -> None:
    far = tmp_path_factory.mktemp("far")
    file = Path(far, "a.scenario.yaml")
    file.write_text(HOLDS, encoding="utf-8")
    Path(far, "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")

    result = pytester.runpytest_subprocess(str(file))

    result.assert_outcomes(passed=1)
