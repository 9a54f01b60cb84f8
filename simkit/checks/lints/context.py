"""Lints on one context: its instructions, budget, current message, and irrelevant share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, first_of, lint
from simkit.core.messages import Message
from simkit.core.text import short_end
from simkit.trace import events as e
from simkit.trace.views import CallView, HistoryView, StreamView, View

WARNED_SHARE: Final = 0.8
"""The share of a budget from which CTX-10 warns."""


LINE_MIN: Final = 12
"""The length from which the first line of instructions is no mere heading."""


@lint("CTX-03", e.ContextBuilt)
def wrong_instructions(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-03: a context has exactly one instructions block, and it is the calling agent's.

    A block is the message of section ``instructions`` (alone, or as its piece of a shared message),
    or, if the recipe renames that section, a made message that carries an agent's name. Its text
    must contain the declared instructions; a title or a note around them is allowed, and
    instructions with references (``${…}``) are not compared. An agent without instructions must
    have no block. Later calls of a run repeat its first parts and are not checked again.

    In contexts of code, the lint finds a block of another agent if an adapter knows both agents'
    instructions word for word: a history that was handed over with the first agent's prompt in it.
    It reports each pair of a turn once. Seen in pydantic-ai#885 and #1032.
    """
    agent = facts.pipeline.agents.get(event.agent)
    if event.base or agent is None:
        return ()
    declared = agent.instructions
    if "sections" not in facts.pipeline.observes:
        return _instructions_of_others(event, declared, facts)
    if _is_plain(event.parts, event.agent, declared):
        return ()
    wrong = _wrong_in(_instructions_in(event.parts), event.agent, declared)
    if not wrong:
        return ()
    problem = f"agent {event.agent!r} {wrong} in turn {event.turn}"
    return (Hit.at("CTX-03", facts.view.calls[event.call], problem),)


def _instructions_of_others(event: e.ContextBuilt, own: str, facts: Facts) -> Iterator[Hit]:
    """Search for other agents' instructions among the system messages of code."""
    if not _is_whole(own):
        return
    call = facts.view.calls[event.call]
    blocks: set[str] = set()
    for message in call.context.messages:
        if message.role == "system":
            blocks |= {message.content.strip(), *message.content.strip().split("\n\n")}
    for name, agent in facts.pipeline.agents.items():
        text = agent.instructions.strip()
        if name == event.agent or not _is_whole(text) or text in own or text not in blocks:
            continue
        if facts.is_new("CTX-03", event.turn, event.agent, name):
            own_text = "" if own.strip() in blocks else ", and not its own"
            problem = (
                f"agent {event.agent!r} is sent the instructions of {name!r}{own_text} in turn "
                f"{event.turn}: {_excerpt(text)}"
            )
            yield Hit.at("CTX-03", call, problem)


