"""Each module has quick tests near it, and CONTRIBUTING says which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.code_mutants import Mutant, mutants_of
from tests.near import FURTHER, ROOT, near_tests

ROW = re.compile(r"^\| `(simkit/[\w/]*)` \| ((?:`[\w/.]+`(?:, )?)+) \|$", re.MULTILINE)
MODULES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "simkit").rglob("*.py"))
OF_THE_WHOLE = {*("apps", "benchmarks", "compat", "examples", "frameworks", "oracle", "reference")}
"""Folders of tests that are not one package's: applications, and the whole from outside."""


def test_contributing_lists_the_further_tests() -> None:
    _, _, section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("### Which tests hold")

    rows = {start: re.findall(r"`(.+?)`", names) for start, names in ROW.findall(section)}
    assert rows == FURTHER
    assert [
        name for names in FURTHER.values() for name in names if not (ROOT / name).exists()
    ] == []


def test_each_module_has_tests_of_its_name_that_import_it_or_of_its_folder() -> None:
    further = {name for names in FURTHER.values() for name in names}
    lonely = [
        module
        for module in MODULES
        if not [name for name in near_tests(module) if name not in further]
    ]

    assert lonely == ["simkit/__main__.py"]


def test_folders_of_tests_mirror_packages() -> None:
    folders = {
        file.parent.relative_to(ROOT / "tests")
        for file in (ROOT / "tests").rglob("test_*.py")
        if file.parent != ROOT / "tests"
    }
    strange = [
        str(folder)
        for folder in sorted(folders)
        if folder.parts[0] not in OF_THE_WHOLE
        and not (ROOT / "simkit" / folder).is_dir()
        and folder not in (Path("vcr/suite"), Path("bdd/stories"))
    ]

    assert strange == []


def test_tests_of_the_name_come_first_then_those_that_import_the_module() -> None:
    near = near_tests("simkit/core/text.py")

    assert near[0] == "tests/core/test_text.py"
    assert near.index("tests/core/redact/test_redact.py") < near.index("tests/core")
    assert near[-2:] == ["scenarios", "features"]


def test_a_test_of_its_name_in_another_folder_counts_if_no_module_there_has_the_name() -> None:
    assert near_tests("simkit/spec/scenario/borrowed.py")[0] == "tests/explore/test_borrowed.py"
    assert "tests/spec/pipeline/test_names.py" not in near_tests("simkit/spec/scenario/names.py")


def test_an_adapter_is_tested_by_the_files_beside_its_folder_that_name_it() -> None:
    near = near_tests("simkit/adapters/openai_agents/agent_runs.py")

    assert "tests/adapters/test_approved_handoffs.py" in near
    assert "tests/adapters/test_handoffs_of_code.py" not in near


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("return a < b", ["return None", "return (a <= b)"]),
        ("a += 1", ["pass", "a += 2"]),
        ("print(a)", ["pass"]),
        ("return 1 if a and b else 0", 
         ["return None", "return 1 if (not (a and b)) else 0", "return 1 if (a or b) else 0",
          "return 2 if a and b else 0", "return 1 if a and b else 1"]),
        ("'''A docstring.'''", []),
        ("assert_never(a)", []),
    ],
)  # fmt: skip
def test_a_line_is_broken_in_each_way_that_compiles(line: str, changed: list[str]) -> None:
    source = f"def f(a, b):\n    {line}\n    return b\n"
    broken = [
        mutant.apply(source.encode()).decode().splitlines()[1].strip()
        for mutant in mutants_of("f.py", source)
        if mutant.line == 2
    ]

    assert sorted(broken) == sorted(changed)


def test_a_mutant_replaces_bytes() -> None:
    assert Mutant("f.py", 1, 2, 4, "é").apply("ü…".encode()) == "üé".encode() + "…".encode()[2:]
