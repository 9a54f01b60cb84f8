"""Files are read once, whether their heads or their documents are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.language.yaml import DocumentCache, heads, load

TWO = "scenario: one\nturns: [user: Hello]\n---\nscenario: two\nturns: [user: Bye]\n"
TWICE = "scenario: one\nturns: [user: Hello]\nx-a: {b: 1, b: 2}\n"


def written(folder: Path, text: str) -> str:
    file = folder / "a.scenario.yaml"
    file.write_text(text)
    return str(file)


def test_heads_and_documents_are_those_that_are_read_alone(tmp_path: Path) -> None:
    file = written(tmp_path, TWO)
    shelf = DocumentCache()

    found = shelf.heads(file), [document.data for document in shelf.documents(file)]

    assert found == (heads(file), [document.data for document in load(file)])


def test_a_document_read_with_its_head_knows_its_places(tmp_path: Path) -> None:
    file = written(tmp_path, TWO)
    shelf = DocumentCache()
    shelf.heads(file)

    _, second = shelf.documents(file)

    assert second.position(("turns", 0, "user")) == f"{file}:5:15"


def test_what_was_read_for_its_heads_is_not_read_again(tmp_path: Path) -> None:
    file = written(tmp_path, TWO)
    shelf = DocumentCache()
    shelf.heads(file)
    Path(file).unlink()

    assert [document.data["scenario"] for document in shelf.documents(file)] == ["one", "two"]
    assert [head.values["scenario"] for head in shelf.heads(file)] == ["one", "two"]


def test_a_fault_below_a_head_is_told_with_the_documents(tmp_path: Path) -> None:
    file = written(tmp_path, TWICE)
    shelf = DocumentCache()

    names = [head.values["scenario"] for head in shelf.heads(file)]

    assert names == ["one"]
    with pytest.raises(SourceError) as raised:
        shelf.documents(file)
    assert str(raised.value) == (
        f"{file}:3:13: the key `b` is here twice; the first is on line 3\n  at x-a.b"
    )
