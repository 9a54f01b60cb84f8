"""Names of code: how to begin with a module, a file, a method or a notebook.

Modules are known by their files, and what these define by their text. Nothing is imported.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from simkit.core.text import guess, shell_word

_NAMES_MAX: Final = 6
_NOTEBOOK: Final = ".ipynb"
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_YAML: Final = (".yaml", ".yml")


def advice_on(name: str) -> str:
    """Return what to type for a name of code: `desk`, `desk.py`, `desk:answer`, `desk.ipynb`.

    Empty for all other names. Files are read, and never run.
    """
    module, colon, attribute = name.partition(":")
    if module.endswith(_NOTEBOOK) and os.path.isfile(module):
        return (
            "Python imports no notebook. Write its code to a module: "
            f"`jupyter nbconvert --to script {shell_word(module)}`; "
            f"then `simkit init --app {shell_word(module.removesuffix(_NOTEBOOK) + '.py:NAME')}`."
        )
    file = module if module.endswith(".py") else f"{module.replace('.', '/')}.py"
    if not os.path.isfile(file):
        # Imported here because most names are right, and it needs pydantic.
        from simkit.spec.fields import METHOD_NAME

        if METHOD_NAME.fullmatch(name):
            return f"For a first scenario of this code: `simkit init --app {name}`."
        return advice_on_inner(name)
    if (colon and attribute.isidentifier()) or parted_method(name)[1]:
        return f"For a first scenario of this code: `simkit init --app {name}`."
    if inner := advice_on_inner(name):
        return inner
    return _advice_on_file(file)


def _advice_on_file(file: str) -> str:
    """Return what to type for a file of code, with the names that it binds."""
    names = [
        name
        for name, node in bindings(Path(file))
        if name != name.upper() and not isinstance(node, ast.AnnAssign)
    ]
    listed = ", ".join(f"`{each}`" for each in names[:_NAMES_MAX])
    more = ", …" if len(names) > _NAMES_MAX else ""
    choice = names[0] if len(names) == 1 else "NAME"
    target = shell_word(f"{file}:{choice}" if names else file)
    of_them = f", where NAME is one of {listed}{more}" if len(names) > 1 else ""
    return f"{file} is code. For a first scenario of it: `simkit init --app {target}`{of_them}."


def parted_method(name: str) -> tuple[str, str]:
    """Return ``module:Class`` and the method of ``module:Class.method``.

    The method is empty for any other name, which is returned as it is.

    >>> parted_method("shop.desk:Desk.answer")
    ('shop.desk:Desk', 'answer')
    """
    module, colon, attribute = name.partition(":")
    owner, dot, method = attribute.partition(".")
    if colon and dot and owner.isidentifier() and method.isidentifier():
        return f"{module}:{owner}", method
    return name, ""


def as_imported(name_written: str) -> str:
    """Describe the correct name for code that was named by its file, or with a method."""
    from simkit.spec.fields import FUNCTION_NAME

    file, _, name = name_written.rpartition(":")
    folder, _, module = file.rstrip(":").removesuffix(".py").rpartition("/")
    called, method = parted_method(f"{module}:{name}")
    if FUNCTION_NAME.fullmatch(called) is None:
        usual = "Code is named as it is imported: `myapp.agents:run`."
        return advice_on_inner(f"{module}:{name}") or usual
    options = [f"path: [{folder}]"] if folder.strip("./") else []
    options += [f"call: {method}"] if method else []
    also = f", with `app: {{{', '.join(options)}}}`" if options else ""
    return f"Code is named as it is imported: `{called}`{also}."


def advice_on_inner(name: str) -> str:
    """Return advice on an expression, `desk:Desk().answer`, and on a name that is further inside.

    Empty for all other names.
    """
    module, colon, attribute = name.partition(":")
    if not colon or parted_method(name)[1] or not re.fullmatch(r"[A-Za-z_]\w*[.(].*", attribute):
        return ""
    module = module.removesuffix(".py").replace("/", ".").strip(".")
    return (
        f"`{attribute}` is no name at the top of `{module}`. Write a function there that returns "
        f"it, `def pipeline(): return …`, and name that: `{module}:pipeline`."
    )


def advice_on_other_files(name: str) -> str:
    """Return advice on a name of an app that is a file of another kind: `desk.scenario.yaml`.

    Empty for all other names.
    """
    module = name.partition(":")[0]
    suffix = Path(module).suffix
    if suffix not in _YAML and (suffix in ("", ".py", _NOTEBOOK) or not os.path.isfile(module)):
        return ""
    return "this is no Python code\n  Name a function of a module, such as `myapp.agents:run`."


def bindings(file: Path) -> list[tuple[str, ast.stmt]]:
    """Return the public names at the top of a module, each with its first definition or assignment.

    Empty if the file is no Python.
    """
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
    bindings: dict[str, ast.stmt] = {}
    for node in body:
        targets: list[ast.expr] = []
        if isinstance(node, _DEFINITIONS):
            bindings.setdefault(node.name, node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                bindings.setdefault(target.id, node)
    return [(name, node) for name, node in bindings.items() if not name.startswith("_")]


NAMES_MAX: Final = 8
_USUAL: Final = ("graph", "agent", "root_agent", "app", "run", "ask", "chat", "main")
"""Usual names of pipelines; these come first."""


def meant_by(name: str, folders: Sequence[str]) -> str:
    """Describe the correct name for code that was named by its module, or with a dot for the colon.

    Empty if there is no module of that name. A single word is searched in the folders only, since
    Python has modules of many names.
    """
    file = file_of(name, [*folders, *sys.path] if "." in name else folders)
    names = names_in(file) if file is not None else []
    if names:
        return f"`{name}` is a module. Name what it holds: `{name}:{names[0]}`.{it_has(names)}"
    module, _, word = name.rpartition(".")
    file = file_of(module, [*folders, *sys.path]) if module else None
    names = names_in(file) if file is not None else []
    if not names or word in names:
        return ""
    hint = guess(word, names, f" Did you mean `{module}:{{}}`?")
    return f"Module `{module}` defines no `{word}`.{hint}{it_has(names)}"


def it_has(names: Sequence[str]) -> str:
    """Return a sentence that lists the names in a module; the first ones of many."""
    more = ", …" if len(names) > NAMES_MAX else ""
    return f" It has: {', '.join(names[:NAMES_MAX])}{more}."


def file_of(module: str, folders: Iterable[str]) -> Path | None:
    """Return the file of a dotted module in these folders; None if there is none."""
    where = [*folders]
    path: Path | None = None
    for part in module.split("."):
        spec = PathFinder.find_spec(part, where)
        if spec is None:
            return None
        path = Path(spec.origin) if spec.has_location and spec.origin else None
        where = list(spec.submodule_search_locations or ())
    return path


_ROOT_FILES: Final = ("pyproject.toml", "setup.py", "setup.cfg", "langgraph.json", ".git")
"""Files that only the top folder of a project has."""
_BELOW: Final = ("", "src", "lib", "app")
"""Folders in which projects keep their packages."""
_UP_MAX: Final = 4
_UP_WITHOUT_ROOT: Final = 2
"""How many folders upwards are searched, if nothing marks the project's top folder."""


