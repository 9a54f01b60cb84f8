"""Claims on contexts: what one model call received, section by section, and what was left out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from simkit.expect.claims import Writer, listed, short
from simkit.expect.findings import Finding
from simkit.expect.scope import Path, Scope
from simkit.matching import Matcher
from simkit.messages import Dropped, Message
from simkit.scenario.claims import CONTEXT_CLAIMS, selected
from simkit.views import CallView, ContextView, ShownPart

SHOWN_MAX = 8
NEED_SECTIONS = ("sections", "dropped")
SPOKEN = ("history", "current_message", "run")
"""Sections whose messages somebody said: without an agent it was the user."""


def check_contexts(scope: Scope, writer: Writer, observes: Sequence[str]) -> Iterator[Finding]:
    """Yields what does not hold of the contexts that a scope's claims speak of."""
    for key, claims in scope.expect.context.items():
        path = (*scope.path, "context", key)
        agent, which = selected(key)
        calls = _calls(scope, agent, which)
        if isinstance(calls, str):
            yield writer.finding(path, calls, turn=scope.turn, agent=agent)
            continue
        for call in calls:
            for name, matcher in claims.claimed().items():
                needs_sections = name not in CONTEXT_CLAIMS or name in NEED_SECTIONS
                if needs_sections and "sections" not in observes:
                    yield writer.finding(
                        (*path, name),
                        f"context.{key}.{name} is not observable by this driver, which sees "
                        "messages but no sections",
                        turn=scope.turn, agent=agent,
                    )  # fmt: skip
                    continue
                yield from _Claim(key, name, matcher, (*path, name), call, writer).check()


def _calls(scope: Scope, agent: str, which: str) -> Sequence[CallView] | str:
    """The model calls that a key names, or why there are none."""
    if agent == "*":
        return scope.all_calls or f"no model was called {scope.words}"
    calls = scope.calls.get(agent, ())
    if not calls:
        asked = listed(list(scope.calls))
        return f"agent {agent!r} made no model call {scope.words}; those that did: {asked}"
    if which == "*":
        return calls
    index = int(which)
    if not -len(calls) <= index < len(calls):
        count = len(calls)
        plural = "" if count == 1 else "s"
        return f"agent {agent!r} made {count} model call{plural} {scope.words}, so [{index}] is none"
    return [calls[index]]


class _Claim:
    """One claim on one model call."""

    def __init__(
        self, key: str, name: str, matcher: Any, path: Path, call: CallView, writer: Writer
    ) -> None:
        self.key, self.name, self.matcher, self.path = key, name, matcher, path
        self.call, self.writer = call, writer
        self.context: ContextView = call.context
        self.what = f"context.{key}.{name}"

    def check(self) -> Iterator[Finding]:
        if self.name == "includes":
            yield from self._includes()
        elif self.name == "excludes":
            yield from self._excludes()
        else:
            _, matcher = self.writer.matchers.of(self.matcher)
            value = self._value()
            if not matcher.holds(value):
                yield from self._compared(value)

    def _value(self) -> Any:
        context = self.context
        if self.name == "sections":
            return context.sections
        if self.name == "messages":
            return context.messages
        if self.name == "dropped":
            return context.dropped()
        if self.name == "tools":
            return list(context.tools)
        if self.name == "tokens":
            return context.tokens
        if self.name == "share":
            return shares(context)
        if self.name == "settings":
            return context.settings or {}
        return context.section(self.name)

    def _compared(self, value: Any) -> list[Finding]:
        lines: list[str] = []
        if self.name in ("messages", "dropped") or self.name not in CONTEXT_CLAIMS:
            lines += _listing(f"{self.name} holds", value)
        if self.name not in CONTEXT_CLAIMS and not len(value):
            lines.append(f"sections that made something: {listed(self.context.sections)}")
        if self.name not in ("dropped", "tools", "tokens", "settings", "share"):
            lines += _left_out(self.context)
        if self.name == "tokens":
            sizes = [f"{name} {size}" for name, size in _by_section(self.context).items()]
            lines.append(f"tokens by section: {listed(sizes)}")
        return self.writer.compare(
            self.matcher, value, self.path, self.what, turn=self.call.turn,
            agent=self.call.agent, call=self.call.index, context=lines,
        )  # fmt: skip

    def _includes(self) -> Iterator[Finding]:
        for place, wanted in enumerate(self.matcher):
            key, matcher = self.writer.matchers.of(wanted)
            if first_match(self.context, key, matcher) is not None:
                continue
            lines = []
            lost = [drop for drop in self.context.dropped() if matcher.holds(drop.message)]
            for drop in lost[:SHOWN_MAX]:
                lines.append(f"it was dropped by {drop.by}: {_said(drop.message)}")
            lines += _listing("the context holds", self.context.messages)
            yield self.writer.finding(
                (*self.path, place), f"{self.what}[{place}] matches no message",
                turn=self.call.turn, agent=self.call.agent, call=self.call.index, context=lines,
            )  # fmt: skip

    def _excludes(self) -> Iterator[Finding]:
        for place, unwanted in enumerate(self.matcher):
            key, matcher = self.writer.matchers.of(unwanted)
            found = first_match(self.context, key, matcher)
            if found is None:
                continue
            yield self.writer.finding(
                (*self.path, place), f"{self.what}[{place}] matches a message",
                turn=self.call.turn, agent=self.call.agent, call=self.call.index,
                context=[f"section {found.section}: {_said(found)}"],
            )  # fmt: skip


