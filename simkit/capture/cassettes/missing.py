"""A missing recording: why none answers a request, the nearest one, their differences, the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from simkit.capture.cassettes.keys import Question, canonical, json_of
from simkit.capture.cassettes.values import Cassette, Interaction, Lane, lane_of, place
from simkit.core.errors import WireInvalid
from simkit.core.messages import ABSENT, Message
from simkit.core.text import counted, parted_at, short_from
from simkit.language.paths import as_text
from simkit.providers.http import HttpRequest, path_of
from simkit.providers.mcp import RECORDED
from simkit.providers.protocols import protocol_of
from simkit.providers.values import ParsedRequest
from simkit.trace.diff.calls import Added, Changed, MessageEdit, Removed, Same, largest
from simkit.trace.diff.values import Edit, aligned, edits, key_of, message_fields

Policy: TypeAlias = Literal["content", "per-agent", "strict"]
"""``content``: the next recording of the same request. ``per-agent``: the agent's next recording
in the turn, even of another request, which is a drift. ``strict``: the agent's next recording in
the turn, if it is of the same request."""

POLICIES: Final[tuple[str, ...]] = get_args(Policy)

Reason: TypeAlias = Literal[
    "no cassette",
    "already played",
    "used up",
    "out of order",
    "other turn",
    "other agent",
    "differs",
    "nothing similar",
]


class Asking(msgspec.Struct, frozen=True, gc=False):
    """A request that is looked up, and its agent."""

    agent: str
    turn: int
    session: str
    request: HttpRequest
    """The redacted request."""
    question: Question


class PlayState(msgspec.Struct, frozen=True):
    """A cassette during replay: the questions of its interactions, and which were used."""

    cassette: Cassette
    name: str
    """The file's name in messages."""
    questions: Sequence[Question]
    played: bytes


class Why(msgspec.Struct, frozen=True, gc=False):
    """The reason why no recording answers."""

    reason: Reason
    number: int | None = None
    """The index of the recording that it concerns; None if none."""
    same: int = 0
    """The number of recordings of the same request; if used up, how many there were."""


def why_missed(call: Asking, state: PlayState, policy: Policy) -> Why:
    """Return why no recording answers; ``differs`` without a number if none asks the same."""
    if not state.cassette.is_there:
        return Why("no cassette")
    if policy == "content":
        return _why_not_found(call, state)
    lane = call.session, call.turn, call.agent
    of_agent = _places_in(lane, state)
    unplayed = [number for number in of_agent if not state.played[number]]
    if of_agent and not unplayed:
        return Why("used up", of_agent[-1], len(of_agent))
    if not unplayed:
        return _why_not_found(call, state)
    same = _same(call, state)
    # The agent's next recording is the request that it should have sent.
    is_later = any(number in same for number in unplayed)
    return Why("out of order" if is_later else "differs", unplayed[0], len(same))


def _why_not_found(call: Asking, state: PlayState) -> Why:
    items = state.cassette.interactions
    same = _same(call, state)
    mine = [number for number in same if items[number].agent in (call.agent, "")]
    for number in mine:
        if not state.played[number]:
            return Why("other turn", number, len(same))
    if mine:
        return Why("already played", mine[-1], len(mine))
    return Why("other agent", same[0], len(same)) if same else Why("differs")


def _places_in(lane: Lane, state: PlayState) -> list[int]:
    items = state.cassette.interactions
    return [number for number, item in enumerate(items) if lane_of(item) == lane]


def _same(call: Asking, state: PlayState) -> list[int]:
    """Return the indices of recordings that ask the same, of any agent."""
    return [number for number, other in enumerate(state.questions) if call.question.is_like(other)]


# The recording nearest to a missed request: searched only then, and among few


COMPARED_MAX: Final = 1_000
"""The number of recordings compared with a request, unused ones first."""


def nearest(call: Asking, state: PlayState) -> int | None:
    """Return the index of the most similar recording; None if none is similar.

    A recording of the same agent at the same address comes first, then one at the same address. A
    request to another address is similar only if the body is equal, or the path without its query.
    """
    items = state.cassette.interactions
    of_agent = [number for number, item in enumerate(items) if item.agent == call.agent]
    return nearest_of(call.question, state.questions, state.played, frozenset(of_agent))


