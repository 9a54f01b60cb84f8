"""Proposals: the changes that one run proposes for its scenario, and many of them in one text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from simkit.checks.claims import FindingBuilder, unobservable
from simkit.checks.findings import CLAIM, Finding, Path, Scope
from simkit.checks.judge import CHECKS, Judgement, scopes_of
from simkit.checks.runs import groups_of
from simkit.core.errors import SourceError
from simkit.core.messages import ABSENT
from simkit.core.redact import Redactor
from simkit.core.text import counted
from simkit.language.paths import follow, literal, references_in
from simkit.language.yaml import Document, DocumentCache, path_text
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.model import Scenario
from simkit.spec.scenario.writing import WIDTH
from simkit.trace.views import View, said_in
from simkit.update.edits import (
    Change,
    Edit,
    Give,
    Manual,
    Put,
    Relist,
    Sheet,
    Unfold,
    applied,
    changes,
    changes_of_agents,
    opened,
)
from simkit.update.files import FileChange, read_bytes, text_of, with_text, write
from simkit.update.observed_values import (
    StableClaims,
    claim_of,
    claim_of_handoff,
    claim_of_tool_call,
    common,
    first_claims,
    texts_of,
    words_of,
)
from simkit.update.replacing import Obstacle, line_end, line_start, parts_of

_OTHER_CLAIMS: Final = ("satisfies", "findings", "judge")
"""Claims that have no actual value, or, of a judge, an opinion that a person must share."""


class Failing(msgspec.Struct, frozen=True):
    """A failing claim, and the actual value."""

    path: Path
    """The path in the scenario's document."""
    name: str
    """The key of the claim: ``agents``, ``reply``, a section, …"""
    matcher: Any
    value: Any


def failing_claims(
    scenario: Scenario, document: Document, view: View, judgement: Judgement
) -> Iterator[Failing | Manual]:
    """Yield the failing claims, in the order of the file's turns."""
    for scope in scopes_of(scenario, view, range(len(view.turns))):
        collector = _Collector(document, scope)
        for name, check in CHECKS.items():
            is_judged = scope.expect.has(name) and name not in _OTHER_CLAIMS
            if is_judged and not unobservable(scope, name):
                for finding in check(scope, collector):
                    collector.keep(finding)
        yield from collector.claims
    for finding in judgement.findings:
        if finding.id == CLAIM and _is_no_value(finding):
            yield Manual(finding.path, finding.what)


def _is_no_value(finding: Finding) -> bool:
    path = finding.path
    if "expect" not in path:
        return True
    claim = path[path.index("expect") + 1 :]
    return claim[:1] in tuple((name,) for name in _OTHER_CLAIMS) or "not observable" in finding.what


class _Collector(FindingBuilder):
    """A writer that keeps compared values instead of writing findings."""

    def __init__(self, document: Document, scope: Scope) -> None:
        super().__init__(document)
        self._scope = scope
        self.claims: list[Failing | Manual] = []

    def compare(
        self, matcher: Any, value: Any, path: Path, label: str, *, many: bool = False, **_: Any
    ) -> list[Finding]:
        """Keep a failing claim, once; report nothing."""
        if not self.misses(matcher, value) or any(claim.path == path for claim in self.claims):
            return []
        if many:
            why = f"`{path[-2]}` speaks of several: what one of them found may not hold of others"
            self.claims.append(Manual(path, why))
        else:
            self.claims.append(Failing(path, str(path[-1]), matcher, value))
        return []

    def keep(self, finding: Finding) -> None:
        """Keep a finding that a check writes itself."""
        path, size = finding.path, len(self._scope.path)
        claim = path[size] if len(path) > size else ""
        if claim == "agents":
            value = groups_of(self._scope.runs)
            matcher = self._scope.expect.agents
            agents = Failing(path[: size + 1], "agents", matcher, value)
            self.claims += [] if agents in self.claims else [agents]
        elif claim == "model_calls":
            agent = str(path[-1])
            count = len(self._scope.calls.get(agent, ()))
            expected = (self._scope.expect.model_calls or {})[agent]
            self.claims.append(Failing(path, "model_calls", expected, count))
        elif "not observable" not in finding.what:
            # `includes matches no message`: the path shows the rest.
            words = finding.what
            self.claims.append(Manual(path, words[words.find(" matches ") + 1 :]))


# The proposal of one run


_REFERENCE: Final = "it is filled in by a reference"
_REPEATED: Final = "its turn is repeated"
_AS_CLAIMS: Final = {"handoffs": claim_of_handoff, "tool_calls": claim_of_tool_call}


