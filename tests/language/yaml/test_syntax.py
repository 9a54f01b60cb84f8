"""What is no YAML is said in words that a scenario author knows."""

from __future__ import annotations

import pytest

from tests.language.yaml.reading import QUOTE, TAG, refusal

SYNTAX = [
    ("user: What: now", "1:11: an unquoted text cannot contain `: `", QUOTE),
    ("[user: Say: hi]", "1:11: an unquoted text inside […] cannot contain `: `", QUOTE),
    ("{a: This: is}", "1:9: an unquoted text inside {…} cannot contain `: `", QUOTE),
    ("a: [\n b: c: d]", "2:6: an unquoted text inside […] cannot contain `: `", QUOTE),
    ("a: @x", "1:4: a text cannot start with `@`", QUOTE),
    ("a: `x`", "1:4: a text cannot start with a backtick", QUOTE),
    ("a: %x", "1:4: a text cannot start with `%`", QUOTE),
    ("a: **bold**", "1:4: a text cannot start with `*`", QUOTE),
    ("a: & b", "1:4: a text cannot start with `&`", QUOTE),
    ("a: ]", "1:4: a text cannot start with `]`", QUOTE),
    ("a: ? b", "1:4: a text cannot start with `? `", QUOTE),
    ("a: [b,,c]", "1:7: a value is missing before `,`", QUOTE),
    ("a: {x:[y]}", "1:6: a space is missing after the `:`", QUOTE),
    (": x", "1:1: a key is missing before the `:`", QUOTE),
    ("a: - b", "1:4: a list cannot start here", f"start it on a line of its own; or {QUOTE}"),
    (
        "%x: y",
        "1:1: a line cannot start with `%`",
        "quote it, or indent it if it is a text",
    ),
    (
        "%YAML 2.0\n---\na",
        "1:1: only `%YAML 1.2` and `%YAML 1.1` can be read",
        "remove the line",
    ),
    (
        "a: >text",
        "1:4: after `>` the text starts on the next line",
        "a text that starts with `>` needs quotes",
    ),
    (
        "a: [x] y",
        "1:8: there is text after the closing bracket `]`",
        "quote the whole text, or write it in block style; inside '…' a quote is written twice: ''",
    ),
    (
        "- {name} hello",
        "1:10: there is text after the closing brace `}`",
        "quote the whole text, or write it in block style; inside '…' a quote is written twice: ''",
    ),
    (
        "a: 'it's'",
        "1:8: there is text after the closing quote `'`",
        "quote the whole text, or write it in block style; inside '…' a quote is written twice: ''",
    ),
    (
        "b: 1\na: 'x\nc: d",
        "2:4: the quote `'` opened here is never closed",
        "close it; inside '…' a quote is written twice: ''",
    ),
    (
        'a: "x\n---\n"',
        '1:4: the quote `"` opened here is never closed',
        "close it; inside '…' a quote is written twice: ''",
    ),
    (
        'a: "\\d"',
        "1:5: inside double quotes `\\d` is no escape",
        "use single quotes, or write `\\\\` for a backslash",
    ),
    (
        'a: "\\u12"',
        "1:7: inside double quotes a `\\` starts an escape, and this is none",
        "use single quotes, or write `\\\\` for a backslash",
    ),
    (
        "a: [b, [c], ",
        "1:4: the `[` opened here is never closed",
        "close it; a text that starts with it, or contains ` #`, needs quotes",
    ),
    (
        "a: {b: c #1}\n---\nd",
        "1:4: the `{` opened here is never closed",
        "close it; a text that starts with it, or contains ` #`, needs quotes",
    ),
    (
        "a: {x: y\nb: c",
        "2:2: a `,` or `}` is missing before this",
        f"the `{{` on line 1 is still open: close it; or {QUOTE}",
    ),
    ("a: {b[1]: {c: d}}", "1:6: `[` inside {…} begins a list", 'quote it all: `"b[1]"`'),
    ("a: {to: ${b.c}}", "1:10: a reference inside {…} needs quotes", 'write `"${path}"`'),
    ("a: [${b}]", "1:6: a reference inside […] needs quotes", 'write `"${path}"`'),
    ("a:\n  b: 1\n \u00a0c: 2", "3:2: the character U+00A0 cannot indent", "use spaces"),
    (
        "a: b\n c: d",
        "2:3: a key cannot stand here",
        "indent the line like its neighbours; if it belongs to a text, quote the whole text",
    ),
    (
        "a:\n  b: 1\n c: 2",
        "3:2: this does not fit into the mapping that starts on line 1",
        "indent it like its neighbours; if it belongs to a text, quote the whole text",
    ),
    (
        "- a\nb: c",
        "2:1: this does not fit into the list that starts on line 1",
        "indent it like its neighbours; if it belongs to a text, quote the whole text",
    ),
    (
        "a: 1\nb\nc: 2",
        "2:1: a `:` is missing after this key",
        "write `key: value`; a line that continues a text is indented more than its key",
    ),
    ("a: b\n...\nc", "3:1: the document has ended before this", "start another one with `---`"),
    ("...", "1:1: a value is missing here", "write one, or remove the line"),
    ("a: !<x y", "1:4: the tag `!<x` is not supported", TAG),
    ("a: !e!x y", "1:4: the tag `!e!x` is not supported", TAG),
    ("a: ! x", "1:4: the tag `!` is not supported", TAG),
    ("a: [!]", "1:5: the tag `!` is not supported", TAG),
    ("a: &x 1\nb: &x 2", "2:4: the anchor `&x` is here twice; the first is on line 1",
     "give each anchor a name of its own"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "advice"), SYNTAX)
def test_what_is_no_yaml_is_refused_with_advice(text: str, problem: str, advice: str) -> None:
    assert refusal(text) == f"f.yaml:{problem}\n  {advice}"


def test_a_question_mark_alone_is_refused_by_each_libyaml() -> None:
    """An older libyaml loses its place at it; a newer one reads a key that says nothing."""
    first, *_, last = refusal("[a, ? ]").splitlines()

    assert first.partition(": ")[2] == "a `?` alone inside brackets needs quotes"
    assert last == f"  {QUOTE}"
