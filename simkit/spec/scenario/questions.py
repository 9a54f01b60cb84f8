"""Questions to a judge: a model that is asked about what happened, and the claim on its answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec
from pydantic import BeforeValidator, WithJsonSchema

from simkit.core.errors import MatcherError
from simkit.language.matching import check, compile_matcher
from simkit.language.matching.kinds import NUMBER, TEXT, check_kind
from simkit.language.matching.operators import OF_NUMBERS, OF_TEXTS, is_operator
from simkit.language.yaml import SourcePath
from simkit.spec.fields import MATCHER_SCHEMA, OrText, TextValue, located, refuse, text_as
from simkit.spec.pipeline.models import ModelOptions

Answer: TypeAlias = Literal["boolean", "number", "text", "choice"]
"""The kind of an answer; a choice is one text of several."""

YES_NO: Final = ("yes", "no")
_SPELT: Final = (*YES_NO, "true", "false")
"""Words that are often spelt otherwise, as other readers of YAML permit: `Yes`, `True`."""
ONE_OF: Final = "one_of"
IS: Final = "is"
_LONG: Final = (ONE_OF, IS)
"""The keys of a question that names its answers."""
_JOINING: Final = ("$in", "$either", "$all")
_COMPARING: Final = ("$not", "$eq", "$ne")
_FORMS: Final = (
    "Write `true`, `no`, a number, `{$gte: 4}`, a text, or `{one_of: [calm, rude], is: calm}`."
)


class Question(msgspec.Struct, frozen=True):
    """One question to the judge, and what its answer must match."""

    text: str
    answer: Answer
    choices: tuple[str, ...]
    """The possible answers of a choice; empty for other kinds."""
    matcher: Any
    at: SourcePath = ()
    """The path of the matcher below the question: `is` if the question names its answers."""

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its answer."""
        if self.answer == "choice":
            return {"type": "string", "enum": [*self.choices]}
        return {"type": "string" if self.answer == "text" else self.answer}

    @property
    def form(self) -> str:
        """Return a text that says what its answer must be."""
        if self.answer == "choice":
            return f"one of {', '.join(self.choices)}"
        return {"boolean": "true or false", "number": "a number"}.get(self.answer, "a text")

    def takes(self, answer: Any) -> bool:
        """Return whether an answer is of its kind."""
        if self.answer == "boolean":
            return isinstance(answer, bool)
        if self.answer == "number":
            is_number = isinstance(answer, (int, float)) and not isinstance(answer, bool)
            # Python reads NaN, of which every denial holds, and infinity where JSON has neither.
            return is_number and (isinstance(answer, int) or math.isfinite(answer))
        if self.answer == "choice":
            return answer in self.choices
        return isinstance(answer, str)


def question_of(text: str, claim: Any) -> Question:
    """Return the question of a claim `question: claim`; raise MatcherError for an unusable one."""
    if not _is_long(claim):
        word = claim.lower() if isinstance(claim, str) else ""
        if word in _SPELT and claim not in YES_NO:
            problem = f"`{claim}` is a text like any other here, so that any text may be the answer"
            advice = f"Write `{word}`, without quotes; or `{{$eq: {claim!r}}}` for this very text."
            raise MatcherError((), problem, "", (), advice)
        kinds = {*_kinds_of(claim, ())}
        answer, choices = _single(kinds)
        return Question(text, answer, choices, claim)
    for key in claim:
        if key not in _LONG:
            raise MatcherError((key,), f"unknown key of a question `{key}`", key, _LONG, "")
    for key in _LONG:
        if key not in claim:
            advice = "Write the possible answers, and the right one: `{one_of: [a, b], is: a}`."
            raise MatcherError((), f"a question with its answers needs `{key}`", "", (), advice)
    return Question(text, "choice", possible_answers(claim[ONE_OF]), claim[IS], (IS,))


def possible_answers(options: Any) -> tuple[str, ...]:
    """Return the texts of which an answer is one; raise MatcherError for unusable ones."""
    if (
        not isinstance(options, (list, tuple))
        or len(options) < 2
        or not all(isinstance(option, str) for option in options)
    ):
        raise MatcherError((ONE_OF,), "must be a list of two texts or more", "", (), "")
    for index, option in enumerate(options):
        if not option.strip():
            raise MatcherError((ONE_OF, index), "an answer must not be empty", "", (), "")
        if option in options[:index]:
            raise MatcherError((ONE_OF, index), f"the answer `{option}` is here twice", "", (), "")
    return tuple(options)


def _is_long(claim: Any) -> bool:
    return isinstance(claim, Mapping) and bool(claim) and not any(map(is_operator, claim))


