"""Starting is most of what one small scenario costs: a command loads what its scenario needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PIPELINE = """version: 1
pipeline: desk
agents:
  triage: {instructions: Choose., context: [instructions, current_message]}
  billing: {instructions: Bill., context: [instructions, history, current_message]}
flow: {router: {decide: triage, to: "${run.output.to}"}}
"""
SCENARIO = """version: 1
scenario: an order
pipeline: desk.pipeline.yaml
turns:
  - user: Where is my order?
    replies: {triage: {json: {to: billing}}, billing: It is on its way.}
    expect: {agents: [triage, billing], reply: {$contains: way}}
"""
NEEDLESS = {
    "simkit": {
        *("adapters", "capture", "testing", "update", "vcr", "pytest_plugin", "bdd"),
        *("providers.openai", "providers.anthropic", "providers.gemini", "providers.protocols"),
        *("runtime.models.recorded", "runtime.sqlite_store", "runtime.speakers"),
        *(
            "session.execution.new_process",
            "session.workers",
            "session.execution.answering",
            "cli.processes",
        ),
        *("core.determinism.installing", "core.determinism.redirecting"),
        "core.determinism.library_rng",
        *("report.diffs", "report.github_actions", "report.json"),
        *("checks.comparative_runs", "spec.json_schemas", "trace.diff"),
    },
    "standard library": {
        *("asyncio", "concurrent", "ctypes", "configparser", "http", "multiprocessing", "sqlite3"),
        *("ssl", "subprocess", "tomllib", "unittest"),
    },
    "packages": {
        *("_pytest", "aiohttp", "anthropic", "faker", "google", "httpx", "jinja2", "langgraph"),
        *("openai", "packaging", "pytest", "pytest_bdd", "regex", "tabulate", "jsonschema"),
        *("requests", "time_machine", "urllib3", "vcr"),
    },
}

MODULES_MOST = 250
"""The largest number of simkit's own modules: each takes a two-thousandth of the command."""


def loaded(folder: Path, *words: str) -> set[str]:
    """The modules that a command has loaded at its end."""
    report = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    done = subprocess.run(
        [sys.executable, "-c", f"{report}from simkit.cli import main; main({list(words)})"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stderr.split())


def test_the_replay_of_a_declared_pipeline_loads_nothing_for_code_or_recordings(
    tmp_path: Path,
) -> None:
    (tmp_path / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "desk.scenario.yaml").write_text(SCENARIO, encoding="utf-8")

    modules = loaded(tmp_path, "replay", "desk.scenario.yaml")

    assert "simkit.runtime.kernel" in modules
    needless = {f"simkit.{name}" for name in NEEDLESS["simkit"]}
    needless |= NEEDLESS["standard library"] | NEEDLESS["packages"]
    assert sum(name.startswith("simkit.") for name in modules) <= MODULES_MOST
    assert not {
        name for name in modules if any(f"{name}.".startswith(f"{other}.") for other in needless)
    }
