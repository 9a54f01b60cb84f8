"""Lints on the past: what an agent is sent of earlier turns, and the front of requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, first_of, lint, texts_of
from simkit.core.messages import Message
from simkit.core.text import counted, short
from simkit.language.paths import leaves
from simkit.language.recognition import whole_places
from simkit.providers.caching import LEAST, caching_rule
from simkit.trace import events as e
from simkit.trace.views import CallView, ContextView, Relation, Relations, TurnView, View
from simkit.trace.views.contexts import INSTRUCTIONS
from simkit.trace.views.prefixes import Prefix, prefix_between, repeated_behind

_MENTIONED: Final = re.compile(r"\b(?=[\w-]*\d)\w[\w-]{2,}\b")
"""Numbers of orders, invoices and the like."""


class _Past:
    """The relations of calls, agent by agent."""

    def __init__(self) -> None:
        self.relations: Relations | None = None
        self.call = ""
        """The call that was read last."""
        self.relation: Relation | None = None
        """Its relation; None if it is not the first one of its agent in a turn."""
        self.losses: dict[tuple[str, str], tuple[int, frozenset[int]]] = {}
        """Session and agent to the turn in which nothing of the past was there, and what it was."""
        self.kinds: dict[tuple[str, str], str] = {}
        """Session and agent to the kind of its last relation."""
        self.instructions: dict[tuple[str, str], int] = {}
        """Session and agent to the last turn in which it was sent instructions."""


@lint("CTX-21", e.ContextBuilt, when="is_code")
@lint("CTX-23", e.ContextBuilt, when="is_code")
def _relate(event: e.ContextBuilt, facts: Facts) -> None:
    past = facts.notes_of(_Past)
    if past.call != event.call:
        past.relations = past.relations or Relations(facts.view)
        past.call = event.call
        past.relation = past.relations.add(facts.view.calls[event.call])


@lint("CTX-03", e.ContextBuilt, when="is_code")
def instructions_gone(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """Find an agent that was sent instructions before, and now goes on without them.

    Found is a first call of a turn with the user's message and some of the agent's own past, and
    without a system message. A warning, since code may make such calls under one rule. Seen in
    llama_index#17721.
    """
    past, key, turn = facts.notes_of(_Past), (event.session, event.agent), facts.view.turns[-1]
    if any(type(part) is e.Made and part.message.role == "system" for part in event.parts):
        past.instructions[key] = event.turn
    elif key in past.instructions and past.relation is not None and turn.message is not None:
        call = facts.view.calls[event.call]
        last = {each.role: each.number for each in call.context.messages}
        goes_on = any(each.agent == event.agent for each in past.relation.rest)
        if goes_on and "system" not in last and last.get("user") == turn.message.number:
            problem = (
                f"agent {event.agent!r} is sent no instructions in turn {event.turn}, where its "
                f"conversation goes on, and was sent some in turn {past.instructions.pop(key)}"
            )
            yield Hit.at("CTX-03", call, problem, is_warning=True)


@lint("CTX-21", e.ContextBuilt, when="is_code")
def past_changed(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-21: what an agent is sent of the past agrees with what it was sent before.

    The first call of an agent in a turn is compared with its last call in an earlier turn of the
    session. It may continue, begin again, lose the oldest messages, or have a new text in their
    place; filters and windows that were seen may drop anything, and so may writes to the state.
    Found are a turn that is missing between older and newer ones, and a past that was gone for one
    turn. Seen in pydantic-ai#2888 and unsloth#10009.
    """
    past, view = facts.notes_of(_Past), facts.view
    relation, call = past.relation, view.calls[event.call]
    if relation is None:
        return
    key = event.session, event.agent
    kind_before, past.kinds[key] = past.kinds.get(key, "continued"), relation.kind
    if key in past.losses and relation.kind != "restarted":
        yield from _come_back(call, *past.losses.pop(key))
    if relation.kind == "restarted" and key not in past.losses:
        past.losses[key] = event.turn, frozenset(each.number for each in relation.missing)
    if relation.kind != "filtered" or relation.is_declared or not _is_sent_on(relation, view):
        return
    if _has_failed(view.turns[relation.turn - 1]):
        return
    if kind_before == "continued" and (problem := _with_a_hole(relation, event)):
        ids = [message.id for message in relation.missing]
        yield Hit.at("CTX-21", call, problem, earlier_turn=relation.turn, ids=ids)


