"""simkit beside other plugins, each loaded by its name and alone; and beside all of them."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from xml.etree import ElementTree

import pytest

from tests.conftest import sample_by_day
from tests.desk import FAILS, HOLDS, ROOT, SEVERAL, named, write

PYTHON = """\
version: 1
pipeline: shop
agents: {a: {instructions: Say., tools: [price]}}
tools: {price: {function: "shop:price"}}
flow: {handoffs: {start: a}}
---
version: 1
scenario: the price
pipeline: shop
turns: [{user: hi, replies: {a: [calls: {price: {}}, done]}, expect: {tool_calls: [{result: 3}]}}]
"""
FEATURE = """\
Feature: The desk
  Scenario: The clerk greets
    Given the pipeline "desk.pipeline.yaml"
    When the user says "Hello"
    And the clerk replies "Good day."
    Then the reply is "Good day."
"""
BINDING = "from pytest_bdd import scenarios\nfrom simkit.bdd import *\nscenarios('.')\n"


@pytest.fixture
def only(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The folder, in which pytest loads no plugin but those that are named."""
    monkeypatch.delenv("PYTEST_PLUGINS")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p simkit.pytest_plugin")
    return pytester


def digests(pytester: pytest.Pytester) -> dict[str, str | None]:
    """The digest of each scenario's run, as JUnit tells it."""
    cases = ElementTree.parse(pytester.path / "junit.xml").getroot().iter("testcase")
    return {
        f"{case.get('classname')} {case.get('name')}": result.get("value")
        for case in cases
        for result in case.iter("property")
        if result.get("name") == "simkit.digest"
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", sample_by_day(["load", "loadscope", "loadfile", "loadgroup", "worksteal"], 4)
)
def test_xdist_distributes_scenarios_in_every_way(only: pytest.Pytester, how: str) -> None:
    write(only, a__several=SEVERAL, b__several=SEVERAL, fails=FAILS)

    result = only.runpytest_subprocess("-p", "xdist", "-n2", "--dist", how)

    result.assert_outcomes(passed=6, failed=1)


@pytest.mark.slow
def test_xdist_gives_every_process_all_scenarios_if_asked(only: pytest.Pytester) -> None:
    write(only, a=SEVERAL)

    result = only.runpytest_subprocess("-p", "xdist", "-n2", "--dist=each")

    result.assert_outcomes(passed=6)


@pytest.mark.slow
def test_randomly_shuffles_scenarios_and_changes_no_run(only: pytest.Pytester) -> None:
    fake = named(HOLDS.replace("user: Hello", 'user: "${fake.name}"'), "seed: 3")
    write(only, a=SEVERAL, b=SEVERAL, c=fake)
    orders, results = [], []
    for seed in ("1", "2"):
        arguments = ("-p", "pytest_randomly", f"--randomly-seed={seed}")
        result = only.runpytest_subprocess(*arguments, "-v", "--junitxml=junit.xml")
        result.assert_outcomes(passed=7)
        orders.append([line.split(" PASSED")[0] for line in result.outlines if " PASSED" in line])
        results.append(digests(only))

    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
    assert results[0] == results[1]
    assert len(results[0]) == 7


@pytest.mark.slow
def test_asyncio_runs_coroutines_beside_scenarios(only: pytest.Pytester) -> None:
    (only.path / "shop.py").write_text("async def price():\n    return 3\n", encoding="utf-8")
    write(only, a=HOLDS, shop=PYTHON)
    only.makepyfile("async def test_it(): pass")

    result = only.runpytest_subprocess(
        "-p", "pytest_asyncio.plugin", "-o", "asyncio_mode=auto", "-W", "error",
        "-o", "asyncio_default_fixture_loop_scope=function",
    )  # fmt: skip

    result.assert_outcomes(passed=3)


@pytest.mark.slow
def test_cov_measures_what_scenarios_call(only: pytest.Pytester) -> None:
    (only.path / "shop.py").write_text("def price():\n    return 3\n", encoding="utf-8")
    write(only, shop=PYTHON)

    alone = only.runpytest_subprocess("-p", "pytest_cov", "--cov=shop")
    spread = only.runpytest_subprocess("-p", "pytest_cov", "-p", "xdist", "-n2", "--cov=shop")

    for result in (alone, spread):
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["shop.py * 2 * 0 * 100%"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    ["--record-mode=none", "--record-mode=rewrite --block-network", "--disable-recording"],
)
def test_recording_keeps_its_options_and_records_nothing_of_scenarios(
    only: pytest.Pytester, options: str
) -> None:
    write(only, a=HOLDS)
    only.makepyfile("import pytest\n\n@pytest.mark.vcr\ndef test_it(): pass\n")

    result = only.runpytest_subprocess("-p", "pytest_recording.plugin", *options.split())

    result.assert_outcomes(passed=2)
    assert list(only.path.rglob("cassettes/*scenario*")) == []


@pytest.mark.slow
def test_all_plugins_that_are_installed_together(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    monkeypatch.delenv("PYTEST_PLUGINS")
    write(pytester, a=SEVERAL, fails=FAILS)
    (pytester.path / "desk.feature").write_text(FEATURE, encoding="utf-8")
    (pytester.path / "test_features.py").write_text(BINDING, encoding="utf-8")
    pytester.makepyfile(test_own="def test_it(): pass\nasync def test_later(): pass\n")

    result = pytester.runpytest_subprocess(
        "-n2", "--cov=.", "--record-mode=none", "-o", "asyncio_mode=auto",
        "-o", "asyncio_default_fixture_loop_scope=function", "--junitxml=junit.xml",
    )  # fmt: skip

    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["Using --randomly-seed=*", "TOTAL *"])
    assert len(digests(pytester)) == 5


def test_the_plugins_of_this_page_are_installed() -> None:
    names = {point.name for point in entry_points(group="pytest11")}

    assert names >= {"asyncio", "pytest_cov", "randomly", "recording", "xdist", "pytest-bdd"}


def test_no_option_of_simkit_can_be_one_of_another_plugin() -> None:
    source = (ROOT / "simkit" / "pytest_plugin" / "__init__.py").read_text(encoding="utf-8")

    options = re.findall(r'\badd\(\s*"(-\S+?)"', source)

    assert options
    assert [option for option in options if not option.startswith("--simkit-")] == []
