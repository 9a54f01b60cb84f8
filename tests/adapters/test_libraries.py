"""Libraries that are missing, or of a version whose inside nobody knows, are told as such."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from simkit.adapters import framework_driver
from simkit.core import compat
from simkit.core.compat import adapter_of, extra_for, unfit
from simkit.core.errors import SourceError, Unsupported
from tests.adapters.running import run_app

ENTRY = EntryPoint("langgraph", "simkit.adapters.langgraph", "simkit.adapters")


class Simkit(Distribution):
    """simkit's own metadata, of which adapters' requirements are read."""

    def read_text(self, filename: str) -> str | None:
        return (
            "Metadata-Version: 2.1\nName: agent-simkit\nVersion: 1\n"
            "Requires-Dist: click>=8.1\n"
            "Requires-Dist: langgraph>=1.2; extra == 'dev'\n"
            "Requires-Dist: langgraph>=1.2; extra == 'langgraph'\n"
        )

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


@pytest.fixture
def entry() -> Iterator[EntryPoint]:
    entry_point = EntryPoint(ENTRY.name, ENTRY.value, ENTRY.group)
    vars(entry_point).update(dist=Simkit())
    compat.unfit.cache_clear()
    yield entry_point
    compat.unfit.cache_clear()


@pytest.fixture
def version(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The version of LangGraph that is installed."""
    texts = ["1.2.0"]
    monkeypatch.setattr(f"{compat.__name__}.metadata.version", lambda name: texts[0])
    return texts


class _Missing(MetaPathFinder):
    """Finds nothing of one package."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("langgraph", "langgraph"), ("langgraph.graph", "langgraph"), ("agents", "openai-agents"),
        ("google", "google-adk"), ("google.adk", "google-adk"), ("google.adk.agents", "google-adk"),
        ("google.genai", ""), ("pydantic_ai", "pydantic-ai"), ("myapp.langgraph", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_missing_module_of_a_framework_has_its_extra(module: str, extra: str) -> None:
    assert extra_for(module) == extra


def test_an_application_whose_framework_is_missing_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graphs_of_mine.py").write_text("import langgraph.graph\n\ngraph = 1\n")
    monkeypatch.setattr(sys, "meta_path", [_Missing("langgraph"), *sys.meta_path])
    for name in [module for module in sys.modules if module.partition(".")[0] == "langgraph"]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(SourceError) as raised:
        run_app("graphs_of_mine:graph", "turns: [{user: hi, expect: {reply: x}}]", tmp_path)

    assert str(raised.value).splitlines()[-2:] == [
        "Install 'langgraph' into this environment, or name the folder that it is in: "
        "`app: {path: [..]}`.",
        "For the framework of that name, with what simkit needs to see inside it: "
        "`pip install --upgrade 'langgraph>=1.2.3'`.",
    ]


def test_a_version_that_an_adapter_was_made_for_fits(entry: EntryPoint, version: list[str]) -> None:
    assert unfit(entry) == ""


def test_an_older_version_does_not_fit_and_says_what_does(
    entry: EntryPoint, version: list[str]
) -> None:
    version[0] = "0.6.4"

    assert unfit(entry) == (
        "langgraph 0.6.4 is installed, and simkit supports langgraph>=1.2: "
        "`pip install --upgrade 'langgraph>=1.2'`"
    )


def test_somebody_elses_adapter_says_itself_what_it_needs(version: list[str]) -> None:
    theirs = EntryPoint("crewai", "crew_simkit", "simkit.adapters")
    version[0] = "0.1"

    assert unfit(theirs) == ""
    assert adapter_of(theirs) == "crew-simkit"


def test_an_adapter_for_another_version_is_not_used(
    entry: EntryPoint, version: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    version[0] = "0.6.4"
    monkeypatch.setattr(framework_driver, "_adapters", lambda: (entry,))
    monkeypatch.setitem(sys.modules, "langgraph", ModuleType("langgraph"))

    with pytest.raises(Unsupported, match=r"langgraph 0\.6\.4 is installed"):
        list(framework_driver.loaded_adapters())


def test_an_adapter_that_cannot_be_imported_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_adapter.py").write_text("import sys\nsys.no_such_hook\n")
    monkeypatch.syspath_prepend(tmp_path)
    broken = EntryPoint("sys", "broken_adapter", "simkit.adapters")
    monkeypatch.setattr(framework_driver, "_adapters", lambda: (broken,))

    with pytest.raises(Unsupported) as raised:
        list(framework_driver.loaded_adapters())

    assert str(raised.value) == (
        "the adapter for 'sys' cannot be used: AttributeError: module 'sys' has no attribute "
        "'no_such_hook'"
    )
