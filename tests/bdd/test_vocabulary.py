"""The phrases: each is understood as itself, and each claim and operator has one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from simkit.bdd.assembling import WHOLE, claims_in
from simkit.bdd.conditions import CLAIM_KINDS, CONDITIONS, Below, condition_of
from simkit.bdd.phrases import ROWS, Phrase, Row
from simkit.bdd.vocabulary import (
    THEN,
    VOCABULARIES,
    Vocabulary,
    condition_phrases,
    hint,
    listed_steps,
    sections,
)
from simkit.language.matching.operators import OPERATORS
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, RUN_CLAIMS, TURN_CLAIMS
from tests.processes import run_python


def test_every_claim_has_a_step() -> None:
    families = {"": TURN_CLAIMS, "context.": CONTEXT_CLAIMS, "runs.": RUN_CLAIMS}
    names = {f"{family}{name}" for family, rows in families.items() for name in rows}

    without = names - {"context", "runs"} - {claim for step in THEN for claim in step.claims}

    assert not without, (
        f"give {without} a `phrase` in its row, or steps in simkit/bdd/vocabulary.py"
    )


def test_every_operator_has_a_phrase() -> None:
    assert {name for words in CONDITIONS for name in operators_in(words.value)} == set(OPERATORS)


def operators_in(matcher: object) -> set[str]:
    """The operators in a matcher, or in the template of one."""
    if isinstance(matcher, dict):
        inner = {name for value in matcher.values() for name in operators_in(value)}
        return inner | {key for key in matcher if key.startswith("$")}
    if isinstance(matcher, (list, tuple)):
        return {name for value in matcher for name in operators_in(value)}
    return set()


def below_of(example: str) -> tuple[str, Below]:
    """The line of an example, and what stands below it."""
    reply, *below = example.splitlines()
    schemas = {"RouterDecision": {"type": "object"}}.__getitem__
    if not below:
        return reply, Below(schema=schemas)
    if '"""' in below[0]:
        return reply, Below(text="\n".join(line.strip() for line in below[1:-1]), schema=schemas)
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in below]
    return reply, Below(table=rows, schema=schemas)


def test_the_list_has_the_titles_with_their_phrases_below_and_keeps_those_with_a_word() -> None:
    lines = list(listed_steps())
    title, phrases = next(sections())

    assert [line for line in lines if not line.startswith(" ")] == [name for name, _ in sections()]
    assert lines[:2] == [title, f"  {phrases[0][0]}"]
    assert list(listed_steps(phrases[0][0].upper()))[:2] == lines[:2]
    assert list(listed_steps("no such word")) == []


@pytest.mark.parametrize("words", CONDITIONS, ids=lambda words: words.text)
def test_a_condition_stands_for_the_operators_that_it_names(words: Row) -> None:
    reply, below = below_of(words.example or Phrase(words.text, CLAIM_KINDS).example)

    condition = condition_of(reply)

    assert condition is not None
    assert operators_in(condition.matcher(below)) >= operators_in(words.value)


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda item: item.keyword)
def test_every_phrase_is_understood_as_itself_only(vocabulary: Vocabulary) -> None:
    examples = {
        example: phrase.text
        for step, phrase in vocabulary.phrases
        for example in (phrase.example, (step.example or phrase.example).splitlines()[0])
    }

    understood = {
        example: [line.step.text for line in vocabulary.readings(example)] for example in examples
    }

    assert understood == {reply: [text] for reply, text in examples.items()}


def test_every_example_has_below_it_what_its_phrase_takes() -> None:
    takes = {}
    for vocabulary in VOCABULARIES:
        for step, phrase in vocabulary.phrases:
            example = step.example or phrase.example
            reply, below = below_of(example)
            line = vocabulary.line(reply)
            assert line is not None
            takes[example] = [form for form in line.takes if getattr(below, form) is not None], line

    assert [
        example for example, (have, line) in takes.items() if bool(have) != bool(line.takes)
    ] == []


def test_every_kind_of_hole_reads_its_own_example() -> None:
    for name, kind in CLAIM_KINDS.items():
        assert Phrase(f"{{{name}}}", CLAIM_KINDS).holes_in(kind.example) is not None, name


def test_a_line_may_speak_of_another_turn_or_of_the_end() -> None:
    then = VOCABULARIES[2]

    by_name = {
        text: line and line.owner
        for text in (
            "nobody handed off",
            "in turn 2, nobody handed off",
            "at the end, nobody handed off",
            "in the whole conversation, nobody handed off",
            "in turn x, nobody handed off",
        )
        for line in [then.line(text)]
    }

    assert by_name == {
        "nobody handed off": None,
        "in turn 2, nobody handed off": 1,
        "at the end, nobody handed off": WHOLE,
        "in the whole conversation, nobody handed off": WHOLE,
        "in turn x, nobody handed off": None,
    }
    assert then.line("in turn x, nobody handed off") is None


