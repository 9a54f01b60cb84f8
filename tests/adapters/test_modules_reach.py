"""Which modules a pipeline's code uses is read from its modules, without running them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simkit.adapters.modules import OwnModules, imports_by_text, reached_by
from simkit.spec.scenario.apps import App, AppOptions
from tests.adapters.running import run_app


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, text: str, **others: str) -> None:
    """Write the module `reach_app` and others, and import it."""
    for name, source in {"reach_app": text, **others}.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    importlib.invalidate_caches()
    importlib.import_module("reach_app")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def run(text): return text.upper()", False),
        ("import importlib\nrun = lambda text: importlib.import_module(text)", True),
        ("class A:\n    def run(self, text): return [lambda: eval(text)]", True),
    ],
)
def test_code_that_may_import_by_a_text_is_told(folder: Path, text: str, expected: bool) -> None:
    write(folder, text)

    assert imports_by_text("reach_app") is expected


@pytest.mark.parametrize(
    "text",
    [
        "import reach_helper\n",
        "from reach_helper import helper\n",
        "def run(text):\n    import reach_helper\n    return reach_helper.helper()",
        "import reach_between\n",
    ],
    ids=["module", "function", "later", "through another"],
)
@pytest.mark.parametrize("used", ["csv", "json"])
def test_other_user_code_that_it_uses_is_read_too(folder: Path, text: str, used: str) -> None:
    write(
        folder,
        text,
        reach_helper=f"import {used}\ndef helper(): pass\n",
        reach_between="from reach_helper import helper",
    )

    assert reached_by("reach_app") & {"csv", "json"} == {used}


def test_package_is_read_whole_and_what_is_imported_meanwhile_too(folder: Path) -> None:
    package = folder / "reach_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "later.py").write_text("import csv")
    importlib.invalidate_caches()
    importlib.import_module("reach_package")

    before = "csv" in reached_by("reach_package")
    importlib.import_module("reach_package.later")

    assert (before, "csv" in reached_by("reach_package")) == (False, True)


CODE = """
def main(text):
    from namespace_outer.inner import words

    return words.SAID
"""


def test_a_folder_without_init_inside_a_package_is_no_error(tmp_path: Path) -> None:
    inner = tmp_path / "namespace_outer" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("", encoding="utf-8")
    (inner / "words.py").write_text('SAID = "Hello."\n', encoding="utf-8")
    (tmp_path / "namespace_app.py").write_text(CODE, encoding="utf-8")

    ran = run_app("namespace_app:main", "turns: [{user: Hi, expect: {reply: Hello.}}]", tmp_path)

    assert ran.judgement.findings == ()


def test_a_folder_called_as_an_imported_name_is_no_module(folder: Path) -> None:
    (folder / "data").mkdir()

    write(folder, "from reach_helper import data", reach_helper="data = 1")

    assert "reach_helper.data" in reached_by("reach_app")


def test_used_modules_are_those_that_the_entry_reaches(folder: Path) -> None:
    package = folder / "reach_app"
    package.mkdir()
    for name, text in {
        "__init__": "", "desk": "from reach_app import store", "store": "", "other": "",
        "by_text": "from importlib import import_module",
    }.items():  # fmt: skip
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    for name in ("desk", "other", "by_text"):
        importlib.import_module(f"reach_app.{name}")

    def used(entry: str) -> set[str]:
        app = App("reach", f"reach_app.{entry}:run", str(folder), AppOptions(), {})
        return set(OwnModules(app).used_names())

    assert used("desk") == {"reach_app", "reach_app.desk", "reach_app.store"}
    assert used("by_text") >= {"reach_app.other", "reach_app.store"}
