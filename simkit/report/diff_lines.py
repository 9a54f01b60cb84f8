"""Lines of a diff of two runs, block by block, and the first event that differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import msgspec

from simkit.checks.findings import Finding
from simkit.core.errors import TraceError
from simkit.core.messages import ABSENT, Message
from simkit.core.text import (
    counted,
    cut_both,
    parted_at,
    short,
    short_end,
    short_from,
    without_secrets_in,
)
from simkit.report.wording import (
    WIDTH,
    Paint,
    Tone,
    call_text,
    columns,
    event_line,
    plain,
    value_text,
    wrapped,
)
from simkit.trace import events as e
from simkit.trace.diff.calls import Added, CallDiff, Changed, MessageEdit, Removed, Same
from simkit.trace.diff.traces import TraceDiff, TurnDiff
from simkit.trace.diff.values import Edit, ItemEdit, aligned
from simkit.trace.store import decoded

CALLS_MAX: Final = 20
"""The number of model calls shown of one scenario; JSON has all."""
TURNS_MAX: Final = 20
DECLARED_MAX: Final = 8
LINES_MAX: Final = 12
"""The number of lines shown of one message."""
AGAIN_MAX: Final = 6
VALUE_MAX: Final = 600
"""The number of characters shown of one value."""
FIELDS_MAX: Final = 3
"""The number of differences shown of the first different event."""


class Sides(msgspec.Struct, frozen=True):
    """The names of the two runs."""

    left: str = "A"
    right: str = "B"


def diff_blocks(diff: TraceDiff, sides: Sides, paint: Paint = plain) -> Iterator[list[str]]:
    """Yield the differences, a block at a time: events, contexts, turns, handoffs, state."""
    if diff.declared:
        yield wrapped(declared_text(diff), "", "  ", columns() - 2)
    if diff.is_equal:
        return
    if diff.first is not None:
        yield list(_first_lines(diff, sides, paint))
    reported: set[tuple[Any, ...]] = set()
    for call in diff.calls[:CALLS_MAX]:
        yield list(_call_lines(call, sides, reported, paint))
    yield from _more(len(diff.calls) - CALLS_MAX, "more model call", "; --format json lists all")
    beyond = ", beyond the limit of what is compared message by message"
    yield from _more(diff.more_calls, "more model call", beyond)
    for turn in diff.turns[:TURNS_MAX]:
        yield from _turn_blocks(turn, sides, paint)
    yield from _more(len(diff.turns) - TURNS_MAX, "more turn", "; --format json lists all")
    if diff.at_end:
        yield ["state at the end", *_edits_lines(diff.at_end, paint)]
    if not (diff.calls or diff.more_calls or diff.turns or diff.at_end):
        parts = "times, order or causes"
        if diff.first is not None and isinstance(diff.first.left, e.JudgeAnswered):
            parts = f"answers of the judge, {parts}"
        yield [f"every context, handoff and state is the same: only {parts} differ"]


def _more(count: int, noun: str, rest: str = "") -> list[list[str]]:
    """Return the block that says how many things are not shown; none if all are."""
    return [[f"… and {counted(count, noun)}{rest}"]] if count > 0 else []


def declared_text(diff: TraceDiff) -> str:
    """Return the differences in the declarations of pipelines and scenarios."""
    paths = [edit.at.removeprefix("pipeline.") for edit in diff.declared]
    more = len(paths) - DECLARED_MAX
    rest = f" and {counted(more, 'more place')}" if more > 0 else ""
    return f"declared differently: {', '.join(paths[:DECLARED_MAX])}{rest}"


def _first_lines(diff: TraceDiff, sides: Sides, paint: Paint) -> Iterator[str]:
    first = diff.first
    assert first is not None
    yield f"first differing event: {first.number}"
    start = first.number - len(first.before)
    for number, event in enumerate(first.before, start):
        yield f"    {_event(number, event)}"
    for sign, side_event, side in (("-", first.left, sides.left), ("+", first.right, sides.right)):
        end_text = f"({side} has ended)" if side_event is None else _event(first.number, side_event)
        yield f"  {signed(sign, end_text, paint)}"
    for edit in first.edits[:FIELDS_MAX]:
        yield from indented(_edit_lines(edit, paint), 4)


def _event(number: int, event: e.AnyEvent) -> str:
    return short_end(event_line(number, event), columns() - 6)


def call_title(call: CallDiff, sides: Sides) -> str:
    """Return the agent and turn of a call, and how its size changed."""
    title = f"{call.agent}, turn {call.turn}{_nth(call.call)}"
    for index, side in ((1, sides.left), (0, sides.right)):
        if call.sizes[index] is None:
            size = call.sizes[1 - index] or 0
            return f"{title}: only in {side}, {counted(size, 'message')}"
    sizes = (_change(*call.sizes, "message"), _change(*call.tokens, "token"))
    return f"{title}: {', '.join(sizes)}"


def _nth(index: int) -> str:
    return f", call {index + 1}" if index else ""


def _change(before: int | None, other: int | None, noun: str) -> str:
    return (
        counted(other or 0, noun) if before == other else f"{before} → {counted(other or 0, noun)}"
    )


def again_text(call: CallDiff) -> str:
    """Return the other calls with the same change; empty if there are none."""
    if not call.again:
        return ""
    turns = [f"turn {turn}{_nth(index)}" for turn, index in call.again[:AGAIN_MAX]]
    more = len(call.again) - AGAIN_MAX
    rest = f" and {counted(more, 'more call')}" if more > 0 else ""
    return f"the same in {'; '.join(turns)}{rest}"


def _call_lines(
    call: CallDiff, sides: Sides, reported: set[tuple[Any, ...]], paint: Paint
) -> Iterator[str]:
    """Yield the differences of two calls; those that an earlier call showed are counted."""
    yield paint(call_title(call, sides), "strong")
    as_above = 0
    if any(call.changes):
        for edit in (*call.messages, None):
            change = (
                None if edit is None or isinstance(edit, Same) else (call.agent, *_essence(edit))
            )
            if change in reported:
                as_above += 1
                continue
            if as_above:
                yield paint(f"    ≈ {counted(as_above, 'change')} as above", "quiet")
                as_above = 0
            if change is not None:
                reported.add(change)
            if edit is not None:
                yield from _message_lines(edit, paint)
    yield from _edits_lines(call.edits, paint)
    if call.again:
        yield from wrapped(again_text(call), "  ", width=columns() - 2)


def _essence(edit: Added | Removed | Changed) -> tuple[Any, ...]:
    """Return the content of a change, without its place."""
    if isinstance(edit, Changed):
        return "~", *_said_lines(edit.left), "→", *_said_lines(edit.right)
    return type(edit).__name__, edit.message.role, *_said_lines(edit.message)


def _message_lines(edit: MessageEdit, paint: Paint) -> Iterator[str]:
    if isinstance(edit, Same):
        yield paint(f"    = {counted(edit.count, 'message')}", "quiet")
    elif isinstance(edit, Changed):
        yield f"  ~ {edit.at + 1}. {_origin(edit.right)}"
        yield from indented(_changed_lines(edit.left, edit.right, paint), 6)
    else:
        sign, verb = ("-", "now") if isinstance(edit, Removed) else ("+", "was")
        why = f" · {verb} dropped by {edit.dropped_by}" if edit.dropped_by else ""
        yield f"  {signed(sign, f'{edit.at + 1}. {_origin(edit.message)}{why}', paint)}"
        lines = (paint(line, TONES[sign]) for line in _clipped(_said_lines(edit.message)))
        yield from indented(lines, 6)


def _origin(message: Message) -> str:
    """Return ``assistant nutrition · history · turn 1``, as far as it is known."""
    speaker = " ".join(part for part in (message.role, message.agent, message.tool) if part)
    parts = [speaker, message.section, f"turn {message.turn}" if message.turn else ""]
    return " · ".join(part for part in parts if part)


def _said_lines(message: Message) -> list[str]:
    lines = message.content.split("\n") if message.content else []
    return [*lines, *(f"calls {call_text(call)}" for call in message.calls)]


def _changed_lines(left: Message, right: Message, paint: Paint) -> Iterator[str]:
    """Yield the removed and added lines of a message, and the number of unchanged ones."""
    if left.role != right.role or left.agent != right.agent:
        yield f"was {_origin(left)}"
    mine, its = _said_lines(left), _said_lines(right)
    changes: list[str] = []
    for span in aligned(mine, its):
        if span.is_equal:
            changes.append(paint(f"= {counted(span.hi - span.lo, 'line')}", "quiet"))
            continue
        went, added = mine[span.lo : span.hi], its[span.other_lo : span.other_hi]
        pairs = [cut_both(*pair, VALUE_MAX) for pair in zip(went, added, strict=False)]
        went = [*(pair[0] for pair in pairs), *went[len(pairs) :]]
        added = [*(pair[1] for pair in pairs), *added[len(pairs) :]]
        for sign, lines in (("-", went), ("+", added)):
            changes.extend(signed(sign, line, paint) for line in _clipped(lines, columns() - 10))
    yield from changes


def _clipped(lines: Sequence[str], width: int = 0) -> Iterator[str]:
    """Yield lines, long ones in several; of many the first."""
    width = width or columns() - 8
    folded = [part for line in lines for part in wrapped(short_end(line, VALUE_MAX), width=width)]
    yield from folded[:LINES_MAX]
    more = len(folded) - LINES_MAX
    if more > 0:
        yield f"… {counted(more, 'more line')}"


def _turn_blocks(turn: TurnDiff, sides: Sides, paint: Paint) -> Iterator[list[str]]:
    for number, side in ((turn.other_turn, sides.left), (turn.turn, sides.right)):
        if number is None:
            turn_number = turn.turn if turn.turn is not None else turn.other_turn
            yield [f"turn {turn_number}: only in {side}: user: {short(turn.user, VALUE_MAX)}"]
            return
    moved = f" (turn {turn.turn} in {sides.left})" if turn.turn != turn.other_turn else ""
    where = f"turn {turn.other_turn}{moved}"
    if turn.edits:
        yield [paint(where, "strong"), *_edits_lines(turn.edits, paint)]
    if turn.handoffs:
        lines = (line for item in turn.handoffs for line in _handoff_lines(item, paint))
        yield [paint(f"handoffs, {where}", "strong"), *lines]
    if turn.state:
        at = where if turn.turn else "before the first turn"
        yield [paint(f"state, {at}", "strong"), *_edits_lines(turn.state, paint)]


def _handoff_lines(item: ItemEdit, paint: Paint) -> Iterator[str]:
    handoff = item.right or item.left or {}
    route = f"{handoff['from']} → {handoff['to']}"
    if item.left is not None and item.right is not None:
        yield f"  ~ {route}"
        yield from indented(_edits_lines(item.edits, paint))
        return
    kind = f", type {handoff['type']}" if handoff["type"] else ""
    payload = "" if handoff["payload"] is None else f": {value_text(handoff['payload'])}"
    text = f"{route}, {handoff['outcome']}, {handoff['mode']}{kind}{short_end(payload, VALUE_MAX)}"
    yield from value_lines("+" if item.left is None else "-", text, paint)


def _edits_lines(edits: Iterable[Edit], paint: Paint) -> Iterator[str]:
    for edit in edits:
        yield from indented(_edit_lines(edit, paint))


def _edit_lines(edit: Edit, paint: Paint) -> Iterator[str]:
    """Yield a difference of two values: on one line if it fits, else on two."""
    left, right = (None if value is ABSENT else _value(value) for value in (edit.left, edit.right))
    if left is not None and right is not None:
        left, right = cut_both(left, right, VALUE_MAX)
    left, right = (text and short_end(text, VALUE_MAX) for text in (left, right))
    if left is not None and right is not None:
        line = f"{edit.at}: {left} → {right}"
        if len(line) <= columns() - 6:
            yield f"{edit.at}: {paint(left, 'bad')} → {paint(right, 'good')}"
            return
    yield edit.at
    for sign, text in (("-", left), ("+", right)):
        if text is not None:
            yield from value_lines(sign, text, paint)


def _value(value: Any) -> str:
    if isinstance(value, dict) and value.keys() >= {"role", "content"}:
        return " ".join(_answer_text(value).split())
    return value_text(value)


def _answer_text(answer: dict[str, Any]) -> str:
    """Return a message in a channel as one text."""
    call_pairs = (pair for call in answer.get("calls", ()) for pair in call.items())
    calls = [f"{name}({value_text(args)})" for name, args in call_pairs]
    by = f" {answer['agent']}" if answer.get("agent") else ""
    return f"{answer['role']}{by}: {' '.join([str(answer['content']), *calls])}"


def value_lines(sign: str, text: str, paint: Paint, indent: int = 10) -> Iterator[str]:
    """Yield a value that went or came; ``indent`` are the columns that stand around it."""
    first, *rest = wrapped(text, width=columns() - indent)
    yield f"  {signed(sign, first, paint)}"
    yield from (f"    {paint(line, TONES[sign])}" for line in rest)


TONES: Final[Mapping[str, Tone]] = {"-": "bad", "+": "good"}


def signed(sign: str, text: str, paint: Paint) -> str:
    """Return a line that went or came, in the colour of its sign."""
    return paint(f"{sign} {text}".rstrip(), TONES[sign])


def indented(lines: Iterable[str], columns: int = 2) -> Iterator[str]:
    for line in lines:
        yield f"{' ' * columns}{line}".rstrip()


# Two traces of one scenario that should be equal: the first different event


NOT_DETERMINISTIC: Final = "not-deterministic"
BEFORE: Final = 3
"""The number of events shown before the different one."""
LEAD: Final = 40
"""The number of characters shown before the different one."""
WINDOW: Final = WIDTH - 4


def first_difference(
    first: Sequence[bytes], second: Sequence[bytes], where: str, how: str
) -> Finding:
    """Return the finding that two stored traces differ, with the events before the place.

    ``how`` describes what was different about the second run.
    """
    pairs = enumerate(zip_longest(first, second))
    index = next((index for index, (left, right) in pairs if left != right), len(first))
    return Finding(
        NOT_DETERMINISTIC,
        "E",
        f"the second run ({how}) parts from the first at event {index} of {len(first) - 1}",
        where,
        context=tuple(_lines(first, second, index)),
        fix="Look for a set that is iterated, an id or hash of an object, a clock, or chance that "
        "does not come from the seed, in the functions of the pipeline.",
    )


def _lines(first: Sequence[bytes], second: Sequence[bytes], index: int) -> Iterator[str]:
    for before in range(max(index - BEFORE, 1), index):
        yield _readable(first, before)
    if index < len(first) and index < len(second):
        yield _readable(first, index)
        left, right = _parting(first[index].decode(), second[index].decode())
        yield f"first:  {left}"
        yield f"second: {right}"
    else:
        longer, which = (first, "first") if index < len(first) else (second, "second")
        yield _readable(longer, index)
        yield f"only the {which} run has this event"


def _readable(lines: Sequence[bytes], index: int) -> str:
    """Return an event on one line, with its number."""
    try:
        (event,) = decoded(b"\n".join((lines[0], lines[index]))).events
    except TraceError:
        return short_end(lines[index].decode(), WINDOW)
    return short_end(event_line(index, event), WINDOW)


def _parting(left: str, right: str) -> tuple[str, str]:
    """Return the two encoded events, cut around the first different character."""
    left, right = without_secrets_in(left), without_secrets_in(right)
    start, most = max(parted_at(left, right) - LEAD, 0), WINDOW - len("second: ")
    most += bool(start)
    return short_from(left, start, most), short_from(right, start, most)
