"""Provenance: lines that explain findings by the sources of messages and by left-out items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from simkit.checks.claims import LINES_MAX, FindingBuilder, cut_short, differences, listed, listing
from simkit.checks.findings import Difference, Scope
from simkit.core.messages import Dropped, Message, ToolCall
from simkit.core.text import counted, short, short_from, without_secrets_in
from simkit.language.matching import FAR, Matcher, compile_matcher, patterns_of
from simkit.language.paths import as_text, follow
from simkit.trace.views import CallView, ContextView

NEAREST_MAX: Final = 200
"""The number of messages that are searched for the nearest one."""
CONTENT_MAX: Final = 72
_BEFORE: Final = 20
"""Characters shown before the match."""


def sizes_by_section(context: ContextView) -> dict[str, int]:
    """Return a context's tokens by section, in order."""
    sizes: dict[str, int] = {}
    for section, _, tokens in context.weights():
        sizes[section] = sizes.get(section, 0) + tokens
    return sizes


def message_lines(title: str, values: Sequence[Message | Dropped]) -> Iterator[str]:
    """Yield a title, and a line for each message; of many the first and the last."""
    return listing(f"{title}:", values, message_text, title)


def message_text(value: Message | Dropped) -> str:
    """Return a message on one line: speaker, turn, content."""
    if isinstance(value, Dropped):
        return f"{message_text(value.message)} — {_cut_words(value)}"
    content = short_from(" ".join(value.content.split()), 0, CONTENT_MAX)
    calls = ", ".join(map(_call, value.calls))
    if calls:
        content = f"{content} calls {calls}".strip()
    return f"{speaker(value)}: {content}"


def _call(call: ToolCall) -> str:
    passes_to = f" → {call.to}" if call.to else ""
    return f"{call.name} {short(as_text(call.args), 40)}{passes_to}"


def speaker(message: Message) -> str:
    """Return the speaker and the turn of a message: ``tool log_meal of nutrition (turn 1)``."""
    words = [message.role]
    if message.role == "tool":
        words += [message.tool] if message.tool else []
        words += ["of", message.agent] if message.agent else []
    elif message.agent:
        words.append(message.agent)
    if message.name not in ("", message.agent):
        words.append(f"named {message.name}")
    if message.turn:
        words.append(f"(turn {message.turn})")
    return " ".join(words)


def _cut_words(drop: Dropped) -> str:
    if drop.what == "tool_calls":
        return f"its tool calls cut by {drop.by}"
    return f"edited by {drop.by}" if drop.what == "content" else f"left out by {drop.by}"


