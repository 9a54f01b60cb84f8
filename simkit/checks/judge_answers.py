"""Claims on answers of a judge, a model that was asked about a turn or about the whole run."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.checks.claims import FindingBuilder
from simkit.checks.findings import Finding
from simkit.checks.scope import Scope
from simkit.spec.scenario.questions import Question
from simkit.trace import events as e
from simkit.trace.views import View

_ANSWERED = (
    "`simkit record` asks the model where the scenario names a `cassette:`. Or write the answer "
    "under `judge_replies:`."
)
_RECORDED_ANEW = (
    "`simkit record --mode new_episodes` asks the model a question that was added, `--mode all` "
    "asks everything again, as a question or a reply that was changed needs."
)


def check_judge(scope: Scope, builder: FindingBuilder) -> Iterator[Finding]:
    """Yield the questions whose answer does not match, is of another kind, or is missing."""
    for question in scope.expect.questions:
        yield from _check(question, scope, builder)


def _check(question: Question, scope: Scope, builder: FindingBuilder) -> Iterator[Finding]:
    path = (*scope.path, "judge", question.text)
    index, answered = _answer_at(scope.view, scope.turn, question)
    if answered is None:
        yield builder.finding(
            path,
            "nobody answered this question to the judge",
            turn=scope.turn,
            fix=_ANSWERED,
            breaks=True,
        )
    elif answered.error:
        headline, *details = answered.error.split("\n")
        yield builder.finding(
            path,
            f"the judge gave no answer: {headline}",
            turn=scope.turn,
            context=[*details, *_reason(answered)],
            fix=_RECORDED_ANEW if answered.model else "",
            event=index,
        )
    else:
        yield from builder.compare(
            question.matcher,
            answered.answer,
            (*path, *question.at),
            "the judge's answer",
            turn=scope.turn,
            context=_reason(answered),
            event=lambda _: index,
        )


def answer_to(view: View, turn: int, question: Question) -> e.JudgeAnswered | None:
    """Return the last answer to a question about a turn, or, with 0, about the whole run.

    None if it was not asked, or for an answer of another kind.
    """
    return _answer_at(view, turn, question)[1]


def _answer_at(
    view: View, turn: int, question: Question
) -> tuple[int | None, e.JudgeAnswered | None]:
    """Return the same with its index in the trace."""
    key = (question.text, question.answer, question.choices)
    for index in range(len(view.events) - 1, -1, -1):
        event = view.events[index]
        if (
            isinstance(event, e.JudgeAnswered)
            and event.turn == turn
            and (event.question, event.form, event.choices) == key
        ):
            return index, event
    return None, None


def _reason(answered: e.JudgeAnswered) -> list[str]:
    return [f"the judge's reason: {answered.reason}"] if answered.reason else []
