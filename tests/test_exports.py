"""What `import simkit` offers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import simkit
from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[1]
SCENARIO = """\
version: 1
pipeline: echo
agents: {a: {instructions: Say.}}
flow: {handoffs: {start: a}}
---
version: 1
scenario: it holds
pipeline: echo
seed: 3
turns: [{user: hi, replies: {a: hello}, expect: {reply: hello}}]
"""


def test_every_exported_name_is_there() -> None:
    assert {name: getattr(simkit, name) is not None for name in simkit.__all__} == dict.fromkeys(
        simkit.__all__, True
    )
    assert set(simkit.__all__) <= set(dir(simkit))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'simkit' has no attribute 'nope'"):
        _ = simkit.nope


def test_scenarios_are_loaded_and_simulated_from_python(tmp_path: Path) -> None:
    (tmp_path / "x.scenario.yaml").write_text(SCENARIO, encoding="utf-8")

    (prepared,) = simkit.load(tmp_path)
    own, other = simkit.simulate(prepared), simkit.simulate(prepared, seed=8)

    assert own.passed
    starts = [outcome.trace.events[0] for outcome in (own, other)]
    assert [getattr(start, "seed", None) for start in starts] == [3, 8]


def test_importing_simkit_loads_none_of_what_its_names_need() -> None:
    code = "import simkit, sys; print([m for m in sys.modules if m.startswith('simkit.')])"

    done = run_python("-c", code)

    assert done.stdout == "[]\n"


def test_no_package_gives_a_name_of_its_own_modules_to_something_of_another_module() -> None:
    """The import of that module, whenever it comes, would put the module in its place."""
    pairs = []
    for file in sorted((ROOT / "simkit").rglob("__init__.py")):
        package = ".".join(file.parent.relative_to(ROOT).parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                for name in (each.asname or each.name for each in node.names):
                    module = file.parent / f"{name}.py"
                    if module.is_file() and node.module not in (package, f"{package}.{name}"):
                        pairs.append(f"{package}: {name}")

    assert pairs == []
