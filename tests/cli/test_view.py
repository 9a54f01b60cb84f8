"""`simkit view`, `replay --html` and `graph`, from outside."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.projects import Call
from tests.desk import FAILS, HOLDS, PIPELINE

pytestmark = pytest.mark.slow

DRAWN = PIPELINE.replace("clerk: {", "clerk: {handoffs: [manager], ")


@pytest.fixture(autouse=True)
def _desk(project: Path) -> None:
    Path("scenarios/good.scenario.yaml").unlink()
    for file in ("desk.pipeline.yaml", "scenarios/desk.pipeline.yaml"):
        Path(file).write_text(DRAWN, encoding="utf-8")
    Path("scenarios/holds.scenario.yaml").write_text(HOLDS, encoding="utf-8")
    Path("scenarios/late.scenario.yaml").write_text(FAILS, encoding="utf-8")


def index_of(file: str) -> dict[str, Any]:
    """The first part of a page's data."""
    html = Path(file).read_text(encoding="utf-8")
    data = json.loads(html.partition('id="data">')[2].partition("</script>")[0])
    index: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(data["index"])))
    return {**index, "stored_runs": len(data["runs"])}


def outcomes(file: str) -> dict[str, str]:
    return {scenario["name"]: scenario["outcome"] for scenario in index_of(file)["scenarios"]}


def test_the_last_run_is_shown(simkit: Call) -> None:
    simkit("replay", "-q")

    done = simkit("view", "--no-open")

    assert done.code == 0
    assert done.out == "2 scenarios: wrote .simkit/report.html\n"
    assert outcomes(".simkit/report.html") == {
        "the clerk answers": "held",
        "the clerk is late": "failed",
    }
    assert index_of(".simkit/report.html")["stored_runs"] == 2


def test_replay_writes_the_same_page_and_keeps_its_own_exit_code(simkit: Call) -> None:
    done = simkit("replay", "-q", "--html", "report.html")
    simkit("view", "--no-open")

    assert done.code == 1
    assert "wrote report.html\n" in done.err
    page, other = index_of("report.html"), index_of(".simkit/report.html")
    for name in ("key", "name", "outcome", "digest", "findings", "agents", "tokens"):
        assert [s.get(name) for s in page["scenarios"]] == [s.get(name) for s in other["scenarios"]]


def test_processes_give_the_same_page(simkit: Call) -> None:
    simkit("replay", "-q", "--html", "one.html")
    simkit("replay", "-q", "-j", "2", "--html", "two.html")

    assert Path("one.html").read_bytes() == Path("two.html").read_bytes()


def test_a_trace_without_its_scenario_is_shown_without_claims(simkit: Call) -> None:
    simkit("replay", "-q", "scenarios/holds.scenario.yaml")
    (trace,) = Path(".simkit/traces").iterdir()
    trace.rename("kept.jsonl")
    Path("scenarios/holds.scenario.yaml").unlink()

    done = simkit("view", "--no-open", "kept.jsonl", "-o", "report.html")

    assert done.code == 0
    assert outcomes("report.html") == {"the clerk answers": "unjudged"}


def test_a_page_of_this_folder_has_its_name(simkit: Call) -> None:
    simkit("replay", "-q", ".", "--html", "report.html")

    assert index_of("report.html")["title"] == Path.cwd().name


def test_traces_are_shown_where_nothing_ran_yet(simkit: Call) -> None:
    simkit("replay", "-q")
    shutil.move(".simkit/traces", "kept")
    shutil.rmtree(".simkit")

    done = simkit("view", "--no-open", "kept")

    assert (done.code, done.err) == (0, "")
    assert index_of(".simkit/report.html")["stored_runs"] == 2
    assert Path(".simkit/.gitignore").read_text(encoding="utf-8") == "*\n"


def test_two_runs_are_shown_side_by_side(simkit: Call) -> None:
    simkit("replay", "-q")
    Path(".simkit").rename("base")
    late = FAILS.replace("Good day.", "Good night.")
    Path("scenarios/late.scenario.yaml").write_text(late, encoding="utf-8")
    simkit("replay", "-q", "--base", "base", "--html", "now.html")

    done = simkit("view", "--no-open", "--diff", "base", "-o", "report.html")

    assert done.code == 0
    index, now = index_of("report.html"), index_of("now.html")
    assert (index["sides"], now["sides"]) == (["base", "the last run"], ["base", "now"])
    differences = [[each["diff"] for each in page["scenarios"]] for page in (index, now)]
    assert differences[0] == differences[1]
    assert [scenario["diff"]["outcome"] for scenario in index["scenarios"]] == [
        "equal",
        "different",
    ]
    bases = [scenario["base"] for scenario in index["scenarios"]]
    assert index["stored_runs"] == 4
    assert sorted(scenario["run"] for scenario in (*index["scenarios"], *bases)) == [0, 1, 2, 3]
    assert [(base["outcome"], base["calls"]) for base in bases] == [("held", 1), ("failed", 1)]


def test_what_one_side_alone_has_is_shown_too(simkit: Call) -> None:
    simkit("replay", "-q")
    shutil.move(".simkit/traces", "base")
    for file in sorted(Path("base").glob("*.jsonl"))[1:]:
        file.unlink()
    simkit("replay", "-q", "scenarios/late.scenario.yaml")

    simkit("view", "--no-open", "--diff", "base", "-o", "report.html")

    new, base_only = index_of("report.html")["scenarios"]
    assert (new["diff"]["outcome"], "base" in new, new["run"]) == ("other", False, 0)
    assert (base_only["diff"]["outcome"], base_only.get("run"), base_only["base"]["run"]) == (
        "one",
        None,
        1,
    )


def test_a_page_that_cannot_be_written_leaves_the_old_one(simkit: Call) -> None:
    simkit("replay", "-q")
    Path("scenarios/report.html").write_text("old", encoding="utf-8")

    done = simkit("view", "--no-open", "-o", "scenarios/report.html", "nowhere")

    assert done.code == 2
    assert Path("scenarios/report.html").read_text(encoding="utf-8") == "old"


def test_a_pipeline_gets_a_page(simkit: Call) -> None:
    for arguments, file in (((), ".simkit/graph.html"), (("-o", "desk.html"), "desk.html")):
        done = simkit("graph", "desk.pipeline.yaml", *arguments)

        assert (done.code, done.out) == (0, f"desk: wrote {file}\n")
        index = index_of(file)
        assert [node["name"] for node in index["graphs"][0]["nodes"]] == ["clerk", "manager"]
        assert index["scenarios"] == []
