"""`pytest --simkit-html`, from outside: one page of all processes, linked from each failure."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.desk import BROKEN, FAILS, HOLDS, install, write

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    install(pytester, monkeypatch)


def scenarios_of(file: Path) -> dict[str, dict[str, Any]]:
    """The scenarios of a page by their names."""
    html = file.read_text(encoding="utf-8")
    data = json.loads(html.partition('id="data">')[2].partition("</script>")[0])
    index = json.loads(zlib.decompress(base64.b64decode(data["index"])))
    return {scenario["name"]: scenario for scenario in index["scenarios"]}


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_every_scenario_is_on_the_page_and_a_failure_names_its_place(
    pytester: pytest.Pytester, processes: str
) -> None:
    write(pytester, holds=HOLDS, late=FAILS, x=BROKEN)

    result = pytester.runpytest_subprocess(processes, "--simkit-html", "report.html")

    result.stdout.fnmatch_lines(["simkit: wrote report.html with 3 scenarios"])
    scenarios = scenarios_of(pytester.path / "report.html")
    assert {name: scenario["outcome"] for name, scenario in scenarios.items()} == {
        "the clerk answers": "held",
        "the clerk is late": "failed",
        "nobody knows the clerk": "broken",
    }
    links = re.findall(r"^report\.html#(\S+)$", result.stdout.str(), re.MULTILINE)
    assert sorted(links) == sorted(
        scenarios[name]["key"] for name in ("the clerk is late", "nobody knows the clerk")
    )


@pytest.mark.parametrize("option", ["--simkit-html", "--simkit-coverage-html"])
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("nowhere/report.html", "there is no folder nowhere"),
        (".", ". is a folder"),
        ("holds.scenario.yaml", "holds.scenario.yaml is there, is no report, and is not *"),
    ],
)
def test_a_place_where_no_file_can_be_is_an_error_before_anything_runs(
    pytester: pytest.Pytester, option: str, file: str, text: str
) -> None:
    write(pytester, holds=HOLDS)

    result = pytester.runpytest_subprocess(option, file)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {option}: {text}"])


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_the_summary_of_a_step_has_a_picture_of_each_failed_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    hostile = FAILS.replace("user: Hello", 'user: "a ``` b; end%%{x}"')
    write(pytester, holds=HOLDS, late=FAILS, hostile=hostile)

    pytester.runpytest_subprocess(processes)

    text = (pytester.path / "summary.md").read_text(encoding="utf-8")
    pictures = re.findall(r"^```mermaid\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(pictures) == 2
    assert (
        "sequenceDiagram\n    actor user\n    participant a0 as clerk\n    user->>a0: 1. Hello\n"
        "    Note over a0: ✗ a finding in turn 1\n    a0->>user: Good day.\n"
    ) in pictures
    assert not any("`" in picture or ";" in picture for picture in pictures)
