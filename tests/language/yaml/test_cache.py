"""Files are read once and texts parsed once, for heads, documents and places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from yaml.nodes import Node

from simkit.core.errors import SourceError
from simkit.language.yaml import DocumentCache, documents, load_text, parsing
from simkit.language.yaml.documents import NODES_KEPT_MAX

TWO = "scenario: one\nturns: [user: Hello]\n---\nscenario: two\nturns: [user: Bye]\n"
TWICE = "scenario: one\nturns: [user: Hello]\nx-a: {b: 1, b: 2}\n"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose texts were parsed."""
    files: list[str] = []

    def counted(text: str, file: str) -> Iterator[Node]:
        files.append(file)
        return parsing.roots(text, file)

    monkeypatch.setattr(documents, "roots", counted)
    return files


def write_scenario(folder: Path, text: str, name: str = "a.scenario.yaml") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_heads_documents_and_places_are_of_one_parse(tmp_path: Path, parsed: list[str]) -> None:
    file = write_scenario(tmp_path, TWO)
    cache = DocumentCache()

    heads = cache.heads(file)
    _, second = cache.documents(file)

    assert [head.values["scenario"] for head in heads] == ["one", "two"]
    assert second.data == {"scenario": "two", "turns": [{"user": "Bye"}]}
    assert second.position(("turns", 0, "user")) == f"{file}:5:15"
    assert cache.of_text(TWO, file) == cache.documents(file)
    assert parsed == [file]


def test_what_was_read_is_not_read_again_before_somebody_says_so(tmp_path: Path) -> None:
    file = write_scenario(tmp_path, TWO)
    cache = DocumentCache()
    cache.heads(file)
    write_scenario(tmp_path, "scenario: other\n")

    assert [document.data["scenario"] for document in cache.documents(file)] == ["one", "two"]
    cache.begin_anew()
    assert [document.data["scenario"] for document in cache.documents(file)] == ["other"]


def test_a_text_that_was_parsed_before_it_was_written_is_not_parsed_again(
    tmp_path: Path, parsed: list[str]
) -> None:
    file = write_scenario(tmp_path, TWO)
    cache = DocumentCache()
    cache.of_text("scenario: other\n", file)

    write_scenario(tmp_path, "scenario: other\n")

    assert [document.data["scenario"] for document in cache.documents(file)] == ["other"]
    assert parsed == [file]


def test_a_fault_below_a_head_is_told_with_the_documents(tmp_path: Path, parsed: list[str]) -> None:
    file = write_scenario(tmp_path, TWICE)
    cache = DocumentCache()

    names = [head.values["scenario"] for head in cache.heads(file)]

    assert names == ["one"]
    for _ in range(2):
        with pytest.raises(SourceError) as raised:
            cache.documents(file)
        assert str(raised.value) == (
            f"{file}:3:13: the key `b` is here twice; the first is on line 3: join them\n  at x-a.b"
        )
    assert parsed == [file]


def test_the_first_problem_of_a_text_is_told() -> None:
    with pytest.raises(SourceError) as raised:
        load_text("a: {b: 1, b: 2}\n---\na: b: c\n", "f.yaml")

    assert str(raised.value).startswith("f.yaml:1:11: the key `b` is here twice")


def test_places_of_a_file_read_long_ago_are_found_by_parsing_it_again(
    tmp_path: Path, parsed: list[str]
) -> None:
    first = write_scenario(tmp_path, TWO)
    long = write_scenario(
        tmp_path, f"scenario: long\nx-a: {'x' * NODES_KEPT_MAX}\n", "long.scenario.yaml"
    )
    cache = DocumentCache()
    document, _ = cache.documents(first)
    cache.documents(long)

    assert [document.position(("turns",)) for _ in range(2)] == [f"{first}:2:8"] * 2
    assert parsed == [first, long, first]
