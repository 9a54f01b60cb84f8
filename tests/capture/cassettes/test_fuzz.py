"""Truncated and mutated files: each is a cassette or an error, and stays as it is."""

from __future__ import annotations

import gzip
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.capture.cassettes import Cassette, Player, encoded, load, save, scan_file
from simkit.core.errors import CassetteInvalid, CassetteMissed
from simkit.providers.http import HttpRequest
from tests.capture.cassettes.requests import KEYING, chat, recorded
from tests.capture.cassettes.test_saving import PLAIN, STREAMED
from tests.capture.cassettes.test_vcrpy_layout import FOREIGN

OURS = (STREAMED, recorded(chat("a"), "1"))
FILES = {
    "yaml": ("a.yaml", encoded(Cassette(Path("a.yaml"), (*OURS, PLAIN)))),
    "json": ("a.json", encoded(Cassette(Path("a.json"), OURS))),
    "gzip": ("a.yaml.gz", gzip.compress(encoded(Cassette(Path("a.yaml"), OURS)), mtime=0)),
    **{name: ("a.yaml", content.encode()) for name, content in FOREIGN.items()},
}
fragments = st.sampled_from(
    [b"", b"\x00", b"\xff", b"\n", b" ", b"\t", b"- ", b": ", b"[", b"]", b"{", b"}", b"'", b'"',
     b"&a ", b"*a", b"!!binary ", b"!!int x", b"!!timestamp x", b"!!float", b"!!omap [a]",
     b"!!set {a}", b"<<: ", b"no", b"-1", b"1e999", b"9" * 5_000, b"0x_", b"0b", b"1:60:99",
     b"2024-13-45", b".nan", b"|", b">", b"%", b"---\n", b"...", b"\\ud800", b"\\", b"\xc2\x85",
     b"\xe2\x80\xa8", b"null", b"? ", b"#", b"=", b"request: ", b"status: 5", b"\r", b",",
     b"content-encoding: br", b"content-encoding: [gzip]"]
)  # fmt: skip


@st.composite
def mutants(draw: st.DrawFn, content: bytes) -> bytes:
    """A file with a few pieces taken out, put in or doubled, and perhaps without its end."""
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(start + draw(st.sampled_from([0, 1, 9, 99])),
                                          len(content))))  # fmt: skip
        middle = draw(fragments | st.just(content[start:end] * 2) | st.binary(max_size=3))
        content = content[:start] + middle + content[end:]
    if draw(st.booleans()):
        content = content[: draw(st.integers(0, len(content)))]
    return content


def played(file: Path) -> None:
    """Loads, plays and misses whatever the file holds; what cannot be read cannot be replaced."""
    try:
        cassette = load(file)
    except CassetteInvalid:
        with pytest.raises(CassetteInvalid, match=f"^{re.escape(str(file))}:"):
            save(file, OURS, KEYING, lambda before: OURS)
        return
    play = Player(cassette, KEYING)
    for item in cassette.interactions:
        play.take(item.agent, 1, item.request)
    with pytest.raises(CassetteMissed):
        play.take("billing", 1, HttpRequest("POST", STREAMED.request.url, (), b"{}"))


@pytest.mark.parametrize(("name", "content"), FILES.values(), ids=FILES)
def test_mutated_file_is_a_cassette_or_an_error_and_stays_as_it_is(
    name: str, content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / name

    @given(mutants(content))
    def mutated(mutant: bytes) -> None:
        file.write_bytes(mutant)

        played(file)

        with suppress(CassetteInvalid):
            list(scan_file(file, KEYING.redactor).leaks)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: mutant}

    mutated()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["yaml", "json", "gzip"])
def test_file_that_was_cut_off_anywhere_is_an_error(name: str, tmp_path: Path) -> None:
    file_name, content = FILES[name]
    file = tmp_path / file_name

    for end in range(len(content.rstrip())):
        file.write_bytes(content[:end])
        with pytest.raises(CassetteInvalid):
            load(file)
