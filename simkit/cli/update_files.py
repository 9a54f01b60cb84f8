"""Changes to scenario files: shown first, written after confirmation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click

from simkit.cli.console import paint_for, wants_color
from simkit.cli.plan import RunPlan
from simkit.cli.running import Job
from simkit.cli.selection import SelectedEntry
from simkit.core.output import clean, echo
from simkit.core.text import counted
from simkit.language.yaml import DocumentCache
from simkit.report.results import summary_of
from simkit.report.wording import Paint, Tone
from simkit.update import FileChange, Note, file_changes, note_lines, write

_TONES: Final[dict[str, Tone]] = {"+": "good", "-": "bad", "@": "quiet"}


def update(
    entries: Sequence[SelectedEntry], plan: RunPlan, accepts_all: bool, cache: DocumentCache
) -> int:
    """Run scenarios and offer to change their failing claims.

    Return 0 if there is nothing to change, or if it is changed; else the exit code of the unchanged
    run.
    """
    rans = list(plan.run(entries, Job(details="none", proposes=True), cache))
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
    paint = paint_for(wants_color())
    for change in changes:
        echo(f"\n{_painted(change.diff(), paint)}")
    for place, line in enumerate(note_lines(notes)):
        echo(line if place else f"\n{line}")
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
    return sys.stdin.isatty() and sys.stdout.isatty()


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
