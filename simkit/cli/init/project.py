"""The facts of a project: how it is installed, where its tests are, and which apps could be tested.

Its files are read; nothing of it is imported.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from packaging.utils import canonicalize_name

from simkit.adapters.modules import FILE as SERVER_FILE
from simkit.adapters.modules import graphs_of
from simkit.cli.selection import configured_paths
from simkit.core.compat import PROVIDERS, installed
from simkit.core.text import shell_word

_FILES_MAX: Final = 400

NAMES: Final = msgspec.yaml.decode(Path(__file__).with_name("names.yaml").read_bytes())
"""The names by which an app is found; the file says what each is."""
TEXTS: Final = msgspec.yaml.decode(Path(__file__).with_name("texts.yaml").read_bytes())
"""The longer texts that are printed or written."""
COMMENTS: Final[Mapping[str, str]] = TEXTS["comments"]
"""The first line of a file that a pattern matches, to the comment above it."""
_MODELS: Final = (*NAMES["clients"], *NAMES["frameworks"])
"""Packages of which a module that imports one may be an app's."""
_MAKERS: Final = re.compile(
    r"compile|(create_)?(\w+_)?(agent|supervisor|swarm)|\w*Agent|FastAPI|Quart|Starlette"
)
"""How what makes a pipeline of a framework is called."""
_TEST: Final = re.compile(r"conftest\.py$|test_")

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class ImportName(msgspec.Struct, frozen=True):
    """How a module is imported."""

    module: str
    folder: Path
    """The folder that must be on ``sys.path``."""


class FoundApp(msgspec.Struct, frozen=True):
    """Something that may be tested."""

    name: str
    """As ``--app`` takes it."""
    why: str
    """Its kind, and the file that says so."""
    folder: Path
    """From where its module is imported."""
    is_certain: bool = False
    """Whether the project itself says that it is an app."""


class Project(msgspec.Struct, frozen=True):
    """A folder as `simkit init` sees it."""

    root: Path
    apps: tuple[FoundApp, ...]
    """The likeliest first."""
    parts: tuple[FoundApp, ...]
    """Without any app: what modules with a client or a framework define."""
    scenarios: str
    """The folder for scenarios, from ``root``."""
    install: tuple[str, ...]
    """The shell commands that install it."""
    python: str
    """The version of Python for which it is made."""

    @property
    def top(self) -> Path:
        """The folder of its repository, where GitHub looks for workflows."""
        above = (self.root.resolve(), *self.root.resolve().parents)
        return next((folder for folder in above if (folder / ".git").exists()), self.root)

    def name_of(self, file: Path) -> ImportName:
        """Return how one of its files is imported."""
        root = self.root.resolve()
        module = next((module for module in _modules(root) if module.file == file), None)
        if module is None:
            return import_of(file, root, (), ())
        return ImportName(module.name, module.folder)


def look_at(root: Path) -> Project:
    """Return the project of a folder; files that cannot be read are ignored."""
    settings = _toml(root / "pyproject.toml")
    tests = configured_paths(str(root))
    folder = f"{os.path.relpath(tests[0], root)}/".replace(os.sep, "/") if tests else ""
    if folder.startswith((".", "scenarios/", "features/")):
        folder = ""
    modules = _modules(root.resolve())
    apps = tuple({app.name: app for app in reversed([*_apps(root, modules)])}.values())[::-1]
    return Project(
        root,
        apps,
        () if apps else tuple(part for module in modules for part in _parts(module)),
        f"{folder}scenarios",
        tuple(_install_lines(root, settings)) or tuple(_imported_lines(root.resolve())),
        _python_of(settings),
    )


def _imports_neighbours(file: Path, root: Path, imports: Iterable[str]) -> bool:
    """Return whether a file imports modules of its own folder by their bare names."""
    tops = {name.partition(".")[0] for name in imports}
    paths = file.parent.iterdir()
    neighbours = {path.stem for path in paths if path.suffix == ".py" or path.is_dir()}
    return bool(tops & neighbours - {path.stem for path in root.iterdir()} - {file.stem})


