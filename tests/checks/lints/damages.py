"""Damages to traces with tools and handoffs, most of which some lint finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from simkit.core.messages import Message, ToolCall
from simkit.language.paths import with_texts
from simkit.trace import events as e
from tests.checks.lints.test_screening import damaged

Events: TypeAlias = Sequence[e.AnyEvent]
AGENTS: Final = ("desk", "billing", "writer", "clerk")


def _plain(event: e.AnyEvent) -> Any:
    """Returns an event as in a stored trace."""
    return msgspec.json.decode(msgspec.json.encode(event))


def altered(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which one value, anywhere in an event, is another one's, empty or gone."""
    copy = list(events)
    for _ in range(20):
        place = rng.randrange(len(copy))
        event = copy[place]
        other = rng.choice([event_ for event_ in events if type(event_) is type(event)])
        plain = _plain(event)
        container, key = rng.choice(list(_spots(plain)))
        donors = [
            inner[name]
            for inner, name in _spots(_plain(other))
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
    """Returns a copy in which one field, at any depth, has the value of another one, or none."""
    copy = list(events)
    kind = rng.choice(sorted({type(event) for event in events}, key=str))
    place = rng.choice([place for place, event in enumerate(events) if type(event) is kind])
    path = rng.choice(list(_structs(copy[place])))
    value = _at(copy[place], path)
    field = rng.choice(value.__struct_fields__)
    donors = [
        _at(event, other)
        for event in rng.sample(events, min(12, len(events)))
        for other in _structs(event)
        if type(_at(event, other)) is type(value)
    ]
    choices = [getattr(rng.choice(donors), field)] if donors else []
    choices += [default for default in [_empty(getattr(value, field))] if default is not None]
    if choices:
        copy[place] = _put(copy[place], path, field, rng.choice(choices))
    return copy


def unusual(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which one field, at any depth, has a value that no plain trace has."""
    copy = list(events)
    field = rng.choice(sorted(_UNUSUAL))
    spots = [
        (place, path)
        for place, event in enumerate(events)
        for path in _structs(event)
        if field in _at(event, path).__struct_fields__
    ]
    if spots:
        place, path = rng.choice(spots)
        new, old = rng.choice(_UNUSUAL[field]), getattr(_at(copy[place], path), field)
        if isinstance(new, str) or not isinstance(old, str):
            copy[place] = _put(copy[place], path, field, new)
    return copy


_UNUSUAL: Final[Mapping[str, Sequence[Any]]] = {
    "pieces": [(e.Piece("x", "y"),), (e.Piece("instructions", "Else."),)],
    "shown": [(e.Shown("history", "s1/desk/history", kept=(1,)),)],
    "rendered": [Message("user", ""), Message("user", "x", call_id="call1"),
                 Message("user", "x", calls=(ToolCall("call1", "find", {}),))],
    "cuts": [(e.Cut(number, "f", "content", becomes=Message("user", "")),) for number in range(9)],
    "tail_cuts": [
        (e.Cut(number, "f", "content", becomes=Message("user", "")),) for number in range(20)
    ],
    "restarts": [True],
    "lo": [1, 2, 3, 4],
    "of": [1, 3],
    "said": [(1,), (2,)],
    "calls": [(ToolCall("call1", "find", {}),)],
    "call_id": ["call1", "call2"],
    "role": ["system", "user", "assistant", "tool"],
    "agent": ["desk", "billing"],
    "session": ["s2"],
    "content": [""],
    "turn": [0, 1, 2],
    "id": ["m1", "m2", "m3"],
    "base": ["c1", "c999"],
    "observes": [("state", "runs")],
    "private": [("case",)],
    "reducer": ["add"],
    "instructions": ["Others."],
    "update": [
        {"messages": [{"role": "user"}]}, {"messages": [{"$message": 1}, {"$message": 2}]},
        {"messages": [{"$message": 1}]}, {"messages": [5]}, {"messages": [{"$message": 99}]},
    ],
    "group": ["g1"],
    "misfits": [(e.Misfit("nothing"),)],
    "unplayed": [("one",)],
    "drifted": [("one",)],
    "error": [e.ErrorFacts("Timeout", "late")],
    "unused": [(e.UnusedLines("desk", (0,), 1),)],
    "unused_results": [(e.UnusedResults("find", (0,), 1),)],
}  # fmt: skip
"""Values of fields that plain traces do not have, or not there."""


def _structs(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of all structs in a value."""
    if isinstance(value, msgspec.Struct):
        yield path
        for field in value.__struct_fields__:
            yield from _structs(getattr(value, field), (*path, field))
    elif isinstance(value, tuple):
        for place, inner in enumerate(value):
            yield from _structs(inner, (*path, place))
    elif isinstance(value, dict):
        for key in value:
            yield from _structs(value[key], (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = getattr(value, key) if isinstance(value, msgspec.Struct) else value[key]
    return value


def _put(value: Any, path: tuple[Any, ...], field: str, new: Any) -> Any:
    if not path:
        return replace(value, **{field: new})
    key, *rest = path
    if isinstance(value, msgspec.Struct):
        return replace(value, **{key: _put(getattr(value, key), tuple(rest), field, new)})
    inner = _put(value[key], tuple(rest), field, new)
    if isinstance(value, tuple):
        return (*value[:key], inner, *value[key + 1 :])
    return {**value, key: inner}


def _empty(value: Any) -> Any:
    return None if value is None or isinstance(value, msgspec.Struct) else type(value)()


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
    return [msgspec.convert(with_texts(_plain(event), change), type(event)) for event in events]


def other_numbers(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a history, or a run's own messages, lack a number, or have more."""
    copy = list(events)
    spots: list[tuple[int, int, str]] = []
    for place, event in enumerate(events):
        if isinstance(event, e.ContextBuilt):
            spots += [(place, -1, "said")] * bool(event.said or rng.random() < 0.2)
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
    at = rng.randrange(len(numbers)) if numbers else 0
    added = [ev.message.number for ev in events[:place] if isinstance(ev, e.MessageAdded)]
    new = (
        (*numbers[:at], *numbers[at + 1 :]),
        (*numbers[:at], rng.choice(added), *numbers[at:]),
        tuple(sorted({*numbers, rng.choice(added)})),
        numbers[: at + 1],
        numbers[at:],
    )[rng.randrange(5)]
    users = [part.of for part in event.parts if isinstance(part, e.Made) and part.of]
    given = [
        ev.message.number
        for ev in events[:place]
        if isinstance(ev, e.MessageAdded) and not ev.message.turn
    ]
    if users and rng.random() < 0.2:
        new = (*numbers, users[0])
    elif given and rng.random() < 0.2:
        new = tuple(sorted({*numbers, *given}))
    elif rng.random() < 0.2:
        new = tuple(sorted(rng.choices(added, k=2))) if added else ()
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
        copy[place] = replace(event, session="s2")
    else:
        for at, other in enumerate(copy):
            if isinstance(other, e.ToolCalled) and other.call_id == event.message.call_id:
                copy[at] = replace(other, session="s2")
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
    copy = _renumbered(copy, place + 1)
    if new.calls:
        answer = replace(new, calls=(), call_id="x", role="tool", id=f"m{new.number + 1}")
        copy.insert(place + 2, replace(event, message=answer))
        copy = _renumbered(copy, place + 2)
    return copy


def asked_last(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a run's last message calls a tool, and nobody answers."""
    copy = list(events)
    place = _place_of(
        events,
        rng,
        lambda ev: isinstance(ev, e.MessageAdded) and ev.run and not ev.message.call_id,
    )
    if place is not None:
        event = copy[place]
        assert isinstance(event, e.MessageAdded)
        call = ToolCall("last", "find", {})
        copy[place] = replace(event, message=replace(event.message, calls=(call,)))
    return copy


def labelled(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which all messages with calls say that they answer one call."""
    return [
        replace(event, message=replace(event.message, call_id="label"))
        if isinstance(event, e.MessageAdded) and event.message.calls
        else event
        for event in events
    ]


def of_another(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a turn begins with an older message, or a message has its number."""
    copy = list(events)
    kind = rng.choice((e.TurnStarted, e.MessageAdded))
    place = _place_of(events, rng, lambda ev: type(ev) is kind)
    if place is not None:
        event, number = copy[place], rng.randint(1, 9)
        if isinstance(event, e.TurnStarted):
            copy[place] = replace(event, message=number)
        elif isinstance(event, e.MessageAdded):
            copy[place] = replace(event, message=replace(event.message, id=f"m{number}"))
    return copy


def late_system(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a message of the user is one of the system."""
    copy = list(events)
    place = _place_of(
        events, rng, lambda ev: isinstance(ev, e.MessageAdded) and ev.message.agent is None
    )
    if place is not None:
        event = copy[place]
        assert isinstance(event, e.MessageAdded)
        copy[place] = replace(event, message=replace(event.message, role="system"))
    return copy


def edited(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a filter empties a message of a history."""
    copy = list(events)
    spots = [
        (place, index, name)
        for place, event in enumerate(events)
        if isinstance(event, e.ContextBuilt)
        for index, part in enumerate(event.parts)
        if isinstance(part, e.Shown)
        for name in ("kept", "tail")
        if getattr(part, name)
    ]
    if not spots:
        return copy
    place, index, name = rng.choice(spots)
    event = copy[place]
    assert isinstance(event, e.ContextBuilt)
    parts: list[Any] = list(event.parts)
    number = rng.choice(getattr(parts[index], name))
    cut = e.Cut(number, "f", "content", becomes=Message("user", "", f"m{number}"))
    field = "cuts" if name == "kept" else "tail_cuts"
    parts[index] = replace(parts[index], **{field: (cut,)})
    copy[place] = replace(event, parts=tuple(parts))
    return copy


def repeated(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a message says the same as another one."""
    copy = list(events)
    places = [place for place, event in enumerate(copy) if isinstance(event, e.MessageAdded)]
    first, second = rng.choice(places), rng.choice(places)
    source, target = copy[first], copy[second]
    assert isinstance(source, e.MessageAdded)
    assert isinstance(target, e.MessageAdded)
    content = source.message.content
    message = replace(
        target.message, content=content, role=source.message.role, agent=source.message.agent
    )
    if rng.random() < 0.5:
        message = replace(message, turn=source.message.turn)
    copy[second] = replace(target, message=message)
    return copy


def together(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which two runs write to one channel in parallel."""
    copy = list(events)
    places = [
        place for place, event in enumerate(copy) if isinstance(event, e.StateUpdated) and event.run
    ]
    if len(places) > 1:
        for place, value in zip(rng.sample(places, 2), ("One", "Two"), strict=True):
            event = copy[place]
            assert isinstance(event, e.StateUpdated)
            copy[place] = replace(event, update={**event.update, "case": value}, group="g1")
    return copy


def counting(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a channel counts, and falls."""
    copy = list(events)
    started = copy[0]
    if isinstance(started, e.RunStarted):
        channels = {**started.pipeline.channels, "case": e.ChannelFacts("add", "session")}
        copy[0] = replace(started, pipeline=replace(started.pipeline, channels=channels))
    place = _place_of(events, rng, lambda ev: isinstance(ev, e.StateUpdated))
    if place is not None:
        event = copy[place]
        assert isinstance(event, e.StateUpdated)
        copy[place] = replace(event, update={**event.update, "case": -1})
    return copy


def parted(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a context has a part twice, or not, or with an older text."""
    copy = list(events)
    place = _place_of(events, rng, lambda ev: isinstance(ev, e.ContextBuilt) and ev.parts)
    if place is None:
        return copy
    event = copy[place]
    assert isinstance(event, e.ContextBuilt)
    parts = list(event.parts)
    at = rng.randrange(len(parts))
    if rng.random() < 0.5:
        at = len(parts) - 1
    part, how = parts[at], rng.randrange(5)
    if how == 0:
        del parts[at]
    elif how == 1 or not isinstance(part, e.Made):
        other = replace(part, stream="s1/other") if isinstance(part, e.Shown) else part
        parts.insert(rng.randrange(len(parts) + 1), rng.choice([part, other]))
    elif how == 4:
        call = ToolCall(rng.choice(["call1", "other"]), "find", {})
        parts[at] = replace(part, message=replace(part.message, calls=(call,)))
    elif how == 2:
        made_parts = [n for n, p in enumerate(parts) if type(p) is e.Made and n]
        numbers = [0, *(p.of for p in parts if type(p) is e.Made and p.of)]
        at, number = rng.choice(made_parts or [0]), rng.choice(numbers[-1:] * 3 + numbers)
        parts[at] = replace(parts[at], of=number)
        first = parts[0]
        if rng.random() < 0.3 and isinstance(first, e.Made) and number:
            parts = list(event.parts)
            parts[0] = replace(first, message=replace(first.message, id=f"m{number}"))
    else:
        added = [
            ev.message for ev in events[:place] if type(ev) is e.MessageAdded and ev.message.content
        ]
        message = replace(rng.choice(added or [part.message]), id="")
        if rng.random() < 0.5:
            message = replace(message, agent=None, call_id="")
        new = replace(part, message=message, of=0, section="input")
        parts.insert(rng.randint(1, len(parts)), new)
    copy[place] = replace(event, parts=tuple(parts))
    return copy


def turn_again(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a turn has the number of the one before."""
    turns = max(event.turn for event in events)
    if turns < 2:
        return list(events)
    old = rng.randint(2, turns)

    def earlier(value: Any, key: Any = None) -> Any:
        if isinstance(value, dict):
            return {name: earlier(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [earlier(inner, key) for inner in value]
        return old - 1 if key == "turn" and value == old else value

    return [msgspec.convert(earlier(_plain(event)), type(event)) for event in events]


def numbered_again(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a message has the number of an earlier one, wherever it is."""
    places = [place for place, event in enumerate(events) if isinstance(event, e.MessageAdded)]
    first, place = sorted((rng.choice(places), rng.choice(places)))
    new, old = (event.message.number for event in (events[first], events[place])
                if isinstance(event, e.MessageAdded))  # fmt: skip

    def changed_in(value: Any, key: Any = None) -> Any:
        if isinstance(value, dict):
            return {name: changed_in(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [changed_in(inner, key) for inner in value]
        if type(value) is int and key in _NUMBERS and value == old:
            return new
        return f"m{new}" if key == "id" and value == f"m{old}" else value

    return [
        *events[:place],
        *(msgspec.convert(changed_in(_plain(event)), type(event)) for event in events[place:]),
    ]


def answered_late(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy in which a result comes after the context that should show it."""
    copy = list(events)

    def is_last(place: int) -> bool:
        event, following = copy[place], copy[place + 1]
        return (
            isinstance(event, e.MessageAdded)
            and bool(event.message.call_id)
            and isinstance(following, e.ContextBuilt)
        )

    places = [place for place in range(len(copy) - 1) if is_last(place)]
    if places:
        place = rng.choice(places)
        result, built = copy[place], copy[place + 1]
        assert isinstance(result, e.MessageAdded)
        assert isinstance(built, e.ContextBuilt)
        own = tuple(number for number in built.said if number != result.message.number)
        copy[place : place + 2] = [replace(built, said=own), result]
    return copy


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
        changed_event = msgspec.convert(later(_plain(event)), type(event))
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
    at = rng.randint(place, max(place, start))
    if rng.random() < 0.5:
        at = _place_of(copy, rng, lambda ev: isinstance(ev, e.TurnFinished)) or at
    copy.insert(at, replace(request, handoff="h99"))
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
                [{"payload": payload}, {"handoff": "h1"}, {"to_agent": "clerk"}, {"session": "s2"}]
            )
            copy[at] = replace(event, **changes)
            if changes == {"handoff": "h1"} and start > at:
                copy[start] = replace(copy[start], handoff="h1")
    return copy


def _started_elsewhere(
    copy: list[e.AnyEvent], request: e.HandoffRequested, place: int, start: int, rng: Random
) -> list[e.AnyEvent]:
    event = copy[start]
    if isinstance(event, e.AgentStarted):
        changes: dict[str, Any] = rng.choice(
            [{"session": "s2"}, {"handoff_from": "clerk"}, {"agent": "clerk"}, {"handoff": ""}]
        )
        copy[start] = replace(event, **changes)
    return copy


def _made_late(
    copy: list[e.AnyEvent], request: e.HandoffRequested, place: int, start: int, rng: Random
) -> list[e.AnyEvent]:
    more: list[e.AnyEvent] = [copy[place + 1]]
    if rng.random() < 0.5:
        more = [
            e.StateUpdated(
                request.at, request.session, request.turn, request.agent, request.run,
                update={"case": "One"}, cause="handoff", handoff=request.handoff,
            )
        ]  # fmt: skip
    return [*copy[: start + 1], *more, *copy[start + 1 :]]


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
    _made_twice, _started_elsewhere, _made_late,
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
    altered, swapped, swapped, unusual, unusual, unusual, unusual, damaged_once, moved, replayed,
    other_numbers, other_numbers, renamed, exchanged, in_another_session, joined, said_between,
    parted, parted, parted, turn_again, numbered_again, answered_late, late_system, edited,
    asked_last, labelled, of_another, repeated, repeated, together, counting, handed_over,
    handed_over, handed_over, unsent,
)  # fmt: skip


def changed(events: Events, rng: Random) -> list[e.AnyEvent]:
    """Returns a copy with one to three damages."""
    copy = list(events)
    for _ in range(rng.choice([1, 1, 2, 3])):
        copy = rng.choice(DAMAGES)(copy, rng)
    return copy
