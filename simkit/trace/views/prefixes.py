"""How an agent's call differs from its call before: by text, and by messages.

The prefix of a request is the front that equals the request before.

A provider's cache reuses the work on a request up to the first difference from an earlier one. A
provider reads the tools first, then the schema of the answer, then the messages; another model
shares no cache. Tokens are estimates: those of messages are the pipeline's count, in proportion
where a message is equal in part; all else has one for every four characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, islice, takewhile, zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from simkit.core.messages import JsonValue, Message
from simkit.core.text import parted_at, short_both
from simkit.language.matching.values import ToolName
from simkit.language.paths import as_text
from simkit.trace.events import InlinePart
from simkit.trace.views.contexts import INSTRUCTIONS, ContextView, HistoryView

if TYPE_CHECKING:
    from simkit.trace.views.turns_and_calls import CallView
    from simkit.trace.views.view import View


AROUND: Final = 60
"""The characters that are shown around the first difference."""
Place: TypeAlias = Literal["", "model", "tools", "output", "instructions", "messages"]


class Prefix(NamedTuple):
    """The front of a request that equals the request before."""

    tokens: int
    total: int
    """The tokens of the whole request."""
    messages: int
    """The number of whole messages in it."""
    place: Place = ""
    """The part with the first difference; empty if the request goes on with all of the other."""
    place_index: int = 0
    """The index of the first message, or tool, that differs."""
    at: int = 0
    """The index of the first character in it that differs."""
    section: str = ""
    """The section of the first message that differs."""
    before: str = ""
    """The text around the first difference in the request before."""
    after: str = ""
    """The same in this one."""

    @property
    def share(self) -> float:
        """Return its share of the request's tokens, rounded down to four places."""
        return 10_000 * self.tokens // self.total / 10_000 if self.total else 1.0

    @property
    def where(self) -> str:
        """Return the words for the place of the first difference."""
        if self.place in ("model", "output"):
            return {"model": "the model", "output": "the schema of the answer"}[self.place]
        if self.place == "tools":
            return f"the tools, `tools[{self.place_index}]`"
        noun = "the instructions" if self.place == INSTRUCTIONS else "the messages"
        section = f" of section {self.section}" if self.section not in ("", INSTRUCTIONS) else ""
        return f"{noun}, `messages[{self.place_index}]`{section} at character {self.at + 1}"


class _Item(NamedTuple):
    """One message of a context."""

    message: Message
    tokens: int
    part: InlinePart | HistoryView | None
    """The part of the context; None for the run's own messages."""


def prefix_of(context: ContextView) -> Prefix | None:
    """Return the front that equals the agent's request before; None for its first in a session."""
    return None if context.before is None else prefix_between(context.before, context)


def prefix_between(old: ContextView, context: ContextView) -> Prefix:
    """Return the front of a request that equals an earlier one."""
    total = tokens_of(context)
    model, old_model = _setting(context, "model"), _setting(old, "model")
    if model != old_model:
        return Prefix(0, total, 0, "model", before=str(old_model), after=str(model))
    front = _equal_tools(old, context)
    size = sum(map(_tool_tokens, context.offers[:front]))
    if front < max(len(old.offers), len(context.offers)):
        before, after = _texts_of_tools(old.offers, context.offers, front)
        return Prefix(size, total, 0, "tools", front, before=before, after=after)
    output, old_output = (_setting(each, "output") for each in (context, old))
    if output != old_output:
        before, after = short_both(as_text(old_output), as_text(output), AROUND)
        return Prefix(size, total, 0, "output", before=before, after=after)
    return _of_messages(old, context, size + _estimate(output), total)


def tokens_of(context: ContextView) -> int:
    """Return the tokens of a whole request: tools, the schema of the answer and messages."""
    tools = sum(map(_tool_tokens, context.offers))
    return tools + _estimate(_setting(context, "output")) + context.tokens