def project_folders(start: Path) -> Iterator[Path]:
    """Yield a folder and those above it in the same project, the nearest first."""
    folders = [start, *start.parents[:_UP_MAX]]
    tops = (index for index, folder in enumerate(folders) if holds_root_file(folder))
    yield start  # Mostly it is this one, and then no file is looked for.
    yield from folders[1 : next(tops, _UP_WITHOUT_ROOT) + 1]


def holds_root_file(folder: Path) -> bool:
    """Return whether a folder is the top of a project."""
    return any(os.path.exists(folder / name) for name in _ROOT_FILES)


def folder_with(module: str, start: Path) -> Path | None:
    """Return the folder of a project from which a module is imported; None if there is none.

    The search starts at ``start`` and goes upwards to the project's top folder. In each folder it
    tries the usual places for packages.
    """
    for above in project_folders(start.resolve()):
        for below in _BELOW:
            folder = above / below
            if file_of(module, [str(folder)]) is not None:
                return folder
    return None


def names_in(file: Path) -> list[str]:
    """Return the names in a module's text that may be a pipeline, likely ones first."""
    definitions, objects = list[str](), list[str]()
    for name, node in bindings(file):
        if isinstance(node, _DEFINITIONS):
            definitions.append(name)
        elif isinstance(getattr(node, "value", None), ast.Call):
            objects.append(name)  # A graph, an agent; a client too, so they come last.
    return sorted(
        [*definitions, *objects],
        key=lambda name: _USUAL.index(name) if name in _USUAL else len(_USUAL),
    )
