"""Lints on the past: what an agent is sent of earlier turns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, first_of, lint, texts_of
from simkit.checks.lints.turns import texts_sent
from simkit.core.messages import Message
from simkit.core.text import short
from simkit.language.paths import leaves
from simkit.language.recognition import Sought, whole_places
from simkit.trace import events as e
from simkit.trace.views import CallView, Relation, Relations, TurnView, View

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
        self.last: dict[tuple[str, str], Relation] = {}
        """Session and agent to the relation of its first call in its last turn."""
        self.cut: dict[tuple[str, str], int] = {}
        """Session and agent to the last turn that left messages out, without a text for them."""
        self.prompts: dict[tuple[str, str], Sequence[e.InlinePart]] = {}
        """Session and agent to what code has put into its last request."""
        self.instructions: dict[tuple[str, str], int] = {}
        """Session and agent to the last turn in which it was sent instructions."""


@lint("CTX-03", e.ContextBuilt, when="is_code")
@lint("CTX-21", e.ContextBuilt, when="is_code")
@lint("CTX-22", e.ContextBuilt, when="is_code")
@lint("CTX-23", e.ContextBuilt, when="is_code")
def _relate(event: e.ContextBuilt, facts: Facts) -> None:
    past = facts.notes_of(_Past)
    if past.call == event.call:
        return
    past.relations, past.call = past.relations or Relations(facts.view), event.call
    past.relation = relation = past.relations.add(facts.view.calls[event.call])
    key, prompts = (event.session, event.agent), [p for p in event.parts if type(p) is e.InlinePart]
    is_new, past.prompts[key] = past.prompts.get(key) != prompts, prompts
    if is_new or (relation is not None and relation.kind == "summarised"):
        past.cut.pop(key, None)
    elif relation is not None and relation.kind in ("windowed", "filtered"):
        past.cut[key] = 0 if relation.is_declared else event.turn


@lint("CTX-03", e.ContextBuilt, when="is_code")
def instructions_gone(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """Find an agent that was sent instructions before, and now goes on without them.

    Found is a first call of a turn with the user's message and some of the agent's own past, and
    without a system message. A warning, since code may make such calls under one rule. Seen in
    llama_index#17721.
    """
    past, key, turn = facts.notes_of(_Past), (event.session, event.agent), facts.view.turns[-1]
    if any(type(part) is e.InlinePart and part.message.role == "system" for part in event.parts):
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
    turn, that is out of order, or that a summary does not hold. Seen in pydantic-ai#2888 and
    unsloth#10009.
    """
    past, view = facts.notes_of(_Past), facts.view
    call, key = view.calls[event.call], (event.session, event.agent)
    relation, before = past.relation, past.last.get(key)
    if relation is None:
        first = view.turns[-1].calls_by_agent[call.agent][0]
        if before is not None and first.run == call.run:  # Another run may have another task.
            yield from _lost_later(call, before)
        return
    past.last[key] = relation
    if key in past.losses and relation.kind != "restarted":
        yield from _come_back(call, *past.losses.pop(key))
    if relation.kind == "restarted" and key not in past.losses:
        past.losses[key] = event.turn, frozenset(each.number for each in relation.missing)
    yield from _not_summed_up(call, relation, view)
    if relation.kind != "filtered" or relation.is_declared or not _is_sent_on(relation, view):
        return
    has_failed = _has_failed(view.turns[relation.turn - 1])
    if (before is None or before.kind == "continued") and not has_failed:
        yield from _with_a_hole(relation, call)


