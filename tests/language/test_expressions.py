from __future__ import annotations

import _thread
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.capture.cassettes import Keying
from simkit.core.errors import PatternTooSlow, SourceError
from simkit.core.redact import Redactor
from simkit.language import expressions
from simkit.language.expressions import Expression
from simkit.language.matching import holds
from simkit.providers.http import HttpRequest
from tests.building import run_yaml

ENDLESS = ["^(a+)+$", "^(a|a)*$", "(a|aa)+$", "^(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$",
           "^" + "(a|aa)" * 40 + "x$", "^(a|aa|a+)" + "(a|[|]|aa)" * 25 + "x$"]  # fmt: skip
TEXT = "a" * 40 + "!"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "CPU_SECONDS_MAX", 0.05)


@pytest.mark.parametrize("pattern", ENDLESS)
def test_no_expression_hangs(pattern: str) -> None:
    text = ""
    try:
        assert Expression(pattern).search(TEXT) is None
    except PatternTooSlow as problem:
        text = str(problem)

    output = pattern if len(pattern) <= 80 else pattern[:80] + "…"
    start = f"the regular expression `{output}` found no answer within 0.05 s of work"
    assert not text or text.startswith(start)


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "((a{90}){90}){90}", "(?:ab|c){,99999}"])
def test_an_expression_that_is_large_written_out_is_refused(pattern: str) -> None:
    with pytest.raises(re.error, match="its repeats are more than 100,000 together"):
        Expression(pattern)


@pytest.mark.parametrize(
    "pattern", ["a{1000}", "(a{3}){4,}b{2,7}", r"[{}]{2}\{", "x{,5}|{a}", "(((a)))*"]
)
def test_expressions_of_usual_size_are_compiled(pattern: str) -> None:
    assert Expression(pattern).pattern == pattern


def test_a_short_expression_on_a_long_text_does_not_hang_either() -> None:
    with pytest.raises(PatternTooSlow, match="in a text of 400,001 characters"):
        Expression(r"\w*\w*\w*[!.]").search("a" * 400_000 + "?")


def test_the_clock_limits_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "CPU_SECONDS_MAX", 1.0)
    monkeypatch.setattr(expressions, "SECONDS_MAX", 0.01)

    with pytest.raises(PatternTooSlow):
        Expression(r"\w*\w*\w*[!.]").search("a" * 400_000 + "?")


PIPELINE = """
agents: {a: {tools: [t]}}
tools: {t: {}}
flow: {handoffs: {start: a}}
"""
CALL = "replies: {a: [{calls: {t: {x: TEXT}}}, TEXT!]}"
PLACES = {
    "reply": f"{CALL}, tool_results: {{t: 1}}, expect: {{reply: {{$regex: SLOW}}}}",
    "excludes": f"{CALL}, tool_results: {{t: 1}}, "
    "expect: {context: {a: {excludes: [{$regex: SLOW}]}}}",
    "tool result": f"{CALL}, tool_results: {{t: {{when: {{x: {{$regex: SLOW}}}}, returns: 1}}}}",
    "reply line": "replies: {a: [{when: {messages: {$has: {$regex: SLOW}}}, text: b}]}",
}


@pytest.mark.parametrize("place", PLACES)
def test_one_that_takes_too_long_is_told_at_its_place(place: str) -> None:
    talk = f"turns: [{{user: TEXT!, {PLACES[place]}}}]"
    slow = r"\w*\w*\w*\w*\w*[?.]"
    scenario = talk.replace("TEXT", "a" * 4000).replace("SLOW", f"'{slow}'")

    with pytest.raises(SourceError, match=r"found no answer within 0\.05 s") as problem:
        run_yaml(PIPELINE, scenario)

    column = scenario.index(slow)
    assert problem.value.where.endswith(f":{column}")


parts = st.sampled_from(
    ["a", "b", "é", ".", r"\w", r"\d", r"\s", r"\b", "^", "$", "[ab]", "[^a]", "(a|b)", "(?:ab)",
     "[ab:]", r"\[:b",
     "(?i:A)", "*", "+", "?", "{2}", "{1,2}", "{e}", "{", "}", "|", r"\.", r"\{", "(?=a)", " "]
)  # fmt: skip


