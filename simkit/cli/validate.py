"""Implementation of ``simkit validate``: read every file, look for flaws, and report them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import normpath
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit.core.errors import SourceError
from simkit.core.text import counted, shell_word
from simkit.language.yaml import Document
from simkit.report.text import annotation_at, split_place
from simkit.runtime.running import parsed
from simkit.spec.lint_catalogue import CODES
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario import items as scenario_items
from simkit.spec.scenario.apps import App, check_left_out
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.simulations import prepare_simulation
from simkit.spec.validation.problems import Problem, Problems, Report, code_of
from simkit.spec.validation.usage import Usage, check_folder, named_files, yaml_files

CHECKED: Final = (
    scenario_items.SCENARIO_SUFFIX,
    scenario_items.SIMULATION_SUFFIX,
    scenario_items.PIPELINE_SUFFIX,
)
"""The endings of the files of a folder that are checked."""


def checked(paths: Sequence[str]) -> Report:
    """Return the problems of the files at the paths.

    Raise SourceError for a path that does not exist, or with nothing to check.
    """
    folders = {path: yaml_files(path) for path in paths if Path(path).is_dir()}
    files_there = (file for path in paths for file in _files(path, folders.get(path)))
    files = list(dict.fromkeys(files_there))
    if not files:
        raise SourceError(
            ", ".join(paths),
            f"there is nothing to check: no `*{scenario_items.SCENARIO_SUFFIX}`, "
            f"`*{scenario_items.SIMULATION_SUFFIX}` or `*{scenario_items.PIPELINE_SUFFIX}` file",
            advice=next(filter(None, map(scenario_items.misnamed, paths)), ""),
        )
    checking = _Checking()
    for file in files:
        checking.file(file)
    checking.finish(folders)
    return checking.problems.report(files, checking.scenarios)


def _files(path: str, inside: Sequence[str] | None) -> list[str]:
    if inside is not None:
        return [file_ for file_ in inside if file_.endswith(CHECKED)]
    file, parting, _ = path.partition("::")
    if parting and not Path(path).exists():
        advice = f"Write `simkit validate {shell_word(str(file))}`."
        raise SourceError(path, "files are checked whole", advice=advice)
    if path.endswith(scenario_items.SIMULATION_SUFFIX) and Path(path).is_file():
        return [path]
    return scenario_items.scenario_files(path)


class _Checking:
    """The state of one check: files read so far, and their problems."""

    def __init__(self) -> None:
        self.problems, self.scenarios = Problems(), 0
        self._library = Library()
        self._usage = Usage(self._library, self.problems, parsed)
        self._named: set[str] = set()
        """The files that scenarios name."""
        self._complete: set[str] = set()
        """The files whose scenarios were all read."""
        self._is_broken = False
        """Whether a file could not be read, so that the files it names are unknown."""

    def file(self, file: str) -> None:
        """Check a file's documents."""
        try:
            is_simulated = file.endswith(scenario_items.SIMULATION_SUFFIX)
            items = (scenario_items.simulations_in if is_simulated else scenario_items.items_in)(
                file, self._library.cache
            )
            documents = self._library.documents(file)
        except SourceError as problem:
            self._refuse(problem)
            self._is_broken = True
            return
        self._named.update(named_files(documents, self._library))
        if file.endswith(scenario_items.SCENARIO_SUFFIX):
            self._complete.add(normpath(file))
        for document in documents:
            if scenario_items.is_pipeline(document.data):
                self._pipeline(document)
        wrong: set[int] = set()
        for item in items:
            self.scenarios += 1
            # The rows of one table are one document.
            if item.index in wrong:
                continue
            try:
                if is_simulated:
                    prepare_simulation(self._library, item, documents[item.index])
                else:
                    self._usage.scenario(self._library.prepared(item))
            except SourceError as problem:
                wrong.add(item.index)
                self._refuse(problem)
        self._is_broken = self._is_broken or bool(wrong)

    def _pipeline(self, document: Document) -> None:
        try:
            pipeline = self._library.subject(document)
            if isinstance(pipeline, App):
                check_left_out(document, pipeline, self._library.cache)
        except SourceError as problem:
            self._refuse(problem)
        else:
            if isinstance(pipeline, Pipeline):
                self._usage.pipeline(pipeline, document)

    def _refuse(self, problem: SourceError) -> None:
        self.problems.refuse(code_of(problem, self._library), problem)

    def finish(self, folders: dict[str, list[str]]) -> None:
        """Report what nobody uses; for a folder, only if all its scenarios could be read."""
        if self._is_broken:
            return
        for folder, files in folders.items():
            self._complete.update(map(normpath, files))
            check_folder(folder, files, self._named, self._library, self.problems)
        self._usage.finish(self._complete)


# Reports: JSON, GitHub annotations, and a summary line


def json_text(report: Report, version: str, exit_code: int) -> str:
    """Return the JSON object, indented."""
    whole = {
        "simkit": version,
        "problems": [_object(problem) for problem in report.problems],
        "summary": {
            "files": report.files,
            "scenarios": report.scenarios,
            "errors": report.count("E"),
            "warnings": report.count("W"),
            "turned_off": report.turned_off,
            "exit_code": exit_code,
        },
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def _object(problem: Problem) -> dict[str, Any]:
    file, line, column = split_place(problem.where)
    return {
        "code": problem.code,
        "name": CODES[problem.code].name,
        "severity": problem.severity,
        "file": file,
        "line": line,
        "column": column,
        "at": problem.at,
        "what": problem.what,
        "near": problem.near,
        "known": problem.known,
        "advice": problem.advice,
    }


def github_lines(report: Report) -> Iterator[str]:
    """Yield one workflow command for each problem."""
    for problem in report.problems:
        level: Any = "error" if problem.severity == "E" else "warning"
        lines = problem.text.split("\n")[1:]
        message = "\n".join([problem.what, *(line.strip() for line in lines)])
        title = f"{problem.code} {CODES[problem.code].name}"
        yield annotation_at(level, problem.where, message, title)


def verdict(report: Report) -> str:
    """Return the last line: the number of checked files, and the result."""
    numbers = f"{counted(report.files, 'file')}, {counted(report.scenarios, 'scenario')}"
    lines = [
        counted(report.count(severity), noun)
        for severity, noun in (("E", "error"), ("W", "warning"))
        if report.count(severity)
    ]
    off = f" ({report.turned_off} turned off)" if report.turned_off else ""
    return f"{numbers}: {', '.join(lines) or 'fine'}{off}"