def import_of(file: Path, root: Path, imports: Iterable[str], known: Iterable[str]) -> ImportName:
    """Return how a file is imported: its name, and the folder from which.

    It is a module of its package, unless it imports its neighbours by their bare names, as a script
    does that is started in its folder. ``imports`` are its own, ``known`` those of the whole
    project, which say which folders without an ``__init__.py`` are packages.
    """
    folder, parts = file.parent, [file.stem] if file.stem not in ("__init__", "__main__") else []
    is_named_by_package = any(name.startswith(f"{folder.name}.") for name in known)
    if not is_named_by_package and parts and _imports_neighbours(file, root, imports):
        return ImportName(parts[0], folder)
    while folder != root and folder.name.isidentifier():
        dotted = ".".join((folder.name, *parts))
        if not (folder / "__init__.py").is_file() and not _is_of(dotted, known):
            break
        parts.insert(0, folder.name)
        folder = folder.parent
    return ImportName(".".join(parts) or file.stem, folder)


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _table(settings: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    for key in keys:
        inner = settings.get(key)
        settings = inner if isinstance(inner, Mapping) else {}
    return settings


# Apps


def _apps(root: Path, modules: Sequence[_Module]) -> Iterator[FoundApp]:
    root = root.resolve()
    by_file = {module.file: module for module in modules}
    for name, place in graphs_of(root / SERVER_FILE).items():
        path, _, attribute = place.rpartition(":")
        module = by_file.get((root / path).resolve())
        if module is not None:
            why = f"the graph `{name}` of {SERVER_FILE}"
            yield FoundApp(f"{module.name}:{attribute}", why, module.folder, is_certain=True)
    loops = {module: name for module in modules if (name := _loop_of(module))}
    yield from sorted(
        (app for module in modules for app in _objects(module)),
        key=lambda app: (*NAMES["first"], name := app.name.rpartition(":")[2]).index(name),
    )
    for module, entry in loops.items():
        yield FoundApp(entry, f"an input() loop in {module.short}", module.folder)
    for module in modules:
        yield from _talks(module)


class _Module(msgspec.Struct, frozen=True, eq=False):
    """A file of the project, as far as it is text."""

    name: str
    folder: Path
    file: Path
    short: str
    """Its file, from the project's folder."""
    tree: ast.Module
    imports: frozenset[str]

    def app(self, attribute: str, why: str) -> FoundApp:
        """Return something in it that may be tested."""
        return FoundApp(f"{self.name}:{attribute}", f"{why} {self.short}", self.folder)

    def uses(self, packages: Iterable[str]) -> bool:
        """Return whether it imports one of some packages, or from it."""
        return any(_is_of(name, self.imports) for name in packages)


def _modules(root: Path) -> list[_Module]:
    trees: dict[Path, ast.Module] = {}
    for file in _files(root):
        with suppress(OSError, SyntaxError, ValueError):
            trees[file] = ast.parse(file.read_text(encoding="utf-8"))
    imports = {file: frozenset(_imports(tree)) for file, tree in trees.items()}
    known = frozenset(name for names in imports.values() for name in names)
    modules = []
    for file, tree in trees.items():
        place = import_of(file, root, imports[file], known)
        short = file.relative_to(root).as_posix()
        modules.append(_Module(place.module, place.folder, file, short, tree, imports[file]))
    return modules


def files_below(root: Path, others: Collection[str] = ()) -> Iterator[Path]:
    """Yield the files of a project, the nearest first; none of its environments, or of folders
    with ``others``' names."""
    waiting = [root]
    while waiting:
        try:
            inside = sorted(waiting.pop(0).iterdir())
        except OSError:
            continue
        for path in inside:
            if not path.is_dir():
                yield path
            elif not (
                path.name.startswith(".") or path.name in NAMES["foreign"] or path.name in others
            ):
                waiting += [] if path.is_symlink() or (path / "pyvenv.cfg").exists() else [path]


def _files(root: Path) -> Iterator[Path]:
    modules = (
        path
        for path in files_below(root, NAMES["tests"])
        if path.suffix == ".py" and "." not in path.stem and not _TEST.match(path.name)
    )
    return itertools.islice(modules, _FILES_MAX)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _is_of(package: str, imports: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for name in imports)


def _objects(module: _Module) -> Iterator[FoundApp]:
    """Yield what a module assigns that a framework made, and does not use itself."""
    framework = next(
        (f for name, f in NAMES["frameworks"].items() if _is_of(name, module.imports)), ""
    )
    names = [n for n in _makes(module.tree) if not n.startswith("_")] if framework else []
    # An agent that the module uses is a part of an app.
    nodes = (node for node in ast.walk(module.tree) if isinstance(node, ast.Name))
    used = {node.id for node in nodes if isinstance(node.ctx, ast.Load)}
    for name in [name for name in names if name not in used] or names:
        yield module.app(name, f"{framework}, in")


def _makes(tree: ast.Module) -> Iterator[str]:
    """Yield the names of what some framework made, and of functions that make it."""
    functions = [node for node in tree.body if isinstance(node, _Function)]
    makers = {each.name: each for each in functions if _is_maker(each)}
    for name, call in _assigned(tree.body):
        if _called(call) in makers or _MAKERS.fullmatch(_called(call)):
            yield name
    # A function that needs an argument makes parts.
    yield from (name for name, function in makers.items() if not _required(function))


def _is_maker(function: _Function) -> bool:
    """Return whether a function returns what a framework makes in it."""
    inside = [*ast.walk(function)]
    calls = dict(_assigned(inside))
    returned = [node.value for node in inside if isinstance(node, ast.Return)]
    values = [calls.get(getattr(value, "id", ""), value) for value in returned]
    return any(isinstance(v, ast.Call) and _MAKERS.fullmatch(_called(v)) for v in values)


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.Call]]:
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((each.id, node.value) for each in targets if isinstance(each, ast.Name))


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Subscript):  # `Agent[Context](…)`
        function = function.value
    return getattr(function, "attr", getattr(function, "id", ""))