def _single(kinds: set[str]) -> tuple[Answer, tuple[str, ...]]:
    """Return the one kind of answer in a matcher, and its choices."""
    if kinds == {"yes or no"}:
        return "choice", YES_NO
    kinds = {"text" if kind == "yes or no" else kind for kind in kinds}
    if len(kinds) != 1:
        problem = f"an answer cannot be {' and '.join(f'a {kind}' for kind in sorted(kinds))}"
        raise MatcherError((), problem, "", (), _FORMS)
    (kind,) = kinds
    answers: dict[str, Answer] = {"boolean": "boolean", "number": "number", "text": "text"}
    return answers[kind], ()


def _kinds_of(matcher: Any, at: SourcePath) -> Iterator[str]:
    """Yield the kinds of value that a matcher speaks of."""
    if isinstance(matcher, bool):
        yield "boolean"
    elif isinstance(matcher, (int, float)):
        yield "number"
    elif isinstance(matcher, str):
        yield "yes or no" if matcher in YES_NO else "text"
    elif isinstance(matcher, Mapping) and matcher:
        for key, operand in matcher.items():
            yield from _kinds_under(key, operand, (*at, key))
    else:
        raise MatcherError(at, "this can never match an answer of a judge", "", (), _FORMS)


def _kinds_under(key: str, operand: Any, at: SourcePath) -> Iterator[str]:
    if key in _JOINING:
        for index, element in enumerate(operand):
            yield from _kinds_of(element, (*at, index))
    elif key in _COMPARING:
        yield from _kinds_of(operand, at)
    elif key in OF_NUMBERS:
        yield "number"
    elif key in OF_TEXTS:
        yield "text"
    else:
        problem = f"`{key}` does not say what a judge may answer"
        raise MatcherError(at, problem, "", (), _FORMS)


def _claims(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise refuse(
            "must be a mapping of questions",
            advice='Write `judge: {"Does the reply promise a refund?": no}`.',
        )
    if all(str(text).startswith("x-") for text in value):
        raise refuse("there is no question here")
    for text, claim in value.items():
        if str(text).startswith("x-"):
            continue
        if not str(text).strip():
            raise refuse("a question must be a text, and not empty")
        try:
            _check_claim(str(text), claim)
        except MatcherError as problem:
            raise located(problem, (text,)) from None
    return {str(text): claim for text, claim in value.items() if not str(text).startswith("x-")}


def _check_claim(text: str, claim: Any) -> None:
    """Raise MatcherError for a claim that is malformed, or that no answer can decide."""
    if not _is_long(claim):
        check(claim)
    question = question_of(text, claim)
    try:
        check(question.matcher)
        _check_matcher(question)
    except MatcherError as problem:
        path = (*question.at, *problem.path)
        raise MatcherError(
            path, problem.what, problem.word, problem.known, problem.advice
        ) from None


def _check_matcher(question: Question) -> None:
    if question.answer in ("number", "text"):
        check_kind(question.matcher, NUMBER if question.answer == "number" else TEXT)
        return
    answers = question.choices or (True, False)
    compiled = compile_matcher(question.matcher)
    count = sum(map(compiled.holds, answers))
    if count in (0, len(answers)):
        which = "every" if count else "no"
        raise MatcherError((), f"{which} answer that is possible matches this", "", (), "")


_POSSIBLE: Final = {
    "type": "array", "items": {"type": "string"}, "minItems": 2,
    "description": "The possible answers."}  # fmt: skip
_ANSWER: Final = {"allOf": [dict(MATCHER_SCHEMA)],
    "description": "The claim: one of these answers, or a matcher."}  # fmt: skip
_CHOICE: Final = {
    "type": "object", "required": [ONE_OF, IS], "properties": {ONE_OF: _POSSIBLE, IS: _ANSWER},
    "additionalProperties": False,
}  # fmt: skip
_CLAIM_SCHEMA: Final = {"anyOf": [_CHOICE, dict(MATCHER_SCHEMA)]}
JudgeClaims = Annotated[
    Any,
    BeforeValidator(_claims),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": _CLAIM_SCHEMA}),
]
"""Question to what its answer must match."""


class JudgeOptions(ModelOptions):
    """The model that answers questions about what happened."""

    noun: ClassVar[str] = "option of the judge"
    shows: tuple[Literal["tool_calls", "handoffs"], ...] = ()
    """The parts of a turn that it sees beside the user's message and the reply: `tool_calls` with
    their results, `handoffs` with their payloads."""
    instructions: TextValue = ""
    """Further instructions: `Prices are in euros.`"""


JudgeModel = Annotated[JudgeOptions, text_as("model"), OrText]
