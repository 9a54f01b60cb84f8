"""The vocabulary: all phrases of each keyword, the search for a line's phrase, and the list of
phrases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from simkit.bdd.assembling import EVERY, WHOLE, claims_in
from simkit.bdd.conditions import CLAIM_KINDS, CONDITIONS, FORMS, forms_taken, forms_taken_in
from simkit.bdd.phrases import ROWS, VALUE, Phrase, Row
from simkit.bdd.story import Step, StepValues, Story, Tell
from simkit.core.text import other_words
from simkit.language.yaml import near
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, RUN_CLAIMS, TURN_CLAIMS


def _path_of(claim: str) -> list[Any]:
    """Return the template of a claim's path below `expect`."""
    family, _, name = claim.partition(".")
    if family == "context":
        return [family, {"|": ["{context}", "{agent}"]}, "{section}" if name == "section" else name]
    if family == "runs":
        return [family, "{run}", name]
    if family == "judge":
        return [family, "{question}"]
    return [family, "{agent}"] if family == "model_calls" else [family]


def _each_included(story: Story, values: StepValues) -> None:
    path = story.filled(_path_of("context.includes"), values)
    for message in FORMS["messages"].read(story.below):
        story.claim(path, message)


def _all_of_this(story: Story, _: StepValues) -> None:
    """Make the claims of a text in the format of a scenario file."""
    for path, matcher in claims_in(FORMS["claims"].read(story.below)):
        story.claim(path, matcher)


_CLAIMS_BY_HAND: Final[Mapping[str, tuple[Tell, tuple[str, ...], tuple[str, ...]]]] = {
    "each_included": (_each_included, ("table",), ("context.includes",)),
    "all_of_this": (_all_of_this, ("text",), ()),
    "nothing_breaks": (lambda story, _: story.explore_rules(), (), ()),
}
"""The steps without a template: their function, the part below them, and their claims."""


def _claim_step(row: Row) -> Step:
    """Return the step of a row, which makes one claim, or does what the row says."""
    if row.does:
        return Step(row.text, *_CLAIMS_BY_HAND[row.does], row.example)
    path = _path_of(row.claim)

    def tell(story: Story, values: StepValues) -> None:
        story.last_turn = WHOLE if row.is_of_run else story.last_turn
        story.claim(story.filled(path, values), story.filled(row.value, values))

    return Step(row.text, tell, forms_taken(row.value), (row.claim,), row.example)


SUBJECTS: Final = tuple(
    Row(
        f"{row.phrase} {{condition}}",
        claim=claim,
        value="{condition:channels}" if row.refers_to == "channel" else "{condition}",
        example=row.example,
    )
    for family, rows in (("", TURN_CLAIMS), ("context.", CONTEXT_CLAIMS), ("runs.", RUN_CLAIMS))
    for claim, row in ((f"{family}{name}", row) for name, row in rows.items())
    if row.phrase
)
"""Claims that any condition may follow."""

THEN: Final = tuple(map(_claim_step, (*ROWS["then_agents_and_state"], *SUBJECTS, *ROWS["then"])))
"""Claims on the turn of the user's last message, or on the one that a line names first."""


# All phrases of each keyword


TURN_PREFIX: Final = re.compile(
    r"(?:(?:at the end|in the whole conversation|in turn (?P<turn>\d+)), "
    r"|(?P<every>it always holds that ))"
)
"""Beginnings of a Then that select another turn than the last, the whole run, or every turn of
conversations that are explored."""

_OPTIONAL: Final = re.compile(r"\[[^\]]*\]")
_VALUES: Final = re.compile(rf"{VALUE}|/(?:[^/\\]|\\.)+/")


class Line(NamedTuple):
    """A parsed line of a feature."""

    step: Step
    holes: Mapping[str, Any]
    owner: int | None
    """Its turn, by index; WHOLE; None is the last one."""
    takes: tuple[str, ...]
    """The required part below it: `table`, `text`, or one of both."""


