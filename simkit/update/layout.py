"""Layout of a YAML text: spans, styles, anchors and aliases.

A ``Document`` knows where a value starts, for messages. An edit must also know where it ends, how
it is written, and which aliases share it; libyaml's events show that, its nodes do not: an alias is
the very node of its anchor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from simkit.language.yaml import SourcePath

GAP: Final = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
"""White space and comments."""
_ANCHOR: Final = re.compile(r"&[^\s,\[\]{}]+")
_LINE_END: Final = re.compile(r"[\r\n]")
_COLON: Final = re.compile(r"[ \t]*:")


@dataclass(slots=True, kw_only=True)
class Spot:
    """One value and its place."""

    kind: Literal["scalar", "list", "mapping", "alias"]
    start: int
    """The index of its first character, after its anchor."""
    end: int
    """The index after its last character, before following blank lines and comments."""
    column: int
    """The column of its first character, from 0; of a block list, that of its dashes."""
    lead: int
    """The index after the colon or dash before it; its own start if there is none; -1 if
    unknown."""
    style: str = ""
    """The style of a scalar: empty if plain, else a quote, ``|`` or ``>``."""
    is_flow: bool = False
    """Whether it is written with brackets or braces."""
    anchor: str = ""
    """The name of its anchor; of an alias, the name that it repeats."""
    keys: list[Spot] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """The texts of the keys."""
    items: list[Spot] = field(default_factory=list)
    """Elements of a list, values of a mapping."""

    @property
    def is_block(self) -> bool:
        """Return whether it is a list or mapping over lines, without brackets or braces."""
        return self.kind in ("list", "mapping") and not self.is_flow

    def child(self, step: str | int) -> Spot | None:
        """Return the value under a key or index."""
        if self.kind == "mapping" and isinstance(step, str) and step in self.names:
            return self.items[self.names.index(step)]
        if self.kind == "list" and isinstance(step, int) and step < len(self.items):
            return self.items[step]
        return None

    def below(self) -> Iterator[Spot]:
        """Yield itself and everything inside it, keys included."""
        yield self
        for spot in (*self.keys, *self.items):
            yield from spot.below()


class Layout:
    """The layout of one document."""

    def __init__(self, root: Spot) -> None:
        self.root = root
        self._aliases = {spot.anchor for spot in root.below() if spot.kind == "alias"}
        self.dash_indent = next(_dash_indents(root), 2)
        """The indentation of a block list below its key: 2, or 0 in some files."""

    def chain(self, path: SourcePath) -> list[Spot]:
        """Return the values on the way to a path, the root first, as far as they exist."""
        spots = [self.root]
        for step in path:
            spot = spots[-1].child(step)
            if spot is None:
                break
            spots.append(spot)
        return spots

    def is_shared(self, spot: Spot) -> bool:
        """Return whether an alias shares the value."""
        return spot.kind != "alias" and bool(spot.anchor) and spot.anchor in self._aliases


def layouts(text: str) -> list[Layout]:
    """Return the layouts of the non-empty documents of a valid YAML text."""
    reader = _Reader(text)
    return [Layout(root) for root in reader.roots()]


def line_start(text: str, at: int) -> int:
    """Return the start of the line with a character."""
    feed = text.rfind("\n", 0, at)
    return max(feed, text.rfind("\r", feed + 1, at)) + 1


def line_end(text: str, at: int) -> int:
    """Return the end of the line with a character, before its line end."""
    match = _LINE_END.search(text, at)
    return match.start() if match else len(text)


def _dash_indents(spot: Spot) -> Iterator[int]:
    for item in spot.items:
        if spot.kind == "mapping" and not spot.is_flow and item.kind == "list" and item.is_block:
            yield item.column - spot.column
        yield from _dash_indents(item)


def _marks(event: Event) -> tuple[int, int]:
    assert event.start_mark is not None
    assert event.end_mark is not None
    return event.start_mark.index, event.end_mark.index


class _Reader:
    """Builds the tree from libyaml's events."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parser: Any = CParser(text)

    def roots(self) -> Iterator[Spot]:
        while self._parser.check_event():
            if isinstance(self._parser.get_event(), DocumentStartEvent):
                spot = self._spot(self._parser.get_event(), None)
                if spot.kind != "scalar" or spot.style or spot.end > spot.start:
                    yield spot

    def _spot(self, event: Event, lead: int | None) -> Spot:
        """Return the value that an event begins; ``lead`` is the index after the colon or dash."""
        start, end = _marks(event)
        anchor = getattr(event, "anchor", None) or ""
        if isinstance(event, AliasEvent):
            return self._new_spot("alias", start, end, lead, anchor=anchor)
        if anchor and (match := _ANCHOR.match(self._text, start)):
            start = self._past_gap(match.end())
        if isinstance(event, ScalarEvent):
            style = event.style or ""
            if style in ("|", ">"):
                end = start + len(self._text[start:end].rstrip())
            start = min(start, end)
            return self._new_spot("scalar", start, end, lead, style=style, anchor=anchor)
        kind: Literal["list", "mapping"] = "mapping"
        if isinstance(event, SequenceStartEvent):
            kind = "list"
        assert isinstance(event, SequenceStartEvent | MappingStartEvent)
        spot = self._new_spot(kind, start, start, lead, anchor=anchor)
        spot.is_flow = bool(event.flow_style)
        self._fill(spot)
        return spot

    def _fill(self, spot: Spot) -> None:
        spot.end = spot.start
        while not isinstance(event := self._parser.get_event(), CollectionEndEvent):
            if spot.kind == "mapping":
                key = self._spot(event, None)
                spot.keys.append(key)
                spot.names.append(self._name(event))
                colon = _COLON.match(self._text, key.end)
                value = self._spot(self._parser.get_event(), colon.end() if colon else -1)
            elif spot.is_flow:
                value = self._spot(event, None)
            else:
                value = self._spot(event, self._past_gap(spot.end) + 1)
            spot.items.append(value)
            spot.end = max(spot.end, value.end)
        # `[user: Hello]` contains a mapping without braces.
        if spot.is_flow and self._text[spot.start] in "[{":
            spot.end = _marks(event)[1]

    @staticmethod
    def _name(event: Event) -> str:
        return event.value if isinstance(event, ScalarEvent) else ""

    def _new_spot(self, kind: Any, start: int, end: int, lead: int | None, **more: Any) -> Spot:
        column = start - line_start(self._text, start)
        return Spot(
            kind=kind,
            start=start,
            end=end,
            column=column,
            lead=start if lead is None else lead,
            **more,
        )

    def _past_gap(self, at: int) -> int:
        gap = GAP.match(self._text, at)
        return gap.end() if gap else at
