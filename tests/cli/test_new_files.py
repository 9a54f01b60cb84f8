"""Files are written where nothing is, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.cli.init.files import write_new
from simkit.core.errors import SimkitError


@pytest.mark.parametrize("there", ["file", "folder", "link to nothing", "nothing"])
def test_a_file_is_written_only_where_nothing_is(tmp_path: Path, there: str) -> None:
    file = tmp_path / "new.yaml"
    match there:
        case "file":
            file.write_text("old")
        case "folder":
            file.mkdir()
        case "link to nothing":
            file.symlink_to("gone")

    written = write_new(file, "new\n")

    assert written is (there == "nothing")
    assert [one.name for one in tmp_path.iterdir()] == ["new.yaml"]
    assert not file.is_file() or file.read_text() == ("new\n" if written else "old")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SimkitError) as raised:
        write_new(tmp_path / "gone" / "new.yaml", "new\n")

    assert str(raised.value) == (
        f"{tmp_path}/gone/new.yaml: it cannot be written: No such file or directory"
    )
