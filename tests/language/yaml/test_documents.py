"""Documents and heads: where a value stands, how it is shown, what a collector sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.language.yaml import DocumentCache, flow_accident, load_text, near, path_text, text_of

QUOTE = "quote the text, or write it in block style"
SCENARIO = """\
# a comment
version: 1
scenario: one
turns:
  - user: Hello
    expect:
      agents:
        - router   # first
        - coach

      # about the reply
      reply: {$contains: pizza}
  - &second
    user: |
      Two
      lines
again:
  turn: *second
"""


def test_documents_are_numbered_without_those_that_are_entirely_empty() -> None:
    text = "---\n---\na: 1\n---\n# nothing\n---\n~\n---\n- b\n"

    documents = load_text(text, "f.yaml")

    assert [(document.index, document.data, document.line(())) for document in documents] == [
        (0, {"a": 1}, 3),
        (1, None, 7),
        (2, ["b"], 9),
    ]


def test_aliases_are_copies_placed_at_their_anchor() -> None:
    (document,) = load_text(SCENARIO, "f.yaml")

    assert document.data["again"]["turn"] == {"user": "Two\nlines\n"}
    assert document.data["again"]["turn"] is not document.data["turns"][1]
    assert document.position(("again", "turn", "user")) == "f.yaml:14:11"


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ((), "2:1", "2:1"),
        (("turns",), "5:3", "4:1"),
        (("turns", 0), "5:5", "5:5"),
        (("turns", 0, "user"), "5:11", "5:5"),
        (("turns", 0, "expect", "agents", 1), "9:11", "9:11"),
        (("turns", 0, "expect", "reply", "$contains"), "12:26", "12:15"),
        (("turns", 0, "expect", "handoffs"), "7:7", "7:7"),
        (("turns", 7, "user"), "5:3", "5:3"),
        (("version", "x", 0), "2:10", "2:10"),
    ],
)
def test_position_is_that_of_the_value_its_key_or_the_nearest_ancestor(
    path: tuple[str | int, ...], value: str, key: str
) -> None:
    (document,) = load_text(SCENARIO, "f.yaml")

    places = (document.position(path), document.position(path, key=True), document.line(path))

    assert places == (f"f.yaml:{value}", f"f.yaml:{key}", int(value.split(":")[0]))


@pytest.mark.parametrize(
    ("path", "excerpt"),
    [
        (("scenario",), "scenario: one"),
        (("turns", 0, "user"), "- user: Hello"),
        (("turns", 0, "expect", "agents"), "agents:\n  - router   # first\n  - coach"),
        (("turns", 0, "expect", "reply"), "reply: {$contains: pizza}"),
        (("turns", 1), "- &second\n  user: |\n    Two\n    lines"),
        (("again", "turn"), "- &second\n  user: |\n    Two\n    lines"),
        (
            ("turns",),
            "turns:\n  - user: Hello\n    expect:\n      agents:\n        - router   # first\n"
            "        - coach\n\n      # about the reply\n…",
        ),
    ],
)
def test_excerpt_is_the_lines_of_the_value_and_its_key(
    path: tuple[str | int, ...], excerpt: str
) -> None:
    (document,) = load_text(SCENARIO, "f.yaml")

    assert document.excerpt(path) == excerpt


def test_excerpt_of_crlf_lines_has_none_of_it() -> None:
    (document,) = load_text("a:\r\n  b: 1\r\n  c: 2\r\n", "f.yaml")

    assert document.excerpt(("a",)) == "a:\n  b: 1\n  c: 2"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("turns", 0, "expect"), "turns[0].expect"),
        ((1, "a"), "[1].a"),
        (("context", "coach[0]", "$len"), 'context."coach[0]".$len'),
        (("a b", "c.d", "", 'é"'), '"a b"."c.d".""."é\\""'),
    ],
)
def test_path_text_quotes_the_keys_that_would_read_as_paths(
    path: tuple[str | int, ...], text: str
) -> None:
    assert path_text(path) == text


@pytest.mark.parametrize(
    ("word", "expected"),
    [("handof", "handoffs"), ("REPLY", "reply"), ("Agnets", "agents"), ("x", ""), ("", "")],
)
def test_near_is_the_word_that_was_probably_meant(word: str, expected: str) -> None:
    assert near(word, ["agents", "handoffs", "reply"]) == expected


def test_error_of_a_document_says_where_what_near_known_and_advice() -> None:
    (document,) = load_text(SCENARIO, "f.yaml")

    error = document.error(
        ("turns", 0, "expect", "agents"),
        "unknown claim `agnets`",
        word="agnets",
        known=("agents", "reply"),
        advice="see the list of claims",
        key=True,
    )

    assert str(error) == (
        "f.yaml:7:7: unknown claim `agnets`\n"
        "  at turns[0].expect.agents\n"
        "  did you mean `agents`?   known: agents, reply\n"
        "  see the list of claims"
    )


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "a: {nutrition: Hello, you}",
            "inside {…} a comma ends a text, so `you` became a key of its own: " + QUOTE,
        ),
        (
            "a: [user: Hello, you]",
            "inside […] a comma ends a text, so `you` became an item of its own: " + QUOTE,
        ),
        ("a: {x:1}", "after the `:` in `x:1` a space is missing"),
        ("a: {nutrition: Hello, you: ~}", ""),
        ("a: {nutrition: Hello, you: ''}", ""),
        ("a: {nutrition: Hello, you: }", ""),
        ("a: {'you' :}", ""),
        ("a: {nutrition: 'Hello, you'}", ""),
        ("a: [{user: Hello}, you]", ""),
        ("a: [Hello, you]", ""),
        ("a: [user: Hello, 'you']", ""),
        ("a:\n  nutrition: Hello\n  you:\n", ""),
        ("a: text", ""),
    ],
)
def test_flow_accident_is_seen_where_a_comma_cut_a_text(text: str, advice: str) -> None:
    (document,) = load_text(text, "f.yaml")

    assert flow_accident(document, ("a",)) == advice


def test_error_advises_on_a_flow_accident_unless_it_has_better_advice() -> None:
    (document,) = load_text("a: {nutrition: Hello, you}", "f.yaml")

    silent = document.error(("a", "you"), "`you` is no agent", key=True)
    outspoken = document.error(("a", "you"), "`you` is no agent", advice="ask somebody")

    assert str(silent) == (
        "f.yaml:1:23: `you` is no agent\n"
        "  at a.you\n"
        "  inside {…} a comma ends a text, so `you` became a key of its own: " + QUOTE
    )
    assert outspoken.advice == "ask somebody"


def test_heads_are_the_keys_that_a_collector_needs(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(
        "# first\nversion: 1\npipeline: p\nagents: {a: {}}\n---\n---\n"
        "scenario: 007\ntags: [x, y]\nexamples: [{a: 1.50}]\nxfail: {reason: r}\n"
        "turns: [{a: 1, a: 2}]\n---\n[list]\n"
    )

    heads = DocumentCache().heads(str(path))

    assert [(head.index, head.line, head.values) for head in heads] == [
        (0, 2, {"pipeline": "p"}),
        (
            1,
            7,
            {"scenario": 7, "tags": ["x", "y"], "examples": [{"a": 1.5}], "xfail": {"reason": "r"}},
        ),
        (2, 13, {}),
    ]
    assert text_of(DocumentCache().heads(str(path))[1].values["scenario"]) == "007"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: b: c", f"1:5: an unquoted text cannot contain `: `\n  {QUOTE}"),
        ("a:\tb", "1:3: a tab cannot indent or separate\n  use spaces"),
        ("# nothing", "1:1: the file holds no document\n  write its text, or delete the file"),
        (
            "scenario: a\nscenario: b",
            "2:1: the key `scenario` is here twice; the first is on line 1: join them\n"
            "  at scenario",
        ),
    ],
)
def test_heads_refuse_what_load_refuses_of_syntax(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)

    with pytest.raises(SourceError) as caught:
        DocumentCache().heads(str(path))

    assert str(caught.value) == f"{path}:{error}"
