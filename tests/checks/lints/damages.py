"""Damages to traces with tools and handoffs, most of which some lint finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from simkit.language.paths import with_texts
from simkit.trace import events as e
from tests.checks.lints.test_screening import damaged

Events: TypeAlias = Sequence[e.AnyEvent]
AGENTS: Final = ("desk", "billing", "writer", "clerk")


def altered(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which one value, anywhere in an event, is another one's, empty or gone."""
    copy = list(events)
    for _ in range(20):
        place = rng.randrange(len(copy))
        event = copy[place]
        other = rng.choice([event_ for event_ in events if type(event_) is type(event)])
        plain = msgspec.to_builtins(event)
        container, key = rng.choice(list(_spots(plain)))
        donors = [
            inner[name]
            for inner, name in _spots(msgspec.to_builtins(other))
            if name == key or isinstance(key, int)
        ]
        how = rng.randrange(6)
        if how == 0:
            del container[key]
        elif how == 1 and isinstance(container, list):
            container.insert(rng.randrange(len(container) + 1), container[key])
        elif how == 2:
            container[key] = type(container[key])()
        elif how == 3 and isinstance(container[key], int):
            container[key] += rng.choice([-2, -1, 1, 2])
        elif donors:
            container[key] = rng.choice(donors)
        try:
            changed_event = msgspec.convert(plain, type(event))
        except (msgspec.ValidationError, TypeError):
            continue
        if changed_event != event:
            copy[place] = changed_event
            return copy
    return copy


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields (container, key) of every value inside a value, but for its kind."""
    if isinstance(value, Mapping):
        for key in value:
            if key not in ("kind", "type"):
                yield value, key
            yield from _spots(value[key])
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield value, place
            yield from _spots(inner)


def swapped(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which an event has a field of another event of its kind, or none."""
    copy = list(events)
    place = rng.randrange(len(copy))
    event = copy[place]
    field = rng.choice(event.__struct_fields__)
    other = rng.choice([event_ for event_ in events if type(event_) is type(event)])
    value = getattr(rng.choice((other, type(event)(event.at))), field)
    copy[place] = replace(event, **{field: value})
    return copy