@given(st.lists(parts, max_size=7).map("".join), st.text("abé A{e}\n1.", max_size=12))
def test_what_is_limited_finds_what_re_finds(pattern: str, text: str) -> None:
    try:
        match = re.compile(pattern).search(text)
    except re.error:
        with pytest.raises(re.error):
            Expression(pattern)
        return
    expression = Expression(pattern)
    expression._ends_soon = lambda _text: False  # type: ignore[assignment, method-assign]

    result = expression.search(text)

    assert (result and result.span()) == (match and match.span())


def test_every_place_that_takes_an_expression_is_limited() -> None:
    endless = ENDLESS[2]
    request = HttpRequest("POST", "https://x.example/a", (), json.dumps({"t": TEXT}).encode())
    places = [
        lambda: holds({"$regex": endless}, TEXT),
        lambda: holds({"$schema": {"type": "string", "pattern": endless}}, TEXT),
        lambda: holds({"$schema": {"patternProperties": {endless: {}}}}, {TEXT: 1}),
        lambda: Keying(Redactor({}), [f"/{endless}/"]).question(request),
        lambda: Keying(Redactor({}), (), {"x": endless}).question(request),
    ]

    for place in places:
        with pytest.raises(PatternTooSlow):
            place()


def test_no_module_compiles_an_expression_of_a_user_by_itself() -> None:
    """`re.compile` of what is no constant of the module stands in known places only."""
    known = {
        "language/expressions.py": 1,  # the place itself
        "language/yaml/parsing.py": 1,  # a constant of its own, compiled when it is needed
        "bdd/phrases.py": 1,  # simkit's own phrases
        "bdd/vocabulary.py": 1,  # the same
        "capture/cassettes/capturing.py": 1,  # texts, escaped
        "core/redact/prefilter.py": 2,  # simkit's own shapes
        "core/redact/redactor.py": 3,  # the same
        "core/redact/spans.py": 1,  # the same
        "language/matching/contradictions.py": 1,  # in an empty text
        "checks/lints/required_and_private.py": 1,  # words of simkit's own, a tool's name escaped
        "core/output.py": 1,  # a number
        "providers/caching.py": 1,  # simkit's own names of models
        "cli/init/first_test.py": 1,  # a table of simkit's own
        "core/text.py": 2,  # constants of modules
        "spec/pipeline/models.py": 1,  # a place, escaped
        "spec/lint_catalogue.py": 1,  # words of simkit's messages, escaped
    }
    root = Path(expressions.__file__).parents[1]
    data = {}
    for file in root.rglob("*.py"):
        calls = re.findall(
            r"(?:\bre\.(?:compile|search|match|fullmatch|sub)|\blate_pattern)\(\s*(?![frb]*[\"'(])\w",
            file.read_text(),
        )
        if calls:
            data[str(file.relative_to(root))] = len(calls)

    assert {name for name in data if name not in known} == set()


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@pytest.mark.parametrize("pattern", ["[[:alpha:]]+", "[[:^alpha:]a]+", r"x\[:[:a]", "[:b[:a]"])
def test_a_class_that_only_the_other_library_knows_is_what_re_reads(pattern: str) -> None:
    for text in ("b a:]:] x[:a", "a]", ":^a]"):
        match = re.search(pattern, text)

        result = Expression(pattern)._slow.search(text)

        assert (result and result.span()) == (match and match.span())


@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 3_000 + "a" + ")" * 3_000])
def test_an_expression_that_re_gives_up_is_none(pattern: str) -> None:
    with pytest.raises(re.error):
        Expression(pattern)


def test_a_limited_search_takes_no_turn_among_the_threads_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*given: object) -> int:
        raise AssertionError("started as a thread of the run")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)  # As a run replaces it.

    assert Expression("(a|b)+c$").search("ab" * 30 + "c")