def _loop_of(module: _Module) -> str:
    """Return how an app that is an ``input()`` loop is named; empty where a module has none."""
    body = module.tree.body
    readers = [node.name for node in body if isinstance(node, _Function) and _reads(node)]
    at_top = [node for node in body if not isinstance(node, _Function | ast.ClassDef)]
    has_guard = any(isinstance(n, ast.If) and "__main__" in ast.dump(n.test) for n in at_top)
    if any(_reads(node) for node in at_top) or (readers and has_guard):
        return module.name
    is_loop = readers and module.uses(_MODELS)
    return f"{module.name}:{readers[0]}" if is_loop else ""


def _reads(tree: ast.AST) -> bool:
    """Return whether code asks for input in a loop."""
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.While | ast.For))
    return any(_is_input(node) for loop in loops for node in ast.walk(loop))


def _is_input(node: ast.AST) -> bool:
    # `input()`, `asyncio.to_thread(input, …)`, `for line in sys.stdin`
    if isinstance(node, ast.Name):
        return node.id == "input" and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Attribute) and node.attr == "stdin"


def _talks(module: _Module) -> Iterator[FoundApp]:
    """Yield the functions of one message that a module with a client has."""
    # Those beside a web framework are parts of an application that answers requests.
    if not module.uses(_MODELS) or module.uses(NAMES["web"]):
        return
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef):
            methods = {inner.name for inner in node.body if isinstance(inner, _Function)}
            if methods.intersection(NAMES["talks"]):
                yield module.app(node.name, "a class in")
    functions = [node for node in module.tree.body if isinstance(node, _Function)]
    for name in [each.name for each in functions if _required(each) == 1]:
        if name.split("_")[0] in NAMES["talks"]:
            yield module.app(name, "a function in")


def _parts(module: _Module) -> Iterator[FoundApp]:
    """Yield the public functions and classes that a module with a client or framework defines."""
    for node in module.tree.body if module.uses(_MODELS) else ():
        if isinstance(node, _Function | ast.ClassDef) and not node.name.startswith("_"):
            yield module.app(node.name, "in")


def _required(function: _Function) -> int:
    args = function.args
    return len(args.posonlyargs) + len(args.args) - len(args.defaults)


# How it is installed


def _for_tests(table: Mapping[str, Any]) -> list[str]:
    """Return the extras, or the groups, that tests need by their usual names."""
    return [name for name in ("dev", "test", "tests") if name in table]


def _install_lines(root: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands that install a project, and what its tests need."""
    if is_locked := (root / "uv.lock").is_file():
        yield "python -m pip install uv"
        yield "uv export --quiet --frozen --all-groups --no-emit-project -o requirements.lock"
        yield "python -m pip install --no-deps -r requirements.lock"
    is_built = "build-system" in settings or any(
        (root / f).is_file() for f in ("setup.py", "setup.cfg")
    )
    project = _table(settings, "project")
    if is_built:
        extras = _for_tests(_table(project, "optional-dependencies"))
        own = f'".[{extras[0]}]"' if extras else "."
        yield f"python -m pip install -e {own}"
    elif project.get("dependencies") and not is_locked:
        yield " ".join(("python -m pip install", *map(shell_word, project["dependencies"])))
    groups = _for_tests(_table(settings, "dependency-groups"))
    if groups and not is_locked:
        yield f"python -m pip install --group {groups[0]}"
    for name in ("requirements.txt", "requirements-dev.txt"):
        if (root / name).is_file():
            yield f"python -m pip install -r {name}"


def _imported_lines(root: Path) -> Iterator[str]:
    """Yield the command that installs what a project's modules import, as it is installed here."""
    modules = _modules(root)
    imports = {name for module in modules for name in module.imports}
    own = {"simkit", *(module.name.partition(".")[0] for module in modules)}
    others = own | sys.stdlib_module_names
    names = sorted(name for name in imports if name.partition(".")[0] not in others)
    # It reads which files each installed package has.
    brought_by = packages_distributions() if names else {}
    needed: dict[str, str] = {}
    for name in names:
        parts = name.split(".")
        distributions = dict.fromkeys(brought_by.get(parts[0], ()))
        # A namespace has many: the one of its own name, as `google.adk` has.
        path = "-".join((*parts, ""))
        named = [each for each in distributions if path.startswith(f"{canonicalize_name(each)}-")]
        if len(chosen := named or [*distributions]) == 1:
            needed[chosen[0]] = version(chosen[0])
    if needed:
        # A framework may import its provider's client by itself.
        needed |= dict(installed(PROVIDERS))
        pins = " ".join(f"{name}=={number}" for name, number in sorted(needed.items()))
        yield f"python -m pip install {pins}"


def _python_of(settings: Mapping[str, Any]) -> str:
    """Return the oldest Python that a project and simkit both take."""
    versions = str(_table(settings, "project").get("requires-python", ""))
    least = re.search(r">=\s*3\.(\d+)", versions)
    return f"3.{max(int(least[1]), 12)}" if least else "3.12"
