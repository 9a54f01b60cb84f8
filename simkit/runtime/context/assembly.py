"""Assembly of a context: the sections of an agent's recipe in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from simkit.core.messages import Message
from simkit.language.matching import Matcher, compile_matcher
from simkit.language.paths import Template
from simkit.language.paths import compile as compile_references
from simkit.runtime.context import rendering
from simkit.runtime.context.history import Slice
from simkit.runtime.context.rendering import Counter, Root
from simkit.runtime.context.section_text import Say, SectionText, SectionTexts
from simkit.spec.pipeline import recipe as r
from simkit.trace.events import HistoryPart, InlinePart, Part, Piece, Shortened, Unshown


class Sources(Protocol):
    """The source of histories."""

    def history(self, index: int, omit: str) -> Slice | None:
        """Return the slice for the recipe's history section at ``index``, or None."""

    def summarised(self, agent: str, index: int, slice: Slice) -> Message | None:
        """Return a summarizing agent's message about what the window dropped."""

    current: tuple[Message, int, int]
    """The message that the run answers, with its number in the log and its tokens."""


class Current(msgspec.Struct, frozen=True):
    """The message that the run answers, as the recipe shows it."""

    section: Section | None = None
    """The first section that shows it; None if no section does."""
    text: str = ""
    omit: str = ""
    """The message's id, by which histories leave it out; empty if they show it."""
    log_entry: tuple[Message, int, int] = (Message("user"), 0, 0)
    """The message, its number and its tokens, as `Sources.current` has them."""


NOT_SHOWN = Current()


class Put(msgspec.Struct, frozen=True, gc=False):
    """The part of a context that one entry of a recipe makes."""

    part: Part | None
    tokens: int = 0
    left_out: Sequence[Unshown] = ()


class Assembled(msgspec.Struct, frozen=True, gc=False):
    """The result of a recipe for one root."""

    parts: list[Part]
    tokens: int
    left_out: tuple[Unshown, ...]


NO_PART = Put(None)


class Section:
    """One compiled section, with a function from the root to its text."""

    def __init__(self, item: r.Item, texts: SectionTexts, default_role: str) -> None:
        options = item.options
        constant = texts.constant_of(item)
        text = texts.of(item)
        self.item, self.name, self.text = item, item.name, text
        shown_as = options.as_ in ("text", "json")
        self.role = options.role or ("user" if shown_as else default_role)
        self.title = _template(options.title)
        self.after = _template(options.after)
        self.format = _template(options.format)
        self._is_bare = self.title is None and self.after is None and self.format is None
        self.when: Matcher | None = (
            compile_matcher(options.when) if "when" in options.model_fields_set else None
        )
        self.is_plain = self._is_bare and self.when is None
        """Whether it has nothing around its text, and is always there."""
        self.constant: SectionText | None = constant if self.is_plain else None
        """The text that it has for every root; None if the root decides."""
        self.omission = SectionText("", (Shortened(item.name, "when"),))
        """The fact that its `when` does not hold."""
        self.says: Say = text if self.is_plain else self._whole
        """Returns the section's whole text; empty if it makes nothing here."""

    def _whole(self, root: Root) -> SectionText:
        if self.when is not None and not self.when.holds(root):
            return self.omission
        section_text = self.text(root)
        if not section_text.text or self._is_bare:
            return section_text
        content = section_text.text
        if self.format is not None:
            content = rendering.text_form(self.format.resolve(root))
        return SectionText(self.framed(content, root), section_text.left_out)

    def framed(self, content: str, root: Root) -> str:
        """Return a content with the section's title above and its closing text below."""
        if self.title is not None:
            content = f"{rendering.text_form(self.title.resolve(root))}\n{content}"
        if self.after is not None:
            content = f"{content}\n{rendering.text_form(self.after.resolve(root))}"
        return content


def _template(text: str | None) -> Template | None:
    return compile_references(text) if text is not None else None


