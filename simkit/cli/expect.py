"""Implementation of ``simkit expect``: run, make claims, show them, write them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from simkit.cli.console import output_to_stderr, paint_for, wants_color
from simkit.cli.init.files import replayed_alone
from simkit.cli.plan import RunPlan, cases_at
from simkit.cli.running import Job
from simkit.cli.selection import SelectedEntry
from simkit.core.answers import answer, answer_row, current_answer
from simkit.core.output import clean, echo
from simkit.core.text import counted
from simkit.language.yaml import DocumentCache
from simkit.report.results import summary_of
from simkit.report.wording import Paint, Tone
from simkit.session.simulate import run
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import ScenarioCase, items_in
from simkit.trace.views import view_of
from simkit.update.files import FileChange, read_bytes, text_of, with_text, write
from simkit.update.proposals import Note, additions, changed_text, file_changes, note_lines

_TONES: Final[dict[str, Tone]] = {"+": "good", "-": "bad", "@": "quiet"}


def update(
    entries: Sequence[SelectedEntry], plan: RunPlan, accepts_all: bool, cache: DocumentCache
) -> int:
    """Run scenarios and offer to change their failing claims.

    Return 0 if there is nothing to change, or if it is changed; else the exit code of the unchanged
    run.
    """
    with plan.start(entries, Job(details="none", proposes=True), cache) as runs:
        rans = list(runs)
    proposals = (ran.proposal for ran in rans if ran.proposal is not None)
    changes, notes = file_changes(proposals, cache)
    files_written = offer(changes, notes, accepts_all)
    is_left = bool(changes) and not files_written
    return summary_of([ran.result for ran in rans]).exit_code if is_left else 0


def offer(changes: Sequence[FileChange], notes: Sequence[Note], accepts_all: bool) -> list[str]:
    """Show all differences, ask on a terminal for each file, and return the written files.

    Without a terminal nothing is written unless ``accepts_all``. Raise SourceError for a file that
    has changed meanwhile.
    """
    answer(changes=[])
    paint = paint_for(wants_color())
    for change in changes:
        answer_row("changes", {"file": change.file, "diff": change.diff()})
        echo(f"\n{_painted(change.diff(), paint)}")
    for index, line in enumerate(note_lines(notes)):
        echo(line if index else f"\n{line}")
    if changes:
        echo()
    files_written: list[str] = []
    for change in changes:
        if accepts_all or (_is_answered() and click.confirm(clean(f"write {change.file}?"))):
            write(change)
            files_written.append(change.file)
    if changes:
        echo(_summary(len(changes), files_written))
    return files_written


def _is_answered() -> bool:
    """Return whether a user can answer questions."""
    return sys.stdin.isatty() and sys.stdout.isatty() and current_answer() is None


def _summary(count: int, files_written: Sequence[str]) -> str:
    if files_written:
        return f"{counted(len(files_written), 'file')} of {count} written"
    return "nothing written" if _is_answered() else "nothing written: say so with --yes"


def _painted(diff: str, paint: Paint) -> str:
    lines = []
    for line in diff.splitlines():
        is_name = line.startswith(("+++", "---"))
        tone: Tone | None = "strong" if is_name else _TONES.get(line[:1])
        lines.append(paint(line, tone) if tone else line)
    return "\n".join(lines)


def expect(paths: Sequence[str], accepts_all: bool) -> int:
    """Write claims for turns without any, after confirmation; return the exit code."""
    library = Library()
    by_file: dict[str, set[int]] = {}
    for item in cases_at(paths, library.cache):
        by_file.setdefault(item.file, set()).add(item.index)
    of_code: set[str] = set()
    changes: list[FileChange] = []
    notes: list[Note] = []
    for file, documents in by_file.items():
        before = read_bytes(file)
        # All rows of a table are run, whichever was named: its turns are written only once.
        items = [item for item in items_in(file, library.cache) if item.index in documents]
        text, problems = _with_claims(file, text_of(before), items, library)
        notes += problems
        if text != text_of(before):
            if any(isinstance(library.prepared(other_item).pipeline, App) for other_item in items):
                of_code.add(file)
            changes.append(FileChange(file, before, with_text(before, text)))
    if not by_file:
        RunPlan(paths=tuple(paths)).selection(library.cache)  # It refuses nothing to run.
    if not changes:
        echo("every turn that runs has claims")
    files_written = offer(changes, notes, accepts_all)
    broken = [file for file in files_written if file in of_code and not _holds_alone(file)]
    return 0 if len(files_written) == len(changes) and not broken else 1


def _holds_alone(file: str) -> bool:
    """Replay a file in a new process; print the findings there."""
    failed = replayed_alone(file)
    if failed:
        echo(f"{file}: what was written does not hold in a new process:\n{failed}")
        echo("Take out of the claims what each process has anew, or write `{$any: true}` for it.")
    return not failed


def _with_claims(
    file: str, text: str, items: Sequence[ScenarioCase], library: Library
) -> tuple[str, list[Note]]:
    """Return the text with claims for each turn.

    A conversation ends with an error that nobody claims, so that it is run again once the error is
    claimed.
    """
    while True:
        for document in library.cache.of_text(text, file):
            library = library.with_document(document)
        proposals = []
        for item in items:
            prepared = library.prepared(item)
            if prepared.skip is None:
                with output_to_stderr():
                    view = view_of(run(prepared).events)
                proposals.append(additions(prepared, view, prepared.redactor(os.environ)))
        longer, notes = changed_text(file, text, proposals, library.cache)
        if longer == text:
            return text, notes
        text = longer
