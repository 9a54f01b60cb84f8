"""What a workflow is told: where annotations point, what the summary holds, and no secrets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simkit.core.errors import TraceError
from simkit.report.diffs import (
    BYTES_MAX,
    add_summary,
    artifacts_address,
    traces_in,
    workflow_commands,
)
from simkit.report.results import Result

BROKEN = Result("a.scenario.yaml", "a.scenario.yaml", 3, "", "broken", error="no key hunter22-xx")


pytestmark = pytest.mark.usefixtures("cwd")


@pytest.mark.parametrize(
    ("workspace", "file"),
    [
        (".", "a.scenario.yaml"),
        ("..", "in/a.scenario.yaml"),
        ("other", "a.scenario.yaml"),
        ("", "a.scenario.yaml"),
    ],
)
def test_annotations_point_into_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workspace: str, file: str
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    environment = {"GITHUB_WORKSPACE": str((tmp_path / "in" / workspace).resolve())}
    if not workspace:
        environment = {}

    (command,) = workflow_commands([BROKEN], environment)

    assert command == f"::error file={file},line=3,title=a.scenario.yaml::no key hunter22-xx"


def test_secrets_are_in_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter22-xx")
    environment = {"GITHUB_STEP_SUMMARY": "summary.md"}

    text = "".join(workflow_commands([BROKEN], environment))
    note = add_summary([BROKEN], environment)

    assert note == ""
    assert "no key [redacted:env]" in text
    assert "no key [redacted:env]" in Path("summary.md").read_text(encoding="utf-8")


WORKFLOW_RUN = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "shop/agents",
    "GITHUB_RUN_ID": "123",
}


def test_the_summary_says_where_the_page_is_and_where_it_shows_a_failure() -> None:
    failing = Result("a.scenario.yaml::late", "a.scenario.yaml", 3, "late", "broken", error="no")

    add_summary([failing], {**WORKFLOW_RUN, "GITHUB_STEP_SUMMARY": "summary.md"}, page="r.html")

    text = Path("summary.md").read_text(encoding="utf-8")
    address = "https://github.com/shop/agents/actions/runs/123#artifacts"
    assert (
        "The page of these runs is `r.html`, if the workflow uploads it: "
        f"[artifacts of this run]({address}).\n"
    ) in text
    assert re.search(r"\*\*`a.scenario.yaml::late`\*\* at `r.html#a-late-[0-9a-f]{8}`", text)


def test_without_a_page_the_summary_has_no_link() -> None:
    add_summary([BROKEN], {**WORKFLOW_RUN, "GITHUB_STEP_SUMMARY": "summary.md"})

    assert "artifacts" not in Path("summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_SERVER_URL", ""),
        ("GITHUB_RUN_ID", ""),
        ("GITHUB_RUN_ID", "1) [x](https://elsewhere"),
        ("GITHUB_REPOSITORY", "shop"),
        ("GITHUB_SERVER_URL", "javascript:alert(1)//"),
    ],
)
def test_an_address_that_is_not_whole_is_none(name: str, value: str) -> None:
    assert artifacts_address({**WORKFLOW_RUN, name: value}) == ""


def test_a_summary_is_added_to_what_is_there() -> None:
    Path("summary.md").write_text("before\n", encoding="utf-8")

    add_summary([BROKEN], {"GITHUB_STEP_SUMMARY": "summary.md"})

    lines = Path("summary.md").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["before", "## simkit: 1 scenario, 1 error"]


def test_a_summary_never_grows_beyond_what_github_takes() -> None:
    summary = Path("summary.md")
    summary.write_text("x" * (BYTES_MAX - 100), encoding="utf-8")

    add_summary([BROKEN], {"GITHUB_STEP_SUMMARY": "summary.md"})
    full = summary.stat().st_size
    add_summary([BROKEN], {"GITHUB_STEP_SUMMARY": "summary.md"})

    assert BYTES_MAX - 100 < full <= BYTES_MAX + 70
    assert summary.read_text(encoding="utf-8").endswith("than the summary of a step can hold\n")
    assert summary.stat().st_size <= BYTES_MAX + 140


def test_without_a_summary_nothing_is_written(tmp_path: Path) -> None:
    assert add_summary([BROKEN], {}) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_cannot_be_written_is_said() -> None:
    assert add_summary([BROKEN], {"GITHUB_STEP_SUMMARY": "no/summary.md"}) == (
        "the summary is not written: no/summary.md: No such file or directory"
    )


@pytest.mark.parametrize("base", ["base/.simkit/traces", "base/.simkit", "base"])
def test_a_base_is_a_folder_of_traces_or_holds_one(base: str) -> None:
    traces = Path("base/.simkit/traces")
    traces.mkdir(parents=True)
    (traces / "a.jsonl").touch()

    assert traces_in(base) == traces


def test_a_base_without_traces_is_an_error() -> None:
    with pytest.raises(TraceError) as raised:
        traces_in("base")

    assert str(raised.value) == "base: there is no trace in this folder, no file `*.jsonl`"


def test_the_folder_of_this_runs_traces_is_no_base() -> None:
    Path(".simkit/traces").mkdir(parents=True)
    Path(".simkit/traces/a.jsonl").touch()

    with pytest.raises(TraceError) as raised:
        traces_in(".simkit")

    assert str(raised.value) == (
        ".simkit: this run would write its own traces there\n"
        "  Copy the folder before, and name the copy."
    )