def _has_failed(turn: TurnView) -> bool:
    """Return whether a turn, or its last model call, failed: code may leave it out on purpose."""
    return turn.error is not None or (bool(turn.calls) and turn.calls[-1].reply is None)


def _come_back(call: CallView, turn: int, lost: frozenset[int]) -> Iterable[Hit]:
    """Report a past that a later turn shows again: nobody has begun a new conversation."""
    # A user may say the same words again, which then have the same number.
    back = sorted(lost & {each.number for each in call.context.messages if each.role != "user"})
    if back:
        problem = (
            f"agent {call.agent!r} is sent nothing of the turns before in turn {turn}; in turn "
            f"{call.turn} it is sent them again: {first_of([f'm{number}' for number in back])}"
        )
        yield Hit.at("CTX-21", call, problem, earlier_turn=turn, ids=[f"m{n}" for n in back])


def _is_sent_on(relation: Relation, view: View) -> bool:
    """Return whether the messages are still in the conversation, as far as a driver sees it."""
    channel = view.pipeline.conversation
    if "state" not in view.pipeline.observes or not channel:
        return True
    value = view.turns[-1].state_before.get(channel)
    items = value if isinstance(value, (list, tuple)) else ()
    numbers = {item.number for item in items if isinstance(item, Message)}
    return all(message.number in numbers for message in relation.missing)


def _bare_answer(relation: Relation, event: e.ContextBuilt) -> Message | None:
    """Return the agent's answer that is there without the tool calls that it rests on."""
    results = [each for each in relation.missing if each.call_id and each.turn == relation.turn]
    answers = [
        each
        for each in relation.rest
        if each.role == "assistant" and each.agent == event.agent and not each.calls
    ]
    if not results or not answers or answers[-1].turn != relation.turn:
        return None
    return answers[-1] if results[-1].number < answers[-1].number else None


class _BareAnswers(dict[str, Message]):
    """Run to the answer of an earlier turn that it is sent without the tool calls behind it."""


@lint("CTX-23", e.ContextBuilt, when="is_code")
def _note_bare_answer(event: e.ContextBuilt, facts: Facts) -> None:
    relation = facts.notes_of(_Past).relation
    if relation is None or relation.kind != "filtered" or relation.is_declared:
        return
    answer = _bare_answer(relation, event)
    if answer is not None and _is_sent_on(relation, facts.view):
        facts.notes_of(_BareAnswers)[event.run] = answer


@lint("CTX-23", e.AgentFinished, when=_BareAnswers)
def answer_imitated(event: e.AgentFinished, facts: Facts) -> Iterable[Hit]:
    """CTX-23: an agent does not answer without a tool call as it has answered after one.

    It is sent its own answer of an earlier turn, and not the calls and results that it rests on.
    That alone is a design; found is an agent that then says much the same, at least half of the
    words, and calls no tool. Seen in home-generative-agent#588.
    """
    earlier, run = facts.notes_of(_BareAnswers).pop(event.run, None), facts.view.runs[event.run]
    if earlier is None or not isinstance(event.output, str) or not run.calls:
        return
    if any(message.calls for message in run.messages) or not run.calls[0].context.tools:
        return
    words, before = (set(text.casefold().split()) for text in (event.output, earlier.content))
    if 2 * len(words & before) < len(words | before):
        return
    problem = (
        f"agent {event.agent!r} is sent in turn {event.turn} its answer of turn {earlier.turn} "
        f"without the tool calls behind it, and answers alike without a call: "
        f"{short(event.output, SHOWN_MAX)!r}"
    )
    yield Hit.at("CTX-23", run.calls[0], problem, earlier_turn=earlier.turn)