class Assembly:
    """One agent's compiled recipe."""

    def __init__(
        self,
        agent: str,
        instructions: str,
        recipe: r.Recipe,
        count: Counter,
        function: Callable[[str], Callable[..., Any]],
        scopes: Mapping[str, str] = {},
    ) -> None:
        """``scopes`` has the scope of each declared channel."""
        self._agent, self._count = agent, count
        self.histories: list[tuple[str, r.History]] = []
        self._current: list[Section] = []
        texts = SectionTexts(instructions, count, function, scopes)
        self._entries: list[_SectionEntry] = []
        for entry in recipe:
            if isinstance(entry, tuple):
                self._entries.append(
                    _Shared([self._single(item, texts, True) for item in entry], count)
                )
            else:
                self._entries.append(self._single(entry, texts))
        self.reads_log = any(history.from_ == "log" for _, history in self.histories)

    def _single(self, item: r.Item, texts: SectionTexts, shares: bool = False) -> _Single:
        if item.kind == "history":
            self.histories.append((item.name, item.history or r.History()))
            return _HistoryEntry(
                len(self.histories) - 1, self._section(item, texts), item, self._count, shares
            )
        section = self._section(item, texts)
        if item.kind == "current_message":
            return _CurrentEntry(section, self._count)
        agent = self._agent if item.kind == "instructions" else None
        return _TextEntry(section, self._count, agent)

    def _section(self, item: r.Item, texts: SectionTexts) -> Section:
        section = Section(item, texts, _DEFAULT_ROLES.get(item.kind, "system"))
        if item.kind == "current_message":
            self._current.append(section)
        return section

    def build(self, root: Root, sources: Sources) -> Assembled:
        """Return the context's parts, its tokens, and the items that its sections left out."""
        parts: list[Part] = []
        left_out: list[Unshown] = []
        tokens = 0
        current = NOT_SHOWN
        for section in self._current:
            log_entry = message, number, _ = sources.current
            text = section.says(root).text
            if text:
                current = Current(section, text, message.id if number else "", log_entry)
                break
        for entry in self._entries:
            put = entry.constant
            if put is None:
                put = entry.make(root, sources, current)
            left_out += put.left_out
            if put.part is not None:
                parts.append(put.part)
                tokens += put.tokens
        return Assembled(parts, tokens, tuple(left_out))


_DEFAULT_ROLES = {"current_message": "user", "input": "user", "task": "user"}


class _SectionEntry(Protocol):
    section: Section
    constant: Put | None
    """The part that it makes for every root, if it is the same; else None."""

    def make(self, root: Root, sources: Sources, current: Current) -> Put:
        """Return the part, if there is one, and the items left out."""


class _TextEntry:
    def __init__(self, section: Section, count: Counter, agent: str | None) -> None:
        """``agent`` is the speaker of instructions; None for other texts."""
        self.section, self._count, self._agent = section, count, agent
        self._last: InlinePart | None = None
        self.constant = self._put(section.constant) if section.constant is not None else None

    def make(self, root: Root, _sources: Sources, _current: Current) -> Put:
        return self._put(self.section.says(root))

    def _put(self, section_text: SectionText) -> Put:
        text, left_out = section_text.text, section_text.left_out
        if not text:
            return Put(None, 0, left_out)
        last = self._last
        if last is not None and last.message.content == text:
            return Put(last, last.tokens, left_out)
        tokens = self._count(text)
        name = self.section.name
        message = Message(self.section.role, text, agent=self._agent, section=name)
        self._last = part = InlinePart(name, message, tokens)
        return Put(part, tokens, left_out)


class _CurrentEntry:
    def __init__(self, section: Section, count: Counter) -> None:
        self.section, self._count = section, count
        self.constant: Put | None = None

    def make(self, root: Root, sources: Sources, current: Current) -> Put:
        is_first = current.section is self.section
        result = SectionText(current.text) if is_first else self.section.says(root)
        text = result.text
        if not text:
            return Put(None, 0, result.left_out)
        message, number, tokens = current.log_entry if is_first else sources.current
        if text is not message.content or not number:
            tokens = self._count(text)
        text_message = Message(
            self.section.role,
            text,
            message.id,
            turn=message.turn,
            data=message.data,
            section=self.section.name,
        )
        return Put(InlinePart(self.section.name, text_message, tokens, (), number), tokens)


