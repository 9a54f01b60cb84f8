"""Proposals of many runs in one text, and files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from simkit.core.errors import SimkitError, SourceError
from simkit.language.yaml import Document, DocumentCache, load_text
from simkit.update.edits import Give, Put, Relist
from simkit.update.files import FileChange, read_bytes, refuse_in_ci, text_of, with_text, write
from simkit.update.proposals import (
    Note,
    Proposal,
    Proposed,
    accepted_lines,
    changed_text,
    decoded,
    encoded,
    file_changes,
    fingerprint,
)

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


class Reads(DocumentCache):
    """A cache that counts the characters that it is given."""

    count = 0

    def of_text(self, text: str, file: str) -> list[Document]:
        self.count += len(text)
        return super().of_text(text, file)


def test_a_change_reads_its_own_document_and_no_other() -> None:
    text = "".join(f"# {number}\n---\n\n--- # empty\n---\na: {number}\n" for number in range(50))
    items = [proposal("a.yaml", n, Put(("a",), n + 100), text=text) for n in range(50)]
    reads = Reads()

    new, notes = changed_text("a.yaml", text, items, reads)

    assert new == re.sub(r"(?<=a: )\d+", lambda match: str(int(match[0]) + 100), text)
    assert notes == []
    assert reads.count < 4 * len(text)


@pytest.mark.parametrize("text", [TEXT.replace("a: 2", "a: 3"), TEXT.partition("---")[0]])
def test_a_document_that_no_longer_says_what_ran_is_refused(text: str) -> None:
    stale = proposal("a.yaml", 1, Put(("a",), 4))

    with pytest.raises(SourceError) as refused:
        changed_text("a.yaml", text, [stale])

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


def change(file: Path, after: bytes) -> FileChange:
    return FileChange(str(file), file.read_bytes(), after)


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: 1\r\n")
    file.chmod(0o640)

    write(change(file, b"a: 2\r\n"))

    assert file.read_bytes() == b"a: 2\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file, link = tmp_path / "real" / "a.yaml", tmp_path / "b.yaml"
    file.write_bytes(b"a: 1\n")
    link.symlink_to(file)

    write(change(link, b"a: 2\n"))

    assert link.is_symlink()
    assert file.read_bytes() == b"a: 2\n"


def test_a_file_that_has_changed_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: 1\n")
    stale = change(file, b"a: 2\n")
    file.write_bytes(b"a: 3\n")

    with pytest.raises(SourceError) as refused:
        write(stale)

    assert str(refused.value) == (
        f"{file}: it has changed since it was read, so nothing is written to it\n  Run again."
    )
    assert file.read_bytes() == b"a: 3\n"


def test_a_write_that_fails_leaves_the_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: 1\n")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(SourceError) as refused:
        write(change(file, b"a: 2\n"))

    assert str(refused.value) == f"{file}: it cannot be written: No space left on device"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.yaml": b"a: 1\n"}


def test_a_byte_order_mark_stays() -> None:
    content = b"\xef\xbb\xbfa: 1\n"

    assert text_of(content) == "a: 1\n"
    assert with_text(content, "a: 2\n") == b"\xef\xbb\xbfa: 2\n"


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the file cannot be read: No such file or directory"):
        read_bytes(str(tmp_path / "a.yaml"))


def test_a_difference_says_what_changes() -> None:
    item = FileChange("a.yaml", b"a: 1\r\nb: 2", b"a: 1\r\nb: 3")

    assert item.diff() == (
        "--- a.yaml\n+++ a.yaml (new)\n@@ -1,2 +1,2 @@\n a: 1\n"
        "-b: 2\n\\ No newline at end of file\n+b: 3\n\\ No newline at end of file"
    )


@pytest.mark.parametrize("value", ["1", "true", "True", "yes"])
def test_in_ci_everything_is_refused(value: str) -> None:
    with pytest.raises(SimkitError) as refused:
        refuse_in_ci("simkit expect", {"CI": value})

    assert str(refused.value) == (
        "simkit expect changes scenario files, and is refused in CI (CI is set)\n"
        "  Run it where somebody reads the difference, and commit what it writes."
    )


@pytest.mark.parametrize("environment", [{}, {"CI": ""}, {"CI": "false"}, {"CI": "0"}])
def test_elsewhere_nothing_is_refused(environment: dict[str, str]) -> None:
    refuse_in_ci("simkit expect", environment)
