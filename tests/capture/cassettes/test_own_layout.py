"""Files in simkit's own layout are read without libyaml, to the data that libyaml would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from simkit.capture.cassettes import Cassette, Interaction, encoded
from simkit.capture.cassettes.own_layout import own_data
from simkit.capture.cassettes.reading import Text, _Builder, _Composer
from simkit.core.errors import CassetteInvalid
from simkit.providers.http import HttpRequest, HttpResponse

PATH = Path("c.yaml")
ROOT = Path(__file__).resolve().parents[3]
_TEXTS = st.text(st.sampled_from("ab'\": \n-|{}[]#&*!%é\u2028😀\\0"), max_size=12)
_BODIES = st.one_of(_TEXTS.map(str.encode), st.binary(max_size=8))
_NAMES = st.text(st.sampled_from("aB-'é: "), min_size=1, max_size=6)
_HEADERS = st.lists(st.tuples(_NAMES, _TEXTS), max_size=3).map(tuple)
_INTERACTIONS = st.builds(
    lambda uri, headers, body, answered, chunks, waits, agent: Interaction(
        request=HttpRequest("POST", uri, headers, body),
        response=HttpResponse(200, answered, tuple(chunks), "", waits[: len(chunks)]),
        agent=agent,
        turn=len(agent),
    ),
    st.sampled_from(["https://a/b", "http://x/?q='1'"]), _HEADERS, _BODIES, _HEADERS,
    st.lists(_BODIES, min_size=1, max_size=3), st.lists(st.integers(0, 9)).map(tuple), _TEXTS,
)  # fmt: skip


def _by_libyaml(text: str) -> Any:
    """Returns what libyaml reads, or the error."""
    whole = Text(PATH, text.encode("utf-8", "surrogatepass"))
    try:
        return _Builder(PATH).built(_Composer(whole).root())
    except CassetteInvalid as error:
        return error


def _file(interactions: list[Interaction]) -> str:
    return encoded(Cassette(PATH, tuple(interactions))).decode()


def test_a_recorded_conversation_is_read_without_libyaml() -> None:
    body = b'{"content": "It\'s here"}'
    answered = (b"data: 1\n\n", b"data: [DONE]\n\n")
    request = HttpRequest("POST", "https://a/b", (("x", "y"),), body)
    plain = Interaction(request=request, response=HttpResponse(200, (), (b"",)))
    streamed = Interaction(
        request=request, response=HttpResponse(200, (), answered, "", (0, 30)), agent="a", turn=1
    )
    binary = Interaction(request=request, response=HttpResponse(200, (), (b"\xff\x00",)))
    text = _file([plain, streamed, binary])

    assert own_data(text) == _by_libyaml(text) != None  # noqa: E711


def test_shipped_cassettes_are_read_without_libyaml() -> None:
    texts = [file.read_text() for file in ROOT.glob("cassettes/**/*.yaml")]
    data = {text: own_data(text) for text in texts}

    assert len(data) > 5
    assert [text[:200] for text, read in data.items() if read is None] == []
    assert list(data.values()) == [_by_libyaml(text) for text in data]


@given(st.lists(_INTERACTIONS, min_size=1, max_size=2))
def test_what_is_written_is_read_as_libyaml_reads_it(interactions: list[Interaction]) -> None:
    text = _file(interactions)
    assert own_data(text) in (None, _by_libyaml(text))


@given(st.lists(_INTERACTIONS, min_size=1, max_size=2), st.data())
def test_what_is_edited_by_hand_is_read_as_libyaml_reads_it_or_not_at_all(
    interactions: list[Interaction], data: Any
) -> None:
    text = _file(interactions)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        removed = data.draw(st.integers(0, 4))
        word = data.draw(
            st.sampled_from(
                ["'", '"', " ", "  ", "\n", "- ", "|", "a", ":", "#", "0", "é", "\t", "''", "\\n"]
            )
        )
        text = text[:place] + word + text[place + removed :]
    by_lines = own_data(text)

    if by_lines is not None:
        assert by_lines == _by_libyaml(text)
        assert repr(by_lines) == repr(_by_libyaml(text))
