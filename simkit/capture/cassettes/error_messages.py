"""Text of a miss: where, why, what was near, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from simkit.capture.cassettes.missing import Miss
from simkit.capture.cassettes.values import Interaction, place
from simkit.core.messages import ABSENT, Message
from simkit.core.text import counted
from simkit.language.paths import as_text
from simkit.trace.diff import Changed, Edit, MessageEdit, Removed, Same, aligned

WIDTH: Final = 96
"""The length of a text in one line."""
LINES_MAX: Final = 12
"""The number of lines shown of one message."""
CHANGES_MAX: Final = 20
"""The number of messages, and of settings, whose differences are shown."""
_BEFORE: Final = 24
"""Characters shown before the first difference of two long lines."""


def miss_text(miss: Miss, again: str) -> str:
    """Return the text of a miss; ``again`` is the command that records the cassette again."""
    owner = f"agent {miss.agent!r}" if miss.agent else "a call of no agent"
    request_line = f"{miss.method} {miss.address}"
    lines = [
        f"{miss.cassette}: no recording answers {owner} in turn {miss.turn}: {request_line}",
        f"  {_why(miss)}",
        *(f"  {line}" for line in _near(miss)),
        f"  {_advice(miss)}: {again}",
    ]
    return "\n".join(lines)


def _why(miss: Miss) -> str:
    recorded = counted(miss.same, "time")
    near = miss.near
    owner = f"agent {near.agent!r}" if near is not None and near.agent else "nobody"
    turn = near.turn if near is not None else 0
    return {
        "no cassette": "there is no such cassette",
        "already played": f"it was recorded {recorded}, and every recording has answered",
        "used up": f"the agent made {counted(miss.same, 'call')} in this turn when it was"
        " recorded, and every recording has answered",
        "out of order": "it was recorded, but the agent asked something else before it",
        "other turn": f"it was recorded in turn {turn}",
        "other agent": f"it was recorded, but asked by {owner}",
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
    rank = "next" if is_next else "nearest"
    yield f"{rank}: {place(miss.number)}{_owner_text(miss.near)}, {state}"
    yield from (f"  {line}" for line in difference_lines(miss.messages, miss.edits))


def difference_lines(messages: Iterable[MessageEdit], rest: Sequence[Edit]) -> Iterator[str]:
    """Yield the differences of two requests: ``-`` is the first one's, ``+`` the second's."""
    lines_shown = 0
    for edit in messages:
        lines_shown += not isinstance(edit, Same)
        if lines_shown <= CHANGES_MAX:
            yield from _message_lines(edit)
    yield from _more(lines_shown - CHANGES_MAX, "more message")
    for change in rest[:CHANGES_MAX]:
        yield from _edit_lines(change)
    yield from _more(len(rest) - CHANGES_MAX, "more difference")


def _more(number: int, noun: str) -> Iterator[str]:
    if number > 0:
        yield f"… {counted(number, noun)}"


def _owner_text(near: Interaction) -> str:
    parts = [f"agent {near.agent!r}"] if near.agent else []
    parts += [f"turn {near.turn}"] if near.turn else []
    parts += [f"call {near.call}"] if near.call else []
    return "".join(f", {part}" for part in parts)


def _message_lines(edit: MessageEdit) -> Iterator[str]:
    if isinstance(edit, Same):
        yield f"  = {counted(edit.count, 'message')}"
    elif isinstance(edit, Changed):
        yield f"~ messages[{edit.at}] {edit.right.role}"
        yield from _indented(
            _changed_lines(_words_of_message(edit.left), _words_of_message(edit.right))
        )
    else:
        is_gone = isinstance(edit, Removed)
        sign, when = ("-", "recorded, not asked now") if is_gone else ("+", "not recorded")
        yield f"{sign} messages[{edit.at}] {edit.message.role}, {when}"
        yield from _indented(_clipped(_cut(line, 0) for line in _words_of_message(edit.message)))


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}".rstrip() for line in lines)


def _words_of_message(message: Message) -> list[str]:
    """Return the content of a message, line by line; its values if the text is not all."""
    lines = message.content.split("\n") if message.content else []
    lines += [f"calls {call.name}({as_text(call.args)})" for call in message.calls]
    if message.data is not None and as_text(message.data) != message.content:
        lines.append(f"data {as_text(message.data)}")
    return lines


def _changed_lines(left: list[str], right: list[str]) -> list[str]:
    """Return the removed and added lines, and the number of unchanged ones."""
    changed: list[str] = []
    for span in aligned(left, right):
        if span.is_equal:
            changed.append(f"= {counted(span.hi - span.lo, 'line')}")
            continue
        mine, its = left[span.lo : span.hi], right[span.other_lo : span.other_hi]
        for line, new in zip(mine, its, strict=False):
            start = _shared_head(line, new)
            changed += [f"- {_cut(line, start)}", f"+ {_cut(new, start)}"]
        changed += [f"- {_cut(line, 0)}" for line in mine[len(its) :]]
        changed += [f"+ {_cut(line, 0)}" for line in its[len(mine) :]]
    return list(_clipped(changed))


def _shared_head(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(left), len(right)))


def _clipped(lines: Iterable[str]) -> Iterator[str]:
    kept_lines = list(lines)
    yield from kept_lines[:LINES_MAX]
    if len(kept_lines) > LINES_MAX:
        yield f"… {counted(len(kept_lines) - LINES_MAX, 'more line')}"


def _cut(line: str, start: int) -> str:
    """Return a line; of a long one, the part around ``start``."""
    if len(line) > WIDTH and start > _BEFORE * 2:
        line = "…" + line[start - _BEFORE :]
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _edit_lines(edit: Edit) -> Iterator[str]:
    left, right = (None if value is ABSENT else as_text(value) for value in (edit.left, edit.right))
    if left is None or right is None:
        sign, text = ("+", right) if left is None else ("-", left)
        yield f"{sign} {edit.at}: {_cut(text or '', 0)}"
    elif len(edit.at) + len(left) + len(right) < WIDTH - 6 and "\n" not in left + right:
        yield f"~ {edit.at}: {left} → {right}"
    else:
        yield f"~ {edit.at}"
        yield from _indented(_changed_lines(left.split("\n"), right.split("\n")))