def tokens_before(context: ContextView, messages: int, characters: int) -> int:
    """Return the tokens before a place: tools, whole messages and characters of the next one."""
    size = tokens_of(context) - context.tokens
    for index, item in enumerate(islice(_items(context), messages + 1)):
        length = len(item.message.content) or 1
        size += item.tokens if index < messages else item.tokens * min(characters, length) // length
    return size


def _of_messages(old: ContextView, context: ContextView, size: int, total: int) -> Prefix:
    """Compare the messages; ``size`` are the tokens before them, which are equal."""
    count, tokens, olds, news = _fast_forward(old, context)
    for was, now in zip_longest(olds, news):
        if was is None or now is None:
            break
        if not _is_same(was.message, now.message):
            return _parted(was, now, context, Prefix(size + tokens, total, count))
        count, tokens = count + 1, tokens + now.tokens
    return Prefix(size + tokens, total, count)


def _parted(was: _Item, now: _Item, context: ContextView, equal: Prefix) -> Prefix:
    """Return the prefix that ends in a message; ``equal`` are the messages before it."""
    old, new, index = was.message, now.message, equal.messages
    at = parted_at(old.content, new.content) if old.role == new.role else 0
    is_named = context.named is not None
    section = context.sectioned()[index].section if is_named else _section_at(now, at)
    messages = context.messages
    is_front = all(messages[position].role == "system" for position in range(index + 1))
    is_told = is_front and section in ("", INSTRUCTIONS)
    before, after = short_both(_text_of(old), _text_of(new), AROUND)
    tokens = now.tokens * at // len(new.content) if at else 0
    return equal._replace(
        tokens=equal.tokens + tokens,
        place=INSTRUCTIONS if is_told else "messages",
        place_index=index,
        at=at,
        section=section,
        before=before,
        after=after,
    )


def _fast_forward(
    old: ContextView, new: ContextView
) -> tuple[int, int, Iterator[_Item], Iterator[_Item]]:
    """Return how many messages and tokens are plainly equal, and the messages after these.

    Parts that both have are plainly equal, and so are settled messages of one stream. A growing
    conversation costs what is new in it.
    """
    count = tokens = index = 0
    skipped = 0
    for was, now in zip(old.parts, new.parts, strict=False):
        if isinstance(was, HistoryView) and isinstance(now, HistoryView):
            shared = _settled(was, now)
            if shared is None:
                break
            size = shared - now.lo
            count += size + (now.summary is not None)
            tokens += now.stream.size(now.lo, shared) + now.summary_tokens
            if shared < was.hi + len(was.tail) or shared < now.hi + len(now.tail):
                skipped = size + (now.summary is not None)
                break
        elif isinstance(was, InlinePart) and isinstance(now, InlinePart):
            if not _is_same(was.message, now.message):
                break
            count, tokens = count + 1, tokens + now.tokens
        else:
            break
        index += 1
    return count, tokens, _items(old, index, skipped), _items(new, index, skipped)


def _settled(was: HistoryView, now: HistoryView) -> int | None:
    """Return the index up to which two parts show the same settled messages; None if unknown."""
    is_plain = was.rendered is None and now.rendered is None and was.summary == now.summary
    if not is_plain or was.stream is not now.stream or was.lo != now.lo:
        return None
    shared = min(was.hi, now.hi)
    return shared if shared >= now.lo else None


def _items(context: ContextView, first: int = 0, skipped: int = 0) -> Iterator[_Item]:
    """Yield the messages of the parts from an index on, without the first ones."""
    parts = context.parts[first:]
    yield from chain.from_iterable(
        _items_of(part, skipped if index == 0 else 0) for index, part in enumerate(parts)
    )
    for message, tokens in zip(context.own_messages, context.said_tokens, strict=True):
        yield _Item(message, tokens, None)


def _items_of(part: InlinePart | HistoryView, skipped: int) -> Iterator[_Item]:
    if isinstance(part, InlinePart):
        yield _Item(part.message, part.tokens, part)
        return
    for index in range(skipped, len(part)):
        yield _Item(part.message(index), part.tokens_at(index), part)


