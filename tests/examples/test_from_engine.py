"""The example converter: reference system 2's files become a pipeline file that runs.

`conversions.yaml` has what is converted, `conversions.txt` the calls, what they print, what they
write, and what `simkit validate` prints about that.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from simkit.runtime.functions import same
from tests.cli.projects import Call, Done, write
from tests.golden import assert_part_is

FOLDER = Path(__file__).parent
BLOCKS = FOLDER / "agent_engine"
"""The blocks of the reference document, by their number in it; `@3` names one in a case."""
CASES = yaml.safe_load((FOLDER / "conversions.yaml").read_text(encoding="utf-8"))
GOLDEN = FOLDER / "conversions.txt"
RESULTS = dict(
    part.split("\n", 1)
    for part in GOLDEN.read_text(encoding="utf-8").removeprefix("=== ").split("\n=== ")
)


def text_of(content: str) -> str:
    """The text itself, or the block that it names."""
    if not content.startswith("@"):
        return content
    return (BLOCKS / f"{content[1:]}.yaml").read_text(encoding="utf-8")


def texts() -> dict[Path, str]:
    """Every file below the working directory."""
    return {path: path.read_text(encoding="utf-8") for path in Path().rglob("*") if path.is_file()}


@pytest.mark.golden
@pytest.mark.parametrize("name", CASES)
def test_files_are_converted(convert: Call, simkit: Call, name: str) -> None:
    for file, content in CASES[name]["files"].items():
        write(file, text_of(content))
    before = texts()

    done = convert(*CASES[name]["arguments"])

    lines = [f"$ from_engine {' '.join(CASES[name]['arguments'])}", done.out + done.err]
    for path, text in sorted(texts().items() - before.items()):
        verdict = simkit("validate", str(path))
        lines += [f"--- {path}", text]
        lines += [f"$ simkit validate {path}", verdict.err + verdict.out]
    assert_part_is(GOLDEN, RESULTS[name], "\n".join([*lines, f"exit code {done.code}"]))


def test_the_converted_workflow_runs(convert: Call, simkit: Call) -> None:
    write("config/workflow.yaml", text_of("@3"))
    write("module.scenario.yaml", (BLOCKS / "module.yaml").read_text(encoding="utf-8"))

    convert("config")

    assert simkit("replay", "-q", "module.scenario.yaml") == Done(
        0, "1 scenario: 1 passed (0.00 s)\n", ""
    )


def test_a_node_that_passes_on_returns_its_input() -> None:
    assert same({"input": {"request": "x"}, "user": "y"}) == {"request": "x"}


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    convert: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("config/workflow.yaml", text_of("@3"))
    link = os.link

    def late(source: Path, target: str) -> None:
        write(target, "mine\n")
        link(source, target)

    monkeypatch.setattr("os.link", late)

    done = convert("config")

    assert done.err.startswith("config.pipeline.yaml: the file is there already")
    assert Path("config.pipeline.yaml").read_text(encoding="utf-8") == "mine\n"
    assert sorted(os.listdir()) == ["config", "config.pipeline.yaml", "scenarios"]
