"""Names of code where a scenario is wanted: how to begin with a module, a file or a notebook."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from simkit.core.text import shell_word

_NAMES_MAX: Final = 6
_NOTEBOOK: Final = ".ipynb"


def advice_on(name: str) -> str:
    """Return what to type for a name of code: `desk`, `desk.py`, `desk:answer`, `desk.ipynb`.

    Empty for all other names. Files are read, and never run.
    """
    place, colon, attribute = name.partition(":")
    if place.endswith(_NOTEBOOK) and Path(place).is_file():
        return (
            "Python imports no notebook. Write its code to a module: "
            f"`jupyter nbconvert --to script {shell_word(place)}`; "
            f"then `simkit init --app {_script(place)}`."
        )
    file = place if place.endswith(".py") else f"{place.replace('.', '/')}.py"
    if not Path(file).is_file():
        # Imported here because most names are right, and it needs pydantic.
        from simkit.spec.fields import FUNCTION_NAME

        if FUNCTION_NAME.fullmatch(name):
            return f"For a first scenario of this code: `simkit init --app {name}`."
        return ""
    if colon and attribute.isidentifier():
        return f"For a first scenario of this code: `simkit init --app {name}`."
    names = _public_names(Path(file))
    listed = ", ".join(f"`{each}`" for each in names[:_NAMES_MAX])
    more = ", …" if len(names) > _NAMES_MAX else ""
    choice = names[0] if len(names) == 1 else "NAME"
    target = shell_word(f"{file}:{choice}" if names else file)
    of_them = f", where NAME is one of {listed}{more}" if len(names) > 1 else ""
    return f"{file} is code. For a first scenario of it: `simkit init --app {target}`{of_them}."


def _script(notebook: str) -> str:
    return shell_word(f"{notebook.removesuffix(_NOTEBOOK)}.py:NAME")


def _public_names(file: Path) -> list[str]:
    """Return the public functions, classes and variables of a file's module; none if it has no
    valid syntax."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [
        each for each in dict.fromkeys(names) if not each.startswith("_") and each != each.upper()
    ]
