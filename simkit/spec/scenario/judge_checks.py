"""Checks of the questions to a judge, and of the answers that a scenario itself gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simkit.language.yaml import Document, SourcePath
from simkit.spec.fields import shown_value
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.model import Scenario

_MODEL = (
    "Name one: `judge: openai/gpt-5-mini`. A scenario may answer itself, under `judge_replies:`."
)


def check_judge(scenario: Scenario, document: Document) -> None:
    """Raise SourceError for a question that no model answers, or an answer to no question."""
    for expect, replies, at in _parts(scenario):
        if not replies and not expect.judge:
            continue
        questions = {question.text: question for question in expect.questions}
        for text, reply in replies.items():
            path = (*at, "judge_replies", text)
            if text not in questions:
                raise document.error(
                    path,
                    f"no claim asks the judge this: `{text}`",
                    word=text,
                    known=tuple(questions),
                    advice="A question stands under `judge:` in the claims beside it.",
                    key=True,
                )
            if not questions[text].takes(reply):
                form = questions[text].form
                raise document.error(path, f"the answer must be {form}, not {shown_value(reply)}")
        for text in questions:
            if scenario.judge is None and text not in replies:
                path = (*at, "expect", "judge", text)
                problem = "there is no model that answers this question"
                raise document.error(path, problem, advice=_MODEL, key=True)


def check_no_model_is_asked(scenario: Scenario, document: Document) -> None:
    """Raise SourceError for a question that the scenario does not answer itself."""
    for expect, replies, at in _parts(scenario):
        for question in expect.questions:
            if question.text not in replies:
                raise document.error(
                    (*at, "expect", "judge", question.text),
                    "a judge is a model, and none is asked here",
                    advice="Only `judge_replies:` answers here. `simkit replay` takes the answer "
                    "from a cassette, too.",
                    key=True,
                )


def _parts(scenario: Scenario) -> Iterator[tuple[Expect, Mapping[str, Any], SourcePath]]:
    for place, turn in enumerate(scenario.turns):
        yield turn.expect, turn.judge_replies, ("turns", place)
    yield scenario.expect, scenario.judge_replies, ()
