"""Every message has an explanation: in the terminal, and on the page on troubleshooting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from simkit.core import errors
from simkit.spec.lint_catalogue import CLAIMS, CODES, ERRORS, LINTS, explanation_of, explanations
from tests.changes import JOINED
from tests.golden import assert_file_is
from tests.troubleshooting_page import sections

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "troubleshooting.md"

NEVER_PRINTED = {
    *("SimkitError", "PipelineError", "TurnCut"),  # the branches of the tree
    *("MatcherError", "MessageInvalid"),  # become a SourceError
    *("ReferenceInvalid", "FakeInvalid"),  # become a SourceError
    *("OutputUnread", "WordUnasked"),  # nobody reads any longer; becomes a SourceError
}


def error_types() -> Iterator[type]:
    """Every type of the exception tree."""
    waiting: list[type] = [errors.SimkitError]
    while waiting:
        value = waiting.pop()
        waiting += value.__subclasses__()
        if value.__module__ in (errors.__name__, "simkit"):
            yield value


@cache
def texts_of_the_code() -> str:
    """The code, with the parts of each text in one: what messages are made of."""
    files = (file for file in (ROOT / "simkit").rglob("*.py") if file.name != "explanations.py")
    return "\n".join(JOINED.sub("", file.read_text(encoding="utf-8")) for file in files)


def test_every_message_of_the_catalogues_is_explained() -> None:
    assert set(explanations()) == {*LINTS, *CODES, *ERRORS, *CLAIMS}


def test_every_error_is_in_the_catalogue() -> None:
    names = {error_type.__name__ for error_type in error_types()}

    assert names - NEVER_PRINTED == set(ERRORS)


@pytest.mark.parametrize("name", [*ERRORS, *CLAIMS])
def test_a_message_is_worded_as_the_code_words_it(name: str) -> None:
    message = {**ERRORS, **CLAIMS}[name].message
    parts = [part.strip(" `.,:[]()'") for part in message.split("…")]

    assert [part for part in parts if part not in texts_of_the_code()] == []


@pytest.mark.parametrize("name", list(explanations()))
def test_an_explanation_has_a_rule_a_cause_and_a_fix(name: str) -> None:
    result = explanations()[name]

    assert result.rule, f"give {name} a rule in its catalogue, in simkit/spec/"
    assert not result.rule.endswith("."), f"{name}: the rule ends without a full stop"
    assert result.cause.endswith((".", "…")), f"{name}: `cause` says why it happens, in a sentence"
    assert result.fix.endswith("."), f"{name}: `fix` says what to do, in a sentence"


@pytest.mark.golden
def test_the_page_on_troubleshooting_has_every_message_without_an_id() -> None:
    before = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]

    assert_file_is(PAGE, f"{before}\n{sections()}")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("HND-12", "HND-12"),
        ("hnd-12", "HND-12"),
        ("context-ignored", "HND-12"),
        ("replymissing", "ReplyMissing"),
        ("refund.scenario.yaml:20:5: warning HND-12: 'refunds' is sent nothing", "HND-12"),
        ("context.refunds.includes matches no message (turn 1, call 1)", "context-includes"),
        (
            "agent 'refunds' made a model call in turn 1, but the scenario\n  has no reply for it",
            "ReplyMissing",
        ),
        (
            "agent 'a' made model call #3 in turn 1, but the scenario has 2 replies for it.",
            "ReplyMissing",
        ),
        ("state.orders does not match (turn 2)", "mismatch"),
        ("Was not looked at", "not-observable"),
        ("turn 1 ended with error NoRoute: node 'a' decided", "NoRoute"),
        ("turn 1 ended with error rate_limit: Too many requests", "ended-with-error"),
    ],
)
def test_an_explanation_is_found_by_id_name_type_and_message(words: str, name: str) -> None:
    assert explanation_of(words).id == name


@pytest.mark.parametrize(("words", "nearest"), [("HND-31", "HND-14"), ("contxt-ignored", "HND-12")])
def test_an_unknown_id_is_answered_with_the_nearest(words: str, nearest: str) -> None:
    with pytest.raises(errors.SimkitError, match=f"did you mean `{nearest}`"):
        explanation_of(words)


def test_words_of_several_messages_are_answered_with_their_ids() -> None:
    with pytest.raises(errors.SimkitError, match=r"These have such words: .*HND-12"):
        explanation_of("handoff")


@pytest.mark.parametrize("words", ["", "zzz"])
def test_words_that_nothing_is_near_are_answered_with_how_to_ask(words: str) -> None:
    with pytest.raises(errors.SimkitError, match="`simkit explain` lists every id"):
        explanation_of(words)
