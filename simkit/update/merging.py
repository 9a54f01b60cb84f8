"""Merging of many proposals into one text: edits that all rows share, as far as the text allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace

from simkit.core.errors import SourceError
from simkit.core.text import counted
from simkit.language.yaml import Document, DocumentCache
from simkit.spec.scenario.writing import WIDTH
from simkit.update.edits import Give, Relist, Sheet, Unfold, applied, opened
from simkit.update.files import FileChange, read_bytes, text_of, with_text, write
from simkit.update.first_claims import common
from simkit.update.proposals import Note, Proposal, Proposed, fingerprint, note_lines
from simkit.update.replacing import Obstacle, line_end, line_start

Read: TypeAlias = Callable[[str], list[Document]]
"""Returns the documents of a text that the file holds, or could hold; raises SourceError."""


def file_changes(
    proposals: Iterable[Proposal], cache: DocumentCache | None = None
) -> tuple[list[FileChange], list[Note]]:
    """Return each file with all edits, and the changes that a person must make."""
    by_file: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        by_file.setdefault(proposal.file, []).append(proposal)
    edits, notes = [], []
    for file, some in by_file.items():
        before = read_bytes(file)
        text, declined = changed_text(file, text_of(before), some, cache)
        notes += declined
        if text != text_of(before):
            edits.append(FileChange(file, before, with_text(before, text)))
    return edits, list(dict.fromkeys(notes))


def accepted_lines(
    proposals: Iterable[Proposal], cache: DocumentCache | None = None
) -> Iterator[str]:
    """Write all changed files, and yield the report: differences first."""
    changes, notes = file_changes(proposals, cache)
    for change in changes:
        yield from change.diff().splitlines()
    yield from note_lines(notes)
    for change in changes:
        write(change)
    yield f"{counted(len(changes), 'file')} changed{'; run again' if changes else ''}"


def changed_text(
    file: str, text: str, proposals: Sequence[Proposal], cache: DocumentCache | None = None
) -> tuple[str, list[Note]]:
    """Return the text of a file with all edits, and the changes that a person must make.

    ``cache`` has the texts that were parsed before.
    Raise SourceError if the text has changed since the run.
    """
    read = partial((DocumentCache() if cache is None else cache).of_text, file=file)
    documents = read(text)
    notes = [note for proposal in proposals for note in proposal.notes]
    by_document: dict[int, list[Proposal]] = {}
    for proposal in proposals:
        is_there = proposal.document < len(documents)
        if not is_there or fingerprint(documents[proposal.document]) != proposal.fingerprint:
            reason = "it has changed since it ran, so nothing is changed in it"
            raise SourceError(file, reason, advice="Run again.")
        by_document.setdefault(proposal.document, []).append(proposal)
    for index, some in by_document.items():
        agreed, declined = _agreed(some)
        text, refused = _with_edits(read, text, index, agreed)
        notes += [*declined, *refused]
    return text, list(dict.fromkeys(notes))


def _agreed(proposals: Sequence[Proposal]) -> tuple[list[Proposed], list[Note]]:
    """Return the edits that all rows of a table propose, with notes about the others.

    A row that held proposes nothing, so that no claim that held is changed.
    """
    rows = proposals[0].rows
    if rows == 1:
        return list(proposals[0].edits), []
    proposed: dict[tuple[Any, ...], list[Proposed]] = {}
    for other_edit in (other_edit for proposal in proposals for other_edit in proposal.edits):
        key = (type(other_edit.edit), other_edit.edit.path, getattr(other_edit.edit, "key", ""))
        proposed.setdefault(key, []).append(other_edit)
    agreed, notes = [], []
    for first, *others in proposed.values():
        edit = first.edit
        if len(others) + 1 < rows:
            why = f"{counted(len(others) + 1, 'row')} of {rows} found something else"
            notes.append(first.note(f"{why}; the rows of a table share what is written here"))
        elif isinstance(edit, Give) and edit.key == "expect":
            values = [
                other_edit.edit.value for other_edit in others if isinstance(other_edit.edit, Give)
            ]
            claims = common([edit.value, *values])
            agreed += [replace(first, edit=replace(edit, value=claims))] if claims else []
        elif all(other_edit.edit == edit for other_edit in others):
            agreed.append(first)
        else:
            notes.append(first.note("the rows of the table found different values"))
    return agreed, notes


def _with_edits(
    read: Read, text: str, index: int, edits: Sequence[Proposed]
) -> tuple[str, list[Note]]:
    """Return the text with the edits that it allows and that read back correctly."""
    for edit in edits:
        if isinstance(edit.edit, Give) and edit.edit.key == "expect":
            text = opened(text, index, edit.edit.path)
    proposals: list[Proposed] = []
    notes: list[Note] = []
    sheet = Sheet(text)
    for edit in edits:
        try:
            sheet.replacements(index, edit.edit)
            proposals.append(edit)
        except Obstacle as why:
            notes.append(edit.note(str(why)))
    new = _read_back(read, sheet, index, proposals)
    if new is None:
        # One of them is not possible in this text, so each is tried on top of those that are.
        tried, proposals, new = proposals, [], text
        for edit in tried:
            longer = _read_back(read, sheet, index, [*proposals, edit])
            if longer is None:
                notes.append(edit.note("it cannot be changed in its place"))
            else:
                proposals, new = [*proposals, edit], longer
    return _unfolded(read, new, index, proposals), notes


def _read_back(read: Read, sheet: Sheet, index: int, edits: Sequence[Proposed]) -> str | None:
    """Return the text with edits, if it reads back as exactly these changes; else None."""
    expected = [document.data for document in read(sheet.text)]
    expected[index] = applied(expected[index], [document.edit for document in edits])
    try:
        text = sheet.with_replacements(
            document for edit in edits for document in sheet.replacements(index, edit.edit)
        )
        actual = [document.data for document in read(text)]
    except (Obstacle, SourceError):
        return None
    return text if actual == expected else None


def _unfolded(read: Read, text: str, index: int, edits: Sequence[Proposed]) -> str:
    """Return the text with lists that are too long for one line written in lines."""
    for edit in edits:
        if not isinstance(edit.edit, Relist | Give):
            continue
        sheet = Sheet(text)
        *_, spot = sheet.layout(index).chain(edit.edit.path)
        line = text[line_start(text, spot.start) : line_end(text, spot.start)]
        if spot.is_flow and len(line) > WIDTH:
            unfold = replace(edit, edit=Unfold(edit.edit.path))
            with suppress(Obstacle):
                text = _read_back(read, sheet, index, [unfold]) or text
    return text
