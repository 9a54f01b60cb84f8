"""Lints on a turn as a whole: its request, what several agents look up, and its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from simkit.checks.findings import Hit
from simkit.checks.lints.delivery import GRAPH_SECTIONS, TASK_SECTIONS, inner_texts, is_shown
from simkit.checks.lints.facts import SHOWN_MAX, Facts, TurnNotes, lint, texts_of
from simkit.checks.lints.tools import OpenCalls
from simkit.core.messages import JsonValue, Message
from simkit.core.text import short
from simkit.language.paths import as_text
from simkit.trace import events as e
from simkit.trace.views import CallView, RunView, TurnView, View

WORD_MIN: Final = 4
"""The length from which a word says what a message is about."""


class _Sessions(set[str]):
    """The sessions of which a turn has sent the user's message to an agent."""


@lint("CTX-19", e.TurnFinished)
def request_unsent(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """CTX-19: an agent that begins a turn is sent the user's message, if another one is.

    It is sent nothing of it if no word of four letters or more (any word, if there is none) stands
    anywhere in its request. An application whose agents all work without the message is meant so,
    and a recipe may have a task in its place. In code, a turn in which no agent is sent it, after
    one in which an agent was, is found as well: an agent is asked what it was asked before. A
    single word may be an answer that code reads. Seen in ag2#1618, securo#967 and hermes-lcm#512.
    """
    view, sessions = facts.view, facts.notes_of(_Sessions)
    turn = view.turns[-1]
    if turn.message is None or not turn.calls:
        return ()
    call = next((call for call in turn.calls if _has_request(call, view)), None)
    if call is not None:
        sessions.add(event.session)
        return () if call is turn.calls[0] else _first_unsent(call, turn, view)
    is_over = facts.is_code and not (event.error or event.waits_for or turn.resumes)
    return _all_unsent(turn, turn.message) if is_over and event.session in sessions else ()


def _first_unsent(call: CallView, turn: TurnView, view: View) -> Iterable[Hit]:
    """Report that the first call is sent nothing of the user's message, and another one is."""
    first, message = turn.calls[0], turn.message
    if message is None or call.agent == first.agent or turn.runs[0].id != first.run:
        return  # An agent may ask another one first.
    words = _words_of(" ".join(texts_of(message)))
    is_begun = any(other.session == turn.session for other in view.turns[:-1])
    if is_begun and not _has_instructions_alone(first):
        return
    # "go" stands in "good".
    if words.isdisjoint(_words_sent(first)) and words & _words_sent(call):
        problem = (
            f"agent {first.agent!r}, the first that turn {turn.number} asks, is sent nothing of "
            f"the user's message {short(message.content, SHOWN_MAX)!r}, and {call.agent!r} after "
            "it is"
        )
        yield Hit.at("CTX-19", first, problem, sent_to=call.agent)


def _all_unsent(turn: TurnView, message: Message) -> Iterable[Hit]:
    """Report that no call of a turn is sent anything of the user's message."""
    text, last = message.content, turn.calls[-1]
    is_there = any(text in each for call in turn.calls for each in texts_sent(call))
    words = _words_of(" ".join(texts_of(message)))
    if " " in text and not is_there and words.isdisjoint(_words_sent(last, turn.number)):
        problem = (
            f"no agent is sent the user's message in turn {turn.number}, "
            f"{short(text, SHOWN_MAX)!r}, or anything of it; in an earlier turn one was"
        )
        yield Hit.at("CTX-19", last, problem)


def _words_sent(call: CallView, turn: int = 0) -> set[str]:
    """Return the words that a call is sent; those of instructions and one turn, if there is one."""
    messages = call.context.messages
    new = [each for each in messages if not turn or each.role == "system" or each.turn == turn]
    texts = " ".join(text for each in new for text in texts_of(each))
    return set(re.findall(r"\w+", texts.casefold()))


@lint("CTX-19", e.ContextBuilt, when="is_code")
def task_unsent(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """Find an agent that is asked later in a turn, and is sent instructions alone.

    No word of the user's message stands in them, nor of what models have said in the turn, the
    arguments of their calls among it. The turn's first agent is sent more: where none is, it is
    meant so. Seen in swarmclaw#8.
    """
    call, turn = facts.view.calls[event.call], facts.view.turns[-1]
    is_meant = _has_instructions_alone(turn.calls[0]) or not _has_instructions_alone(call)
    if turn.message is None or is_meant:
        return
    before = [turn.message, *(each.reply for each in turn.calls if each.reply is not None)]
    words = _words_of(" ".join(text for each in before for text in texts_of(each)))
    if words.isdisjoint(_words_sent(call)):
        problem = f"agent {call.agent!r} is sent its instructions alone in turn {event.turn}"
        yield Hit.at("CTX-19", call, problem)


@lint("CTX-19", e.ContextBuilt, when="is_code")
def request_gone(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """Find an agent whose work goes on in a turn, without the user's message.

    Its request before held the message, and this one has not half of its words: a cut, or a
    summary, has taken it. Seen in coder#28645.
    """
    turn, call = facts.view.turns[-1], facts.view.calls[event.call]
    calls, message, now = turn.calls_by_agent[call.agent], turn.message, call.context.messages
    if message is None or len(calls) < 2 or " " not in message.content:
        return
    goes_on = any(each.turn == call.turn and each.role in ("assistant", "tool") for each in now)
    was_sent = message in calls[-2].context.messages and message not in now
    words = _words_of(message.content)
    is_gone = was_sent and 2 * len(words & _words_sent(call)) < len(words)
    if is_gone and goes_on and not call.context.dropped():
        problem = (
            f"agent {call.agent!r} is no more sent the user's message in turn {call.turn}, "
            f"{short(message.content, SHOWN_MAX)!r}, and it was in its call before"
        )
        yield Hit.at("CTX-19", call, problem)


def _has_instructions_alone(call: CallView) -> bool:
    return all(message.role == "system" for message in call.context.messages)


def _has_request(call: CallView, view: View) -> bool:
    """Return whether a context holds the user's message, or what a design puts in its place."""
    message = view.turns[-1].message
    isolated = GRAPH_SECTIONS if view.pipeline.flow == "graph" else TASK_SECTIONS
    others = [*inner_texts(message.data)] if message is not None else []
    return is_shown(call.context.parts, message, others, isolated)


def texts_sent(call: CallView) -> Iterator[str]:
    """Yield the texts of the messages that a call is sent."""
    for message in call.context.messages:
        yield from texts_of(message)


def texts_brought(
    turn: TurnView, first: int, event: e.TurnFinished, but: str = ""
) -> Iterator[str]:
    """Yield what a turn brought to the user, tools, the state, and agents from a call on.

    One channel of the state may be left out.
    """
    yield as_text(event.reply)
    yield as_text(turn.interrupt)
    yield from (as_text(tool.args) for tool in turn.tools)
    for update in turn.updates:
        rest = {name: value for name, value in update.update.items() if name != but}
        yield msgspec.json.encode(rest).decode()
    for call in turn.calls[first:]:
        yield from texts_sent(call)


def _words_of(text: str) -> set[str]:
    """Return the words of a text that say what it is about."""
    words = set(re.findall(r"\w+", text.casefold()))
    return {word for word in words if len(word) >= WORD_MIN} or words


_NOTHING: Final = b"{}"
"""No arguments, as of a clock."""


class _Lookup(NamedTuple):
    """The first time in a turn that a tool returned a result for its arguments."""

    agent: str
    result: JsonValue
    call_id: str
    runs: int
    """The number of agent runs that had begun by then."""


class _Lookups(dict[tuple[str, bytes], _Lookup], TurnNotes):
    """Tool and arguments to the first result of the turn."""


@lint("FLW-10", e.ToolReturned, when=OpenCalls)
def looked_up_twice(event: e.ToolReturned, facts: Facts) -> Iterable[Hit]:
    """FLW-10: no agent asks a tool what another agent has asked it in the same turn.

    Tool, arguments and result are the same; the second agent began when the result was there, and
    was not sent it. Calls without arguments, as of a clock, are left out. Seen in openhuman#5806.
    """
    view = facts.view
    _, tool, args = facts.notes_of(OpenCalls).get(event.call_id, ("", "", _NOTHING))
    if args == _NOTHING:
        return
    first = facts.notes_of(_Lookups).setdefault(
        (tool, args), _Lookup(event.agent, event.result, event.call_id, len(view.runs))
    )
    if first.agent == event.agent or first.result != event.result or not event.agent:
        return
    if event.run not in [*view.runs][first.runs :] or _was_sent(first, event.run, view):
        return
    if not facts.is_new("FLW-10", facts.turns, tool, args):
        return
    problem = (
        f"agent {event.agent!r} asks {tool!r} in turn {event.turn} what {first.agent!r} asked it "
        f"before, {short(args.decode(), SHOWN_MAX)}, and is not sent the answer"
    )
    yield Hit.at("FLW-10", event, problem, tool=tool, asked_by=first.agent)


def _was_sent(first: _Lookup, run: str, view: View) -> bool:
    """Return whether a run was sent a result, or a filter that was seen took it out."""
    text = first.result if isinstance(first.result, str) else json.dumps(first.result)
    return any(
        message.call_id == first.call_id or any(text in each for each in texts_of(message))
        for message in sent_or_dropped(view.runs[run])
    )


def sent_or_dropped(run: RunView) -> Iterator[Message]:
    """Yield the messages of a run's requests, and those that filters left out of them."""
    for call in run.calls:
        yield from call.context.messages
        yield from (each.message for each in call.context.dropped())


@lint("FLW-11", e.TurnFinished)
def empty_answer(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """FLW-11: the user's turn does not end with an empty answer.

    Empty is a text without a letter or sign, in a turn that ended without an error and asks the
    user nothing; a turn without a reply is none. Seen in langgraph-supervisor-py#160.
    """
    if event.error is not None or event.waits_for or not isinstance(event.reply, str):
        return
    calls = facts.view.turns[-1].calls
    if event.reply.strip() or not calls:
        return
    replies = [call.reply for call in calls if call.reply is not None]
    if replies and replies[-1].calls:
        return  # FLW-07: the turn ended before its work was done.
    last = next((reply for reply in reversed(replies) if reply.content.strip()), None)
    before = ""
    if last is not None:
        text = short(last.content, SHOWN_MAX)
        before = f"; what {last.agent!r} said, {text!r}, does not reach them"
    yield Hit.at("FLW-11", event, f"the user gets an empty answer in turn {event.turn}{before}")


class _AskedAgain(dict[tuple[str, str, str], int]):
    """Session, agent and results to how often the agent's model was asked in a turn before them."""


@lint("FLW-14", e.TurnFinished, when="is_code")
def results_unread(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """FLW-14: an agent is asked again after results of its calls, if an earlier turn did so.

    A turn ends with exactly these results of these tools, after no more calls of the model than
    then, so that neither a result nor a limit explains it. Seen in langgraph4j#477.
    """
    if event.error is not None or event.waits_for:
        return
    turn, asked_again = facts.view.turns[-1], facts.notes_of(_AskedAgain)
    results = {tool.call_id: [tool.tool, tool.result, tool.error] for tool in turn.tools}
    for call in turn.calls:
        calls = call.reply.calls if call.reply is not None else ()
        outcomes = [results[each.id] for each in calls if each.id in results]
        if not 0 < len(calls) == len(outcomes):
            continue
        key = event.session, call.agent, as_text(outcomes)
        if call is not turn.calls_by_agent[call.agent][-1]:
            asked_again[key] = max(call.index, asked_again.get(key, 0))
        elif call is turn.calls[-1] and call.index <= asked_again.get(key, -1):
            tools = " and ".join(dict.fromkeys(repr(each.name) for each in calls))
            problem = (
                f"turn {event.turn} ends with the result of {tools}, and {call.agent!r} is not "
                "asked again; in an earlier turn it was, after the same result"
            )
            yield Hit.at("FLW-14", call, problem)


@lint("FLW-14", e.TurnFinished, when="is_code")
def stale_answer(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """Find a turn that is answered with what an earlier one was, and that no model of it has said.

    A model has said it in the earlier turn, to another message of the user: so it is no text of
    code, and no cache of answers. Seen in langchain#36957.
    """
    turn, answer = facts.view.turns[-1], as_text(event.reply).strip()
    if event.error or event.waits_for or len(answer) < WORD_MIN or _has_said(turn, answer):
        return
    for earlier in facts.view.turns[:-1] if turn.calls and turn.message is not None else ():
        is_same = earlier.session == turn.session and as_text(earlier.reply).strip() == answer
        words = {each.message.content for each in (earlier, turn) if each.message is not None}
        if is_same and len(words) > 1 and _has_said(earlier, answer):
            problem = (
                f"turn {turn.number} is answered with the answer of turn {earlier.number}, "
                f"{short(answer, SHOWN_MAX)!r}; no model has said it in turn {turn.number}"
            )
            yield Hit.at("FLW-14", turn.calls[-1], problem, earlier_turn=earlier.number)
            return


def _has_said(turn: TurnView, answer: str) -> bool:
    """Return whether a model said a text in a turn, as an answer or as an argument."""
    replies = (call.reply for call in turn.calls if call.reply is not None)
    texts = (text for reply in replies for text in texts_of(reply))
    return any(answer in text or as_text([answer])[1:-1] in text for text in texts)
