"""Contexts of model calls, message by message, with their sources; the state after each turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

from simkit.checks.provenance import left_out_text
from simkit.core.messages import Message, thinking_of
from simkit.core.text import counted, short
from simkit.language.json_schema import is_array
from simkit.language.matching.values import ToolName
from simkit.report.diff_lines import indented, value_lines
from simkit.report.wording import Paint, call_text, moment, plain, value_text, wrapped
from simkit.trace.views import CallView, ContextView, InlinePart, TurnView, View, run_ids

UNSHOWN_MAX: Final = 20
"""The number of left-out items that are listed."""
SCHEMA_MAX: Final = 400
"""The length of a tool's schema that is shown."""


def context_lines(
    view: View, turn: int | None = None, agent: str = "", paint: Paint = plain
) -> Iterator[str]:
    """Yield the selected contexts, complete, in the order of the calls."""
    for call in _selected(view, turn, agent):
        turn_view = view.turns[call.turn - 1]
        calls = turn_view.calls_by_agent[call.agent]
        title = _title(call, calls, run_ids(call.agent, turn_view.runs, calls))
        yield from _call_lines(call, title, paint)
        yield ""


def _selected(view: View, turn: int | None, agent: str) -> Iterator[CallView]:
    calls = chain.from_iterable(turn_view.calls for turn_view in view.turns)
    return (c for c in calls if turn in (None, c.turn) and agent in ("", c.agent))


def context_objects(view: View, turn: int | None, agent: str) -> list[dict[str, Any]]:
    """Return the selected contexts as JSON: messages, what was left out, and the reply."""
    return [_call_object(call) for call in _selected(view, turn, agent)]


def _call_object(call: CallView) -> dict[str, Any]:
    return {
        "turn": call.turn,
        "agent": call.agent,
        "call": call.index,
        "tools": [str(tool) for tool in call.context.tools],
        "messages": [_message_object(message) for message in call.context.messages],
        "dropped": [
            {**_message_object(dropped.message), "by": dropped.by}
            for dropped in call.context.dropped()
        ],
        "reply": None if call.reply is None else _message_object(call.reply),
    }


def _message_object(message: Message) -> dict[str, Any]:
    return {
        "role": message.role,
        "content": message.content,
        "section": message.section,
        "from": message.agent,
        "calls": [{call.name: call.args} for call in message.calls],
    }


def _title(call: CallView, calls: Sequence[CallView], runs: Sequence[str]) -> str:
    """Return the name of a call in claims, ``turn 2, coach[1]``, also by its run."""
    title = f"turn {call.turn}, {call.agent}"
    if len(calls) < 2:
        return title
    title += f", call {call.index + 1} of {len(calls)} (in claims `{call.agent}[{call.index}]`"
    if len(runs) < 2:
        return f"{title})"
    index = [other_call.id for other_call in calls if other_call.run == call.run].index(call.id)
    return f"{title} or `{call.agent}[run {runs.index(call.run)}][{index}]`)"


def _call_lines(call: CallView, title: str, paint: Paint) -> Iterator[str]:
    context, drops = call.context, call.context.dropped()
    budget = f" of at most {context.budget}" if context.budget else ""
    yield (
        paint(title, "strong")
        + f", at {moment(call.at)}: {counted(len(context.messages), 'message')}, "
        f"{counted(context.tokens, 'token')}{budget}, {len(drops)} dropped"
        + (f", {len(context.unshown)} left out" if len(context.unshown) else "")
    )
    joint = _joint_sections(call)
    for index, message in enumerate(context.messages):
        section = joint.get(index, message.section)
        yield paint(f"  {index + 1}. {_origin(message, section)}", "quiet")
        yield from _content_lines(message)
    if context.tools:
        handoff_tools = context.handoff_tools
        offered = [
            f"{tool} → {handoff_tools[tool]}" if handoff_tools.get(tool) else tool
            for tool in context.tools
        ]
        yield from wrapped(", ".join(offered), "  tools offered: ")
        yield from _definition_lines(context.offers)
    if context.handoffs:
        yield from wrapped(", ".join(context.handoffs), "  may pass control to: ")
    if context.settings:
        yield from wrapped(value_text(context.settings), "  settings: ")
    for drop in drops:
        cut = "" if drop.what == "message" else f" ({drop.what.replace('_', ' ')} only)"
        dropped_text = short(value_text(drop.message).partition(": ")[2], 200)
        yield from wrapped(
            f"{drop.by}{cut}: {_origin(drop.message)}: {dropped_text}", "  dropped by ", "      "
        )
    yield from _unshown_lines(context)
    yield from _answer_lines(call)


