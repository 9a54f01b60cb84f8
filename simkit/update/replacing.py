"""The layout of a YAML text, and one edit as text: the range that it replaces, in its old style.

A ``Document`` knows where a value starts, for messages. An edit must also know where it ends, how
it is written, and which aliases share it; libyaml's events show that, its nodes do not: an alias is
the very node of its anchor.

Each function takes the site of a value and returns the replacements; lines end with ``\\n`` here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

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
from simkit.spec.scenario.writing import (
    STEP,
    WIDTH,
    block,
    element,
    entry,
    flow,
    on_one_line,
    quoted,
    scalar,
    text_block,
)

GAP: Final = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
"""White space and comments."""
_ANCHOR: Final = re.compile(r"&[^\s,\[\]{}]+")
_LINE_BREAK: Final = re.compile(r"[\r\n]")
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
    return [Layout(root) for _, root in _Reader(text).documents()]


def parts_of(text: str) -> list[str]:
    """Return a valid YAML text in parts: each begins with one of its non-empty documents."""
    reader = _Reader(text)
    starts = [0, *[start for start, _ in reader.documents()][1:], len(text)]
    return [text[start:end] for start, end in pairwise(starts)]


def line_start(text: str, at: int) -> int:
    """Return the start of the line with a character."""
    feed = text.rfind("\n", 0, at)
    return max(feed, text.rfind("\r", feed + 1, at)) + 1


def line_end(text: str, at: int) -> int:
    """Return the end of the line with a character, before its line end."""
    match = _LINE_BREAK.search(text, at)
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

    def documents(self) -> Iterator[tuple[int, Spot]]:
        """Yield where each non-empty document begins, with its directives, and its value."""
        while self._parser.check_event():
            event = self._parser.get_event()
            if isinstance(event, DocumentStartEvent):
                spot = self._spot(self._parser.get_event(), None)
                if spot.kind != "scalar" or spot.style or spot.end > spot.start:
                    yield _marks(event)[0], spot

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


_NO_LINES: Final = "it shares its line with what is around it"
_COMMENT_INSIDE: Final = "a comment stands inside its brackets"
_LINE_END: Final = re.compile(r"\r\n?|\n")

Change: TypeAlias = tuple[int, int, str]
"""Start, end, and the new text."""


class Obstacle(Exception):
    """An edit that the text does not allow, with the reason."""


class Site:
    """A value with its surroundings in the text."""

    def __init__(self, text: str, layout: Layout, chain: Sequence[Spot]) -> None:
        self.text, self.spot = text, chain[-1]
        self.dash_indent = layout.dash_indent
        self.parent = chain[-2] if len(chain) > 1 else None
        self.in_flow = any(spot.is_flow for spot in chain[:-1])
        self.in_list = self.parent is not None and self.parent.kind == "list"
        self.outer = self.parent.column if self.parent else -STEP
        """The column of the key or dash before it."""

    @property
    def is_last_on_line(self) -> bool:
        """Return whether nothing follows on its line, not even a comment."""
        return not self.text[self.spot.end : line_end(self.text, self.spot.end)].strip()

    @property
    def head(self) -> str:
        """Return the text before the value, after the colon or dash: space, comments, anchor."""
        return self.text[self.spot.lead : self.spot.start] if self.spot.lead >= 0 else ""


# Put


def put(site: Site, value: Any) -> Change:
    """Replace a value, in the style of the old one."""
    spot = site.spot
    if spot.lead < 0:
        raise Obstacle("its key has no colon that can be found")
    is_collection = bool(value) and isinstance(value, Mapping | list | tuple)
    if site.in_flow:
        return _put_here(site, _in_style(value, spot))
    if not is_collection:
        return _put_scalar(site, value)
    text = on_one_line(value, _columns_before(site))
    if spot.is_flow and _columns_before(site) + len(flow(value)) <= WIDTH:
        text = flow(value)
    if not site.is_last_on_line:
        text = flow(value)
    if text is not None and not spot.is_block:
        return _put_here(site, text)
    return _put_block(site, value)


def _columns_before(site: Site) -> int:
    """Return the columns of the line before the value, if it begins on its key's line."""
    at = site.spot.start if not site.spot.is_block else site.spot.lead + 1
    return at - line_start(site.text, at)


