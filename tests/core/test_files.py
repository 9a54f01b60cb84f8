"""Reports are written whole, and neither links, devices nor files of sources are lost for them."""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from simkit.core.errors import SimkitError
from simkit.core.files import SOURCES, check_place, write_whole


def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "shown.html").symlink_to(tmp_path / "kept.html")
    for content in (b"first", b"second"):
        write_whole(tmp_path / "shown.html", content)

        assert (tmp_path / "kept.html").read_bytes() == content
    assert (tmp_path / "shown.html").is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="it has no named pipes in folders")
def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    contents: list[bytes] = []
    reader = threading.Thread(target=lambda: contents.append(pipe.read_bytes()))
    reader.start()

    check_place(str(pipe), "-o")
    write_whole(pipe, b"a page")

    reader.join()
    assert contents == [b"a page"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("ending", SOURCES)
def test_a_file_of_sources_is_no_place_for_a_report(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"refund{ending}"
    check_place(str(file), "--html")
    file.write_text("mine", encoding="utf-8")

    with pytest.raises(SimkitError, match=r"--html: .* is there, is no report, and is not"):
        check_place(str(file), "--html")
