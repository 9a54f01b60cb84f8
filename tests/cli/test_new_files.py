"""Files are written where nothing is, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.cli.init.files import write_new
from simkit.core.errors import SimkitError


@pytest.mark.parametrize("existing", ["file", "folder", "link to nothing", "nothing"])
def test_a_file_is_written_only_where_nothing_is(tmp_path: Path, existing: str) -> None:
    file = tmp_path / "new.yaml"
    match existing:
        case "file":
            file.write_text("old")
        case "folder":
            file.mkdir()
        case "link to nothing":
            file.symlink_to("gone")

    is_new = write_new(file, "new\n")

    assert is_new is (existing == "nothing")
    assert [path.name for path in tmp_path.iterdir()] == ["new.yaml"]
    assert not file.is_file() or file.read_text() == ("new\n" if is_new else "old")


def test_folders_of_a_file_are_made(tmp_path: Path) -> None:
    assert write_new(tmp_path / "gone" / "new.yaml", "new\n")

    assert (tmp_path / "gone" / "new.yaml").read_text() == "new\n"


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    name = "x" * 256

    with pytest.raises(SimkitError) as raised:
        write_new(tmp_path / name, "new\n")

    assert str(raised.value) == f"{tmp_path}/{name}: it cannot be written: File name too long"