def _put_scalar(site: Site, value: Any) -> Change:
    spot = site.spot
    if isinstance(value, str) and site.is_last_on_line:
        style = spot.style if spot.style in ("|", ">") else ""
        size = _columns_before(site) + len(scalar(value, in_block=True))
        is_long = size > WIDTH and spot.style in ("", "|")
        if style or "\n" in value or is_long:
            lines = text_block(value, _text_column(site), style)
            if lines:
                return _put_here(site, "\n".join(lines))
    if isinstance(value, str) and "\n" in value:
        return _put_here(site, quoted(value))
    return _put_here(site, _in_style(value, spot, in_block=True))


def _in_style(value: Any, spot: Spot, in_block: bool = False) -> str:
    is_collection = isinstance(value, Mapping | list | tuple)
    return flow(value) if is_collection else scalar(value, spot.style, in_block=in_block)


def _text_column(site: Site) -> int:
    """Return the column for lines of a block text: that of the old ones, if there were any."""
    spot = site.spot
    if spot.style in ("|", ">"):
        for line in site.text[spot.start : spot.end].splitlines()[1:]:
            if line.strip():
                return len(line) - len(line.lstrip(" "))
    return max(site.outer, 0) + STEP if site.parent else STEP


def _put_here(site: Site, text: str) -> Change:
    """Put a text at the beginning of the value; a former block moves up to its key."""
    spot = site.spot
    at = spot.start
    if spot.is_block and "#" not in site.head:
        at = spot.lead + len(site.head.rstrip())
    is_glued = at > 0 and site.text[at - 1] not in " \t\r\n[{,"
    return at, spot.end, f" {text}" if is_glued else text


def _put_block(site: Site, value: Any) -> Change:
    """Put lines below the key or after the dash; comments before the old value stay."""
    spot = site.spot
    is_list = not isinstance(value, Mapping)
    is_in_place = site.in_list or (spot.is_block and is_list == (spot.kind == "list"))
    is_empty = spot.start == spot.lead
    if is_in_place and not is_empty:
        column = spot.column
    else:
        column = site.outer + (site.dash_indent if is_list and not site.in_list else STEP)
    text = "\n".join(block(value, column, site.dash_indent))
    if is_in_place:
        return spot.start, spot.end, f" {text.lstrip()}" if is_empty else text.lstrip()
    return spot.lead + len(site.head.rstrip()), spot.end, f"\n{text}"


# Give


def give(site: Site, key: str, value: Any) -> Change:
    """Add one more key to a mapping, as the last."""
    spot = site.spot
    if spot.kind != "mapping" or key in spot.names:
        raise Obstacle("it is no mapping without that key")
    if spot.is_flow:
        if not spot.items or site.text[spot.start] != "{":
            raise Obstacle("it has no braces, or nothing between them")
        at = max(spot.items[-1].end, spot.keys[-1].end)
        return at, at, f", {scalar(key)}: {flow(value)}"
    at = line_end(site.text, spot.end)
    return at, at, "\n" + "\n".join(entry(key, value, spot.column, site.dash_indent))


# Relist


def relisted(
    site: Site, removed: Collection[int], added: Sequence[tuple[int, Any]]
) -> Iterator[Change]:
    """Remove elements from a list and add others; at least one must stay."""
    spot = site.spot
    if spot.kind != "list":
        raise Obstacle("it is no list")
    size = len(spot.items)
    if len(removed) == size or not size:
        raise Obstacle("nothing of it stays")
    if spot.is_flow:
        yield from _relisted_flow(site, removed, added)
    else:
        yield from _relisted_block(site, removed, added)