def nearest_of(
    question: Question,
    questions: Sequence[Question],
    played: bytes = b"",
    preferred: frozenset[int] = frozenset(),
) -> int | None:
    """Return the index of the most similar question; None if none is similar.

    Those in ``preferred`` come first, then those not ``played``.
    """
    played = played or bytes(len(questions))
    same_address = [n for n, other in enumerate(questions) if other.address == question.address]
    same_address = same_address or [
        n for n, other in enumerate(questions) if _is_moved(other, question)
    ]
    first_choice = [number for number in same_address if number in preferred]
    candidates = sorted(first_choice or same_address, key=lambda number: played[number])[
        :COMPARED_MAX
    ]
    if not candidates:
        return None
    parts = _parts(question.body)

    def likeness(number: int) -> tuple[float, int, int]:
        body = questions[number].body
        other = _parts(body)
        shared = len(parts & other) / max(len(parts | other), 1)
        return shared, _shared_ends(question.body, body), -played[number]

    return max(candidates, key=likeness)


def _is_moved(left: Question, right: Question) -> bool:
    """Return whether two questions are equal except for the path or the query."""
    if left.method != right.method:
        return False
    paths = (path_of(left.address), path_of(right.address))
    return paths[0] == paths[1] or (bool(left.body) and left.body == right.body)


def _parts(body: bytes) -> set[bytes]:
    """Return the parts of a body: its messages and its other entries, one by one."""
    try:
        value = json_of(body)
    except ValueError:
        return {body}
    if not isinstance(value, dict):
        return {body}
    parts_found = set()
    for key, entry in value.items():
        items = entry if isinstance(entry, list) else [entry]
        parts_found |= {
            key.encode("utf-8", "surrogatepass") + b":" + canonical(item) for item in items
        }
    return parts_found


def _shared_ends(left: bytes, right: bytes) -> int:
    """Return the number of equal bytes at the beginning and at the end of two bodies."""
    most = min(len(left), len(right))
    head = largest(most, lambda size: left[:size] == right[:size])
    return head + largest(most - head, lambda size: left[-size:] == right[-size:])


# Misses: why no recording answers a request, what is near, and the differences


class Miss(msgspec.Struct, frozen=True, gc=False):
    """The reason of a miss, and the differences to the nearest recording."""

    reason: Reason
    cassette: str
    agent: str
    turn: int
    method: str
    address: str
    number: int | None = None
    """The index of the nearest recording; None if there is none."""
    near: Interaction | None = None
    is_played: bool = False
    """Whether the nearest recording was used already."""
    same: int = 0
    """The number of recordings that ask the same or, if all are used up, of the agent's in this
    turn."""
    messages: tuple[MessageEdit, ...] = ()
    """The edits from the recorded messages to those of the request."""
    edits: tuple[Edit, ...] = ()
    """All other differences: settings, tools, model, or the body if it is no model call."""


def missed(call: Asking, state: PlayState, policy: Policy) -> Miss:
    """Return why a request is not answered, and the nearest recording."""
    why = why_missed(call, state, policy)
    number, reason = why.number, why.reason
    if reason == "differs" and number is None:
        number = nearest(call, state)
        reason = "differs" if number is not None else "nothing similar"
    miss = Miss(
        reason,
        state.name,
        call.agent,
        call.turn,
        call.question.method,
        call.question.address,
        same=why.same,
    )
    if number is None:
        return miss
    recorded = state.cassette.interactions[number]
    messages, rest = differences(
        (recorded.request, state.questions[number]), (call.request, call.question)
    )
    return msgspec.structs.replace(
        miss,
        number=state.cassette.place_of(number),
        near=recorded,
        is_played=bool(state.played[number]),
        messages=messages,
        edits=rest,
    )