def _is_same(old: Message, new: Message) -> bool:
    """Return whether a model reads the same of two messages."""
    return old is new or (
        (old.role, old.content, old.tool) == (new.role, new.content, new.tool)
        and old.calls == new.calls
        and old.data == new.data
    )


def _text_of(message: Message) -> str:
    calls = (f"{call.name} {as_text(call.args)}" for call in message.calls)
    return " ".join(filter(None, (message.content, *calls)))


def _section_at(item: _Item, at: int) -> str:
    """Return the section that made a character of a message."""
    part = item.part
    if not isinstance(part, InlinePart) or not part.pieces:
        return part.section if part is not None else "run"
    whole = part.message.content
    ends = ((whole.find(each.content) + len(each.content), each.section) for each in part.pieces)
    return next((section for end, section in ends if end > at), part.pieces[-1].section)


# Tools, settings


def _setting(context: ContextView, name: str) -> JsonValue:
    return (context.settings or {}).get(name)


def _estimate(value: JsonValue) -> int:
    return 0 if value is None else (len(as_text(value)) + 3) >> 2


def _definition(tool: str) -> tuple[Any, ...]:
    return tool.__getnewargs__() if isinstance(tool, ToolName) else (tool,)


def _words_of(tool: str) -> str:
    return " ".join(as_text(part) for part in _definition(tool) if part not in (None, "", False))


def _tool_tokens(tool: str) -> int:
    return (len(_words_of(tool)) + 3) >> 2


def _equal_tools(old: ContextView, new: ContextView) -> int:
    pairs = zip(old.offers, new.offers, strict=False)
    return sum(
        1 for _ in takewhile(lambda pair: _definition(pair[0]) == _definition(pair[1]), pairs)
    )


def _texts_of_tools(old: Sequence[str], new: Sequence[str], at: int) -> tuple[str, str]:
    """Return what stands where the tools differ: other names, or another definition."""
    if at < min(len(old), len(new)) and str(old[at]) == str(new[at]):
        return short_both(_words_of(old[at]), _words_of(new[at]), AROUND)
    return short_both(", ".join(old[at:]), ", ".join(new[at:]), AROUND)


# The cost of a broken prefix


class Repeated(NamedTuple):
    """The tokens behind the first difference that the request before had, too."""

    tokens: int
    of_front: int
    """Those of tools and instructions."""
    is_intact: bool
    """Whether all messages behind it come again, so that nothing was left out on purpose."""


def repeated_behind(old: ContextView, context: ContextView, prefix: Prefix) -> Repeated:
    """Return what stands behind the end of a prefix in both requests."""
    tools = _repeated_tools(old, context, prefix) if prefix.place == "tools" else 0
    olds, news = ([*_items(each)][prefix.messages :] for each in (old, context))
    front = tokens = 0
    if _is_changed(olds, news):
        first = news[0].message
        is_reached = prefix.place in (INSTRUCTIONS, "messages")
        tokens = _tokens_of_ends(olds.pop(0), news.pop(0), not is_reached)
        front = tokens if first.role == "system" else 0
    unmatched = Counter(map(_key, olds))
    for item in news:
        key = _key(item)
        if unmatched[key] > 0:
            unmatched[key] -= 1
            tokens += item.tokens
            front += item.tokens if item.message.role == "system" else 0
    return Repeated(tools + tokens, tools + front, not unmatched.total())


def _repeated_tools(old: ContextView, new: ContextView, prefix: Prefix) -> int:
    unmatched = Counter(map(_words_of, old.offers[prefix.place_index :]))
    tokens = 0
    for tool in new.offers[prefix.place_index :]:
        words = _words_of(tool)
        if unmatched[words] > 0:
            unmatched[words] -= 1
            tokens += _tool_tokens(tool)
    return tokens


