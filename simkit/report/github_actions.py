"""GitHub Actions: annotations, and the summary of the step.

Both are without secrets, like everything that outlives a run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from simkit.core.errors import TraceError
from simkit.core.output import clean, current_redactor
from simkit.report.diff_lines import Sides
from simkit.report.diffs import Compared, diff_markdown
from simkit.report.github import result_annotations
from simkit.report.last_run import FOLDER
from simkit.report.markdown import results_markdown
from simkit.report.results import Result
from simkit.trace.diff import trace_diff
from simkit.trace.store import read_trace
from simkit.trace.views import View, view_of

BYTES_MAX: Final = 1_000_000
"""The size of a step's summary: at 1 MiB GitHub rejects all of it."""
_RUN_ADDRESS: Final = re.compile(r"https?://[\w.:-]+/[\w.-]+/[\w.-]+/actions/runs/\d+", re.ASCII)


def is_workflow(environment: Mapping[str, str]) -> bool:
    """Return whether this runs in a workflow of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def workflow_commands(results: Sequence[Result], environment: Mapping[str, str]) -> list[str]:
    """Return the lines that GitHub reads as annotations."""
    folder = _folder(environment.get("GITHUB_WORKSPACE", ""))
    return list(result_annotations(results, folder, current_redactor().text))


def add_summary(
    results: Sequence[Result],
    environment: Mapping[str, str],
    pairs: Sequence[Compared] | None = None,
    pictures: Mapping[str, str] = {},
    page: str = "",
) -> str:
    """Add the results to the summary of the step, if there is one; return the error, if any.

    ``pairs`` are their traces beside those of a base, where one is given; ``pictures`` are Mermaid
    diagrams by scenario; ``page`` is the file with all runs, if one is written.
    """
    file = environment.get("GITHUB_STEP_SUMMARY", "")
    if not file:
        return ""
    text = results_markdown(results, pictures, page, artifacts_address(environment))
    if pairs is not None:
        text += "\n" + diff_markdown(pairs, Sides("base", "now")) + "\n"
    content = _cut_to_fit(clean(text), file)
    try:
        with open(file, "ab") as summary:
            summary.write(content)
    except OSError as problem:
        return f"the summary is not written: {problem.filename}: {problem.strerror}"
    return ""


def artifacts_address(environment: Mapping[str, str]) -> str:
    """Return the address of the workflow run's artifacts; empty if GitHub does not say it."""
    server, repository, run = (
        environment.get(name, "")
        for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    )
    address = f"{server}/{repository}/actions/runs/{run}"
    return f"{address}#artifacts" if _RUN_ADDRESS.fullmatch(address) else ""


def compared(results: Sequence[Result], base: str) -> Iterator[Compared]:
    """Yield each scenario's kept trace with the one of the same name in a folder of traces.

    Raise TraceError if the folder has none.
    """
    folder = traces_in(base)
    for result in results:
        if result.trace:
            before = folder / Path(result.trace).name
            yield _compared(result, str(before) if before.is_file() else "")


def _compared(result: Result, current: str) -> Compared:
    sources = (current, result.trace)
    diff, error = None, ""
    try:
        if current:
            diff = trace_diff(_view(current), _view(result.trace))
    except TraceError as problem:
        error = str(problem)
    return Compared(result.id, sources, diff, error, result.file, result.line)


def _view(file: str) -> View:
    events = read_trace(file).events
    try:
        return view_of(events)
    # A view trusts its trace. A changed trace may raise anywhere in it.
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError):
        raise TraceError(f"{file}: the trace is damaged") from None


def traces_in(base: str) -> Path:
    """Return the folder with the traces of ``base``, which may be `.simkit`, or contain it.

    Raise TraceError if there are none.
    """
    for folder in (Path(base), Path(base) / "traces", Path(base) / FOLDER / "traces"):
        if any(folder.glob("*.jsonl")):
            if folder.resolve() == Path(FOLDER, "traces").resolve():
                raise TraceError(
                    f"{base}: this run would write its own traces there\n"
                    "  Copy the folder before, and name the copy."
                )
            return folder
    raise TraceError(f"{base}: there is no trace in this folder, no file `*.jsonl`")


def _folder(workspace: str) -> str:
    """Return the working directory relative to the repository; empty if it is outside."""
    if not workspace:
        return ""
    try:
        folder = os.path.relpath(Path.cwd(), Path(workspace).resolve())
    except ValueError:
        return ""
    return "" if folder == "." or folder.startswith("..") else Path(folder).as_posix()


def _cut_to_fit(text: str, file: str) -> bytes:
    """Return the part of a text that still fits into the summary."""
    content = text.encode("utf-8", "backslashreplace")
    size = Path(file).stat().st_size if Path(file).is_file() else 0
    room = BYTES_MAX - size
    if len(content) <= room:
        return content
    if room <= 0:
        return b""
    content_kept = content[:room].decode("utf-8", "ignore").rpartition("\n")[0]
    return f"{content_kept}\n\n… the rest is more than the summary of a step can hold\n".encode()
