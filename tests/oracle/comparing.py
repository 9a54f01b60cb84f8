"""Where a run of simkit and the oracle's differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simkit.core.messages import Message
from simkit.language.yaml import load_text
from simkit.session.simulate import run
from simkit.spec.scenario.files import Library, ScenarioCase
from simkit.trace.views import View, view_of
from tests.oracle.model import Model
from tests.oracle.values import OPEN_ARGS, Entry, Open, Turn

FILE = "drawn.scenario.yaml"


def played(pipeline: Mapping[str, Any], scenario: Mapping[str, Any]) -> View:
    """Returns what simkit makes of the two documents."""
    library = Library()
    text = f"{json.dumps(pipeline)}\n---\n{json.dumps(scenario)}\n"
    library._changed[FILE] = load_text(text, FILE)
    return view_of(run(library.prepared(ScenarioCase(FILE, "drawn", 1, 1))).events)


def differences(pipeline: Mapping[str, Any], scenario: Mapping[str, Any]) -> list[str]:
    """Returns every place where simkit and the oracle differ, turn by turn."""
    view = played(pipeline, scenario)
    turns = Model(pipeline, scenario).play()
    texts = list(_different("turns", len(view.turns), len(turns)))
    for number, (by_simkit, by_oracle) in enumerate(zip(view.turns, turns, strict=False), 1):
        texts += [f"turn {number}: {text}" for text in _turn(by_simkit, by_oracle)]
    return texts


def _turn(by_simkit: Any, turn: Turn) -> Iterator[str]:
    error = by_simkit.error.type if by_simkit.error else None
    yield from _different("error", error, turn.error)
    yield from _different("interrupt", _plain(by_simkit.interrupt), _plain(turn.interrupt))
    summaries = [call for call in by_simkit.calls if call.agent == "scribe"]
    yield from _different(
        "summaries",
        [[*map(_message, call.context.messages)] for call in summaries],
        [[*map(_message, call["messages"])] for call in turn.summaries],
    )
    tools = [
        (tool.agent, tool.tool, _plain(tool.result), bool(tool.error)) for tool in by_simkit.tools
    ]
    yield from _different("tools", tools, _tools(turn))
    yield from _different("agents", [r.agent for r in by_simkit.runs], [r.agent for r in turn.runs])
    yield from _different("reply", by_simkit.reply, turn.reply)
    yield from _different("state", _plain(dict(by_simkit.state)), _plain(turn.state))
    handoffs = [{k: v for k, v in h.fields().items() if k != "reason"} for h in by_simkit.handoffs]
    rows = [{**h.root(), "outcome": h.outcome} for h in turn.handoffs]
    yield from _different("handoffs", _plain(handoffs), _plain(rows))
    for item, other in zip(by_simkit.runs, turn.runs, strict=False):
        at = f"run of {item.agent}"
        yield from _different(
            f"{at}: received", _plain(dict(item.received)), _plain(other.received)
        )
        yield from _different(f"{at}: input", item.input, other.input)
        yield from _different(f"{at}: output", _plain(item.output), _plain(other.output))
        updates = [
            {name: _plain(value) for name, value in update.items() if name not in other.twice}
            for update in (item.update, other.update)
        ]
        yield from _different(f"{at}: update", *updates)
        yield from _different(f"{at}: calls", len(item.calls), len(other.calls))
        for place, (call, wanted_call) in enumerate(zip(item.calls, other.calls, strict=False)):
            yield from _context(f"{at}, call {place}", call.context, wanted_call)


def _tools(turn: Turn) -> list[Any]:
    return [(agent, tool, _plain(result.get("returns")), "error" in result)
            for agent, tool, result in turn.tools]  # fmt: skip


def _context(at: str, context: Any, expected: Mapping[str, Any]) -> Iterator[str]:
    sections = [part for part in expected["sections"] if "message" in part]
    messages = [part["message"] for part in sections] + expected["said"]
    yield from _different(f"{at}: messages", [*map(_message, context.messages)],
                          [*map(_message, messages)])  # fmt: skip
    yield from _different(f"{at}: handoffs", set(context.handoffs or ()), expected["handoffs"])
    names = [name for part in sections for name in part["names"]] + ["run"] * bool(expected["said"])
    yield from _different(f"{at}: sections", context.sections, list(dict.fromkeys(names)))
    left = [text for part in expected["sections"] for text in part.get("left", ())]
    yield from _different(f"{at}: left out", _left_out(context), sorted(left))
    results = [entry for part in expected["sections"] for entry in part.get("dropped", ())]
    yield from _different(
        f"{at}: dropped",
        [(*_message(drop.message), drop.what, drop.by) for drop in context.dropped()],
        [(*_message(message), subject, by) for message, subject, by in results],
    )


def _left_out(context: Any) -> list[str]:
    return sorted(
        entry["text"]
        for entry in context.left_out()
        if entry.get("channel") in ("items", "lore") and "text" in entry
    )


def _different(at: str, by_simkit: Any, by_oracle: Any) -> Iterator[str]:
    if by_simkit != by_oracle:
        yield f"{at}:\n    simkit: {by_simkit}\n    oracle: {by_oracle}"


def _message(message: Message | Entry) -> tuple[Any, ...]:
    """Returns what is compared of a message."""
    if isinstance(message, Entry):
        calls = [(name, Anything() if args is OPEN_ARGS else args) for name, args in message.calls]
        return (message.role, _text(message.content), calls)
    return (message.role, _text(message.content), [(c.name, c.args) for c in message.calls])


def _text(content: Any) -> Any:
    return content


class Anything:
    """Equals everything: what the documents do not say."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def _plain(value: Any) -> Any:
    """Returns a value without the classes of either side."""
    if isinstance(value, (Entry, Message)):
        return _message(value)
    if isinstance(value, Mapping):
        # Of a whole run in a channel, the records of its tools are not told again here.
        missing = ("tool_calls", "usage", "timestamps") if "took_ms" in value else ()
        return {key: _plain(item) for key, item in value.items() if key not in missing}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


__all__ = ["Open", "differences", "played"]
