"""Proposals of many runs become one text, if the text still says what ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.language.yaml import load_text
from simkit.update import (
    Proposal,
    accepted_lines,
    changed_text,
    decoded,
    encoded,
    file_changes,
)
from simkit.update.edits import Give, Put, Relist
from simkit.update.proposals import Note, Proposed, fingerprint

TEXT = "a: {b: 1, c: [x]}\n---\na: 2\n"


def proposal(file: str, document: int, *edits: Put | Give | Relist, text: str = TEXT) -> Proposal:
    ran = load_text(text, file)[document]
    proposed = tuple(Proposed(edit, f"{file}:1:1", "a") for edit in edits)
    return Proposal(file, document, 1, fingerprint(ran), proposed, ())


def test_the_documents_of_a_file_change_together(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(TEXT)
    item = proposal(str(file), 0, Put(("a", "b"), 3), Relist(("a", "c"), (), ((0, "y"),)))
    other = proposal(str(file), 1, Put(("a",), 4))

    changes, notes = file_changes([item, other])

    assert [change.after for change in changes] == [b"a: {b: 3, c: [y, x]}\n---\na: 4\n"]
    assert notes == []


def test_a_document_that_no_longer_says_what_ran_is_refused() -> None:
    stale = proposal("a.yaml", 1, Put(("a",), 4))

    with pytest.raises(SourceError) as refused:
        changed_text("a.yaml", TEXT.replace("a: 2", "a: 3"), [stale])

    assert str(refused.value) == (
        "a.yaml: it has changed since it ran, so nothing is changed in it\n  Run again."
    )


def test_a_comment_that_has_come_since_stays() -> None:
    text = TEXT.replace("a: 2\n", "a: 2  # new\n")

    new, _ = changed_text("a.yaml", text, [proposal("a.yaml", 1, Put(("a",), 4))])

    assert new == TEXT.replace("a: 2\n", "a: 4  # new\n")


def test_an_edit_that_would_not_read_back_is_left_to_people() -> None:
    text = "a: 1\nb: 2"
    edits = [Put(("a",), 3), Put(("b",), "one\ntwo\n")]

    new, notes = changed_text("a.yaml", text, [proposal("a.yaml", 0, *edits, text=text)])

    assert new == "a: 3\nb: 2"
    assert notes == [Note("a.yaml:1:1", "a: it cannot be changed in its place")]


def test_a_list_that_has_become_too_long_is_written_in_lines() -> None:
    long = "x" * 60
    text = f"a: [1, '{long}']  \nb: 1\n"
    edit = Relist(("a",), (), ((2, long),))

    new, notes = changed_text("a.yaml", text, [proposal("a.yaml", 0, edit, text=text)])

    assert new == f"a:\n  - 1\n  - '{long}'\n  - {long}  \nb: 1\n"
    assert notes == []


def test_a_proposal_travels_as_text() -> None:
    item = proposal(
        "a.yaml", 0, Put(("a", 0), {"$len": 1}), Give((), "k", None), Relist((), (1,), ())
    )

    assert decoded(encoded(item)) == item


def test_what_is_accepted_is_told_and_written(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: 2\n")
    item = proposal(str(file), 0, Put(("a",), 4), text="a: 2\n")

    lines = list(accepted_lines([item]))

    assert lines == [
        f"--- {file}", f"+++ {file} (new)", "@@ -1 +1 @@", "-a: 2", "+a: 4",
        "1 file changed; run again",
    ]  # fmt: skip
    assert file.read_text() == "a: 4\n"