def _with_a_hole(relation: Relation, event: e.ContextBuilt) -> str:
    """Return that a turn is missing, though an older one is there; "" if not."""
    lost = {each.turn for each in relation.missing} - {each.turn for each in relation.rest}
    # A task may repeat earlier words, which then have the same number.
    turns_there = [each.turn for each in relation.rest if each.role != "user"]
    turns = sorted(turn for turn in lost if any(number < turn for number in turns_there))
    if not turns:
        return ""
    return (
        f"agent {event.agent!r} is sent in turn {event.turn} nothing of turn "
        f"{' and '.join(map(str, turns))}, and turn {min(turns_there)} before it is there"
    )


class _Authors(dict[tuple[str, str], tuple[str, int]]):
    """Session and text to its author, "" for the user, and the turn: users' messages and tasks."""


class _Others(dict[int, tuple[str, int]]):
    """Message to the author and the turn of its text, which it has from somebody else."""


@lint("CTX-25", e.MessageAdded, when="is_code")
def _note_author(event: e.MessageAdded, facts: Facts) -> None:
    message, runs, authors = event.message, facts.view.runs, facts.notes_of(_Authors)
    if message.role == "user" and not event.run:
        authors.setdefault((event.session, message.content), ("", event.turn))
    elif message.role in ("user", "assistant") and message.agent is None:
        author, turn = authors.get((event.session, message.content), ("", event.turn))
        is_task = author and event.run in runs and runs[event.run].agent != author
        if is_task if message.role == "user" else not author and turn < event.turn:
            facts.notes_of(_Others)[message.number] = author, turn
    for text in (leaf for call in message.calls for leaf in leaves(call.args)):
        if isinstance(text, str) and " " in text:
            authors.setdefault((event.session, text), (event.agent, event.turn))