def _definition_lines(offers: Sequence[str]) -> Iterator[str]:
    """Yield what the model was sent of each tool beside its name."""
    for tool in offers:
        if isinstance(tool, ToolName):
            schema = "the provider runs it"
            if tool.parameters is not None:
                schema = short(value_text(tool.parameters), SCHEMA_MAX)
            parts = (tool.description, schema, "(strict)" if tool.strict else "")
            yield from wrapped(" ".join(filter(None, parts)), f"  tool {tool}: ", "      ")


def _unshown_lines(context: ContextView) -> Iterator[str]:
    """Yield the items that sections did not show; of many the first."""
    for entry in islice(context.unshown, UNSHOWN_MAX):
        source = " · ".join(entry[key] for key in ("section", "channel") if key in entry)
        item = left_out_text(entry, 200)
        yield from wrapped(f"{entry['by']}: {source}: {item}", "  left out by ", "      ")
    more = len(context.unshown) - UNSHOWN_MAX
    if more > 0:
        yield f"  left out: {more} more"


def _joint_sections(call: CallView) -> dict[int, str]:
    """Return the sections of shared messages, by the message's index."""
    sections: dict[int, str] = {}
    index = 0
    for part in call.context.parts:
        if isinstance(part, InlinePart):
            if part.pieces:
                sections[index] = " + ".join(dict.fromkeys(piece.section for piece in part.pieces))
            index += 1
        else:
            index += len(part)
    return sections


def _origin(message: Message, section: str = "") -> str:
    """Return ``assistant nutrition · history · turn 1 · m5``, as far as it is known."""
    speaker = message.role
    if message.agent and section != "instructions":
        speaker += f" {message.agent}"
    if message.tool:
        speaker += f" {message.tool}"
    if message.name not in ("", message.agent):
        speaker += f" named {message.name}"
    parts = [speaker, section, f"turn {message.turn}" if message.turn else "", message.id]
    return " · ".join(part for part in parts if part)


def _content_lines(message: Message) -> Iterator[str]:
    if (thinking := thinking_of(message)) is not None:
        yield from wrapped(thinking or "(hidden)", "      thinking: ", "        ")
    if message.content:
        yield from wrapped(message.content, "      ")
    for call in message.calls:
        yield from wrapped(f"{call_text(call)} as {call.id}", "      calls ", "        ")


def _answer_lines(call: CallView) -> Iterator[str]:
    if call.error is not None:
        yield from wrapped(f"{call.error.error}: {call.error.message}", "  failed with ", "      ")
    elif call.reply is not None:
        yield f"  answered · {call.reply.id}"
        yield from _content_lines(call.reply)
    else:
        yield "  not answered"


def state_lines(view: View, turn: int | None = None, paint: Paint = plain) -> Iterator[str]:
    """Yield the changes of each turn.

    The state at the end is the one that claims under ``state`` see: turn-scoped channels are
    cleared only afterwards, and are empty at the start of the next turn.
    """
    for turn_view in view.turns:
        if turn_view.finished and turn in (None, turn_view.number):
            yield from _turn_lines(turn_view, len(view.states) > 1, paint)
            yield ""


def _turn_lines(turn: TurnView, many_sessions: bool, paint: Paint) -> Iterator[str]:
    before, after = turn.state_before, turn.state
    changed = [name for name in after if name not in before or before[name] != after[name]]
    same = [name for name in after if name not in changed]
    session = f", session {turn.session}" if many_sessions else ""
    title = paint(f"turn {turn.number}{session}", "strong")
    yield f"{title}: {len(changed)} of {counted(len(after), 'channel')} changed"
    for name in changed:
        yield from _change_lines(name, before.get(name), after[name], paint)
    if same:
        yield from wrapped(", ".join(same), "  unchanged: ")


def _change_lines(name: str, old: Any, new: Any, paint: Paint) -> Iterator[str]:
    if _has_grown(old, new):
        yield f"  {name}: {len(old)} → {counted(len(new), 'item')}"
        for item in new[len(old) :]:
            yield from _went("+", value_text(item), paint)
        return
    yield f"  {name}:"
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            if key in old and (key not in new or old[key] != new[key]):
                yield from _went("-", f"{key}: {value_text(old[key])}", paint)
            if key in new and (key not in old or old[key] != new[key]):
                yield from _went("+", f"{key}: {value_text(new[key])}", paint)
    else:
        yield from _went("-", value_text(old), paint)
        yield from _went("+", value_text(new), paint)


def _went(sign: str, text: str, paint: Paint) -> Iterator[str]:
    return indented(value_lines(sign, text, paint, 6))


def _has_grown(old: Any, new: Any) -> bool:
    if not is_array(old) or not is_array(new):
        return False
    return len(new) > len(old) and list(new[: len(old)]) == list(old)
