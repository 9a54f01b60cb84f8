"""What is used inside other libraries is named in one module each, and missed with one message."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from simkit.core.compat import PYTHON, TRIED, Library, has_attribute, version_of
from simkit.core.errors import Unsupported

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = {
    "google_adk": "google.adk",
    "langgraph": "langgraph",
    "openai_agents": "agents",
    "opentelemetry": "opentelemetry.sdk.trace",
    "pydantic_ai": "pydantic_ai",
}
"""Folder to the module without which its compat module cannot be imported."""
PACKAGES = [*(ROOT / "simkit/adapters" / name for name in ADAPTERS), ROOT / "simkit/capture/http"]
FRAMEWORKS = {
    *("agents", "aiohttp", "google", "httplib2", "httpx", "httpx2", "langchain", "langchain_core"),
    *("langchain_openai", "langgraph", "opentelemetry", "pydantic_ai", "pydantic_graph", "urllib3"),
}
INTERNAL = ("agents.run_internal", "langgraph.pregel.debug", "langgraph.pregel.protocol")
"""Modules without an underscore that no documentation names."""
PYTHONS_OWN = {
    *("BaseProcess", "_thread", "asyncio", "atexit", "multiprocessing", "os"),
    *("signal", "socket", "subprocess", "threading", "weakref"),
}


# Where it is named


def internals_in(source: str, own: set[str]) -> Iterator[str]:
    """Yield what a module uses of a library that the library keeps for itself, or replaces of it.

    ``own`` are the private names that simkit itself has.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (name for name in imported_by(node) if is_internal(name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            yield f".{node.attr}"
        elif isinstance(node, ast.Constant) and is_private(node.value) and node.value not in own:
            yield repr(node.value)
        elif isinstance(node, ast.Tuple) and is_row(node):
            yield ast.unparse(node)


def imported_by(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The names that a statement imports, in full."""
    module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return [f"{module}{alias.name}" for alias in node.names]


def is_internal(name: str) -> bool:
    """Whether a framework keeps a module or a name for itself."""
    steps = name.split(".")
    return steps[0] in FRAMEWORKS and (any(map(is_private, steps)) or name.startswith(INTERNAL))


def is_private(name: object) -> bool:
    """Whether a value is a name that begins with one underscore, and no module of Python's."""
    is_name = isinstance(name, str) and re.fullmatch(r"_[a-zA-Z]\w*", name) is not None
    return is_name and name not in sys.stdlib_module_names


def is_row(node: ast.Tuple) -> bool:
    """Whether a tuple says which attribute of a library is replaced, and by what."""
    match node.elts:
        case [ast.Name() | ast.Attribute() as owner, ast.Constant(value=str()), replacement]:
            is_pythons = ast.unparse(owner).partition(".")[0] in PYTHONS_OWN
            return not is_pythons and not isinstance(replacement, ast.Constant)
    return False


def names_of(package: Path) -> set[str]:
    """The private names that the modules of a package define, and what they inherit from simkit."""
    names = {"_adapter_context", "_app", "_getframe", "_subject", "_talk", "_threading"}
    for path in package.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_only_compat_touches_the_inside_of_a_library(package: Path) -> None:
    own = names_of(package)
    used = {
        path.name: sorted(set(names))
        for path in package.glob("*.py")
        if path.name != "compat.py"
        and (names := [*internals_in(path.read_text(encoding="utf-8"), own)])
    }

    assert used == {}


@pytest.mark.parametrize(
    "line",
    [
        "from langgraph.pregel._loop import PregelLoop",
        "from langgraph.pregel import _runner",
        "import agents.run_internal.run_loop",
        "graph._step()",
        "getattr(agent, '_instructions', ())",
        "rows = [(Agent, 'iter', wrapped)]",
        "rows = [(library.Client, 'send', wrapped)]",
    ],
)
def test_the_inside_of_a_library_is_noticed(line: str) -> None:
    assert [*internals_in(line, {"_own"})]


@pytest.mark.parametrize(
    "line", ["self._own.call()", "from langgraph.pregel import Pregel", "import _thread"]
)
def test_what_is_no_library_s_inside_is_let_be(line: str) -> None:
    assert [*internals_in(line, {"_own"})] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_each_thing_has_a_reason(package: Path) -> None:
    """A text follows each assignment, or the last of several that it speaks of."""
    body = ast.parse((package / "compat.py").read_text(encoding="utf-8")).body
    ends = [
        node
        for node, follower in zip(body, [*body[1:], None], strict=True)
        if isinstance(node, ast.AnnAssign)
        and not ast.unparse(node.target).startswith("_")
        and not isinstance(follower, ast.AnnAssign | ast.Expr)
    ]

    assert [ast.unparse(node.target) for node in ends] == []


# What is not there


def looked_up(name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, str]]:
    """Everything that an adapter's compat module must find: its place, its owner and its name."""
    places = []
    slot, attributes = Library.slot, Library.attributes

    def noted(library: Library, place: str) -> tuple[Any, str]:
        places.append((place, *slot(library, place)))
        return places[-1][1:]

    def unnoted(library: Library, *names: str) -> tuple[str, ...]:
        before = [*places]
        known = attributes(library, *names)
        places[:] = before  # One of them is enough.
        return known

    with monkeypatch.context() as patched:
        patched.setattr(Library, "slot", noted)
        patched.setattr(Library, "attributes", unnoted)
        run_compat(name)
    return places


def run_compat(name: str) -> None:
    """Run an adapter's compat module anew, in a module of its own."""
    file = ROOT / "simkit/adapters" / name / "compat.py"
    spec = importlib.util.spec_from_file_location(f"compat_of_{name}", file)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.slow
@pytest.mark.parametrize("name", ADAPTERS)
def test_whatever_is_missing_is_one_clear_message(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(ADAPTERS[name])
    places = looked_up(name, monkeypatch)
    assert len(places) > 2 - (name == "opentelemetry")
    for place, owner, attribute in places:
        with monkeypatch.context() as patched:
            if not take_away(owner, attribute, patched):
                continue
            with pytest.raises(Unsupported) as missing:
                run_compat(name)
        text = str(missing.value)
        assert f"has no `{place}`" in text
        assert re.search(r"\S+ \d\S+ is installed, .* was tried with \S+ \d\S+( to \d\S+)?: ", text)


def take_away(owner: Any, name: str, patched: pytest.MonkeyPatch) -> bool:
    """Take an attribute away, wherever it comes from; False where `__init__` makes it, too."""
    for kind in getattr(owner, "__mro__", [owner]):
        if name in vars(kind):
            patched.delattr(kind, name)
        if isinstance(owner, type) and name in vars(kind).get("__annotations__", ()):
            patched.delitem(vars(kind)["__annotations__"], name)
    return not has_attribute(owner, name)


def test_a_library_that_is_not_here_is_a_missing_module() -> None:
    with pytest.raises(ModuleNotFoundError):
        Library("langgraph").find("no_such_library.inside:thing")


def test_an_adapter_says_which_versions_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRIED, "langgraph", ("1.2.3", "1.3.0"))
    monkeypatch.setattr("simkit.core.compat.version_of", lambda name: "2.0.0")

    assert str(Library("langgraph").missing("langgraph.pregel:Pregel.stream")) == (
        "langgraph 2.0.0 is installed, which has no `langgraph.pregel:Pregel.stream`. simkit uses "
        "that, and was tried with langgraph 1.2.3 to 1.3.0: "
        "pip install 'langgraph>=1.2.3,<=1.3.0'"
    )


# The versions


def requirements() -> Iterator[Requirement]:
    """What simkit requires of users, and what its extras do."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    users = [lines for name, lines in extras.items() if name not in ("bench", "dev")]
    for lines in (project["dependencies"], *users):
        yield from map(Requirement, lines)


def test_the_oldest_version_that_was_tried_is_the_oldest_that_is_allowed() -> None:
    allowed = {needed.name: str(needed.specifier) for needed in requirements()}
    inside = {name: specifier for name, specifier in allowed.items() if name in TRIED}

    assert {*inside} > {"langgraph", "vcrpy"}
    assert [
        name
        for name, specifier in inside.items()
        if Version(TRIED[name][0]) != Version(specifier.removeprefix(">="))
    ] == []


def test_the_newest_version_is_not_older_than_the_oldest() -> None:
    assert all(Version(oldest) <= Version(newest) for oldest, newest in TRIED.values())


@pytest.mark.skipif(os.environ.get("SIMKIT_NIGHTLY") != "1", reason="tells maintainers, at night")
def test_the_versions_that_are_installed_were_tried() -> None:
    newer = {
        name: version
        for name in TRIED
        if name != PYTHON and (version := version_of(name)) != "none"
        if Version(version) > Version(TRIED[name][1])
    }

    assert newer == {}, "the tests pass with these: write them into simkit/core/libraries.yaml"