def differences(
    left: tuple[HttpRequest, Question], right: tuple[HttpRequest, Question]
) -> tuple[tuple[MessageEdit, ...], tuple[Edit, ...]]:
    """Return the edits between the messages of two requests, and their other differences."""
    around = tuple(edits(_around(left[1]), _around(right[1])))
    mine, its = _parsed_request(*left), _parsed_request(*right)
    if mine is not None and its is not None:
        messages = tuple(_message_edits(mine.messages, its.messages))
        rest = tuple(edits(_settings(mine), _settings(its)))
        if rest or any(not isinstance(edit, Same) for edit in messages):
            return messages, around + rest
    return (), around + tuple(edits(_value(left[1].body), _value(right[1].body), "body"))


def _around(question: Question) -> dict[str, Any]:
    return {"method": question.method, "path": question.address}


def _parsed_request(request: HttpRequest, question: Question) -> ParsedRequest | None:
    """Return the parsed request without the parts that keys ignore; None if it is no model call."""
    protocol = protocol_of(request)
    if protocol is None:
        return None
    try:
        return protocol.parse_request(msgspec.structs.replace(request, body=question.body))
    except WireInvalid:
        return None


def _settings(model_request: ParsedRequest) -> dict[str, Any]:
    """Return the settings of a request; tools are compared by name."""
    return {
        "model": model_request.model,
        "tools": {
            offer.name: {"description": offer.description, "schema": offer.schema}
            for offer in model_request.offers
        },
        "choice": model_request.choice,
        "output": model_request.output,
        "settings": dict(model_request.settings),
        "streamed": model_request.is_streamed,
        "previous": model_request.previous,
    }


def _value(body: bytes) -> Any:
    try:
        return json_of(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def _message_edits(left: Sequence[Message], right: Sequence[Message]) -> Iterator[MessageEdit]:
    """Yield the edits from one list of messages to the other; ids are ignored."""
    for span in aligned([_print(message) for message in left], [_print(m) for m in right]):
        if span.is_equal:
            yield Same(span.hi - span.lo)
            continue
        mine, its = left[span.lo : span.hi], right[span.other_lo : span.other_hi]
        # Messages are paired with messages of the same role.
        for part in aligned([message.role for message in mine], [m.role for m in its]):
            numbers = range(span.other_lo + part.other_lo, span.other_lo + part.other_hi)
            if part.is_equal:
                for number, old in zip(numbers, mine[part.lo : part.hi], strict=True):
                    yield Changed(number, old, right[number])
                continue
            for dropped in range(part.lo, part.hi):
                yield Removed(span.lo + dropped, mine[dropped])
            yield from (Added(number, right[number]) for number in numbers)


def _print(message: Message) -> bytes:
    fields = message_fields(message)
    return key_of([fields, message.data] if message.data is not None else [fields])


# Text of a miss: where, why, what was near, what to do


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
    owner = caller(miss.agent, miss.method)
    request_line = f"{miss.method} {miss.address}"
    lines = [
        f"{miss.cassette}: no recording answers {owner} in turn {miss.turn}: {request_line}",
        f"  {_why(miss)}",
        *(f"  {line}" for line in _near(miss)),
        f"  {_advice(miss)}: {again}",
    ]
    return "\n".join(lines)


def caller(agent: str, method: str) -> str:
    """Return the words for whose request it is: an agent's, a server's, or nobody's."""
    if method == RECORDED:
        return f"server {agent!r}"
    return f"agent {agent!r}" if agent else "a call of no agent"


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
            start = parted_at(line, new)
            changed += [f"- {_cut(line, start)}", f"+ {_cut(new, start)}"]
        changed += [f"- {_cut(line, 0)}" for line in mine[len(its) :]]
        changed += [f"+ {_cut(line, 0)}" for line in its[len(mine) :]]
    return list(_clipped(changed))


def _clipped(lines: Iterable[str]) -> Iterator[str]:
    kept_lines = list(lines)
    yield from kept_lines[:LINES_MAX]
    if len(kept_lines) > LINES_MAX:
        yield f"… {counted(len(kept_lines) - LINES_MAX, 'more line')}"


def _cut(line: str, start: int) -> str:
    """Return a line of a request without secrets; of a long one, the part around ``start``."""
    is_far = len(line) > WIDTH and start > _BEFORE * 2
    return short_from(line, start - _BEFORE if is_far else 0, WIDTH)


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