class _Shared:
    """One message that several sections share; each keeps its own piece."""

    def __init__(self, entries: list[_Single], count: Counter) -> None:
        self._entries, self._count = entries, count
        self.section = entries[0].section
        self.constant: Put | None = None

    def make(self, root: Root, sources: Sources, current: Current) -> Put:
        pieces: list[Piece] = []
        shown_parts: list[HistoryPart] = []
        left_out: list[Unshown] = []
        number, identity, turn, agent = 0, "", 0, None
        for entry in self._entries:
            put = entry.make(root, sources, current)
            part = put.part
            left_out += put.left_out
            if part is None:
                continue
            if isinstance(part, HistoryPart):
                shown_parts.append(part)
                if part.rendered is None:
                    continue
                message = part.rendered
            else:
                message = part.message
                agent = agent or message.agent
                if part.of or entry.section.item.kind == "current_message":
                    number, identity, turn = part.of, message.id, message.turn
            pieces.append(Piece(entry.section.name, message.content, put.tokens))
        if not pieces:
            return Put(None, 0, left_out)
        content = "\n\n".join(piece.content for piece in pieces)
        name, role = pieces[0].section, self.section.role
        message = Message(role, content, identity, agent=agent, turn=turn, section=name)
        tokens = self._count(content)
        part_ = InlinePart(name, message, tokens, tuple(pieces), number, tuple(shown_parts))
        return Put(part_, tokens, left_out)


class _HistoryEntry:
    def __init__(
        self, index: int, section: Section, item: r.Item, count: Counter, shares: bool
    ) -> None:
        """``shares``: it is a piece of a shared message, so that it is text."""
        self.index, self.section, self._count = index, section, count
        self.constant: Put | None = None
        self._options = options = item.history or r.History()
        around = options.title is not None or options.after is not None
        self._is_rendered = options.as_ in ("text", "json") or around or shares
        """Whether the context shows one message with its text."""

    def make(self, root: Root, sources: Sources, current: Current) -> Put:
        if self.section.when is not None and not self.section.when.holds(root):
            return Put(None, 0, self.section.omission.left_out)
        slice_read = sources.history(self.index, current.omit)
        if slice_read is None:
            return NO_PART
        if self._options.summary is None and not self._is_rendered:
            return Put(slice_read.shown_part, slice_read.tokens)
        history_part, tokens = slice_read.shown_part, slice_read.tokens
        summary, summary_tokens = None, 0
        if self._options.summary is not None:
            summary = sources.summarised(self._options.summary, self.index, slice_read)
            if summary is not None:
                summary_tokens = self._count(summary.content)
                tokens += summary_tokens
        rendered, rendered_tokens = self._rendered(slice_read, summary, root)
        if rendered is not None:
            tokens = rendered_tokens
        part = history_part
        if summary is not None or rendered is not None:
            part = msgspec.structs.replace(
                history_part,
                summary=summary,
                summary_tokens=summary_tokens,
                rendered=rendered,
                rendered_tokens=rendered_tokens,
            )
        return Put(part, tokens)

    def _rendered(
        self, slice: Slice, summary: Message | None, root: Root
    ) -> tuple[Message | None, int]:
        if not self._is_rendered:
            return None, 0
        messages = slice.messages()
        if summary is not None:
            messages.insert(0, summary)
        if not messages:
            return None, 0
        if self._options.as_ == "json":
            content = rendering.json_text(messages)
        else:
            content = rendering.conversation_text(messages)
        content = self.section.framed(content, root)
        message = Message(self.section.role, content, section=self.section.name)
        return message, self._count(content)


_Single: TypeAlias = _TextEntry | _CurrentEntry | _HistoryEntry


# Messages of a context, made only when a matcher or a function needs them


class ContextMessages(msgspec.Struct, frozen=True):
    """The messages of one context."""

    parts: Sequence[Part]
    own: tuple[Message, ...]
    """The run's own messages."""
    history: Callable[[HistoryPart], list[Message]]
    """Returns the messages that a part shows."""

    def sections(self) -> dict[str, list[Message]]:
        """Return the messages of each section."""
        by_name: dict[str, list[Message]] = {}
        for part in self.parts:
            if isinstance(part, InlinePart):
                for piece in part.pieces:
                    piece_message = replace(
                        part.message, content=piece.content, section=piece.section
                    )
                    by_name.setdefault(piece.section, []).append(piece_message)
                if part.pieces:
                    continue
            by_name.setdefault(part.section, []).extend(self._of(part))
        if self.own:
            by_name["run"] = [replace(message, section="run") for message in self.own]
        return by_name

    def messages(self) -> list[Message]:
        """Return all messages in order."""
        all_messages: list[Message] = []
        for part in self.parts:
            all_messages.extend(self._of(part))
        return [*all_messages, *(replace(message, section="run") for message in self.own)]

    def _of(self, part: Part) -> list[Message]:
        if isinstance(part, InlinePart):
            return [part.message]
        if part.rendered is not None:
            return [part.rendered]
        shown_messages = [replace(message, section=part.section) for message in self.history(part)]
        return [part.summary, *shown_messages] if part.summary is not None else shown_messages