def test_what_is_given_and_said_is_not_what_must_be_so() -> None:
    given, when, then = VOCABULARIES

    assert given.line('the user says "Hello"') is None
    assert when.line("nobody handed off") is None
    assert then.line('the clerk replies "Hello"') is None


def test_the_nearest_phrase_is_named() -> None:
    assert VOCABULARIES[2].nearest("nobody hands off")[0] == "nobody handed off"


@pytest.mark.parametrize(
    ("keyword", "reply", "target"),
    [
        (
            "When",
            'the user sayz "a very long text of which no phrase knows a word"',
            "the user says {",
        ),
        ("When", 'nutrition cals log_meal with food "pizza"', "{agent} calls {tool:word}"),
        ("Given", 'the pipline "kitchen"', "the pipeline {name:text}"),
        ("Then", 'the reply containz "pizza"', 'as in `the reply contains "pizza"`?'),
        ("Then", 'in turn 2, the replly is "pizza"', "the reply (is|are) {value}"),
        (
            "Given",
            'the user says "Hi"',
            '`the user says "Hi"` is said after `When`, not after `Given`',
        ),
        ("Then", "qqq", ""),
    ],
)
def test_a_line_that_is_no_phrase_names_what_it_may_have_meant(
    keyword: str, reply: str, target: str
) -> None:
    assert target in hint(keyword, reply)
    assert bool(target) is bool(hint(keyword, reply))


def test_every_section_of_the_list_has_phrases_with_examples() -> None:
    titles = {title: len(rows) for title, rows in sections()}

    assert list(titles) == ["Given", "When", "Given or When", "Then", "Conditions"]
    assert all(titles.values())


ROOT = Path(__file__).resolve().parent.parent.parent


def simkit(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "simkit", *arguments, folder=ROOT, NO_COLOR="1")


@pytest.mark.slow
def test_all_steps_are_listed_once_each_with_an_example() -> None:
    phrases = {phrase.text for vocabulary in VOCABULARIES for _, phrase in vocabulary.phrases}
    phrases |= {words.text for words, _ in condition_phrases()}

    short, done = simkit("bdd", "steps"), simkit("bdd", "steps", "--all")
    lines = done.stdout.splitlines()
    places = [place for place, line in enumerate(lines) if line[:2] == "  " and line[2] != " "]
    listed = [lines[place].strip() for place in places]
    examples = [lines[place + 1] for place in places]

    assert (done.returncode, done.stderr) == (0, "")
    assert set(listed) == phrases
    assert len(ROWS["common"]) == 15
    assert all(f"\n  {row.text}\n" in short.stdout for row in ROWS["common"])
    assert len(short.stdout.splitlines()) < 50
    assert len(listed) == sum(len(rows) for _, rows in sections())
    assert all(line.startswith("      ") for line in examples)


@pytest.mark.slow
def test_a_word_selects_steps_whatever_its_case() -> None:
    done = simkit("bdd", "steps", "RESTART")
    other = simkit("bdd", "steps", "Replaced")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no step has the word `RESTART`: `simkit bdd steps --all` lists all\n"
    assert (other.returncode, other.stdout) == (
        0,
        "Then\n"
        "  {target:agent} replaced {agent}\n"
        "      the workout analyst replaced the workout coach\n",
    )


@pytest.mark.parametrize(
    ("keyword", "line", "suggested"),
    [
        ("When", 'planner answers "Look it up"', 'planner replies "Look it up"'),
        ("When", 'the user writes "Hi"', 'the user says "Hi"'),
        ("When", 'tool find_order returns "x"', 'find_order returns "x"'),
        ("When", "triage transfers to refunds", "triage hands off to refunds"),
        ("Then", 'the context of writer contain "x"', 'the context of writer includes "x"'),
        ("Then", 'writer sees "x"', 'the context of writer includes "x"'),
        ("Then", 'writer does not see "x"', 'the context of writer excludes "x"'),
        ("Then", 'the answer is "x"', 'the reply is "x"'),
        ("Then", "triage transferred to refunds", "triage handed off to refunds"),
        ("Then", "triage used find_order", "triage called find_order"),
    ],
)
def test_a_line_in_other_words_is_given_back_in_the_words_of_a_phrase(
    keyword: str, line: str, suggested: str
) -> None:
    assert hint(keyword, line) == f"did you mean `{suggested}`?"


@pytest.mark.parametrize("line", ['user says "Hi"', "the user says “Hi”"])
def test_a_line_that_lacks_an_article_or_straight_quotes_is_given_back_right(line: str) -> None:
    assert hint("When", line).startswith('did you mean `the user says "Hi"`')


def test_claims_in_yaml_are_made_one_by_one() -> None:
    text = {"reply": "Hi", "context": {"clerk": {"includes": ["A", "B"]}}, "findings": ["CTX-01"]}

    assert [*claims_in(text)] == [
        (("reply",), "Hi"),
        (("context", "clerk", "includes"), "A"),
        (("context", "clerk", "includes"), "B"),
        (("findings",), "CTX-01"),
    ]