class Vocabulary:
    """All phrases that may follow one keyword."""

    def __init__(self, keyword: str, steps: Sequence[Step]) -> None:
        self.keyword = keyword
        self.phrases = [(step, Phrase(step.text, CLAIM_KINDS)) for step in steps]
        self._known: dict[str, Line | None] = {}

    def line(self, text: str) -> Line | None:
        """Return the parsed line; None if it is no phrase of this keyword."""
        if text not in self._known:
            self._known[text] = next(self.readings(text), None)
        return self._known[text]

    def readings(self, text: str) -> Iterator[Line]:
        """Yield every parse of a line; the first one wins."""
        owner = None
        begins = TURN_PREFIX.match(text) if self.keyword == "Then" else None
        if begins is not None:
            owner = WHOLE if begins["turn"] is None else int(begins["turn"]) - 1
            owner = EVERY if begins["every"] else owner
            text = text[begins.end() :]
        for step, phrase in self.phrases:
            holes = phrase.holes_in(text)
            if holes is not None:
                yield Line(step, holes, owner, step.takes or forms_taken_in(holes))

    def nearest(self, line_text: str) -> tuple[str, str]:
        """Return the nearest phrase to an unknown line, with an example; or nothing.

        Only words are compared; quoted texts, numbers and lists are ignored.
        """
        begins = TURN_PREFIX.match(line_text) if self.keyword == "Then" else None
        line = _words(line_text[begins.end() :] if begins else line_text)
        examples = {_words(example): (text, example) for example, text in self._examples()}
        return examples.get(near(line, examples), ("", ""))

    def in_own_words(self, line_text: str) -> str:
        """Return the line with one expression changed, so that it is a phrase; or nothing."""
        for pattern, replacements in other_words("phrases").items():
            for words in replacements:
                changed = re.sub(pattern, words, line_text, count=1)
                if changed != line_text and self.line(changed) is not None:
                    return changed
        return ""

    def _examples(self) -> Iterator[tuple[str, str]]:
        """Yield example lines, each with its phrase."""
        for step, phrase in self.phrases:
            yield from _variants(step.text, phrase)
            if not step.text.endswith("{condition}"):
                continue
            for words, condition in condition_phrases():
                if "{condition}" not in words.text:
                    yield (
                        phrase.example.removesuffix(CLAIM_KINDS["condition"].example)
                        + condition.example,
                        step.text.replace("{condition}", words.text),
                    )


def _variants(text: str, phrase: Phrase) -> Iterator[tuple[str, str]]:
    """Yield a phrase with and without its optional parts."""
    yield phrase.example, text
    short = _OPTIONAL.sub("", text)
    if short != text:
        yield Phrase(short, CLAIM_KINDS).example, text


def _words(line: str) -> str:
    return _VALUES.sub("…", line)


def hint(keyword: str, step_text: str) -> str:
    """Return what an unknown line may have meant, or an empty text."""
    ours = next(
        vocabulary for vocabulary in VOCABULARIES if vocabulary.keyword.lower() == keyword.lower()
    )
    for other in VOCABULARIES:
        if other is not ours and other.line(step_text) is not None:
            return f"`{step_text}` is said after `{other.keyword}`, not after `{ours.keyword}`"
    straight = re.sub("[“”„]", '"', step_text)
    if straight != step_text and ours.line(straight) is not None:
        return f"did you mean `{straight}`, with straight quotes?"
    if step_text.count('"') % 2:
        return 'a text in the line has one `"`: close it with another'
    changed = ours.in_own_words(step_text)
    if changed:
        return f"did you mean `{changed}`?"
    text, example = ours.nearest(step_text)
    example_text = "" if example == text else f", as in `{example}`"
    return f"did you mean `{text}`{example_text}?" if text else ""


def condition_phrases() -> list[tuple[Row, Phrase]]:
    """Return all wordings of conditions."""
    return [(words, Phrase(words.text, CLAIM_KINDS)) for words in CONDITIONS]


# The list of phrases: as text for the command line, and as tables for the documentation


def listed_steps(word: str = "", *, is_short: bool = False) -> Iterator[str]:
    """Yield the steps and conditions, each with an example; only those with a word, if given, or
    the most used ones."""
    common = {row.text for row in ROWS["common"]}
    for title, rows in sections():
        chosen = [row for row in rows if any(word.lower() in text.lower() for text in row)]
        chosen = [row for row in chosen if row[0] in common] if is_short else chosen
        if not chosen:
            continue
        yield title
        for text, example in chosen:
            yield f"  {text}"
            yield from (f"      {line}" for line in example.splitlines())


