"""The parts of a context in ContextBuilt: shown histories, made messages, and what is left out."""

from __future__ import annotations

from typing import TypeAlias, final

import msgspec

from simkit.core.messages import Message


class Piece(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One section's text in a message that several sections share."""

    section: str
    content: str
    tokens: int = 0


class Cut(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A message, or a part of one, that a filter dropped from a history."""

    message: int
    by: str
    what: str = "message"
    """``message``, ``tool_calls``, or ``content`` (``becomes`` is then the new content)."""
    saved: int = 0
    """The number of tokens saved."""
    becomes: Message | None = None


class Shown(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="shown"):
    """A range of a filtered history.

    A stream is the result of one agent's filters on a log, in order. Finished turns are settled:
    ``kept`` and ``cuts`` are added to the settled part once, by the first event after the turn,
    however many contexts show it. ``tail`` and ``tail_cuts`` belong to the current turn, whose
    messages are filtered again each time. The context shows settled + tail from index ``lo`` on;
    the window dropped the messages before ``lo``.
    """

    section: str
    stream: str
    lo: int = 0
    kept: tuple[int, ...] = ()
    cuts: tuple[Cut, ...] = ()
    tail: tuple[int, ...] = ()
    tail_cuts: tuple[Cut, ...] = ()
    restarts: bool = False
    """Whether the settled part of the stream is discarded first, because its source was
    replaced."""
    summary: Message | None = None
    """The message in place of those that the window dropped."""
    summary_tokens: int = 0
    rendered: Message | None = None
    """The one message that the context shows instead (``as: text`` and ``as: json``)."""
    rendered_tokens: int = 0


@final
class Made(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="made"):
    """A message that was made for one context."""

    section: str
    message: Message
    tokens: int = 0
    pieces: tuple[Piece, ...] = ()
    of: int = 0
    """The number of the logged message that it shows (the current message); 0 if none."""
    shown: tuple[Shown, ...] = ()
    """The histories that are rendered in its pieces."""


Part: TypeAlias = Made | Shown


class LeftOut(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="items"):
    """Items of a channel that a section read and did not show."""

    section: str
    channel: str
    by: str
    """The first of the section's options that excluded them: ``scopes``, ``since_days``,
    ``time_ranges``, ``tags``, ``threshold``, ``max`` or ``tokens``."""
    places: tuple[tuple[int, int], ...] = ()
    """Their indices in the channel as ranges: first, end."""


class Shortened(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="value"):
    """A value that a section shortened."""

    section: str
    by: str
    """``tokens``, ``preview`` or ``truncate``."""
    channel: str = ""
    """The channel that holds the value; empty if none does."""
    path: str = ""
    """The path of the cut in the value; empty for the whole value."""
    items: int = 0
    """The number of items cut off the end of a list."""
    characters: int = 0
    """The number of characters cut off the end of a text."""


Unshown: TypeAlias = LeftOut | Shortened
