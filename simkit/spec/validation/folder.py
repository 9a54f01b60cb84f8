"""Files of a folder that nothing uses, or with names that simkit does not look for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from os.path import normpath
from pathlib import Path
from typing import Any, Final

from simkit.core.errors import SourceError
from simkit.language.yaml import FILE_BYTES_MAX, Document, text_of
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX, SIMULATION_SUFFIX
from simkit.spec.validation.problems import Flaw, Problems
from simkit.spec.validation.usage import used_files

_TOP_KEY: Final = re.compile(r"^(\w[\w-]*)[ \t]*:", re.MULTILINE)
_SCENARIO: Final = frozenset(("scenario", "turns"))
_SIMULATION: Final = frozenset(("simulation", "pipeline"))
_PIPELINE: Final = frozenset(("pipeline", "agents", "flow"))
_FIXTURES: Final = frozenset(("given", "tool_results"))
_SHARED: Final = _FIXTURES | {"version", "use", "agents", "lints"}
_CODE: Final = ("*.py", "*.feature")
"""Endings of files that may name a pipeline, too."""


def named_files(documents: Iterable[Document], library: Library) -> Iterator[str]:
    """Yield the pipeline and the files under ``use`` that scenarios name, normalized.

    They are read from the source, so that a scenario with an error elsewhere counts as well.
    """
    for document in documents:
        data = document.data
        if isinstance(data, Mapping) and {"scenario", "simulation"} & {*data}:
            name = text_of(data.get("pipeline")) or ""
            yield normpath(Path(document.file).parent / name)
            try:
                yield from (file for file, _ in used_files(document, library))
            except (SourceError, TypeError, IndexError):
                # That error is already reported.
                continue


def check_folder(
    folder: str, files: Iterable[str], named: Collection[str], library: Library, problems: Problems
) -> None:
    """Add the flaws of a folder; ``named`` are the files that its scenarios name."""
    code: str | None = None
    for file in files:
        if file.endswith((SCENARIO_SUFFIX, SIMULATION_SUFFIX)) or normpath(file) in named:
            continue
        if file.endswith(PIPELINE_SUFFIX):
            code = _code_in(folder) if code is None else code
            if Path(file).name not in code:
                _check_orphan(file, library, problems)
        else:
            _check_other(file, library, problems)


def yaml_files(folder: str) -> list[str]:
    """Return the YAML files below a folder, sorted, without hidden folders."""
    return sorted(str(path) for path in _visible(folder, "*.y*ml"))


def _check_orphan(file: str, library: Library, problems: Problems) -> None:
    document = _first(file, frozenset(("pipeline",)), library)
    if document is not None and "implements" not in document.data:
        problem = "no scenario names this pipeline"
        problems.add(document, [Flaw("VAL-31", ("pipeline",), problem, key=True)])


def _check_other(file: str, library: Library, problems: Problems) -> None:
    keys = _top_keys(file)
    for looks, ending in (
        (_SCENARIO, SCENARIO_SUFFIX),
        (_SIMULATION, SIMULATION_SUFFIX),
        (_PIPELINE, PIPELINE_SUFFIX),
    ):
        document = _first(file, looks, library) if looks <= keys else None
        if document is not None:
            key = ending.split(".")[1]
            problem = f"a {key} stands in a file that is not named as one"
            advice = f"Name the file `{Path(file).name.split('.')[0]}{ending}`."
            problems.add(document, [Flaw("VAL-32", (key,), problem, advice, key=True)])
            return
    if keys & _FIXTURES and all(key in _SHARED or key.startswith("x-") for key in keys):
        document = _first(file, frozenset(), library)
        if document is not None:
            problems.add(document, [Flaw("VAL-30", (), "no scenario uses this file")])


def _top_keys(file: str) -> frozenset[str]:
    """Return the likely top-level keys of a file; a foreign file has none."""
    path = Path(file)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            return frozenset()
        return frozenset(_TOP_KEY.findall(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return frozenset()


def _first(file: str, keys: frozenset[str], library: Library) -> Document | None:
    """Return the file's first document with these keys; None if there is none, or no YAML."""
    try:
        documents = library.documents(file)
    except SourceError:
        return None
    return next((document for document in documents if keys <= _keys(document.data)), None)


def _keys(data: Any) -> frozenset[str]:
    return frozenset(data) if isinstance(data, Mapping) else frozenset()


def _code_in(folder: str) -> str:
    texts = (
        path.read_text(encoding="utf-8", errors="replace")
        for pattern in _CODE
        for path in _visible(folder, pattern)
    )
    return "\n".join(texts)


def _visible(folder: str, pattern: str) -> Iterator[Path]:
    place = Path(folder)
    for path in place.rglob(pattern):
        hidden = any(part.startswith(".") for part in path.relative_to(place).parts)
        if not hidden and path.is_file():
            yield path
