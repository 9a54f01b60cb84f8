"""The vocabulary: all phrases of each keyword, the search for a line's phrase, and the list of
phrases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from simkit.bdd.assembling import EVERY, WHOLE
from simkit.bdd.claims import THEN
from simkit.bdd.conditions import CLAIM_KINDS, CONDITIONS, Words, forms_taken, forms_taken_in
from simkit.bdd.phrases import VALUE, Phrase
from simkit.bdd.story import Step, StepValues, Story
from simkit.language.yaml import near

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
    text, example = ours.nearest(step_text)
    example_text = "" if example == text else f", as in `{example}`"
    return f"did you mean `{text}`{example_text}?" if text else ""


def condition_phrases() -> list[tuple[Words, Phrase]]:
    """Return all wordings of conditions."""
    return [(words, Phrase(words.text, CLAIM_KINDS)) for words in CONDITIONS]


# The list of phrases: as text for the command line, and as tables for the documentation


def listed_steps(word: str = "") -> Iterator[str]:
    """Yield the steps and conditions, each with an example; only those with a word, if given."""
    for title, rows in sections():
        chosen = [row for row in rows if any(word.lower() in text.lower() for text in row)]
        if not chosen:
            continue
        yield title
        for text, example in chosen:
            yield f"  {text}"
            yield from (f"      {line}" for line in example.splitlines())


def tables() -> Iterator[tuple[str, list[str]]]:
    """Yield the titles and the lines of Markdown tables: steps, conditions, holes."""
    for title, rows in sections():
        lines = [f"| {_code(text)} | {_code(_on_one_line(example))} |" for text, example in rows]
        yield title, ["| phrase | for example |", "|---|---|", *lines]
    kinds = [
        f"| `{{{name}}}` | {_escaped(kind.says)} | {_code(kind.example)} |"
        for name, kind in sorted(CLAIM_KINDS.items())
    ]
    yield "Holes", ["| hole | what stands there | for example |", "|---|---|---|", *kinds]


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


def _row(step: Step | Words, phrase: Phrase) -> tuple[str, str]:
    return step.text, step.example or phrase.example


def _on_one_line(example: str) -> str:
    first, *below = example.splitlines()
    return f"{first} …" if below else first


def _code(text: str) -> str:
    return f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


_PAIRS: Final = "\n  | food | pizza |\n  | kcal | 800   |"
_QUOTES: Final = '\n  """\n  {}\n  """'


def _give(text: str, path: Sequence[str], value: Any, example: str = "") -> Step:
    """Return the step that puts a value under a path of the scenario."""

    def tell(story: Story, values: StepValues) -> None:
        story.give(story.filled([*path], values), story.filled(value, values))

    return Step(text, tell, forms_taken(value), (), example)


def _add(text: str, key: str, example: str) -> Step:
    """Return the step that adds a text to a list of the scenario."""

    def tell(story: Story, values: StepValues) -> None:
        story.give((key,), [*story.values.get(key, ()), values["text"]])

    return Step(text, tell, example=example)


def _state_of(story: Story, values: StepValues) -> None:
    for channel, value in values["values"].items():
        story.state(channel, value)


_FAKE: Final = {"count": "{count}", "locale": "{locale}"}
_FAKES: Final = ("given", "fakes", "{who}")
_STATE: Final = ("given", "state", "{channel}")

BACKGROUND: Final = (
    Step("the pipeline {name:text}", lambda story, values: story.pipeline(values["name"]),
         example='the pipeline "fitness_coach"'),
    _give("the seed {number}", ["seed"], "{number}", "the seed 7"),
    _give("the cassette {name:text}", ["cassette"], "{name}", 'the cassette "coach"'),
    _give("the judge {name:text}", ["judge"], "{name}", 'the judge "openai/gpt-5-mini"'),
    _give("the time is {time}", ["start"], "{time}"),
    _add("what {text} says", "use", 'what "berlin_runner.yaml" says'),
    _add("{text} is installed", "needs", '"langgraph>=1.2" is installed'),
    _give("a made-up {who:word}[ from {locale:word}]", _FAKES, _FAKE,
          "a made-up customer from de_DE"),
    _give("a made-up {who:word}[ from {locale:word}] with:", _FAKES,
          {**_FAKE, "values": "{:plain_pairs}"},
          "a made-up order with:\n  | number | ${fake.bothify('A-####')} |"),
    _give("{count} made-up {who:word}[ from {locale:word}]", _FAKES, _FAKE,
          "three made-up customers from de_DE"),
    _give("{count} made-up {who:word}[ from {locale:word}] with:", _FAKES,
          {**_FAKE, "values": "{:plain_pairs}"},
          "two made-up customers with:\n  | tier | ${fake.random_element(('gold', 'silver'))} |"),
    Step("the state has {values}", _state_of,
         example='the state has user_timezone "Europe/Berlin"'),
    _give("the state has these {channel}:", _STATE, "{:plain_records}",
          "the state has these notes:"
          "\n  | agent     | text                 |\n  | nutrition | Prefers metric units |"),
    _give("the state has this {channel}:", _STATE, "{:plain_value}",
          f"the state has this last meal:{_PAIRS}"),
    _give("the state has the {channel} {list}", _STATE, "{list}",
          'the state has the errors "timeout" and "no answer"'),
    _give("at most {count} {limit}", ["limits", "{limit}"], "{count}"),
    _give("the lint {lint} is off[ at {place:text}] because {text}",
          ["lints", "{lint}", "{place}"], "{text}",
          'the lint CTX-11 is off because "coaches chat"'),
)  # fmt: skip
"""Steps before the user speaks."""


def _says(text: str, user: Any, example: str) -> Step:
    def tell(story: Story, values: StepValues) -> None:
        where = (values.get("session"), values.get("project"))
        story.say(story.filled(user, values), *where, times=values.get("count", 1))

    return Step(text, tell, forms_taken(user), (), example)


def _resumes(text: str, answer: Any, example: str = "") -> Step:
    def tell(story: Story, values: StepValues) -> None:
        story.resume(story.filled(answer, values))

    return Step(text, tell, forms_taken(answer), (), example)


def _wait(story: Story, values: StepValues) -> None:
    story.pause(values["time"])


def _explores(text: str, suffix: str, example: str) -> Step:
    def tell(story: Story, values: StepValues) -> None:
        texts, file = values.get("list", ()), values.get("file", "")
        story.explore(tuple(map(str, texts)), file, values.get("count"))

    return Step(f"{text}{suffix}", tell, (), (), f"{example}, whatever the models do")


_IN: Final = "[ in {count} conversations], whatever the models do"
_WHERE: Final = "[ in session {session:text}][ in project {project:text}]"

SPEAKING: Final = (
    _says(f"the user says {{text}}{_WHERE}", "{text}",
          'the user says "I had pizza" in session "phone" in project "Ada"'),
    _says(f"the user says {{text}} {{count}} times{_WHERE}", "{text}",
          'the user says "And then?" three times'),
    _says(f"the user says{_WHERE}:", "{:text}", f"the user says:{_QUOTES.format('I had pizza.')}"),
    _says(f"the user sends {{values}}{_WHERE}", {"json": "{values}"},
          'the user sends food "pizza" and kcal 800 in session "phone" in project "Ada"'),
    _says(f"the user sends{_WHERE}:", {"json": "{:plain_pairs}"}, f"the user sends:{_PAIRS}"),
    _resumes("the user answers {value}", "{value}", 'the user answers "The salami one"'),
    _resumes("the user answers with {values}", "{values}"),
    _resumes("the user answers:", "{:plain_value}",
             f"the user answers:{_QUOTES.format('The salami one.')}"),
    Step("the user waits {time:text}", _wait, example='the user waits "2 h"'),
    _explores("users say anything", _IN, 'users say anything in 200 conversations'),
    _explores("users say one of {list}", _IN,
              'users say one of "Hello." or "Where is my order?" in 200 conversations'),
    _explores("users speak as in {file:text}", _IN,
              'users speak as in "refunds.simulation.yaml" in 200 conversations'),
    Step("a new process takes over", lambda story, _: story.restart()),
)  # fmt: skip
"""Actions of the user; each line but the last begins a turn."""


# Answers of models and tools: to the user's next message, or to the last one

_AROUND: Final[Mapping[str, dict[str, Any]]] = {
    "reply": {
        "latency_ms": "{delay}",
        "when": {"messages": {"$has": [{"$contains": "{shown}"}]}},
    },
    "result": {"when": "{args}", "latency_ms": "{delay}"},
}
"""Phrases that may stand around every answer."""

_WHEN: Final = "[ after {delay:count} ms][ if it is shown {shown:text}]"
_FOR: Final = "[ for {args:values}][ after {delay:count} ms]"
_HANDOFF: Final = "{agent} hands off to {target:agent}[ as {type:name}][ asking {query:text}]"
_TO_ANALYST: Final = "the workout coach hands off to the workout analyst"
_CALLS: Final[Any] = [{"{tool}": ("{values}", {})}]
_FOODS: Final = "\n  | food  | kcal |\n  | pizza | 800  |"


def _passes(payload: str) -> dict[str, Any]:
    named = {"type": "{type:handoff_type}", "query": "{query}"}
    return {"handoff": {"to": "{target}", "payload": payload, **named}}


_ANSWERS: Final[Sequence[tuple[str, str, Any, str]]] = (
    (f"{{agent}} replies {{text}}{_WHEN}", "reply", {"text": "{text}"},
     'nutrition replies "Logged your pizza."'),
    ("{agent} replies:", "reply", {"text": "{:text}"},
     f"nutrition replies:{_QUOTES.format('Logged your pizza.')}"),
    (f"{{agent}} decides {{values}}{_WHEN}", "reply", {"json": "{values}"},
     'the router decides primary_agent "nutrition" if it is shown "pizza"'),
    ("{agent} answers nothing", "reply", {"json": None}, ""),
    ("{agent} decides:", "reply", {"json": "{:plain_pairs}"},
     "the router decides:\n  | primary_agent | nutrition |"),
    (f"{{agent}} calls {{tool:word}}[ with {{values}}]{_WHEN}", "reply", {"calls": _CALLS},
     'nutrition calls log_meal with food "pizza" after 500 ms'),
    (f"{{agent}} says {{text}} and calls {{tool:word}}[ with {{values}}]{_WHEN}", "reply",
     {"text": "{text}", "calls": _CALLS},
     'nutrition says "Let me log that." and calls log_meal with food "pizza"'),
    ("{agent} calls {tool:word} with:", "reply", {"calls": [{"{tool}": "{:plain_pairs}"}]},
     f"nutrition calls log_meal with:{_PAIRS}"),
    ("{agent} calls at the same time:", "reply", {"calls": "{:calls}"},
     "nutrition calls at the same time:"
     "\n  | tool        | food  |\n  | log_meal    | pizza |\n  | lookup_food | pizza |"),
    (f"{_HANDOFF}[ with {{values}}]", "reply", _passes("{values}"),
     f'{_TO_ANALYST} asking "Faster?" with distance_km 8'),
    (f"{_HANDOFF} with:", "reply", _passes("{:plain_pairs}"),
     f"{_TO_ANALYST} with:\n  | run | distance_km | 8     |\n  | run | unit        | miles |"),
    ("{agent} asks the user {value}", "reply", {"interrupt": "{value}"},
     'nutrition asks the user "Which pizza?"'),
    ("{agent} asks the user:", "reply", {"interrupt": "{:plain_value}"},
     "nutrition asks the user:\n  | question | Which pizza? |"),
    ("the model of {agent} fails with {failure}", "reply", {"error": "{failure}"}, ""),
    ("the model of {agent} fails with status {status:count} and {text}", "reply",
     {"error": {"status": "{status}", "message": "{text}"}},
     'the model of nutrition fails with status 503 and "Overloaded"'),
    ("the model of {agent} fails with {failure} on its call {number:count}"
     "[ and may be asked again after {seconds:number} s]", "fault",
     {"error": ({"type": "{failure}", "retry_after": "{seconds}"}, "{failure}"),
      "call": "{number}"},
     "the model of nutrition fails with rate_limit on its call 2 "
     "and may be asked again after 3 s"),
    ("the function {text} answers for {agent}", "reply", {"function": "{text}"},
     'the function "coaching.replies:calories" answers for nutrition'),
    ("{agent} answers with this line:", "reply", {"**": "{:line}"},
     "nutrition answers with this line:"
     + _QUOTES.format("{text: One moment., calls: [log_meal: {food: pizza}]}")),
    (f"{{tool:word}} returns {{value}}{_FOR}", "result", {"returns": "{value}"},
     'log_meal returns 800 for food "pizza"'),
    (f"{{tool:word}} returns {{values}}{_FOR}", "result", {"returns": "{values}"},
     "log_meal returns kcal 800 after 500 ms"),
    (f"{{tool:word}} returns the list {{list}}{_FOR}", "result", {"returns": "{list}"}, ""),
    ("{tool:word} returns:", "result", {"returns": "{:plain_value}"},
     f"log_meal returns:{_PAIRS}"),
    ("{tool:word} returns these items:", "result", {"returns": "{:plain_records}"},
     f"lookup_food returns these items:{_FOODS}"),
    ("{tool:word} returns these items as {field:word}:", "result",
     {"returns": {"{field}": "{:plain_records}"}},
     f"lookup_food returns these items as foods:{_FOODS}"),
    (f"{{tool:word}} fails with {{text}}{_FOR}", "result", {"error": "{text}"},
     'log_meal fails with "no such food" for food "gravel"'),
)  # fmt: skip
"""Phrases, the methods of the story that they call, and templates of the answers."""


def _answers(coming: bool) -> Iterator[Step]:
    """Yield the steps of answers: to the user's next message, or to the last one."""
    for text, method, answer, example in _ANSWERS:
        template = {**answer, **_AROUND.get(method, {})}
        tell = partial(_answer, method, template, coming)
        yield Step(text, tell, forms_taken(answer), (), example)


def _answer(method: str, answer: Any, coming: bool, story: Story, values: StepValues) -> None:
    name = values["tool" if method == "result" else "agent"]
    getattr(story, method)(name, story.filled(answer, values), coming=coming)


GIVEN: Final = (*BACKGROUND, *_answers(coming=True))
"""Steps for the initial state, and for answers to the user's next message."""

WHEN: Final = (*SPEAKING, *_answers(coming=False))
"""Steps for user messages, and their answers."""

VOCABULARIES: Final = (
    Vocabulary("Given", GIVEN),
    Vocabulary("When", WHEN),
    Vocabulary("Then", THEN),
)