def unshown_lines(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the items that sections read and did not show, one a line."""
    were = "was" if len(entries) == 1 else "were"
    title = f"{len(entries)} {were} left out:"
    return listing(title, entries, unshown_words, "nothing was left out")


def unshown_counts(context: ContextView, section: str, scope: Scope) -> Iterator[str]:
    """Yield how many items a section left out: ``left out by tags: 2 of items (turn)``.

    The word in brackets is the channel's scope.
    """
    for (by, channel), size in context.unshown.by(section).items():
        source = f" of {_with_scope(channel, scope)}" if channel else ""
        yield f"left out by {by}: {size}{source}"


def circumstances(call: CallView, scope: Scope) -> Iterator[str]:
    """Yield what an empty section could have read: earlier runs, and empty channels."""
    runs = [run for run in scope.runs if run.turn == call.turn]
    index = next((at for at, run in enumerate(runs) if run.id == call.run), None)
    if index is None:
        return
    yield f"ran before it in turn {call.turn}: {listed([run.agent for run in runs[:index]])}"
    received = runs[index].received
    if not isinstance(received, Mapping):
        return
    empty = [name for name, value in received.items() if value in (None, "", (), [], {})]
    if empty:
        yield f"empty when it ran: {listed([_with_scope(name, scope) for name in empty])}"


def _with_scope(channel: str, scope: Scope) -> str:
    facts = scope.pipeline.channels.get(channel)
    return f"{channel} ({facts.scope})" if facts is not None else channel


def unshown_texts(context: ContextView, matcher: Matcher) -> Iterator[str]:
    """Yield left-out items with a text that a claim on messages wants."""
    patterns = (
        entry
        for entry in context.unshown
        if "text" in entry and matcher.holds(Message("system", as_text(entry["text"])))
    )
    for entry in islice(patterns, LINES_MAX):
        yield f"what it wants is not shown: {unshown_words(entry)}"


def unshown_words(entry: Mapping[str, Any]) -> str:
    """Return an entry on one line: ``notes of channel items, by tags: Style guide``."""
    channel = f" of channel {entry['channel']}" if "channel" in entry else ""
    source = f"{entry['section']}{channel}, by {entry['by']}"
    return f"{source}: {left_out_text(entry, CONTENT_MAX)}"


def left_out_text(entry: Mapping[str, Any], length: int) -> str:
    """Return what an entry left out: an item, the end of a value, or the section."""
    if "path" in entry:
        unit = "items" if "items" in entry else "characters"
        return f"{counted(entry[unit], unit[:-1])} at the end of {entry['path'] or 'the value'}"
    if entry.keys() == {"section", "by"}:
        return "the whole section"
    return short(as_text(entry.get("text", entry)), length)


def histories(context: ContextView) -> set[str]:
    """Return the sections that show histories, also within shared messages."""
    return {part.section for part in context.histories()}


def left_out(drops: Sequence[Dropped]) -> Iterator[str]:
    """Yield how many messages each filter and window dropped."""
    counts: dict[tuple[str, str], int] = {}
    for drop in drops:
        counts[drop.what, drop.by] = counts.get((drop.what, drop.by), 0) + 1
    for (kind, by), count in counts.items():
        messages = counted(count, "message")
        if kind == "message":
            yield f"left out by {by}: {messages}"
        elif kind == "tool_calls":
            yield f"cut by {by}: the tool calls of {messages}"
        else:
            yield f"edited by {by}: {messages}"


def lost(drops: Sequence[Dropped]) -> Iterator[str]:
    """Yield dropped messages that a claim wants."""
    yield from cut_short([f"what it wants is not shown: {message_text(drop)}" for drop in drops])


def wanted_but_left_out(
    matcher: Any, value: Any, drops: Sequence[Dropped], builder: FindingBuilder
) -> Iterator[str]:
    """Yield the expected elements that are among the dropped messages."""
    places: dict[tuple[Any, ...], None] = {}
    for miss in builder.misses(matcher, value):
        index = next((i for i, step in enumerate(miss.at) if isinstance(step, int)), None)
        if index is not None:
            places[miss.at[: index + 1]] = None
    for at in islice(places, LINES_MAX):
        matcher_there = follow(matcher, at)
        if not isinstance(matcher_there, (Mapping, str)):
            continue
        compiled = compile_matcher(matcher_there)
        drop = next((drop_ for drop_ in drops if compiled.holds(drop_.message)), None)
        if drop is not None:
            yield f"what element {at[-1] + 1} wants is not shown: {message_text(drop)}"


_OTHER_ROLE: Final = 0.5


def nearest(matcher: Matcher, messages: Sequence[Message]) -> list[Difference]:
    """Return the differences of the nearest message; none if no message is near."""
    recent = messages[-NEAREST_MAX:]
    if not recent:
        return []
    first = len(messages) - len(recent)
    distances = [_distance_from(matcher, message) for message in recent]
    least = min(distances)
    index = distances.index(least)
    misses = matcher.mismatches(recent[index])
    is_far = least >= FAR * len(misses)
    most = max(len(matcher.mismatches(difference)) for difference in recent) if is_far else 0
    if is_far and (not misses[0].path or len(misses) == most > 1):
        return []
    return [
        Difference(
            f"messages[{first + index}]{difference.at and '.'}{difference.at}",
            difference.expected,
            difference.actual,
            difference.note,
        )
        for difference in differences(misses)
    ]


def _distance_from(matcher: Matcher, message: Message) -> float:
    """Return how far a message is from what is wanted; one that says it in another role is nearer
    than one of the role that says something else."""
    source = matcher.source
    if isinstance(source, Mapping) and [*source] != ["role"]:
        misses = matcher.mismatches(message)
        if [miss.path for miss in misses] == [("role",)]:
            return _OTHER_ROLE
    return matcher.distance(message)


def distance_of_nearest(matcher: Matcher, messages: Sequence[Message]) -> float:
    """Return the distance of the nearest message; 1 if there is none."""
    return min(map(matcher.distance, messages[-NEAREST_MAX:]), default=1.0)


def around(message: Message, matcher: Any) -> str:
    """Return a message on one line, cut around the text that a matcher searches."""
    calls = [f"{call.name} {as_text(call.args)}" for call in message.calls]
    text = without_secrets_in(" ".join(" ".join([message.content, *calls]).split()))
    index = next(
        (position for pattern in patterns_of(matcher) if (position := text.find(pattern)) >= 0), 0
    )
    start = max(0, index - _BEFORE) if len(text) > CONTENT_MAX else 0
    return f"{speaker(message)}: {short_from(text, start, CONTENT_MAX)}"
