"""What is meant by a pipeline's name without a colon, told by the files of modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.spec.fields import is_function_name
from simkit.spec.scenario.code_names import file_of, meant_by, names_in

DESK = """
from openai import OpenAI
LIMIT = 3
client = OpenAI()
graph: Graph = Graph().compile()
def _private(text): ...
def embed(text): ...
async def ask(text): ...
class Desk: ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "a" / "b"
    package.mkdir(parents=True)
    (package / "c.py").write_text(DESK)
    (package / "__init__.py").write_text("")
    (tmp_path / "desk.py").write_text(DESK)
    (tmp_path / "broken.py").write_text("def run(:")
    return tmp_path


def test_what_a_module_defines_is_told_likely_names_first(folder: Path) -> None:
    assert names_in(folder / "desk.py") == ["graph", "ask", "embed", "Desk", "client"]


@pytest.mark.parametrize("name", ["broken.py", "nowhere.py"])
def test_a_module_that_cannot_be_read_defines_nothing(folder: Path, name: str) -> None:
    assert names_in(folder / name) == []


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("desk", "desk.py"),
        ("a.b.c", "a/b/c.py"),
        ("a.b", "a/b/__init__.py"),
        ("a", None),
        ("a.b.d", None),
        ("desk.c", None),
    ],
)
def test_a_module_is_found_by_its_folders(folder: Path, module: str, file: str | None) -> None:
    assert file_of(module, [str(folder)]) == (folder / file if file else None)


HAS = "It has: graph, ask, embed, Desk, client."


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a.b.c", f"`a.b.c` is a module. Name what it holds: `a.b.c:graph`. {HAS}"),
        ("desk", f"`desk` is a module. Name what it holds: `desk:graph`. {HAS}"),
        ("a.b.c.asc", f"Module `a.b.c` defines no `asc`. Did you mean `a.b.c:ask`? {HAS}"),
        ("desk.nothing", f"Module `desk` defines no `nothing`. {HAS}"),
        ("a.b.c.ask", ""),
        ("nowhere.ask", ""),
        ("nowhere", ""),
        ("broken", ""),
        ("json", ""),
    ],
)
def test_a_name_without_a_colon_is_told_by_what_is_there(
    folder: Path, name: str, says: str
) -> None:
    assert meant_by(name, [str(folder)]) == says


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("01_intro.app:graph", True),
        ("my-desk:run", True),
        ("a.b:c", True),
        ("-desk:run", False),
        ("desk:01", False),
        ("desk.:run", False),
        ("support/desk:run", False),
    ],
)
def test_a_module_has_whatever_name_python_can_import(text: str, is_one: bool) -> None:
    assert is_function_name(text) is is_one