class Note(msgspec.Struct, frozen=True):
    """A change that a person must make."""

    where: str
    """``file:line:column``."""
    what: str


def note_lines(notes: Sequence[Note]) -> list[str]:
    """Return the changes that a person must make, below a headline."""
    if not notes:
        return []
    return ["must be changed by hand:", *(f"  {note.where}: {note.what}" for note in notes)]


class Proposed(msgspec.Struct, frozen=True):
    """One edit, and the claim that it changes."""

    edit: Edit
    where: str
    claim: str
    """The path of the changed part."""

    def note(self, why: str) -> Note:
        """Return the note that a person must make the change."""
        return Note(self.where, f"{self.claim}: {why}")


class Proposal(msgspec.Struct, frozen=True):
    """The changes that the run of one scenario, or of one row of its table, proposes."""

    file: str
    document: int
    rows: int
    """The number of rows of the scenario's table; 1 if it has none."""
    fingerprint: str
    """The fingerprint of the document that ran."""
    edits: tuple[Proposed, ...]
    notes: tuple[Note, ...]


def fixes(prepared: Prepared, view: View, judgement: Judgement) -> Proposal:
    """Return the changes that make a run's failing claims hold; lints are never accepted."""
    prepared = prepared.after(said_in(view))
    document, original = prepared.document, _original_document(prepared)
    edits, notes = [], []
    for failing in failing_claims(prepared.scenario, document, view, judgement):
        for change in _changes_of(failing, document.data):
            placed = _placed(change, document.data)
            at = (*placed.path, placed.key) if isinstance(placed, Give) else placed.path
            where, claim = document.position(at), path_text(at)
            which = document.repetition(at)
            placed = replace(placed, path=document.written_at(placed.path))
            why = placed.why if isinstance(placed, Manual) else _why_not(placed, original.data)
            if which:
                notes.append(Note(where, f"{claim}: {_REPEATED}, and this is {which}"))
            elif isinstance(placed, Manual) or why:
                notes.append(Note(where, f"{claim}: {why}"))
            else:
                edits.append(Proposed(_escaped(placed), where, claim))
    return _proposal(prepared, edits, notes)


def additions(
    prepared: Prepared,
    view: View,
    redactor: Redactor,
    *,
    with_contexts: bool = True,
    names: Collection[str] = (),
) -> Proposal:
    """Return a first set of claims for each turn that has no ``expect``; with ``names``, of no
    other kinds, and of those only what is not empty."""
    document, original = prepared.document, _original_document(prepared)
    turns = document.data["turns"]
    stable = StableClaims(redactor, words_of(turns), texts_of(turns))
    edits, notes = [], []
    for index, turn in enumerate(prepared.scenario.turns[: len(view.turns)]):
        path: Path = ("turns", index)
        if document.repetition(path):
            if "expect" not in turn.model_fields_set:
                reason = f"{_REPEATED}: write claims that hold every time"
                notes.append(Note(document.position(path), f"{path_text(path)}: {reason}"))
            continue
        at = document.written_at(path)
        claims = (
            {}
            if "expect" in turn.model_fields_set
            else first_claims(view, index, stable, with_contexts=with_contexts)
        )
        if names:
            claims = {name: claims[name] for name in names if claims.get(name)}
        if claims and _plain_at(original.data, at):
            edit = _escaped(Give(at, "expect", claims))
            edits.append(Proposed(edit, document.position(path), path_text((*path, "expect"))))
    return _proposal(prepared, edits, notes)


def encoded(proposal: Proposal) -> str:
    """Return a proposal as text, for another process."""
    return msgspec.json.encode(proposal, enc_hook=_plain_number).decode()


def decoded(text: str) -> Proposal:
    """Return the proposal in a text from ``encoded``."""
    return msgspec.json.decode(text, type=Proposal)


def _plain_number(value: Any) -> int | float:
    """Return a number without its source text, which is a class of its own."""
    return int(value) if isinstance(value, int) else float(value)


def _proposal(prepared: Prepared, edits: Sequence[Proposed], notes: Sequence[Note]) -> Proposal:
    item, original = prepared.item, _original_document(prepared)
    rows = len(prepared.scenario.examples or ()) or 1
    notes = tuple(dict.fromkeys(notes))
    return Proposal(item.file, item.index, rows, fingerprint(original), tuple(edits), notes)


def _original_document(prepared: Prepared) -> Document:
    """Return the scenario's document with unresolved references."""
    return prepared.source_document or prepared.document


def fingerprint(document: Document) -> str:
    """Return a text that changes whenever the document's content does."""
    return sha256(repr(document.data).encode(errors="backslashreplace")).hexdigest()


# From a claim to edits of its document