@lint("CTX-25", e.ContextBuilt, when=_Others)
def author_changed(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-25: what somebody has said is sent as theirs.

    Found are a message of the user that comes back to an agent, which was sent it as the user's in
    an earlier turn, as an agent's; and a task that the agent itself gave another one, word for word
    an argument of its call, and that comes back as the user's. Seen in autogen#3009 and
    voltagent#1026.
    """
    others, view = facts.notes_of(_Others), facts.view
    parts = [part for part in event.parts if type(part) is e.Shown]
    for number in (n for part in parts for n in (*part.kept, *part.tail) if n in others):
        author, turn = others[number]
        earlier = view.turns[turn - 1]
        calls = earlier.calls_by_agent.get(event.agent, ()) if not author else ()
        is_own = any(earlier.message in call.context.messages for call in calls)
        if (is_own or author == event.agent) and facts.is_new("CTX-25", event.agent, number):
            text = short(view.messages[number].content, SHOWN_MAX)
            change = "its own task as the user's" if author else "the user's words as an agent's"
            problem = f"agent {event.agent!r} is sent {change}, from turn {turn}: {text!r}"
            yield Hit.at("CTX-25", view.calls[event.call], problem, ids=[f"m{number}"])


class _Reference(NamedTuple):
    """A word of the user's message that only answers of earlier turns have brought up."""

    word: str
    turn: int


class _References(list[_Reference]):
    """The references of the current turn."""


class _Words:
    """The distinctive words of each session's earlier turns."""

    def __init__(self) -> None:
        self.of_agents: dict[str, dict[str, int]] = {}
        """Session to the words of agents and tools, each with its turn."""
        self.of_user: dict[str, set[str]] = {}
        """Session to the words of its user."""


@lint("CTX-22", e.MessageAdded, when="is_code")
def _note_words(event: e.MessageAdded, facts: Facts) -> None:
    message, words = event.message, facts.notes_of(_Words)
    new_words = _MENTIONED.findall(message.content) if message.content else ()
    user_words = words.of_user.setdefault(event.session, set())
    agent_words = words.of_agents.setdefault(event.session, {})
    if message.role == "user":
        turn = facts.view.turns[-1] if facts.turns else None
        if turn is not None and turn.message is not None and turn.message.number == message.number:
            facts.notes[_References] = _References(
                _Reference(word, agent_words[word])
                for word in dict.fromkeys(new_words)
                if agent_words.get(word, event.turn) < event.turn and word not in user_words
            )
        user_words.update(new_words)
        return
    for word in new_words:
        agent_words.setdefault(word, event.turn)


@lint("CTX-22", e.TurnFinished, when=_References)
def reference_lost(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """CTX-22: a user's message that refers to an earlier answer is not all that agents are sent.

    It refers to it by a number of an order or the like, which only agents or tools have said so
    far. Then something of that turn, or another text with the number, is in a request of the turn.
    An application that knows no past is right as long as nobody refers to it.
    """
    references, view = facts.notes.pop(_References), facts.view
    turn = view.turns[-1]
    if event.error is not None or event.waits_for or not turn.calls or turn.message is None:
        return
    first, own = turn.message.number, turn.message.content
    for call in turn.calls:
        for message in call.context.messages:
            if message.role != "system" and 0 < message.number < first:
                return
            for text in texts_of(message):
                rest = text.replace(own, "")
                references = [each for each in references if not [*whole_places(rest, each.word)]]
    if references:
        word, earlier = references[0]
        problem = (
            f"the user refers in turn {event.turn} to {word!r}, which only turn {earlier} has "
            f"brought up, and no agent is sent anything of an earlier turn"
        )
        yield Hit.at("CTX-22", turn.calls[0], problem, word=word, earlier_turn=earlier)


# Lints on the front of requests, which providers' caches reuse while it stays the same


LOOKS_MAX: Final = 20
"""How many broken prefixes of an agent are looked at; a later one costs what the last one did."""
GROWTH: Final = 1.25
"""How much larger a request is at the next look after one that found no cost: it reads all."""


class _Front(NamedTuple):
    """The front of an agent's request, as far as its event says it."""

    call: str
    tools: tuple[Any, ...]
    opening: tuple[tuple[str, str], ...]
    """Role and text of the messages before its history."""


class _Break:
    """The requests of an agent that begin otherwise than the one before, in one part."""

    def __init__(self, call: CallView, prefix: Prefix) -> None:
        self.call, self.prefix = call, prefix
        """The first such call."""
        self.first = self.last = self.tokens = self.calls = 0
        """The tokens that the first one, the last one, and all could have reused."""

    def add(self, tokens: int) -> None:
        """Add a call."""
        self.first, self.last = self.first or tokens, tokens
        self.tokens, self.calls = self.tokens + tokens, self.calls + 1


class _Prefixes:
    """The fronts of a run's requests, and the breaks that cost something."""

    def __init__(self) -> None:
        self.fronts: dict[tuple[str, str, str], _Front] = {}
        """Session, agent and model to the last front: another model has another cache."""
        self.sizes: dict[int, int] = {}
        """The definition of a tool to its characters."""
        self.firsts: dict[str, int] = {}
        """Stream to its first settled message."""
        self.look_from: dict[str, float] = {}
        """Agent to the tokens of the first request at which a look is worth while again."""
        self.breaks: dict[tuple[str, str], _Break] = {}
        """Agent and part of its requests to what breaks there."""


@lint("CTX-20", e.ToolDefined)
def _note_size(event: e.ToolDefined, facts: Facts) -> None:
    size = len(event.description) + len(str(event.parameters))
    facts.notes_of(_Prefixes).sizes[event.number] = size


@lint("CTX-20", e.ContextBuilt)
def _note_break(event: e.ContextBuilt, facts: Facts) -> None:
    """Note a request that does not begin as the agent's last one to the same model."""
    notes = facts.notes_of(_Prefixes)
    model = str((event.settings or {}).get("model", ""))
    key = event.session, event.agent, model
    last, tools = notes.fronts.get(key), event.definitions or event.tools
    opening = last.opening if event.base and last is not None else _opening_of(event.parts, notes)
    notes.fronts[key] = _Front(event.call, tools, opening)
    if last is None or (tools == last.tools and opening == last.opening):
        return
    size = event.tokens + sum(notes.sizes.get(number, 0) for number in event.definitions)
    if size < max(_least(model), notes.look_from.get(event.agent, 0)):
        return
    calls = facts.view.calls
    if not _weigh(calls[event.call], calls[last.call].context, model, notes):
        notes.look_from[event.agent] = size * GROWTH


def _opening_of(parts: Iterable[e.Part], notes: _Prefixes) -> tuple[tuple[str, str], ...]:
    """Return the messages before a history, and the number of the first one in that."""
    opening: list[tuple[str, str]] = []
    for part in parts:
        if type(part) is e.Shown:
            return (*opening, (part.stream, str(_first_in(part, notes.firsts))))
        assert type(part) is e.Made
        opening.append((part.message.role, part.message.content))
    return tuple(opening)


def _first_in(part: e.Shown, firsts: dict[str, int]) -> int:
    """Return the first message of a stream, which a window may leave out."""
    if part.restarts:
        firsts.pop(part.stream, None)
    if part.stream not in firsts and part.kept:
        firsts[part.stream] = part.kept[0]
    return firsts.get(part.stream, part.tail[0] if part.tail else 0)


def _weigh(call: CallView, old: ContextView, model: str, notes: _Prefixes) -> bool:
    """Add a request whose front changed, if a cache could have reused what comes again.

    Return whether it could.
    """
    prefix = prefix_between(old, call.context)
    known = notes.breaks.get((call.agent, prefix.place))
    if known is not None and known.calls >= LOOKS_MAX:
        known.add(known.last)
        return True
    lost = _lost(call.context, old, prefix, model)
    if lost:
        key = call.agent, prefix.place
        notes.breaks.setdefault(key, known or _Break(call, prefix)).add(lost)
    return bool(lost)


def _lost(context: ContextView, old: ContextView, prefix: Prefix, model: str) -> int:
    """Return the tokens that could have been reused if the difference stood at the end.

    A window, a summary or a section of the recipe changes the messages on purpose. Then only what
    comes again of tools and instructions counts, if the difference is there.
    """
    again = repeated_behind(old, context, prefix)
    is_front = prefix.place in ("tools", INSTRUCTIONS)
    behind = again.of_front if is_front else 0
    if again.is_intact and (is_front or _is_put_in_front(context, prefix)):
        behind = again.tokens
    rule, least = caching_rule(model), _least(model)
    before, after = prefix.tokens, prefix.tokens + behind
    lost = (after if after >= least else 0) - (before if before >= least else 0)
    return lost if lost >= (LEAST if rule is None else min(LEAST, least)) else 0


def _is_put_in_front(context: ContextView, prefix: Prefix) -> bool:
    """Return whether code put a message before all that was said."""
    messages = context.messages
    before = (messages[index].role for index in range(prefix.messages))
    is_made = prefix.section == "" and messages[prefix.place_index].role in ("system", "user")
    return is_made and all(role == "system" for role in before)


def _least(model: str) -> int:
    rule = caching_rule(model)
    return LEAST if rule is None else rule.least


@lint("CTX-20", e.RunFinished, when=_Prefixes)
def broken_prefix(event: e.RunFinished, facts: Facts) -> Iterable[Hit]:
    """CTX-20: an agent's next request in a conversation begins as the one before.

    The first difference is in its tools, its instructions or a message that code put before all
    that was said; behind it come, again, at least as many tokens as a provider's cache takes (1,024
    for unknown models). Windows, summaries and declared sections change a front on purpose. Calls
    to another model are not compared. Seen in home-generative-agent#617 and PraisonAI#1808.
    """
    for (agent, place), each in facts.notes_of(_Prefixes).breaks.items():
        prefix, call = each.prefix, each.call
        noun = "a message" if place == "messages" else place
        times = "" if each.calls == 1 else (
            f"; in {each.calls} calls that are {each.tokens:,} tokens"
        )  # fmt: skip
        problem = (
            f"agent {agent!r} is sent other {noun} in turn {call.turn} than in its previous "
            f"call; no prompt cache can reuse {counted(each.first, 'token')} after "
            f"{prefix.where}: {prefix.before!r} became {prefix.after!r}{times}"
        )
        yield Hit.at("CTX-20", call, problem, tokens=each.tokens, calls=each.calls, place=place)