def _relisted_flow(
    site: Site, removed: Collection[int], added: Sequence[tuple[int, Any]]
) -> Iterator[Change]:
    """Replace the text between two elements that stay."""
    items = site.spot.items
    stays = [number for number in range(len(items)) if number not in removed]
    for before, after in zip([-1, *stays], [*stays, len(items)], strict=True):
        new = [flow(value) for number, value in added if before < number <= after]
        if not new and after == before + 1:
            continue
        if any("#" in gap for gap in _gaps(site, before, after)):
            raise Obstacle(_COMMENT_INSIDE)
        start = items[before].end if before >= 0 else site.spot.start + 1
        end = items[-1].end
        if after < len(items):
            end = items[after].start - _anchor_size(site, items[after])
        # A comma parts new elements from each neighbour that stays.
        neighbours = [""] if before >= 0 else [], [""] if after < len(items) else []
        yield start, end, ", ".join([*neighbours[0], *new, *neighbours[1]])


def _anchor_size(site: Site, item: Spot) -> int:
    """Return the length of an anchor before an element, with its space."""
    if not item.anchor or item.kind == "alias":
        return 0
    return item.start - site.text.rindex("&", 0, item.start)


def _gaps(site: Site, before: int, after: int) -> Iterator[str]:
    """Yield the texts between neighbours, from one element to another."""
    items = site.spot.items
    for number in range(before, after):
        start = items[number].end if number >= 0 else site.spot.start
        end = items[number + 1].start if number + 1 < len(items) else site.spot.end
        yield site.text[start:end]


def _relisted_block(
    site: Site, removed: Collection[int], added: Sequence[tuple[int, Any]]
) -> Iterator[Change]:
    """Remove and insert whole lines."""
    text, items = site.text, site.spot.items
    ends = [line_end(text, item.end) for item in items]
    for number in removed:
        yield _without_lines(text, _own_line(text, items[number]), ends[number])
    for number in sorted({number for number, _ in added}):
        values = [value for before, value in added if before == number]
        lines = [
            line for value in values for line in element(value, site.spot.column, site.dash_indent)
        ]
        if number:
            yield ends[number - 1], ends[number - 1], "".join(f"\n{line}" for line in lines)
        else:
            start = _own_line(text, items[0])
            yield start, start, "".join(f"{line}\n" for line in lines)


def _own_line(text: str, item: Spot) -> int:
    """Return the start of an element's first line; raise Obstacle if it shares the line."""
    start = line_start(text, item.lead - 1)
    if text[start : item.lead - 1].strip():
        raise Obstacle(_NO_LINES)
    return start


def _without_lines(text: str, start: int, end: int) -> Change:
    if line_break := _LINE_END.match(text, end):
        return start, line_break.end(), ""
    # The file ends here without a line end: the one before is removed instead.
    return len(text[:start].rstrip("\r\n")), end, ""


# Unfold


def unfolded(site: Site) -> Change:
    """Write brackets or braces as lines, with unchanged parts."""
    spot = site.spot
    if not spot.is_flow or site.in_flow or not spot.items:
        raise Obstacle("it is no list or mapping in brackets that stands in a block")
    if not site.is_last_on_line or any("#" in gap for gap in _gaps(site, -1, len(spot.items))):
        raise Obstacle(_COMMENT_INSIDE)
    if any(item.lead < 0 for item in spot.items):
        raise Obstacle("a key in it has no colon")
    text = "\n".join(_unfolded_lines(site))
    if site.in_list or site.parent is None:
        return spot.start, spot.end, text.lstrip()
    return spot.lead + len(site.head.rstrip()), spot.end, f"\n{text}"


def _unfolded_lines(site: Site) -> Iterator[str]:
    spot = site.spot
    is_list = spot.kind == "list"
    column = site.outer + (site.dash_indent if is_list and not site.in_list else STEP)
    for item, first in zip(spot.items, spot.items if is_list else spot.keys, strict=True):
        part = site.text[first.start - _anchor_size(site, first) : max(item.end, first.end)]
        yield f"{' ' * column}{'- ' if is_list else ''}{part}"
