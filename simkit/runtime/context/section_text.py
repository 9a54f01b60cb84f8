"""Texts of sections for a root, with the items that they read and do not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.messages import ABSENT
from simkit.language.paths import compile as compile_references
from simkit.language.paths import lookup
from simkit.runtime.context import rendering
from simkit.runtime.context.recall import Recaller, RecallResult
from simkit.runtime.context.rendering import Counter, Loss, Root, fitted
from simkit.spec.pipeline import recipe as r
from simkit.spec.pipeline.names import IMPLIED_CHANNELS
from simkit.trace.events import Shortened, Unshown
from simkit.trace.store import copied


class SectionText(msgspec.Struct, frozen=True, gc=False):
    """A section's text, empty if it makes nothing here, and what it read and does not show."""

    text: str
    left_out: Sequence[Unshown] = ()


Say: TypeAlias = Callable[[Root], SectionText]
"""A function from the root to a section's text."""

NOTHING: Final = SectionText("")
HISTORY: Final = SectionText("history")
"""A history consists of messages and has no text of its own."""


class SectionTexts(msgspec.Struct, eq=False):
    """The functions that make sections' texts."""

    _instructions: str
    _count: Counter
    _function: Callable[[str], Callable[..., Any]]
    _scopes: Mapping[str, str]

    def constant_of(self, item: r.Item) -> SectionText | None:
        """Return the text that a section has for every root; None if the root decides."""
        if item.kind != "instructions":
            return None
        text = compile_references(self._instructions)
        return SectionText(str(text.resolve({}))) if text.is_constant else None

    def of(self, item: r.Item) -> Say:
        """Return the function root → text for one section."""
        section = item.name  # Each access searches for it.
        match item.options:
            case r.Instructions():
                text = compile_references(self._instructions)
                return lambda root: SectionText(rendering.text_form(text.resolve(root)))
            case r.History():
                return lambda _root: HISTORY
            case r.CurrentMessage():
                return _current
            case r.Input() as options:
                return lambda root: _previewed(root["input"], options, section, rendering.text_form)
            case r.Task():
                return _task
            case r.Upstream() as upstream:
                return lambda root: _previewed(root.get("upstream"), upstream, section, _json_of)
            case r.PreviousAgents() as agents:
                return _told_of(item, lambda root: rendering.previous_agents_text(root, agents))
            case r.Shared() as shared:
                return self._shared(shared, item.name)
            case r.HandoffSection() as handoff:
                return _handed_over(handoff, item)
            case r.Notes() as notes:
                return self._recalled(notes, item, "", rendering.note_line)
            case r.Memories() as memories:
                best = memories.model_copy(update={"order": memories.order or "score"})
                return self._recalled(best, item, rendering.MEMORIES_HEADING, rendering.item_line)
            case r.Recall() as recall:
                return self._recalled(recall, item, "", rendering.item_line)
            case r.Custom() as custom:
                return self._custom(custom)
        raise TypeError(f"no section is a {type(item.options).__name__}")

    def _recalled(
        self,
        options: r.Recall,
        item: r.Item,
        heading: str,
        line: Callable[[Mapping[str, Any]], str],
    ) -> Say:
        ranges = compile_references(options.time_ranges)
        channels = options.from_ or (IMPLIED_CHANNELS[item.kind],)
        section = item.name
        recaller = Recaller(section, options, channels, self._scopes, self._count)

        def recalled(root: Root) -> SectionText:
            recall_result = recaller.recall(root, ranges.resolve(root))
            lines, left_out = _lines(recall_result, options.preview, section, line)
            grouped = rendering.grouped(lines, channels)
            if not grouped:
                return SectionText("", left_out)
            return SectionText("\n".join([heading, *grouped] if heading else grouped), left_out)

        return recalled

    def _shared(self, options: r.Shared, section: str) -> Say:
        fenced = options.as_ == "json"
        most, count = options.tokens, self._count

        def form(value: Any) -> str:
            return rendering.fenced(value) if fenced else _json_of(value)

        def shared(root: Root) -> SectionText:
            channel, paths = options.from_, options.fields and options.fields.values()
            value, losses = rendering.shortened(root["state"].get(channel), options.preview, paths)
            if options.fields is not None:
                value = _fields_of(value, options.fields)
            if most is not None and not _is_empty(value):
                value, cut = fitted(
                    rendering.plain(value), lambda cut_value: count(form(cut_value)) <= most
                )
                losses = [*losses, *cut]
            left_out = _shortened(losses, section, channel)
            return SectionText("" if value is ABSENT or _is_empty(value) else form(value), left_out)

        return shared

    def _custom(self, options: r.Custom) -> Say:
        function = self._function(options.function)

        def custom(root: Root) -> SectionText:
            user_function = function({key: copied(value) for key, value in root.items()})
            return (
                NOTHING
                if user_function is None
                else SectionText(rendering.text_form(user_function))
            )

        return custom


def _task(root: Root) -> SectionText:
    return SectionText(rendering.text_form(root.get("task") or ""))


def _current(root: Root) -> SectionText:
    handoff, user = root["handoff"], root["user"]
    if handoff is not None and handoff["query"] is not None:
        return SectionText(str(handoff["query"]))
    return SectionText(user if type(user) is str else rendering.text_form(user))


def _previewed(
    value: Any, options: r.Section, section: str, form: Callable[[Any], str]
) -> SectionText:
    preview_value, losses = rendering.shortened(value, options.preview)
    return (
        NOTHING
        if preview_value is None
        else SectionText(form(preview_value), _shortened(losses, section))
    )


def _told_of(item: r.Item, text: Callable[[Root], tuple[str, Sequence[Loss]]]) -> Say:
    channel = getattr(item.options, "from_", None) or IMPLIED_CHANNELS.get(item.kind, "")
    section = item.name

    def text_at(root: Root) -> SectionText:
        content, losses = text(root)
        left_out = _shortened(losses, section, channel) if losses else ()
        return SectionText(content, left_out)

    return text_at


def _handed_over(options: r.HandoffSection, item: r.Item) -> Say:
    if options.format is not None:
        # The format shows the handoff, also if it has no payload.
        return lambda root: NOTHING if root.get("handoff") is None else SectionText("handoff")
    return _told_of(item, partial(rendering.handoff_text, options=options))


def _lines(
    result: RecallResult,
    preview: Mapping[str, int] | None,
    section: str,
    line: Callable[[Mapping[str, Any]], str],
) -> tuple[list[tuple[str, str]], list[Unshown]]:
    """Return channel and line of every selected item, and the items not shown."""
    left_out: list[Unshown] = list(result.left_out)
    lines = []
    for channel, index, fields in result.items:
        preview_fields, losses = rendering.shortened(fields, preview)
        lines.append((channel, line(preview_fields)))
        inside = [loss._replace(path=rendering.joined(f"[{index}]", loss.path)) for loss in losses]
        left_out += _shortened(inside, section, channel)
    return lines, left_out


def _shortened(losses: Sequence[Loss], section: str, channel: str = "") -> list[Shortened]:
    return [
        Shortened(section, loss.by, channel, loss.path, loss.items, loss.characters)
        for loss in losses
    ]


def _fields_of(value: Any, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the existing fields, by their labels."""
    values_found = {label: lookup(value, path) for label, path in fields.items()}
    return {
        label: value_found
        for label, value_found in values_found.items()
        if value_found is not ABSENT
    }


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (Mapping, Sequence)) and not len(value))


def _json_of(value: Any) -> str:
    if _is_empty(value):
        return ""
    return value if isinstance(value, str) else rendering.json_text(value)
