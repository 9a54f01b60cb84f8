"""Recipes at work: an agent's sections, in order, become the parts of one context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from simkit.context import rendering
from simkit.context.history import Slice
from simkit.context.rendering import Root
from simkit.context.tokens import Counter
from simkit.events import Made, Part, Piece, Shown
from simkit.matching import Matcher, compile_matcher
from simkit.messages import Message
from simkit.pipeline import recipe as r
from simkit.references import Template
from simkit.references import compile as compile_references
from simkit.trace import copied


class Sources(Protocol):
    """Where history comes from."""

    def history(self, place: int, omit: str) -> Slice | None:
        """What the recipe's history section at ``place`` shows; None if nothing travels."""

    def summarised(self, agent: str, place: int, slice_: Slice) -> Message | None:
        """What a summarising agent made of what the window left out."""

    def current(self) -> tuple[Message, int]:
        """The message that the run answers, and its number in the log (0 if it is a query)."""


Say: TypeAlias = Callable[[Root], str]
"""What says a section's text, given the root; empty if it makes nothing here."""


class Section:
    """One compiled section: it says its text, given the root."""

    __slots__ = ("after", "format", "item", "name", "role", "text", "title", "when")

    def __init__(self, item: r.Item, text: Say, default_role: str) -> None:
        options = item.options
        self.item, self.name, self.text = item, item.name, text
        shown_as = options.as_ in ("text", "json")
        self.role = options.role or ("user" if shown_as else default_role)
        self.title = _template(options.title)
        self.after = _template(options.after)
        self.format = _template(options.format)
        self.when: Matcher | None = (
            compile_matcher(options.when) if "when" in options.model_fields_set else None
        )

    def says(self, root: Root) -> str:
        """The section's whole text; empty if it makes nothing here."""
        if self.when is not None and not self.when.holds(root):
            return ""
        content = self.text(root)
        if not content:
            return ""
        if self.format is not None:
            content = rendering.text_form(self.format.resolve(root))
        return self.framed(content, root)

    def framed(self, content: str, root: Root) -> str:
        """Puts the section's title above a content, and its closing words below."""
        if self.title is not None:
            content = f"{rendering.text_form(self.title.resolve(root))}\n{content}"
        if self.after is not None:
            content = f"{content}\n{rendering.text_form(self.after.resolve(root))}"
        return content


def _template(text: str | None) -> Template | None:
    return compile_references(text) if text is not None else None


class Assembly:
    """One agent's compiled recipe."""

    __slots__ = ("_count", "_current", "_entries", "histories")

    def __init__(
        self,
        instructions: str,
        recipe: r.Recipe,
        count: Counter,
        function: Callable[[str], Callable[..., Any]],
    ) -> None:
        self._count = count
        self.histories: list[tuple[str, r.History]] = []
        self._current: list[Section] = []
        texts = _Texts(instructions, count, function)
        self._entries: list[_Entry] = []
        for entry in recipe:
            if isinstance(entry, tuple):
                self._entries.append(
                    _Shared([self._single(item, texts, True) for item in entry], count)
                )
            else:
                self._entries.append(self._single(entry, texts))

    def _single(self, item: r.Item, texts: _Texts, shares: bool = False) -> _Single:
        if item.kind == "history":
            self.histories.append((item.name, item.history or r.History()))
            return _HistoryEntry(
                len(self.histories) - 1, self._section(item, texts), item, self._count, shares
            )
        section = self._section(item, texts)
        if item.kind == "current_message":
            return _CurrentEntry(section, self._count)
        return _TextEntry(section, self._count, item.kind == "instructions")

    def _section(self, item: r.Item, texts: _Texts) -> Section:
        section = Section(item, texts.of(item), _DEFAULT_ROLES.get(item.kind, "system"))
        if item.kind == "current_message":
            self._current.append(section)
        return section

    def build(self, root: Root, sources: Sources) -> tuple[list[Part], int]:
        """Returns the context's parts and its tokens."""
        parts: list[Part] = []
        tokens = 0
        omits = ""
        if any(section.says(root) for section in self._current):
            message, number = sources.current()
            omits = message.id if number else ""
        for entry in self._entries:
            made = entry.make(root, sources, omits)
            if made is not None:
                parts.append(made[0])
                tokens += made[1]
        return parts, tokens


