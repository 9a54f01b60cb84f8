"""The text of a miss: where, why, what is nearest, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from simkit.capture.cassettes.missing import Miss
from simkit.capture.cassettes.values import Interaction, place
from simkit.core.messages import ABSENT, Message
from simkit.core.text import counted
from simkit.language.paths import as_text
from simkit.trace.diff import Changed, Edit, MessageEdit, Same, Went, aligned

WIDTH: Final = 96
"""Characters that a line shows of a text."""
LINES_MAX: Final = 12
"""Lines that are shown of one message."""
CHANGES_MAX: Final = 20
"""Messages, and settings, of which the differences are shown."""
_BEFORE: Final = 24
"""Characters shown before the place at which two long lines part."""


def miss_text(miss: Miss, again: str) -> str:
    """Returns what a miss says; ``again`` is the command that records the cassette again."""
    whose = f"agent {miss.agent!r}" if miss.agent else "a call of no agent"
    asked = f"{miss.method} {miss.address}"
    lines = [
        f"{miss.cassette}: no recording answers {whose} in turn {miss.turn}: {asked}",
        f"  {_why(miss)}",
        *(f"  {line}" for line in _near(miss)),
        f"  {_advice(miss)}: {again}",
    ]
    return "\n".join(lines)


def _why(miss: Miss) -> str:
    recorded = counted(miss.same, "time")
    near = miss.near
    whose = f"agent {near.agent!r}" if near is not None and near.agent else "nobody"
    turn = near.turn if near is not None else 0
    return {
        "no cassette": "there is no such cassette",
        "already played": f"it was recorded {recorded}, and every recording has answered",
        "used up": f"the agent made {counted(miss.same, 'call')} in this turn when it was"
        " recorded, and every recording has answered",
        "out of order": "it was recorded, but the agent asked something else before it",
        "other turn": f"it was recorded in turn {turn}",
        "other agent": f"it was recorded, but asked by {whose}",
        "differs": "nothing was recorded that asks the same",
        "nothing similar": "nothing was recorded that is similar",
    }[miss.reason]


def _advice(miss: Miss) -> str:
    if miss.reason in ("no cassette", "nothing similar"):
        return "to record it"
    return "if the change is meant, record again"


def _near(miss: Miss) -> Iterator[str]:
    if miss.near is None or miss.number is None:
        return
    is_next = miss.reason == "out of order"
    state = "has answered already" if miss.is_played else "has not answered yet"
    yield f"{'next' if is_next else 'nearest'}: {place(miss.number)}{_whose(miss.near)}, {state}"
    yield from (f"  {line}" for line in difference_lines(miss.messages, miss.edits))


def difference_lines(messages: Iterable[MessageEdit], rest: Sequence[Edit]) -> Iterator[str]:
    """Yields how one request differs from another: ``-`` is the one's, ``+`` the other's."""
    shown = 0
    for edit in messages:
        shown += not isinstance(edit, Same)
        if shown <= CHANGES_MAX:
            yield from _message_lines(edit)
    yield from _more(shown - CHANGES_MAX, "more message")
    for change in rest[:CHANGES_MAX]:
        yield from _edit_lines(change)
    yield from _more(len(rest) - CHANGES_MAX, "more difference")


def _more(number: int, noun: str) -> Iterator[str]:
    if number > 0:
        yield f"… {counted(number, noun)}"


def _whose(near: Interaction) -> str:
    parts = [f"agent {near.agent!r}"] if near.agent else []
    parts += [f"turn {near.turn}"] if near.turn else []
    parts += [f"call {near.call}"] if near.call else []
    return "".join(f", {part}" for part in parts)


def _message_lines(edit: MessageEdit) -> Iterator[str]:
    if isinstance(edit, Same):
        yield f"  = {counted(edit.count, 'message')}"
    elif isinstance(edit, Changed):
        yield f"~ messages[{edit.at}] {edit.right.role}"
        yield from _indented(_changed_lines(_spoken(edit.left), _spoken(edit.right)))
    else:
        is_gone = isinstance(edit, Went)
        sign, when = ("-", "recorded, not asked now") if is_gone else ("+", "not recorded")
        yield f"{sign} messages[{edit.at}] {edit.message.role}, {when}"
        yield from _indented(_clipped(_cut(line, 0) for line in _spoken(edit.message)))


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}".rstrip() for line in lines)


def _spoken(message: Message) -> list[str]:
    """Returns what a message says, line by line; its values where the text alone is not all."""
    lines = message.content.split("\n") if message.content else []
    lines += [f"calls {call.name}({as_text(call.args)})" for call in message.calls]
    if message.data is not None and as_text(message.data) != message.content:
        lines.append(f"data {as_text(message.data)}")
    return lines


def _changed_lines(one: list[str], other: list[str]) -> list[str]:
    """Returns the lines that went and came; of those that stay, how many."""
    found: list[str] = []
    for span in aligned(one, other):
        if span.is_equal:
            found.append(f"= {counted(span.hi - span.lo, 'line')}")
            continue
        mine, its = one[span.lo : span.hi], other[span.other_lo : span.other_hi]
        for line, new in zip(mine, its, strict=False):
            start = _shared_head(line, new)
            found += [f"- {_cut(line, start)}", f"+ {_cut(new, start)}"]
        found += [f"- {_cut(line, 0)}" for line in mine[len(its) :]]
        found += [f"+ {_cut(line, 0)}" for line in its[len(mine) :]]
    return list(_clipped(found))


def _shared_head(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _clipped(lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    yield from found[:LINES_MAX]
    if len(found) > LINES_MAX:
        yield f"… {counted(len(found) - LINES_MAX, 'more line')}"


def _cut(line: str, start: int) -> str:
    """Returns a line, of a long one the part around ``start``."""
    if len(line) > WIDTH and start > _BEFORE * 2:
        line = "…" + line[start - _BEFORE :]
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _edit_lines(edit: Edit) -> Iterator[str]:
    one, other = (None if value is ABSENT else as_text(value) for value in (edit.left, edit.right))
    if one is None or other is None:
        sign, text = ("+", other) if one is None else ("-", one)
        yield f"{sign} {edit.at}: {_cut(text or '', 0)}"
    elif len(edit.at) + len(one) + len(other) < WIDTH - 6 and "\n" not in one + other:
        yield f"~ {edit.at}: {one} → {other}"
    else:
        yield f"~ {edit.at}"
        yield from _indented(_changed_lines(one.split("\n"), other.split("\n")))