def first_match(context: ContextView, key: bytes, matcher: Matcher) -> Message | None:
    """Returns the first message of a context that matches, with its section.

    What a stream has settled is searched once for each pattern, however many contexts show it.
    """
    for part in context.parts:
        if not isinstance(part, ShownPart) or part.rendered is not None:
            message = part.rendered if isinstance(part, ShownPart) else part.message
            if message is not None and matcher.holds(message):
                return message
            if not isinstance(part, ShownPart) and part.pieces:
                for piece in context.section(part.section):
                    if matcher.holds(piece):
                        return piece  # type: ignore[no-any-return]
            continue
        if part.summary is not None and matcher.holds(part.summary):
            return part.summary
        found = _first_in_stream(part, key, matcher)
        if found is not None:
            return found
    for message in context.section("run"):
        if matcher.holds(message):
            return message  # type: ignore[no-any-return]
    return None


def _first_in_stream(part: ShownPart, key: bytes, matcher: Matcher) -> Message | None:
    stream = part.stream
    memo_key = part.section.encode() + b"\0" + key
    searched, places = stream.found.get(memo_key, (0, []))
    if searched < part.hi:
        for place in range(searched, part.hi):
            if matcher.holds(part.settled(place)):
                places.append(place)
        stream.found[memo_key] = (part.hi, places)
    index = bisect_left(places, part.lo)
    if index < len(places) and places[index] < part.hi:
        return part.settled(places[index])
    offset = 1 if part.summary is not None else 0
    for place in range(max(part.hi, part.lo), part.hi + len(part.tail)):
        message = part.message(place - part.lo + offset)
        if matcher.holds(message):
            return message
    return None


def shares(context: ContextView) -> dict[str, float]:
    """Returns the share of a context's tokens by section and by agent; the user is ``user``."""
    sizes: dict[str, int] = {}
    total = 0
    for section, agent, tokens in context.weights():
        total += tokens
        sizes[section] = sizes.get(section, 0) + tokens
        speaker = agent or ("user" if section in SPOKEN else "")
        if speaker:
            sizes[speaker] = sizes.get(speaker, 0) + tokens
    return {name: size / total for name, size in sizes.items()} if total else {}


def _by_section(context: ContextView) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for section, _, tokens in context.weights():
        sizes[section] = sizes.get(section, 0) + tokens
    return sizes


def _listing(title: str, values: Sequence[Any]) -> list[str]:
    """Lines that show what is there; the first few and the last."""
    size = len(values)
    if not size:
        return [f"{title} nothing"]
    plural = "" if size == 1 else "s"
    lines = [f"{title} {size} message{plural}:"]
    places = list(range(size)) if size <= SHOWN_MAX else [*range(SHOWN_MAX - 2), -1]
    for place in places:
        if place == -1:
            lines.append(f"  … {size - SHOWN_MAX + 1} more")
            place = size - 1
        lines.append(f"  [{place}] {_said(values[place])}")
    return lines


def _said(value: Any) -> str:
    if isinstance(value, Dropped):
        return f"{_said(value.message)} ({value.what} by {value.by})"
    message: Message = value
    by = f" {message.agent}" if message.agent else ""
    turn = f" (turn {message.turn})" if message.turn else ""
    content = short(message.content)
    calls = ", ".join(call.name for call in message.calls)
    if calls:
        content = f"{content} calls {calls}".strip()
    return f"{message.role}{by}{turn}: {content}"


def _left_out(context: ContextView) -> list[str]:
    counts: dict[tuple[str, str], int] = {}
    for drop in context.dropped():
        what = "message" if drop.what == "message" else drop.what
        counts[(what, drop.by)] = counts.get((what, drop.by), 0) + 1
    return [
        f"left out by {by}: {count} {what if what != 'message' else 'message'}"
        + ("s" if count != 1 and what == "message" else "")
        for (what, by), count in counts.items()
    ]
