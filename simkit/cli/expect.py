"""Implementation of ``simkit expect``: run, make claims, show them, write them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from simkit.cli.console import output_to_stderr
from simkit.cli.plan import cases_at
from simkit.cli.update_files import offer
from simkit.core.output import echo
from simkit.session.execution.alone import replayed_alone
from simkit.session.simulate import run
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import ScenarioCase, items_in
from simkit.trace.views import view_of
from simkit.update import FileChange, Note, additions, changed_text
from simkit.update.files import read_bytes, text_of, with_text


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
        text, left = _with_claims(file, text_of(before), items, library)
        notes += left
        if text != text_of(before):
            if any(isinstance(library.prepared(other_item).pipeline, App) for other_item in items):
                of_code.add(file)
            changes.append(FileChange(file, before, with_text(before, text)))
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