@lint("CTX-03", e.ContextBuilt, when="is_code")
def instructions_twice(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """Find system messages that begin with the same text twice, whatever follows.

    Code has put the instructions before messages that hold them already, or behind what was said.
    After the last message they may remind of the first ones. Seen in OpenManus#1272, inspect_swe#64
    and ursa#331.
    """
    messages = facts.view.calls[event.call].context.messages
    last = max((at for at, each in enumerate(messages) if each.role != "system"), default=None)
    text = "\n".join(each.content for each in messages[:last] if each.role == "system")
    line = text.lstrip().partition("\n")[0]
    again = text.find(line, text.find(line) + 1) if len(line) >= LINE_MIN else -1
    block = text[: max(again, 0)].strip()
    if block and text.startswith(block, again) and facts.is_new("CTX-03", event.agent, block):
        problem = f"agent {event.agent!r} is sent its instructions twice: {_excerpt(block)}"
        yield Hit.at("CTX-03", facts.view.calls[event.call], problem, is_warning=True)


def _is_whole(instructions: str) -> bool:
    """Return whether an agent's instructions are known word for word."""
    return bool(instructions) and "${" not in instructions and "{" not in instructions


def _is_plain(parts: Sequence[e.Part], agent: str, declared: str) -> bool:
    """Return whether the instructions appear as usual: once, word for word, alone."""
    blocks = 0
    for part in parts:
        if type(part) is e.InlinePart:
            message = part.message
            if part.section == "instructions":
                if part.pieces or message.content != declared or message.agent != agent:
                    return False
                blocks += 1
            elif part.pieces or message.agent is not None:
                return False
    return blocks == 1


def _wrong_in(blocks: Sequence[tuple[str | None, str]], agent: str, declared: str) -> str:
    """Return what is wrong with the instructions blocks; empty if nothing is."""
    if not declared:
        return f"has no instructions, but is sent {_excerpt(blocks[0][1])}" if blocks else ""
    if not blocks:
        return "is sent no instructions"
    if len(blocks) > 1:
        return f"is sent {len(blocks)} instructions blocks"
    ((author, text),) = blocks
    if author is not None and author != agent:
        return f"is sent the instructions of {author!r}"
    if text == declared or declared in text or "${" in declared:
        return ""
    return f"is sent other instructions than its own: {_excerpt(text)}"


def _instructions_in(parts: Sequence[e.Part]) -> list[tuple[str | None, str]]:
    """Return agent and text of every instructions block."""
    blocks: list[tuple[str | None, str]] = []
    for part in parts:
        if type(part) is not e.InlinePart:
            continue
        message = part.message
        if part.pieces:
            named = [p.content for p in part.pieces if p.section == "instructions"]
            if not named and message.agent is not None and not message.id:
                named = [message.content]
            blocks += [(message.agent, text) for text in named if text]
        elif message.content and (part.section == "instructions" or _is_spoken_for(part)):
            blocks.append((message.agent, message.content))
    return blocks


def _is_spoken_for(part: e.InlinePart) -> bool:
    """Return whether a made message carries an agent's name: instructions and summaries do."""
    message = part.message
    return message.agent is not None and not message.id and part.section != "summary"


def _excerpt(text: str) -> str:
    return repr(short_end(text, SHOWN_MAX))


@lint("CTX-10", e.ContextBuilt)
def over_budget(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-10: a context stays within its token budget; a warning from 80 % of it on.

    The budget is ``limits: context_tokens``. Seen in agent-framework#7744.
    """
    budget, tokens = event.budget, event.tokens
    if not budget or tokens < WARNED_SHARE * budget:
        return
    is_over = tokens > budget
    problem = (
        f"agent {event.agent!r} is sent {tokens} tokens in turn {event.turn}, "
        f"{'more than' if is_over else f'{100 * tokens // budget} % of'} its budget of {budget}"
    )
    call, is_warning = facts.view.calls[event.call], not is_over
    yield Hit.at("CTX-10", call, problem, is_warning=is_warning, tokens=tokens, budget=budget)


@lint("CTX-16", e.ContextBuilt)
def current_message_twice(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-16: the user's current message appears at most once in a context.

    The message is recognized by its id, so that a user may repeat the same words. Requests of code
    have no ids: what they show as often as the user of the session said it is right. Pieces of one
    shared message count once. Later calls of a run repeat its first parts and are not checked
    again. From reference system 1, where ``messages`` and ``current_message`` both contained it.
    """
    current = facts.view.turns[-1].message
    if event.base or current is None or not current.id:
        return
    identity = current.id
    call = facts.view.calls[event.call]
    sections: list[str] = []
    for part in call.context.parts:
        if type(part) is HistoryView:
            sections += [part.section] * _times_shown(part, identity, event.turn)
        elif identity in (part.message.id, f"m{part.of}"):
            sections.append(part.section)
    if len(sections) < 2 or (facts.pipeline.is_code and _is_as_often_said(call, facts.view)):
        return
    # Contexts of code have no sections, unless its file names them.
    through = f": through {', '.join(sections)}" if all(sections) else ""
    problem = (
        f"agent {event.agent!r} is sent the user's message {identity} {len(sections)} times "
        f"in turn {event.turn}{through}"
    )
    yield Hit.at("CTX-16", call, problem, sections=list(sections))


def _is_as_often_said(call: CallView, view: View) -> bool:
    """Return whether a context shows the user's words no more often than the session's user.

    A message before an answer that no model of the run gave is an example in the prompt.
    """
    turn = view.turns[-1]
    text = turn.message.content if turn.message is not None else ""
    times = sum(
        other.message is not None and other.message.content == text
        for other in view.turns
        if other.session == turn.session and other.resumes is None
    )
    messages: list[Message] = [*call.context.messages]
    followers: list[Message | None] = [*messages[1:], None]
    appearances = [
        message
        for message, then in zip(messages, followers, strict=True)
        if message.role == "user" and message.content == text
        if then is None or then.role != "assistant" or then.agent
    ]
    return len(appearances) <= times


def _times_shown(part: HistoryView, identity: str, turn: int) -> int:
    """Return how often the current turn's part of a history shows a message."""
    times = 0
    hi, lo = part.hi, part.lo
    if part.tail:
        for index, message in enumerate(part.tail, hi):
            if message.id == identity and index >= lo:
                times += 1
    entries = part.stream.entries
    index = hi - 1
    # A driver may settle a turn that still runs; its messages are then at the end.
    while index >= lo and entries[index].turn == turn:
        if entries[index].id == identity:
            times += 1
        index -= 1
    return times


RECALLED: Final = frozenset({"notes", "memories", "recall"})
"""Sections of recalled items: they count neither as irrelevant nor in the total."""

DEFAULT_SHARE: Final = 0.2


class _Tally:
    """The irrelevant tokens of one stream, as sums over its first k entries."""

    def __init__(self, stream: StreamView) -> None:
        self.stream = stream
        self.sums: list[int] = [0]
        self.last: dict[str, int] = {}
        """Agent outside ``sees`` to the last entry that it caused."""


class _Shares:
    """The irrelevant tokens of all streams."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str], _Tally] = {}
        """Stream and agent to the tokens that are irrelevant to the agent."""
        self._answered: dict[int, frozenset[str]] = {}
        """Ended turn to the agents that ran in it, without the decider."""
        self.names: set[str] = set()
        """The agents that caused what is irrelevant in the newest context."""

    def of_history(
        self, part: HistoryView, agent: str, relevant: frozenset[str], view: View
    ) -> int:
        """Return the irrelevant tokens that a history shows."""
        stream = part.stream
        key = (stream.id, agent)
        tally = self.tallies.get(key)
        if tally is None or tally.stream is not stream:
            tally = self.tallies[key] = _Tally(stream)
        lo, hi = part.lo, part.hi
        sums = tally.sums
        if len(sums) <= hi:
            self._extend(tally, relevant, view)
        tokens = sums[hi] - sums[lo] if lo < hi else 0
        self.names.update(name for name, index in tally.last.items() if index >= lo)
        for index in range(max(0, lo - hi), len(part.tail)):
            author = part.tail[index].agent
            if author is not None and author not in relevant:
                tokens += part.tail_tokens[index]
                self.names.add(author)
        return tokens

    def _extend(self, tally: _Tally, relevant: frozenset[str], view: View) -> None:
        """Add the stream's new messages to the sums."""
        sums = tally.sums
        entries, tokens = tally.stream.entries, tally.stream.tokens
        total = sums[-1]
        for index in range(len(sums) - 1, len(entries)):
            causes = self._causes_of(entries[index], view)
            if causes and causes.isdisjoint(relevant):
                tally.last.update(dict.fromkeys(causes, index))
                total += tokens[index]
            sums.append(total)

    def _causes_of(self, message: Message, view: View) -> frozenset[str]:
        """Return its author; of the user's message, the agents that ran in its turn."""
        if message.agent is not None or message.role != "user":
            return frozenset(filter(None, [message.agent]))
        turn = message.turn
        if turn not in self._answered:
            runs = view.turns[turn - 1].runs if 0 < turn <= len(view.turns) else ()
            decider = view.pipeline.decider
            self._answered[turn] = frozenset(run.agent for run in runs if run.agent != decider)
        return self._answered[turn]


@lint("CTX-11", e.ContextBuilt, when="has_sees")
def irrelevant_share(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-11: the share of a context that other agents caused stays under its limit.

    Irrelevant are the messages of agents outside the agent's ``sees`` (its own are relevant), and
    the user's messages of earlier turns in which, apart from the router's decider, only such agents
    ran. Recalled items (sections ``notes``, ``memories``, ``recall``) do not count. The limit is
    ``limits: irrelevant_share``, 20 % by default; an agent without ``sees`` is never reported. From
    reference system 1, "Potential issues", and adk#4070.
    """
    agent = event.agent
    pipeline, view, shares = facts.pipeline, facts.view, facts.notes_of(_Shares)
    if agent not in pipeline.agents or pipeline.agents[agent].sees is None:
        return
    relevant = frozenset((agent, *(pipeline.agents[agent].sees or ())))
    call = view.calls[event.call]
    irrelevant, total = 0, event.tokens
    shares.names.clear()
    for part in call.context.parts:
        if type(part) is HistoryView:
            irrelevant += shares.of_history(part, agent, relevant, view)
        elif part.pieces:
            total -= sum(p.tokens for p in part.pieces if p.section in RECALLED)
        elif part.section in RECALLED:
            total -= part.tokens
        else:
            author = part.message.agent
            if author is not None and author not in relevant:
                irrelevant += part.tokens
                shares.names.add(author)
    if not irrelevant:
        return
    limit = pipeline.limits.get("irrelevant_share", DEFAULT_SHARE)
    if irrelevant <= limit * total:
        return
    share = irrelevant / total
    agents = sorted(shares.names)
    problem = (
        f"{round(100 * share)} % of what agent {agent!r} is sent in turn {event.turn} comes "
        f"from agents outside its `sees`: {', '.join(agents)} "
        f"(the limit is {round(100 * limit)} %)"
    )
    yield Hit.at("CTX-11", call, problem, share=round(share, 2), agents=agents)


class _Filtered(dict[tuple[str, str], dict[int, tuple[str, int]]]):
    """Session and agent to the messages that a filter dropped: its name, and the turn."""


@lint("CTX-17", e.ContextBuilt, when="is_code")
def filtered_comes_back(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-17: a message that a filter dropped from a context does not come back in a later one.

    The lint finds a message that one of the agent's contexts lost to a filter, and that a later
    context shows while the same filter dropped nothing there: the filter was applied once, and the
    conversation continues from before it. In declared pipelines each context is filtered again.
    Seen in openai-agents#2258, where ``to_input_list()`` brings back what a nested handoff has
    summarized.
    """
    if _Filtered not in facts.notes and not any(
        type(part) is e.HistoryPart and (part.cuts or part.tail_cuts) for part in event.parts
    ):
        return  # Before a filter has dropped anything, nothing can come back.
    call = facts.view.calls[event.call]
    cuts = facts.notes_of(_Filtered).setdefault((event.session, event.agent), {})
    for (by, turn), ids in _back_in(call, cuts).items():
        problem = (
            f"agent {event.agent!r} is sent {'a message' if len(ids) == 1 else 'messages'} in turn "
            f"{event.turn} that filter `{by}` took out of its context in turn {turn}: "
            f"{first_of(ids)}"
        )
        yield Hit.at("CTX-17", call, problem, filter=by, ids=[*ids])


def _back_in(
    call: CallView, cuts: dict[int, tuple[str, int]]
) -> Mapping[tuple[str, int], list[str]]:
    """Note what filters drop from a context; return what comes back, each message once."""
    new_cuts = [each for each in call.context.dropped() if each.by != "window"]
    now = {each.message.number: (each.by, call.turn) for each in new_cuts}
    filters = {each.by for each in new_cuts}
    back: dict[tuple[str, int], list[str]] = {}
    for message in call.context.messages:
        number = message.number
        if number in cuts and number not in now and cuts[number][0] not in filters:
            back.setdefault(cuts.pop(number), []).append(message.id)
    cuts |= now | cuts
    return back


_UNFILLED: Final = re.compile(
    r"(?m)(?<![\w$\\`{}/])\{\{?\s*[A-Za-z_][\w.]{2,}\s*\}?\}(?![\w`/{}])|\[object Object\]|"
    r"<[\w. <>]+ at 0x[0-9a-f]+>|(?<=: )undefined$|\b(?:named|called|for|dear) None\b"
)
"""A name in braces, an object as a language prints it, or no value where a name belongs."""
_OF_TEMPLATES: Final = re.compile(r"(?i)placeholder|template|```")
"""A text that speaks of templates may show one."""


class _Texts(set[str]):
    """The texts of code that were read."""


@lint("CTX-26", e.ContextBuilt, when="is_code")
def unfilled(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-26: each place of a template has a value.

    Texts that a user, a model or a tool has said may hold what looks like an empty place, and so
    may those that speak of templates. From PydanticAI's and LangChain's prompts, which are filled
    by calls that are easily left out.
    """
    texts, view = facts.notes_of(_Texts), facts.view
    for text in [*_texts_of_code(event, facts)]:
        placeholder = _UNFILLED.search(text) if text not in texts else None
        texts.add(text)
        if placeholder is None or _OF_TEMPLATES.search(text) or _is_said(placeholder[0], facts):
            continue
        line = text[text.rfind("\n", 0, placeholder.start()) + 1 :].partition("\n")[0]
        problem = (
            f"agent {event.agent!r} is sent {placeholder[0]!r} in turn {event.turn}, where a value "
            f"belongs: {_excerpt(line)}"
        )
        yield Hit.at("CTX-26", view.calls[event.call], problem, text=placeholder[0])


def _texts_of_code(event: e.ContextBuilt, facts: Facts) -> Iterator[str]:
    """Yield the prompts of a request, and its new messages that nobody has said."""
    for part in event.parts:
        numbers = part.tail if type(part) is e.HistoryPart else ()
        messages = [part.message] if type(part) is e.InlinePart else []
        messages += [facts.view.messages[each] for each in numbers if facts.writers.get(each)]
        yield from (each.content for each in messages if each.role in ("system", "user"))


def _is_said(text: str, facts: Facts) -> bool:
    """Return whether a user, a model or a tool has said it."""
    messages = facts.view.messages.values()
    own = (each for each in messages if each.role != "user" or not facts.writers.get(each.number))
    return any(text in each.content for each in own)