def sections() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield every title with its phrases, each with an example and the part below it."""
    given_steps, when, then = VOCABULARIES
    answers = {phrase.text for _, phrase in given_steps.phrases} & {
        phrase.text for _, phrase in when.phrases
    }
    yield "Given", _rows(given_steps, answers, False)
    yield "When", _rows(when, answers, False)
    yield "Given or When", _rows(when, answers, True)
    yield "Then", _rows(then, set(), False)
    yield "Conditions", [_row(*row) for row in condition_phrases()]


def _rows(vocabulary: Vocabulary, texts: set[str], is_other: bool) -> list[tuple[str, str]]:
    return [_row(*row) for row in vocabulary.phrases if (row[0].text in texts) == is_other]


def _row(step: Step | Row, phrase: Phrase) -> tuple[str, str]:
    return step.text, step.example or phrase.example


def _give(row: Row, story: Story, values: StepValues) -> None:
    story.give(story.filled([*row.path], values), story.filled(row.value, values))


def _add(row: Row, story: Story, values: StepValues) -> None:
    (key,) = row.path
    story.give((key,), [*story.values.get(key, ()), values["text"]])


def _settings(row: Row, story: Story, values: StepValues) -> None:
    story.settings(story.filled(row.value, values), of_turn=row.does == "turn_settings")


def _state(_: Row, story: Story, values: StepValues) -> None:
    for channel, value in values["values"].items():
        story.state(channel, value)


def _say(row: Row, story: Story, values: StepValues) -> None:
    where = (values.get("session"), values.get("project"))
    story.say(story.filled(row.value, values), *where, times=values.get("count", 1))


def _explore(_: Row, story: Story, values: StepValues) -> None:
    texts = tuple(map(str, values.get("list", ())))
    story.explore(texts, values.get("file", ""), values.get("count"))


_DOES: Final[Mapping[str, Callable[[Row, Story, StepValues], None]]] = {
    "pipeline": lambda _, story, values: story.pipeline(values["name"]),
    "give": _give,
    "add": _add,
    "settings": _settings,
    "turn_settings": _settings,
    "state": _state,
    "say": _say,
    "resume": lambda row, story, values: story.resume(story.filled(row.value, values)),
    "wait": lambda _, story, values: story.pause(values["time"]),
    "restart": lambda _, story, values: story.restart(),
    "explore": _explore,
}


def _step(row: Row) -> Step:
    return Step(row.text, partial(_DOES[row.does], row), forms_taken(row.value), (), row.example)


_AROUND: Final[Mapping[str, dict[str, Any]]] = {
    "reply": {"latency_ms": "{delay}", "when": {"messages": {"$has": [{"$contains": "{shown}"}]}}},
    "result": {"when": "{args}", "latency_ms": "{delay}"},
}
"""Phrases that may stand around every answer."""


def _answers(coming: bool) -> Iterator[Step]:
    """Yield the steps of answers: to the user's next message, or to the last one."""
    for row in ROWS["answers"]:
        template = {**row.value, **_AROUND.get(row.does, {})}
        tell = partial(_answer, row.does, template, coming)
        yield Step(row.text, tell, forms_taken(row.value), (), row.example)


def _answer(method: str, answer: Any, coming: bool, story: Story, values: StepValues) -> None:
    name = values[{"result": "tool", "elicit": "server"}.get(method, "agent")]
    getattr(story, method)(name, story.filled(answer, values), coming=coming)


GIVEN: Final = (*map(_step, ROWS["given"]), *_answers(coming=True))
"""Steps for the initial state, and for answers to the user's next message."""

WHEN: Final = (*map(_step, ROWS["when"]), *_answers(coming=False))
"""Steps for user messages, and their answers."""

VOCABULARIES: Final = (
    Vocabulary("Given", GIVEN),
    Vocabulary("When", WHEN),
    Vocabulary("Then", THEN),
)
