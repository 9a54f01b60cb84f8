"""Given and When: what is so, what the user says, what models and tools answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from simkit.bdd.cells import TableInvalid, items_of, pairs_of, with_nested
from simkit.bdd.story import Step, StepValues, Story
from simkit.language.yaml import load_text

_TABLE: Final = ("table",)
_TEXT: Final = ("text",)
_EITHER: Final = ("text", "table")


def _pairs(story: Story) -> dict[str, Any]:
    return pairs_of(story.table or ())


def _records(story: Story) -> list[dict[str, Any]]:
    return items_of(story.table or ())


def _text_or_pairs(story: Story) -> Any:
    return story.text if story.table is None else _pairs(story)


def yaml_below(story: Story) -> Any:
    """Return the text below a step as YAML; raise SourceError at its line of the feature."""
    # The text begins a line below its quotes, which stand below the step.
    lines_above = "\n" * (story.lines[0] + 1)
    (document,) = load_text(f"{lines_above}{story.text or ''}", story.file)
    return document.data


def _state_of(story: Story, values: StepValues) -> None:
    for channel, value in values["values"].items():
        story.state(channel, value)


def _lint_off(story: Story, values: StepValues) -> None:
    place = values.get("place")
    path = ("lints", values["lint"], place) if place else ("lints", values["lint"])
    story.give(path, values["text"])


def _uses(story: Story, values: StepValues) -> None:
    story.give(("use",), [*story.values.get("use", ()), values["text"]])


def _needs(story: Story, values: StepValues) -> None:
    story.give(("needs",), [*story.values.get("needs", ()), values["text"]])


def _made_up(story: Story, values: StepValues) -> None:
    entry: dict[str, Any] = {}
    if "count" in values:
        entry["count"] = values["count"]
    if "locale" in values:
        entry["locale"] = values["locale"]
    if story.table is not None:
        entry["values"] = _pairs(story)
    story.give(("given", "fakes", values["who"]), entry)


BACKGROUND: Final = (
    Step("the pipeline {name:text}", lambda story, values: story.pipeline(values["name"])),
    Step("the seed {number}", lambda story, values: story.give(("seed",), values["number"])),
    Step(
        "the cassette {name:text}", lambda story, values: story.give(("cassette",), values["name"])
    ),
    Step("the time is {time}", lambda story, values: story.give(("start",), values["time"])),
    Step("what {text} says", _uses),
    Step("{text} is installed", _needs),
    Step("a made-up {who:word}[ from {locale:word}]", _made_up),
    Step("a made-up {who:word}[ from {locale:word}] with:", _made_up, _TABLE),
    Step("{count} made-up {who:word}[ from {locale:word}]", _made_up),
    Step("{count} made-up {who:word}[ from {locale:word}] with:", _made_up, _TABLE),
    Step("the state has {values}", _state_of),
    Step(
        "the state has these {channel}:",
        lambda story, values: story.state(values["channel"], _records(story)),
        _TABLE,
    ),
    Step(
        "the state has this {channel}:",
        lambda story, values: story.state(values["channel"], _text_or_pairs(story)),
        _EITHER,
    ),
    Step(
        "the state has the {channel} {list}",
        lambda story, values: story.state(values["channel"], values["list"]),
    ),
    Step(
        "at most {count} {limit}",
        lambda story, values: story.give(("limits", values["limit"]), values["count"]),
    ),
    Step("the lint {lint} is off[ at {place:text}] because {text}", _lint_off),
)
"""What is so before the user speaks."""


def _user_says(story: Story, values: StepValues) -> None:
    story.say(values["text"], values.get("session"), values.get("project"))


def _user_repeats(story: Story, values: StepValues) -> None:
    story.say(values["text"], values.get("session"), values.get("project"), values["count"])


def _user_sends(story: Story, values: StepValues) -> None:
    pairs = _pairs(story) if story.table is not None else values["values"]
    story.say({"json": pairs}, values.get("session"), values.get("project"))


def _user_says_below(story: Story, values: StepValues) -> None:
    story.say(story.text, values.get("session"), values.get("project"))


_WHERE: Final = "[ in session {session:text}][ in project {project:text}]"

SPEAKING: Final = (
    Step(f"the user says {{text}}{_WHERE}", _user_says),
    Step(f"the user says {{text}} {{count}} times{_WHERE}", _user_repeats),
    Step(f"the user says{_WHERE}:", _user_says_below, _TEXT),
    Step(f"the user sends {{values}}{_WHERE}", _user_sends),
    Step(f"the user sends{_WHERE}:", _user_sends, _TABLE),
    Step("the user answers {value}", lambda story, values: story.resume(values["value"])),
    Step("the user answers with {values}", lambda story, values: story.resume(values["values"])),
    Step("the user answers:", lambda story, _: story.resume(_text_or_pairs(story)), _EITHER),
    Step("a new process takes over", lambda story, _: story.restart()),
)
"""What the user does; each line but the last begins a turn."""


def _around(answer: dict[str, Any], values: StepValues) -> dict[str, Any]:
    """A reply line with what stands around it."""
    if "delay" in values:
        answer["latency_ms"] = values["delay"]
    if "shown" in values:
        answer["when"] = {"messages": {"$has": [{"$contains": values["shown"]}]}}
    return answer


def _handoff(story: Story, values: StepValues, payload: Any) -> dict[str, Any]:
    line = {"to": story.agent(values["target"]), "payload": payload}
    if "type" in values:
        line["type"] = story.handoff_type(values["type"])
    if "query" in values:
        line["query"] = values["query"]
    return {"handoff": {key: value for key, value in line.items() if value is not None}}


def _calls_below(story: Story) -> list[dict[str, Any]]:
    """One call a row: the tool, and its arguments in the other columns."""
    records = [with_nested(record, ("tool",), "args") for record in _records(story)]
    if not all(isinstance(record.get("tool"), str) for record in records):
        raise TableInvalid("this table needs a headline with `tool`, and a tool in each row")
    return [{record["tool"]: record.get("args", {})} for record in records]


def _result(answer: dict[str, Any], values: StepValues) -> dict[str, Any]:
    if "args" in values:
        answer["when"] = values["args"]
    if "delay" in values:
        answer["latency_ms"] = values["delay"]
    return answer


_WHEN: Final = "[ after {delay:count} ms][ if it is shown {shown:text}]"
_FOR: Final = "[ for {args:values}][ after {delay:count} ms]"
_HANDOFF: Final = "{agent} hands off to {target:agent}[ as {type:name}][ asking {query:text}]"


Line: TypeAlias = Callable[[Story, StepValues, dict[str, Any]], None]
"""Writes down what a step answers."""


def _answers(coming: bool) -> tuple[Step, ...]:
    """Return what is answered: to what the user says next, or to the last message."""

    def line(story: Story, values: StepValues, answer: dict[str, Any]) -> None:
        story.reply(values["agent"], _around(answer, values), coming=coming)

    def fault(story: Story, values: StepValues, planned: dict[str, Any]) -> None:
        story.fault(values["agent"], planned, coming=coming)

    def result(story: Story, values: StepValues, answer: dict[str, Any]) -> None:
        story.result(values["tool"], _result(answer, values), coming=coming)

    return (
        *_words(line),
        *_calls(line),
        *_questions(line),
        *_failures(line, fault),
        *_lines(line),
        *_results(result),
    )


def _words(line: Line) -> tuple[Step, ...]:
    """A model says a text, or a value."""
    return (
        Step(f"{{agent}} replies {{text}}{_WHEN}", lambda s, x: line(s, x, {"text": x["text"]})),
        Step("{agent} replies:", lambda s, x: line(s, x, {"text": s.text}), _TEXT),
        Step(
            f"{{agent}} decides {{values}}{_WHEN}",
            lambda s, x: line(s, x, {"json": x["values"]}),
        ),
        Step("{agent} answers nothing", lambda s, x: line(s, x, {"json": None})),
        Step("{agent} decides:", lambda s, x: line(s, x, {"json": _pairs(s)}), _TABLE),
    )


def _calls(line: Line) -> tuple[Step, ...]:
    """A model calls tools, or passes control."""
    return (
        Step(
            f"{{agent}} calls {{tool:word}}[ with {{values}}]{_WHEN}",
            lambda s, x: line(s, x, {"calls": [{x["tool"]: x.get("values", {})}]}),
        ),
        Step(
            f"{{agent}} says {{text}} and calls {{tool:word}}[ with {{values}}]{_WHEN}",
            lambda s, x: line(s, x, {
                "text": x["text"], "calls": [{x["tool"]: x.get("values", {})}],
            }),
        ),
        Step(
            "{agent} calls {tool:word} with:",
            lambda s, x: line(s, x, {"calls": [{x["tool"]: _pairs(s)}]}), _TABLE,
        ),
        Step(
            "{agent} calls at the same time:",
            lambda s, x: line(s, x, {"calls": _calls_below(s)}), _TABLE,
        ),
        Step(
            f"{_HANDOFF}[ with {{values}}]",
            lambda s, x: line(s, x, _handoff(s, x, x.get("values"))),
        ),
        Step(
            f"{_HANDOFF} with:", lambda s, x: line(s, x, _handoff(s, x, _pairs(s))), _TABLE,
        ),
    )  # fmt: skip


def _questions(line: Line) -> tuple[Step, ...]:
    """A model asks the user."""
    return (
        Step("{agent} asks the user {value}", lambda s, x: line(s, x, {"interrupt": x["value"]})),
        Step(
            "{agent} asks the user:",
            lambda s, x: line(s, x, {"interrupt": _text_or_pairs(s)}),
            _EITHER,
        ),
    )


def _failures(line: Line, fault: Line) -> tuple[Step, ...]:
    """A model does not answer."""
    return (
        Step(
            "the model of {agent} fails with {failure}",
            lambda s, x: line(s, x, {"error": x["failure"]}),
        ),
        Step(
            "the model of {agent} fails with status {status:count} and {text}",
            lambda s, x: line(s, x, {"error": {"status": x["status"], "message": x["text"]}}),
        ),
        Step(
            "the model of {agent} fails with {failure} on its call {number:count}"
            "[ and may be asked again after {seconds:number} s]",
            lambda s, x: fault(s, x, _planned(x)),
        ),
    )


def _lines(line: Line) -> tuple[Step, ...]:
    """A function answers for a model, or whatever a reply line may say."""
    return (
        Step(
            "the function {text} answers for {agent}",
            lambda s, x: line(s, x, {"function": x["text"]}),
        ),
        Step("{agent} answers with this line:", lambda s, x: line(s, x, _line(s)), _TEXT),
    )


def _results(result: Line) -> tuple[Step, ...]:
    """A tool returns something, or fails."""
    return (
        Step(
            f"{{tool:word}} returns {{value}}{_FOR}",
            lambda s, x: result(s, x, {"returns": x["value"]}),
        ),
        Step(
            f"{{tool:word}} returns {{values}}{_FOR}",
            lambda s, x: result(s, x, {"returns": x["values"]}),
        ),
        Step(
            f"{{tool:word}} returns the list {{list}}{_FOR}",
            lambda s, x: result(s, x, {"returns": x["list"]}),
        ),
        Step(
            "{tool:word} returns:",
            lambda s, x: result(s, x, {"returns": _text_or_pairs(s)}),
            _EITHER,
        ),
        Step(
            "{tool:word} returns these items:",
            lambda s, x: result(s, x, {"returns": _records(s)}),
            _TABLE,
        ),
        Step(
            "{tool:word} returns these items as {field:word}:",
            lambda s, x: result(s, x, {"returns": {x["field"]: _records(s)}}),
            _TABLE,
        ),
        Step(
            f"{{tool:word}} fails with {{text}}{_FOR}",
            lambda s, x: result(s, x, {"error": x["text"]}),
        ),
    )


def _planned(values: StepValues) -> dict[str, Any]:
    error: Any = values["failure"]
    if "seconds" in values:
        error = {"type": error, "retry_after": values["seconds"]}
    return {"error": error, "call": values["number"]}


def _line(story: Story) -> dict[str, Any]:
    line = yaml_below(story)
    if not isinstance(line, dict):
        raise TableInvalid("this text must be a reply line, a mapping in YAML")
    return line


GIVEN: Final = (*BACKGROUND, *_answers(coming=True))
"""What is so before, and what will be answered when the user speaks next."""

WHEN: Final = (*SPEAKING, *_answers(coming=False))
"""What the user says, and what is answered."""