_DEFAULT_ROLES = {"current_message": "user", "input": "user", "task": "user"}


class _Texts:
    """Finds the function that says a section's text."""

    def __init__(
        self, instructions: str, count: Counter, function: Callable[[str], Callable[..., Any]]
    ) -> None:
        self._instructions, self._count, self._function = instructions, count, function

    def of(self, item: r.Item) -> Say:
        """Returns root → text for one section."""
        match item.options:
            case r.Instructions():
                return self._instructed()
            case r.History():
                return lambda _root: "history"
            case r.CurrentMessage():
                return _current
            case r.Input() as given:
                return lambda root: _input(root, given)
            case r.Task():
                return lambda root: rendering.text_form(root.get("task") or "")
            case r.Upstream() as upstream:
                return lambda root: _json_of(root.get("upstream"), upstream.preview)
            case r.PreviousAgents() as agents:
                return lambda root: rendering.previous_agents_text(root, agents)
            case r.Shared() as shared:
                return lambda root: _json_of(root["state"].get(shared.from_), shared.preview)
            case r.HandoffSection() as handoff:
                return _handed_over(handoff)
            case r.Notes() as notes:
                return self._recalled(notes, "notes", "", rendering.note_line)
            case r.Memories() as memories:
                best = {"order": memories.order or "score"}
                return self._recalled(
                    memories.model_copy(update=best), "memories", rendering.MEMORIES_HEADING,
                    rendering.item_line,
                )  # fmt: skip
            case r.Recall() as recall:
                return self._recalled(recall, "items", "", rendering.item_line)
            case r.Custom() as custom:
                return self._custom(custom)
        raise TypeError(f"no section is a {type(item.options).__name__}")

    def _instructed(self) -> Say:
        text = compile_references(self._instructions)
        if text.is_constant:
            constant = str(text.resolve({}))
            return lambda _root: constant
        return lambda root: rendering.text_form(text.resolve(root))

    def _recalled(
        self,
        options: r.Recall,
        channel: str,
        heading: str,
        line: Callable[[Mapping[str, Any]], str],
    ) -> Say:
        ranges = compile_references(options.time_ranges)
        count = self._count

        def recalled(root: Root) -> str:
            chosen = options
            if not ranges.is_constant:
                chosen = options.model_copy(update={"time_ranges": ranges.resolve(root)})
            items = rendering.recalled(root, chosen, options.from_ or channel, count)
            if not items:
                return ""
            lines = [line(rendering.shortened(found, options.preview)) for found in items]
            return "\n".join([heading, *lines] if heading else lines)

        return recalled

    def _custom(self, options: r.Custom) -> Say:
        function = self._function(options.function)

        def custom(root: Root) -> str:
            made = function({key: copied(value) for key, value in root.items()})
            return "" if made is None else rendering.text_form(made)

        return custom


def _current(root: Root) -> str:
    handoff = root.get("handoff")
    if handoff is not None and handoff["query"] is not None:
        return str(handoff["query"])
    return rendering.text_form(root["user"])


def _input(root: Root, options: r.Input) -> str:
    shown = rendering.shortened(root["input"], options.preview)
    return "" if shown is None else rendering.text_form(shown)


def _handed_over(options: r.HandoffSection) -> Say:
    if options.format is not None:
        # The format speaks for the handoff, also where it carries no payload.
        return lambda root: "" if root.get("handoff") is None else "handoff"
    return lambda root: rendering.handoff_text(root, options)


def _json_of(value: Any, preview: Mapping[str, int] | None) -> str:
    if value is None or (isinstance(value, (Mapping, Sequence)) and not len(value)):
        return ""
    if isinstance(value, str):
        return value
    return rendering.json_text(rendering.shortened(value, preview))


class _Entry(Protocol):
    section: Section

    def make(self, root: Root, sources: Sources, omits: str) -> tuple[Part, int] | None:
        """Returns the part and its tokens, or None if it makes nothing."""


class _TextEntry:
    __slots__ = ("_count", "_last", "_speaker", "section")

    def __init__(self, section: Section, count: Counter, is_instructions: bool) -> None:
        self.section, self._count, self._speaker = section, count, is_instructions
        self._last: tuple[str, str | None, tuple[Part, int]] | None = None

    def make(self, root: Root, _sources: Sources, _omits: str) -> tuple[Part, int] | None:
        text = self.section.says(root)
        if not text:
            return None
        agent = root["agent"] if self._speaker else None
        last = self._last
        if last is not None and last[0] == text and last[1] == agent:
            return last[2]
        tokens = self._count(text)
        name = self.section.name
        message = Message(self.section.role, text, agent=agent, section=name)
        made = Made(name, message, tokens), tokens
        self._last = (text, agent, made)
        return made


