"""RUN-03: a negative claim proves something only if what it denies could have been there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from simkit.expect.claims import Writer
from simkit.expect.findings import Hit
from simkit.expect.scope import Path
from simkit.matching import patterns_of
from simkit.messages import Message
from simkit.scenario.claims import Expect
from simkit.trace import Trace
from simkit.views import MadePart, View


def vacuous_claims(
    claims: Sequence[tuple[Path, int, Expect]], trace: Trace, view: View, writer: Writer
) -> Iterator[Hit]:
    """Yields the `excludes` and `$not` whose pattern occurs nowhere in the trace."""
    search = _Search(trace, view, writer)
    for path, turn, expect in claims:
        for where, matcher, is_message in _negatives(path, expect):
            if not search.could_hold(matcher, is_message):
                what = f"nothing in the trace matches {_shown(matcher)}, so its absence proves nothing"
                yield Hit("RUN-03", what, turn, path=where)


def _shown(matcher: Any) -> str:
    return msgspec.json.encode(matcher, enc_hook=str).decode()


def _negatives(path: Path, expect: Expect) -> Iterator[tuple[Path, Any, bool]]:
    for key, context in expect.context.items():
        for place, matcher in enumerate(context.excludes or ()):
            yield (*path, "context", key, "excludes", place), matcher, True
        for name, matcher in context.claimed().items():
            yield from _nots((*path, "context", key, name), matcher)
    for key, run in expect.runs.items():
        for name in run.model_fields_set:
            yield from _nots((*path, "runs", key, name), getattr(run, name))
    for name in ("reply", "state", "handoffs", "tool_calls", "error"):
        if expect.has(name):
            yield from _nots((*path, name), getattr(expect, name))


def _nots(path: Path, matcher: Any) -> Iterator[tuple[Path, Any, bool]]:
    if isinstance(matcher, Mapping):
        for key, value in matcher.items():
            if key == "$not":
                yield (*path, key), value, False
            else:
                yield from _nots((*path, key), value)
    elif isinstance(matcher, (list, tuple)):
        for place, value in enumerate(matcher):
            yield from _nots((*path, place), value)


class _Search:
    """Looks for patterns, each once, in all that was said, made and written."""

    def __init__(self, trace: Trace, view: View, writer: Writer) -> None:
        self._trace, self._view, self._writer = trace, view, writer
        self._found: dict[bytes, bool] = {}
        self._text: bytes | None = None
        self._made: list[Message] | None = None

    def could_hold(self, matcher: Any, is_message: bool) -> bool:
        """Whether the pattern occurs; where it has no text of its own, a message must match."""
        key, compiled = self._writer.matchers.of(matcher)
        if key not in self._found:
            texts = patterns_of(matcher)
            occurs = bool(texts) and all(self._occurs(text) for text in texts)
            if not occurs and is_message:
                occurs = any(compiled.holds(message) for message in self._messages())
            elif not texts:
                occurs = True
            self._found[key] = occurs
        return self._found[key]

    def _occurs(self, text: str) -> bool:
        if self._text is None:
            self._text = self._trace.encoded()
        pattern = msgspec.json.encode(text)[1:-1]
        return pattern in self._text or msgspec.json.encode(pattern.decode())[1:-1] in self._text

    def _messages(self) -> list[Message]:
        if self._made is None:
            made = [
                part.message
                for call in self._view.calls.values()
                for part in call.context.parts
                if isinstance(part, MadePart)
            ]
            self._made = [*self._view.messages.values(), *made]
        return self._made
