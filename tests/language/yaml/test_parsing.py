"""Files, encodings, tabs, nesting and aliases: what is refused before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.language.yaml import FILE_BYTES_MAX, NESTING_MAX, DocumentCache
from tests.building import load
from tests.language.yaml.reading import read, refusal


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbfa: [1]\n", b"a: [1]\r\n", b"%YAML 1.2\n---\na: [1]\n", b"%YAML 1.1\n---\na: [1]",
     b"a: [1]", b"# \t c\na: [1] # \tc\n"],
)  # fmt: skip
def test_byte_order_mark_line_ends_directives_and_comments_change_nothing(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(content)

    (document,) = load(path)

    assert (document.file, document.data) == (str(path), {"a": [1]})
    assert document.position(("a", 0)).endswith(":5")


def test_tabs_may_stand_inside_texts() -> None:
    text = "a: b\tc\nd: 'e\tf'\ng: |\n  h\ti\n\tj\nk: \"l\n  \tm\"\n"

    assert read(text.replace("\tj\n", "")) == {
        "a": "b\tc", "d": "e\tf", "g": "h\ti\n", "k": "l m"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("\ta: b", "1:1"),
        ("a:\n\tb: c", "2:1"),
        ("a:\tb", "1:3"),
        ("-\tb", "1:2"),
        ("a: [b,\tc]", "1:7"),
        ("a: &x\tb", "1:6"),
        ("a: 'é\tx'\t# c", "1:9"),
        ("a: b\t", "1:5"),
        ("a: b\n\tc", "2:1"),
        ("a: |\n\tb", "2:1"),
        ("\r\na: 1\r\n\t\r\nb: 2", "3:1"),
        ("\ufeffa:\tb", "1:3"),
    ],
)
def test_tabs_cannot_indent_or_separate(text: str, place: str) -> None:
    assert refusal(text) == f"f.yaml:{place}: a tab cannot indent or separate\n  use spaces"


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "---\n---\n"])
def test_a_file_without_a_document_is_refused(text: str) -> None:
    assert (
        refusal(text)
        == "f.yaml:1:1: the file holds no document\n  write its text, or delete the file"
    )


@pytest.mark.parametrize(
    ("text", "place", "code", "escape"),
    [
        ("a: b\nc: \x00", "2:4", "0000", "\\x00"),
        ("a: é\x07", "1:5", "0007", "\\x07"),
        ("a: \x7f", "1:4", "007F", "\\x7f"),
        ("a: 'x\u2028y'", "1:6", "2028", "\\u2028"),
        ("a: |\n  x\x85y", "2:4", "0085", "\\x85"),
        ("a: \ud800", "1:4", "D800", "\\ud800"),
    ],
)
def test_unprintable_characters_and_foreign_line_ends_are_refused(
    text: str, place: str, code: str, escape: str
) -> None:
    assert refusal(text) == (
        f"f.yaml:{place}: the character U+{code} cannot stand in a YAML file\n"
        f'  inside double quotes, "{escape}" stands for it'
    )


@pytest.mark.parametrize("opening", ["[", "- ", "? ", "{a: ", "!t [", "a:\n "])
@pytest.mark.parametrize("times", [NESTING_MAX + 1, 200_000])
def test_nesting_is_refused_before_it_can_fill_the_stack(opening: str, times: int) -> None:
    text = opening * times
    if "\n" in opening:
        text = "".join(f"{' ' * depth}a:\n" for depth in range(min(times, 500)))

    error = refusal(text + "[x")

    assert error.endswith(f": lists and mappings are nested deeper than {NESTING_MAX} levels")


def test_a_value_may_lie_inside_as_many_lists_as_the_limit_says() -> None:
    data = read("[" * NESTING_MAX + "x" + "]" * NESTING_MAX)

    for _ in range(NESTING_MAX):
        (data,) = data
    assert data == "x"


def test_a_tab_does_not_make_deep_nesting_slow() -> None:
    error = refusal("\n" + "[" * 1_000_000 + "\t")

    assert error == f"f.yaml:2:101: lists and mappings are nested deeper than {NESTING_MAX} levels"


def test_an_alias_bomb_is_refused_where_it_goes_off() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 40)
    )

    assert refusal(text) == (
        "f.yaml:6:5: aliases expand this to more than 1,000,000 values\n  at a5"
    )


def test_aliases_do_not_hide_nesting() -> None:
    text = f"a: &a {'[' * 60}{']' * 60}\nb: {'{c: ' * 60}*a{'}' * 60}\n"

    assert refusal(text) == (
        "f.yaml:2:76: aliases nest this deeper than 100 levels\n  at b" + ".c" * 18
    )


def test_a_missing_file_is_refused_under_the_name_given(cwd: Path) -> None:

    with pytest.raises(SourceError) as caught:
        load("scenarios/none.yaml")

    assert str(caught.value) == "scenarios/none.yaml: there is no such file"


def test_directories_devices_and_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a: 1")

    errors = []
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "file" / "x", "nul\0.yaml"):
        with pytest.raises(SourceError) as caught:
            load(path)
        errors.append(str(caught.value))

    assert errors == [
        f"{tmp_path}: this is a directory, not a file",
        "/dev/zero: this is not a regular file",
        f"{tmp_path}/file/x: the file cannot be read: Not a directory",
        "'nul\\x00.yaml': this is no path: embedded null byte",
    ]


def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("a: 1")

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(SourceError) as caught:
        load(path)

    assert str(caught.value) == f"{path}: the file cannot be read: Permission denied"


def test_a_file_that_is_too_long_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.yaml"
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    monkeypatch.delattr(Path, "read_bytes")

    with pytest.raises(SourceError) as caught:
        load(path)

    assert str(caught.value) == (
        f"{path}: the file has 4,000,001 bytes; at most 4,000,000 are read\n"
        "  split it into several files"
    )


def test_bytes_that_are_not_utf_8_are_refused_at_their_place(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes("a: é\nb: é".encode() + b"\xe9\n")

    with pytest.raises(SourceError) as caught:
        DocumentCache().heads(str(path))

    assert str(caught.value) == (
        f"{path}:2:5: byte 11 of the file (0xe9) is not UTF-8\n  save the file as UTF-8"
    )