def _is_changed(olds: Sequence[_Item], news: Sequence[_Item]) -> bool:
    """Return whether the first message has another text, and was not put in front of the other."""
    if not olds or not news or olds[0].message.role != news[0].message.role:
        return False
    return not (_holds(news[1:], olds[0]) or _holds(olds[1:], news[0]))


def _tokens_of_ends(old: _Item, new: _Item, with_start: bool) -> int:
    """Return the tokens of the common end of two messages, or of their common start, too."""
    was, now = old.message.content, new.message.content
    at = parted_at(was, now)
    size = min(parted_at(was[::-1], now[::-1]), min(len(was), len(now)) - at)
    return new.tokens * (size + (at if with_start else 0)) // len(now) if now else 0


def _holds(items: Sequence[_Item], item: _Item) -> bool:
    return any(_is_same(each.message, item.message) for each in items)


def _key(item: _Item) -> Hashable:
    message = item.message
    return message.role, message.content, message.tool, tuple(call.id for call in message.calls)


# Relations: the messages of a call, and those of the last call in an earlier turn


RelationKind: TypeAlias = Literal["continued", "windowed", "filtered", "summarised", "restarted"]
"""*continued*: all that it was sent and said is there; *windowed*: the oldest messages are missing;
*filtered*: others are missing; *summarised*: some are missing, and a new text is there;
*restarted*: nothing is there."""


class Relation(NamedTuple):
    """The first call of an agent in a turn, against its last call in an earlier turn."""

    kind: RelationKind
    turn: int
    """The earlier turn."""
    missing: tuple[Message, ...] = ()
    """The messages that the agent was sent or said there, and is not sent now."""
    rest: tuple[Message, ...] = ()
    """Those that it is sent now."""
    new: tuple[Message, ...] = ()
    """The messages since then, without the user's and the agent's own."""
    is_declared: bool = False
    """Whether a filter, a window or a summary was seen."""


class Relations:
    """The last call of each agent in each session; reads each call once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._last: dict[tuple[str, str], CallView] = {}

    def add(self, call: CallView) -> Relation | None:
        """Take the next call into account; return its relation if it is its turn's first one."""
        turn = self._view.turns[-1]
        key = turn.session, call.agent
        last, self._last[key] = self._last.get(key), call
        if last is None or last.turn == call.turn:
            return None
        before, now = _messages_of(last), _messages_of(call)
        if last.reply is not None:
            before[last.reply.number] = last.reply
        missing = tuple(message for number, message in before.items() if number not in now)
        rest = tuple(message for number, message in before.items() if number in now)
        first = turn.message.number if turn.message is not None else 0
        newest = max(before, default=0)
        new = tuple(each for number, each in now.items() if number > newest and number != first)
        is_declared = any(
            part.cuts_hi or part.tail_cuts or part.summary is not None
            for part in call.context.histories()
        )
        kind = _kind_of(missing, rest, new, call.agent)
        return Relation(kind, last.turn, missing, rest, new, is_declared)


def _kind_of(
    missing: Sequence[Message], rest: Sequence[Message], new: Iterable[Message], agent: str
) -> RelationKind:
    if not missing:
        return "continued"
    if any(not each.call_id and each.agent in (None, agent) for each in new):
        return "summarised"
    if not rest:
        return "restarted"
    return "windowed" if missing[-1].number < rest[0].number else "filtered"


def _messages_of(call: CallView) -> dict[int, Message]:
    parts = call.context.parts
    messages = [
        part.entries() if isinstance(part, HistoryView) else [part.message] for part in parts
    ]
    logged = chain(*messages, call.context.own_messages)
    return dict(sorted({each.number: each for each in logged if each.id}.items()))


def shows_past(view: View) -> bool:
    """Return whether a request of a turn has a message of an earlier one.

    A user's message does not show it: a text or a task that repeats an earlier one is taken for it.
    """
    return any(
        message.role not in ("system", "user") and 0 < message.number < turn.message.number
        for turn in view.turns[1:]
        if turn.message is not None
        for call in turn.calls
        for message in call.context.messages
    )