class _CurrentEntry:
    __slots__ = ("_count", "section")

    def __init__(self, section: Section, count: Counter) -> None:
        self.section, self._count = section, count

    def make(self, root: Root, sources: Sources, _omits: str) -> tuple[Part, int] | None:
        text = self.section.says(root)
        if not text:
            return None
        message, number = sources.current()
        shown = Message(
            self.section.role, text, message.id, turn=message.turn, data=message.data,
            section=self.section.name,
        )  # fmt: skip
        tokens = self._count(text)
        return Made(self.section.name, shown, tokens, (), number), tokens


class _Shared:
    """One message that several sections share; each keeps its own piece."""

    __slots__ = ("_count", "_entries", "section")

    def __init__(self, entries: list[_Single], count: Counter) -> None:
        self._entries, self._count = entries, count
        self.section = entries[0].section

    def make(self, root: Root, sources: Sources, omits: str) -> tuple[Part, int] | None:
        pieces: list[Piece] = []
        shown: list[Shown] = []
        number, identity, turn, agent = 0, "", 0, None
        for entry in self._entries:
            made = entry.make(root, sources, omits)
            if made is None:
                continue
            part, tokens = made
            if isinstance(part, Shown):
                shown.append(part)
                if part.rendered is None:
                    continue
                message = part.rendered
            else:
                message = part.message
                agent = agent or message.agent
                if part.of or entry.section.item.kind == "current_message":
                    number, identity, turn = part.of, message.id, message.turn
            pieces.append(Piece(entry.section.name, message.content, tokens))
        if not pieces:
            return None
        content = "\n\n".join(piece.content for piece in pieces)
        name, role = pieces[0].section, self.section.role
        message = Message(role, content, identity, agent=agent, turn=turn, section=name)
        tokens = self._count(content)
        return Made(name, message, tokens, tuple(pieces), number, tuple(shown)), tokens


class _HistoryEntry:
    __slots__ = ("_count", "_options", "_place", "_shares", "section")

    def __init__(
        self, place: int, section: Section, item: r.Item, count: Counter, shares: bool
    ) -> None:
        """``shares``: it is a piece of a message, hence text."""
        self._place, self.section, self._count = place, section, count
        self._options, self._shares = item.history or r.History(), shares

    def make(self, root: Root, sources: Sources, omits: str) -> tuple[Part, int] | None:
        if self.section.when is not None and not self.section.when.holds(root):
            return None
        found = sources.history(self._place, omits)
        if found is None:
            return None
        shown, tokens = found.shown, found.tokens
        summary, summary_tokens = None, 0
        if self._options.summary is not None:
            summary = sources.summarised(self._options.summary, self._place, found)
            if summary is not None:
                summary_tokens = self._count(summary.content)
                tokens += summary_tokens
        rendered, rendered_tokens = self._rendered(found, summary, root)
        if rendered is not None:
            tokens = rendered_tokens
        part = shown
        if summary is not None or rendered is not None:
            part = type(shown)(
                shown.section, shown.stream, shown.lo, shown.kept, shown.cuts, shown.tail,
                shown.tail_cuts, shown.restarts, summary, summary_tokens, rendered,
                rendered_tokens,
            )  # fmt: skip
        return part, tokens

    def _rendered(
        self, found: Slice, summary: Message | None, root: Root
    ) -> tuple[Message | None, int]:
        options = self._options
        around = options.title is not None or options.after is not None
        if options.as_ not in ("text", "json") and not around and not self._shares:
            return None, 0
        messages = found.messages()
        if summary is not None:
            messages.insert(0, summary)
        if not messages:
            return None, 0
        if options.as_ == "json":
            content = rendering.json_text(messages)
        else:
            content = rendering.conversation_text(messages)
        content = self.section.framed(content, root)
        message = Message(self.section.role, content, section=self.section.name)
        return message, self._count(content)


_Single: TypeAlias = _TextEntry | _CurrentEntry | _HistoryEntry