def _changes_of(claim: Failing | Manual, data: Any) -> Iterator[Change]:
    if isinstance(claim, Manual):
        yield claim
        return
    if claim.name == "agents" and claim.path[-2:] == ("expect", "agents"):
        proposed = changes_of_agents(claim.matcher, claim.value)
    elif claim.path[-2:] == ("expect", "error") and isinstance(follow(data, claim.path), str):
        proposed = [Put((), None if claim.value is None else claim.value["type"])]
    else:
        proposed = changes(claim.matcher, claim.value, _AS_CLAIMS.get(claim.name, claim_of))
    for change in proposed:
        yield replace(change, path=(*claim.path, *change.path))


def _placed(change: Change, data: Any) -> Change:
    """Return the change for the file's own data: a value that is not written there is added."""
    if not isinstance(change, Put) or follow(data, change.path) is not ABSENT:
        return change
    parent, key = follow(data, change.path[:-1]), change.path[-1]
    if isinstance(parent, Mapping) and isinstance(key, str):
        return Give(change.path[:-1], key, change.value)
    return Manual(change.path, "it is not written out")


def _why_not(edit: Edit, data: Any) -> str:
    """Return why an edit is impossible in a document with references; empty if it is possible."""
    if not _plain_at(data, edit.path):
        return _REFERENCE
    value = follow(data, edit.path)
    missing_value: Any = value if isinstance(edit, Put) else None
    if isinstance(edit, Relist):
        missing_value = [value[index] for index in edit.removed]
    return _REFERENCE if any(True for _ in references_in(missing_value)) else ""


def _plain_at(data: Any, path: Path) -> bool:
    """Return whether a path exists in the file's own data."""
    return follow(data, path) is not ABSENT


def _escaped(edit: Edit) -> Edit:
    """Return the edit with values escaped so that a scenario reads them as they are."""
    if isinstance(edit, Put | Give):
        return replace(edit, value=literal(edit.value))
    if isinstance(edit, Relist):
        added = tuple((index, literal(value)) for index, value in edit.added)
        return replace(edit, added=added)
    return edit


# Many proposals in one text: edits that all rows share, as far as the text allows


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
    parts = parts_of(text)
    for index, some in by_document.items():
        agreed, declined = _agreed(some)
        parts[index], refused = _with_edits(read, parts[index], agreed)
        notes += [*declined, *refused]
    return "".join(parts), list(dict.fromkeys(notes))


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


def _with_edits(read: Read, text: str, edits: Sequence[Proposed]) -> tuple[str, list[Note]]:
    """Return a document's text with the edits that it allows and that read back correctly."""
    for edit in edits:
        if isinstance(edit.edit, Give) and edit.edit.key == "expect":
            text = opened(text, 0, edit.edit.path)
    proposals: list[Proposed] = []
    notes: list[Note] = []
    sheet = Sheet(text)
    for edit in edits:
        try:
            sheet.replacements(0, edit.edit)
            proposals.append(edit)
        except Obstacle as why:
            notes.append(edit.note(str(why)))
    new = _read_back(read, sheet, proposals)
    if new is None:
        # One of them is not possible in this text, so each is tried on top of those that are.
        tried, proposals, new = proposals, [], text
        for edit in tried:
            longer = _read_back(read, sheet, [*proposals, edit])
            if longer is None:
                notes.append(edit.note("it cannot be changed in its place"))
            else:
                proposals, new = [*proposals, edit], longer
    return _unfolded(read, new, proposals), notes


def _read_back(read: Read, sheet: Sheet, edits: Sequence[Proposed]) -> str | None:
    """Return the text with edits, if it reads back as exactly these changes; else None."""
    (document,) = read(sheet.text)
    expected = applied(document.data, [edit.edit for edit in edits])
    try:
        text = sheet.with_replacements(
            replacement for edit in edits for replacement in sheet.replacements(0, edit.edit)
        )
        actual = [document.data for document in read(text)]
    except (Obstacle, SourceError):
        return None
    return text if actual == [expected] else None


def _unfolded(read: Read, text: str, edits: Sequence[Proposed]) -> str:
    """Return the text with lists that are too long for one line written in lines."""
    for edit in edits:
        if not isinstance(edit.edit, Relist | Give):
            continue
        sheet = Sheet(text)
        *_, spot = sheet.layout(0).chain(edit.edit.path)
        line = text[line_start(text, spot.start) : line_end(text, spot.start)]
        if spot.is_flow and len(line) > WIDTH:
            unfold = replace(edit, edit=Unfold(edit.edit.path))
            with suppress(Obstacle):
                text = _read_back(read, sheet, [unfold]) or text
    return text
