"""Files are written whole, or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from simkit.core.errors import SimkitError, SourceError
from simkit.update.files import FileChange, read_bytes, refuse_in_ci, text_of, with_text, write


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