@lint("CTX-21", e.ContextBuilt, when="is_code")
def past_reordered(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """Find a message of an earlier turn behind one that was said after it.

    Compared are the user's messages and agents' answers; words that are there twice, or that were
    said several times, may stand anywhere. Seen in agno#3849 and taOS#2512.
    """
    view, call = facts.view, facts.view.calls[event.call]
    if facts.notes_of(_Past).relation is None:
        return
    numbers = Counter(message.number for message in call.context.messages)
    latest: Message | None = None
    for message in call.context.messages:
        if numbers[message.number] > 1 or not _is_said(message, view):
            continue
        if latest is None or message.number > latest.number:
            latest = message
        elif message.turn < call.turn and _is_clear(message, view) and _is_clear(latest, view):
            if not facts.is_new("CTX-21", event.session, event.agent):
                return
            problem = (
                f"agent {call.agent!r} is sent {message.id}, of turn {message.turn}, behind "
                f"{latest.id}, which was said after it: {short(message.content, SHOWN_MAX)!r}"
            )
            yield Hit.at("CTX-21", call, problem)


def _is_clear(message: Message, view: View) -> bool:
    """Return whether nobody has said the same, with thoughts before it or without them."""
    return sum(each.content.endswith(message.content) for each in view.messages.values()) == 1


def _is_said(message: Message, view: View) -> bool:
    """Return whether an agent has said it, or it is the user's message of a turn."""
    turn = view.turns[message.turn - 1] if 0 < message.turn <= len(view.turns) else None
    is_of_user = turn is not None and turn.message is not None and turn.message.id == message.id
    return is_of_user or (message.role == "assistant" and message.agent is not None)


def _not_summed_up(call: CallView, relation: Relation, view: View) -> Iterable[Hit]:
    """Report what leaves the conversation for a summary, and is in none.

    Another agent was asked in this turn to sum up: it was sent much of what is missing now, and not
    the user's message. Its last call gave nothing, or was not sent all of what is missing. Seen in
    smart-second-brain#435, odysseus#2160, letta#2601 and pi#1585.
    """
    turn = view.turns[-1]
    texts = [each for each in relation.missing if each.content and _is_said(each, view)]
    for agent, calls in turn.calls_by_agent.items() if not relation.is_declared else ():
        summary = calls[-1]
        if agent == call.agent or turn.message in summary.context.messages:
            continue
        lost = _lost_in(summary, texts, relation)
        if lost:
            ids = [each.id for each in lost]
            problem = (
                f"agent {call.agent!r} is no more sent in turn {call.turn} what it was before: "
                f"{first_of(ids)}; {agent!r} sums up, and its "
                f"{'call gave nothing' if _is_empty(summary) else 'request did not hold it'}"
            )
            yield Hit.at("CTX-21", call, problem, ids=[*ids])


def _lost_in(summary: CallView, texts: Sequence[Message], relation: Relation) -> Sequence[Message]:
    """Return the messages that a summary should hold; none if it is no summary of them."""
    request = "\n".join(texts_sent(summary))
    rest = [each for each in texts if not Sought(each.content).is_in(request)]
    if len(texts) - len(rest) < max(2, len(texts) / 2):
        return ()
    if _is_empty(summary):
        return [each for each in texts if each not in rest]
    sought = Sought(summary.reply.content if summary.reply is not None else "")
    return rest if any(sought.is_in(each.content) for each in relation.new) else ()


def _is_empty(summary: CallView) -> bool:
    """Return whether a call has failed, or its answer is empty. Seen in opencode#37871."""
    reply = summary.reply
    return summary.error is not None if reply is None else not "".join(texts_of(reply)).strip()


def _lost_later(call: CallView, relation: Relation) -> Iterable[Hit]:
    """Report that the text in the place of earlier turns is gone in a turn's later call.

    Seen in agent-framework#7744.
    """
    numbers = {each.number for each in call.context.messages}
    summary = [each for each in relation.new if each.role == "user" and each.turn == call.turn]
    lost = {each.number for each in (*summary, *relation.missing)}
    is_summary = relation.kind == "summarised" and not relation.is_declared
    if is_summary and summary and numbers.isdisjoint(lost):
        problem = (
            f"agent {call.agent!r} is sent {summary[0].id} in the place of earlier turns, and in "
            f"its next call in turn {call.turn} neither that nor them"
        )
        yield Hit.at("CTX-21", call, problem, ids=[each.id for each in summary])


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
    own_messages = [each for each in relation.rest if each.agent == event.agent and not each.calls]
    answers = [each for each in own_messages if each.role == "assistant"]
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


def _with_a_hole(relation: Relation, call: CallView) -> Iterable[Hit]:
    """Report that a turn is missing, though an older one is there."""
    lost = {each.turn for each in relation.missing} - {each.turn for each in relation.rest}
    # A task may repeat earlier words, which then have the same number.
    turns_there = [each.turn for each in relation.rest if each.role != "user"]
    turns = sorted(turn for turn in lost if any(number < turn for number in turns_there))
    if turns:
        problem = (
            f"agent {call.agent!r} is sent in turn {call.turn} nothing of turn "
            f"{' and '.join(map(str, turns))}, and turn {min(turns_there)} before it is there"
        )
        ids = [message.id for message in relation.missing]
        yield Hit.at("CTX-21", call, problem, earlier_turn=relation.turn, ids=ids)


class _Authors(dict[tuple[str, str], tuple[str, int]]):
    """Session and text to its author, "" for the user, and the turn: users' messages and tasks."""


class _Others(dict[int, tuple[str, int, bool]]):
    """Message to the author and the turn of words in it that it has as somebody else's.

    True stands for a list of what was said, in which they are one line.
    """


@lint("CTX-25", e.MessageAdded, when="is_code")
def _note_author(event: e.MessageAdded, facts: Facts) -> None:
    message, runs, authors = event.message, facts.view.runs, facts.notes_of(_Authors)
    if message.role == "user" and not event.run:
        authors.setdefault((event.session, message.content), ("", event.turn))
    elif message.role in ("user", "assistant") and message.agent is None:
        author, turn = authors.get((event.session, message.content), ("", event.turn))
        is_task = author and event.run in runs and runs[event.run].agent != author
        if is_task if message.role == "user" else not author and turn < event.turn:
            facts.notes_of(_Others)[message.number] = author, turn, False
    for text in (leaf for call in message.calls for leaf in leaves(call.args)):
        if isinstance(text, str) and " " in text:
            authors.setdefault((event.session, text), (event.agent, event.turn))


_USER_LINE: Final = re.compile(r"^(?i:user|human)[\"']?: ?(.+)$", re.MULTILINE)


@lint("CTX-25", e.MessageAdded, when=_Authors)
def _note_user_lines(event: e.MessageAdded, facts: Facts) -> None:
    """Note a list that gives the user a line of somebody else, beside lines of the user."""
    message, authors = event.message, facts.notes_of(_Authors)
    if message.role == "user" and event.run:
        lines = [(event.session, line.strip()) for line in _USER_LINE.findall(message.content)]
        speakers = [authors[line] for line in lines if line in authors]
        others = [each for each in speakers if each[0]]
        if 0 < len(others) < len(speakers):
            facts.notes_of(_Others)[message.number] = *others[0], True


@lint("CTX-25", e.ContextBuilt, when=_Others)
def author_changed(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-25: what somebody has said is sent as theirs.

    Found are a message of the user that comes back to an agent, which was sent it as the user's in
    an earlier turn, as an agent's; and a task that the agent itself gave another one, word for word
    an argument of its call, and that comes back as the user's. Seen in autogen#3009 and
    voltagent#1026.
    """
    others, view = facts.notes_of(_Others), facts.view
    parts = [part for part in event.parts if type(part) is e.HistoryPart]
    for number in (n for part in parts for n in (*part.kept, *part.tail) if n in others):
        author, turn, is_listed = others[number]
        earlier = view.turns[turn - 1]
        calls = earlier.calls_by_agent.get(event.agent, ()) if not author else ()
        is_own = is_listed or any(earlier.message in each.context.messages for each in calls)
        if (is_own or author == event.agent) and facts.is_new("CTX-25", event.agent, number):
            text = short(view.messages[number].content, SHOWN_MAX)
            change = "its own task as the user's" if author else "the user's words as an agent's"
            if is_listed:
                change = f"a list in which the user says the task that {author!r} gave"
            problem = f"agent {event.agent!r} is sent {change}, from turn {turn}: {text!r}"
            yield Hit.at("CTX-25", view.calls[event.call], problem, ids=[f"m{number}"])


class _References(dict[str, int]):
    """The words of the user's message that only answers have brought up, each with the turn."""


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
                (word, agent_words[word])
                for word in new_words
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
    far. Then something of that turn, or another text with the number, is in a request of the turn;
    unless messages were cut since, and no text is in their place, any earlier message will do. An
    application that knows no past is right as long as nobody refers to it.
    """
    references, cut = facts.notes.pop(_References), facts.notes_of(_Past).cut
    turn = facts.view.turns[-1]
    if event.error is not None or event.waits_for or not turn.calls or turn.message is None:
        return
    cut_in = max(cut.get((event.session, agent), 0) for agent in turn.calls_by_agent)
    for word, earlier in _unsent(references, turn, turn.message, cut_in):
        problem = (
            f"the user refers in turn {event.turn} to {word!r}, which only turn {earlier} has "
            f"brought up, and no agent is sent "
            f"{'it' if cut_in else 'anything of an earlier turn'}"
        )
        yield Hit.at("CTX-22", turn.calls[0], problem, word=word, earlier_turn=earlier)
        return


def _unsent(
    references: _References, turn: TurnView, user_message: Message, cut_in: int
) -> Iterable[tuple[str, int]]:
    """Yield the references to what no request of a turn has."""
    messages = [message for call in turn.calls for message in call.context.messages]
    first, own = user_message.number, user_message.content
    rest = "\n".join(text.replace(own, "") for each in messages for text in texts_of(each))
    has_past = any(each.role != "system" and 0 < each.number < first for each in messages)
    for word, earlier in references.items():
        if (earlier < cut_in or not has_past) and not [*whole_places(rest, word)]:
            yield word, earlier