def moved(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which an event stands a few places before or after."""
    copy = list(events)
    place = rng.randrange(1, len(copy))
    event = copy.pop(place)
    copy.insert(max(1, min(len(copy), place + rng.choice([-3, -2, -1, 1, 2, 3]))), event)
    return copy


def replayed(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a few events come once more, or are gone."""
    copy = list(events)
    first = rng.randrange(1, len(copy))
    end = min(len(copy), first + rng.randint(1, 5))
    copy[first:end] = copy[first:end] * 2 if rng.random() < 0.5 else []
    return copy


def damaged_once(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy with a damage of the kinds that all traces get."""
    return damaged(list(events), rng)


def _place_of(events: Events, rng: Random, fits: Callable[[Any], Any]) -> int | None:
    """Returns the place of an event that fits, drawn from all; None if there is none."""
    places = [place for place, event in enumerate(events) if fits(event)]
    return rng.choice(places) if places else None


def _with(events: Events, change: Callable[[str], str]) -> list[e.AnyEvent]:
    """Returns a copy with every text replaced by the result of ``change``."""
    return [
        msgspec.convert(with_texts(msgspec.to_builtins(event), change), type(event))
        for event in events
    ]


def other_numbers(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a history, or a run's own messages, lack a number, or have more."""
    copy = list(events)
    spots: list[tuple[int, int, str]] = []
    for place, event in enumerate(events):
        if isinstance(event, e.ContextBuilt):
            spots += [(place, -1, "said")] * bool(event.said)
            for index, part in enumerate(event.parts):
                if isinstance(part, e.Shown):
                    spots += [(place, index, "kept")] * bool(part.kept)
                    spots += [(place, index, "tail")] * bool(part.tail)
    if not spots:
        return copy
    place, index, name = rng.choice(spots)
    event = copy[place]
    assert isinstance(event, e.ContextBuilt)
    owner: Any = event if index < 0 else event.parts[index]
    numbers = getattr(owner, name)
    at = rng.randrange(len(numbers))
    added = [ev.message.number for ev in events[:place] if isinstance(ev, e.MessageAdded)]
    new = (
        (*numbers[:at], *numbers[at + 1 :]),
        (*numbers[:at], rng.choice(added), *numbers[at:]),
        tuple(sorted({*numbers, rng.choice(added)})),
        numbers[: at + 1],
        numbers[at:],
    )[rng.randrange(5)]
    if index < 0:
        copy[place] = replace(event, said=new)
    else:
        parts = list(event.parts)
        parts[index] = replace(owner, **{name: new})
        copy[place] = replace(event, parts=tuple(parts))
    return copy


def renamed(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which all events of a call have another call's id."""
    calls = [
        call.id
        for event in events
        if isinstance(event, e.MessageAdded)
        for call in event.message.calls
    ]
    if len(calls) < 2:
        return list(events)
    old, new = rng.sample(calls, 2)
    return _with(events, lambda text: new if text == old else text)


def exchanged(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which two results of one message's calls have each other's contents."""
    copy = list(events)

    def is_result(event: Any) -> bool:
        return isinstance(event, e.MessageAdded) and bool(event.message.call_id)

    pairs = [n for n in range(len(copy) - 1) if is_result(copy[n]) and is_result(copy[n + 1])]
    if pairs:
        place = rng.choice(pairs)
        first, second = copy[place], copy[place + 1]
        assert isinstance(first, e.MessageAdded)
        assert isinstance(second, e.MessageAdded)
        left, right = first.message, second.message
        copy[place] = replace(first, message=replace(left, content=right.content, data=right.data))
        copy[place + 1] = replace(
            second, message=replace(right, content=left.content, data=left.data)
        )
    return copy


def in_another_session(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a call is executed, or answered, in another session."""
    copy = list(events)
    place = _place_of(events, rng, lambda ev: isinstance(ev, e.MessageAdded) and ev.message.call_id)
    if place is None:
        return copy
    event = copy[place]
    assert isinstance(event, e.MessageAdded)
    if rng.random() < 0.5:
        copy[place] = replace(event, session="s9")
    else:
        for at, other in enumerate(copy):
            if isinstance(other, e.ToolCalled) and other.call_id == event.message.call_id:
                copy[at] = replace(other, session="s9")
    return [
        other
        for other in copy
        if not (isinstance(other, e.ToolReturned) and other.call_id == event.message.call_id)
    ]


def joined(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a message asks for one more call, answered or not."""
    copy = list(events)
    calls = [
        call
        for event in events
        if isinstance(event, e.MessageAdded)
        for call in event.message.calls
    ]
    place = _place_of(events, rng, lambda ev: isinstance(ev, e.MessageAdded) and ev.message.calls)
    if place is None:
        return copy
    event = copy[place]
    assert isinstance(event, e.MessageAdded)
    more = (*event.message.calls, replace(rng.choice(calls), id="extra"))
    copy[place] = replace(event, message=replace(event.message, calls=more))
    if rng.random() < 0.6:
        answer = replace(event.message, calls=(), call_id="extra", role="tool", content="x")
        copy.insert(place + 1, replace(event, message=answer))
        return _renumbered(copy, place + 1)
    return copy


def said_between(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which an agent says something before its calls are answered, or empty."""
    copy = list(events)
    place = _place_of(events, rng, lambda ev: isinstance(ev, e.MessageAdded) and ev.message.calls)
    if place is None:
        return copy
    event = copy[place]
    assert isinstance(event, e.MessageAdded)
    new = rng.choice(
        (
            replace(event.message, calls=(), content="Wait, please"),
            replace(event.message, calls=(replace(event.message.calls[0], id="x"),), content="So"),
            replace(event.message, calls=(), content="Wait, please", role="system"),
        )
    )
    copy.insert(place + 1, replace(event, message=new))
    return _renumbered(copy, place + 1)


_NUMBERS: Final = frozenset(("message", "$message", "kept", "tail", "said", "of"))


def _renumbered(events: Events, first: int) -> list[e.AnyEvent]:
    """Returns a copy in which a new message has the next number, and all later ones one more.

    Of the new message's run, later contexts show it.
    """
    new = events[first]
    assert isinstance(new, e.MessageAdded)
    number = new.message.number + 1

    def later(value: Any, key: Any = None) -> Any:
        if isinstance(value, dict):
            return {name: later(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [later(inner, key) for inner in value]
        if type(value) is int and key in _NUMBERS and value >= number:
            return value + 1
        if key == "id" and isinstance(value, str) and value[:1] == "m" and value[1:].isdigit():
            return f"m{int(value[1:]) + (int(value[1:]) >= number)}"
        return value

    copy = [*events[:first], replace(new, message=replace(new.message, id=f"m{number}"))]
    for event in events[first + 1 :]:
        changed_event = msgspec.convert(later(msgspec.to_builtins(event)), type(event))
        if isinstance(changed_event, e.ContextBuilt) and number - 1 in changed_event.said:
            own_messages = tuple(sorted({*changed_event.said, number}))
            changed_event = replace(changed_event, said=own_messages)
        copy.append(changed_event)
    return copy


def handed_over(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a handoff is another one, comes twice, or says something else."""
    copy = list(events)
    place = _place_of(events, rng, lambda ev: isinstance(ev, e.HandoffRequested))
    if place is None:
        return copy
    request = copy[place]
    assert isinstance(request, e.HandoffRequested)
    start = next(
        (
            at
            for at, event in enumerate(copy)
            if isinstance(event, e.AgentStarted) and event.handoff == request.handoff
        ),
        place,
    )
    return rng.choice(_HANDOFF_DAMAGES)(copy, request, place, start, rng)


def _asked_twice(
    copy: list[e.AnyEvent], request: e.HandoffRequested, place: int, start: int, rng: Random
) -> list[e.AnyEvent]:
    copy.insert(rng.randint(place, max(place, start)), replace(request, handoff="h99"))
    return copy


def _begun_again(
    copy: list[e.AnyEvent], request: e.HandoffRequested, place: int, start: int, rng: Random
) -> list[e.AnyEvent]:
    """Another handoff has the id of one whose target has had no context so far."""
    again: list[e.AnyEvent] = []
    for event in copy[place : start + 1]:
        if isinstance(event, (e.HandoffRequested, e.HandoffMade)):
            again.append(replace(event, query="Else", run="r99"))
        elif isinstance(event, e.AgentStarted):
            again.append(replace(event, run="r99", input="Else"))
    return [*copy[: start + 1], *again, *copy[start + 1 :]]


def _long_query(
    copy: list[e.AnyEvent], request: e.HandoffRequested, place: int, start: int, rng: Random
) -> list[e.AnyEvent]:
    text = "\n".join(f"Line {number} of a document." for number in range(50))
    return _with(copy, lambda old: text if old == request.query else old)


def _made_otherwise(
    copy: list[e.AnyEvent], request: e.HandoffRequested, place: int, start: int, rng: Random
) -> list[e.AnyEvent]:
    for at, event in enumerate(copy):
        if isinstance(event, e.HandoffMade) and event.handoff == request.handoff:
            payload = rng.choice([{}, {"order": 5}, {"note": "Nothing"}, None, "text"])
            changes: dict[str, Any] = rng.choice(
                [{"payload": payload}, {"handoff": "h1"}, {"to_agent": "clerk"}, {"session": "s9"}]
            )
            copy[at] = replace(event, **changes)
    return copy


def _asked_otherwise(
    copy: list[e.AnyEvent], request: e.HandoffRequested, place: int, start: int, rng: Random
) -> list[e.AnyEvent]:
    payload = request.payload if isinstance(request.payload, dict) else {}
    text = next(iter(payload.values()), "Nothing")
    changes: dict[str, Any] = rng.choice(
        [
            {"payload": {"order": "Never said", "note": text}},
            {"payload": {"order": "Never said"}},
            {"query": "Never asked"},
            {"from_agent": "nobody"},
        ]
    )
    copy[place] = replace(request, **changes)
    delivery = copy[place + 1]
    if isinstance(delivery, e.HandoffMade):
        copy[place + 1] = replace(delivery, **changes)
    return copy


def _written_twice(
    copy: list[e.AnyEvent], request: e.HandoffRequested, place: int, start: int, rng: Random
) -> list[e.AnyEvent]:
    update = e.StateUpdated(
        request.at, request.session, request.turn, request.agent, request.run,
        update={"case": "One"}, cause="handoff", handoff=request.handoff,
    )  # fmt: skip
    more = replace(update, update={"case": "Two"}, handoff="h98")
    return [*copy[:start], update, more, *copy[start:]]


def _made_twice(
    copy: list[e.AnyEvent], request: e.HandoffRequested, place: int, start: int, rng: Random
) -> list[e.AnyEvent]:
    delivery = copy[place + 1]
    return [*copy[: place + 2], delivery, *copy[place + 2 :]]


_HANDOFF_DAMAGES: Final = (
    _asked_twice, _begun_again, _long_query, _made_otherwise, _asked_otherwise, _written_twice,
    _made_twice,
)  # fmt: skip


def unsent(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a handoff's target is sent less, or others something in its run."""
    copy = list(events)
    targets = {event.run for event in events if isinstance(event, e.AgentStarted) and event.handoff}
    place = _place_of(
        events,
        rng,
        lambda ev: isinstance(ev, e.ContextBuilt) and ev.run in targets and not ev.base,
    )
    if place is None:
        return copy
    event = copy[place]
    assert isinstance(event, e.ContextBuilt)
    parts = [p for p in event.parts if p.section == "instructions" or rng.random() < 0.3]
    copy[place] = replace(event, parts=tuple(parts))
    first = event.parts[0]
    if rng.random() < 0.4 and isinstance(first, e.Made):
        other = rng.choice(AGENTS)
        message = replace(first.message, content=f"I am {other}.", agent=other)
        whole = (replace(first, message=message), *event.parts[1:])
        copy.insert(place, replace(event, agent=other, call="c99", parts=whole))
    return copy


DAMAGES: Final = (
    altered, altered, swapped, damaged_once, moved, replayed, other_numbers, renamed, exchanged,
    in_another_session, joined, said_between, handed_over, handed_over, unsent,
)  # fmt: skip


def changed(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy with one to three damages."""
    copy = list(events)
    for _ in range(rng.choice([1, 1, 2, 3])):
        copy = rng.choice(DAMAGES)(copy, rng)
    return copy
