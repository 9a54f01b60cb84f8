"""Lints on what agents pass on: to the target of a handoff, side by side, and to the next turn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import SHOWN_MAX, Facts, TurnNotes, lint, texts_of
from simkit.checks.lints.turns import sent_or_dropped, texts_brought
from simkit.core.messages import JsonValue, Message, as_json
from simkit.core.text import parted_at, short
from simkit.language.paths import leaves
from simkit.language.recognition import Sought
from simkit.trace import events as e
from simkit.trace.views import CallView, HandoffView, RunView, View


class _SideBySide(dict[str, list[e.AgentStarted]], TurnNotes):
    """Parallel group to the runs in it, if one of them answers a handoff."""


@lint("HND-13", e.AgentStarted)
def _note_group(event: e.AgentStarted, facts: Facts) -> None:
    if event.group:
        facts.notes_of(_SideBySide).setdefault(event.group, []).append(event)


@lint("HND-13", e.ContextBuilt, when=_SideBySide)
def source_runs_on(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """HND-13: the source of a handoff does not run on beside its target.

    It does if models of both are asked in one parallel group, and nothing but the handoff has
    changed control: an edge leads from the tools back to the source, while the tool names the
    target. A source that waits for the target's answer is none, nor is a target without a model.
    Seen in langgraph#6436 and langgraph-bigtool#19.
    """
    view = facts.view
    group = view.runs[event.run].group if event.run in view.runs else ""
    runs = [run for run in facts.notes_of(_SideBySide).get(group, ()) if view.runs[run.run].calls]
    for target in runs:
        handoff = view.handoffs.get(target.handoff)
        if handoff is None or handoff.mode == "delegate":
            continue
        for source in runs:
            is_source = source.agent == target.handoff_from and not source.handoff
            if is_source and facts.is_new("HND-13", target.run, source.run):
                problem = (
                    f"agent {source.agent!r} runs on in turn {event.turn} beside {target.agent!r}, "
                    f"to which it handed off"
                )
                call = view.runs[source.run].calls[0]
                yield Hit.at("HND-13", call, problem, to=target.agent, handoff=target.handoff)


class _Targets(list[str]):
    """The runs that handoffs have started in the turn, with code."""


@lint("HND-14", e.ContextBuilt, when="handed_over")
def _note_target(event: e.ContextBuilt, facts: Facts) -> None:
    if facts.is_code and event.run in facts.handed_over:
        targets = facts.notes_of(_Targets)
        if event.run not in targets:
            targets.append(event.run)


@lint("HND-14", e.TurnFinished, when=_Targets)
def work_lost(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """HND-14: a target that is sent the conversation is sent what its source has just found.

    The source's run brought up texts: results of tools, and what it said beside the handoff. Each
    of them that nobody can have by chance is in a request of the target or in the payload, unless
    a filter that was seen dropped it. A target that is sent a new text, or not the user's message
    itself, is isolated on purpose; an agent that is used as a tool gets a task. Seen in
    autogen#5045 and autogen#6295.
    """
    view = facts.view
    for name in facts.notes.pop(_Targets):
        run = view.runs[name]
        handoff = view.handoffs.get(run.handoff)
        if handoff is None or not run.calls or handoff.mode == "delegate" or event.error:
            continue
        source = view.runs.get(handoff.event.run)
        if source is None or _has_gone_on(source, run, view):
            continue
        if not _is_sent_conversation(run, handoff, view):
            continue
        lost = [text for text in _work_of(source, handoff) if not _has_arrived(text, run, handoff)]
        if lost:
            listed = ", ".join(repr(short(text, SHOWN_MAX)) for text in lost[:2])
            more = f", and {len(lost) - 2} more" if len(lost) > 2 else ""
            problem = (
                f"agent {run.agent!r}, to which {source.agent!r} handed off in turn {run.turn}, is "
                f"sent the user's message, and not what {source.agent!r} brought up after it: "
                f"{listed}{more}"
            )
            data: dict[str, JsonValue] = {"from": source.agent, "to": run.agent, "lost": [*lost]}
            yield Hit.at("HND-14", run.calls[0], problem, **data)


def _has_gone_on(source: RunView, run: RunView, view: View) -> bool:
    """Return whether the source is asked again after its target: it was a delegation."""
    calls = view.turns[run.turn - 1].calls
    index = calls.index(run.calls[0])
    return any(call.agent == source.agent for call in calls[index:])


def _is_sent_conversation(run: RunView, handoff: HandoffView, view: View) -> bool:
    """Return whether the user's message itself is sent, and no text that was made in its place."""
    message = view.turns[run.turn - 1].message
    if message is None:
        return False
    has_message = False
    for each in run.calls[0].context.messages:
        has_message = has_message or each.id == message.id
        is_new = each.number > handoff.messages_before or not each.id
        if each.role != "system" and is_new and not (each.call_id or each.calls):
            return False
    return has_message


def _work_of(source: RunView, handoff: HandoffView) -> Iterator[str]:
    """Yield the texts that a run has brought up by its handoff, if they are distinctive."""
    for message in source.messages:
        if message.number > handoff.messages_before:
            return
        is_work = message.call_id or any(call.is_handoff for call in message.calls)
        if is_work and Sought(message.content).is_distinctive:
            yield message.content


def _has_arrived(text: str, run: RunView, handoff: HandoffView) -> bool:
    """Return whether a text is in what a run was sent, in its payload, or was filtered.

    Of a result in JSON one value is enough: a source may pass on only what the target needs.
    """
    parts = [text, *(leaf for leaf in leaves(as_json(text)) if isinstance(leaf, str))]
    sought = [each for part in parts if (each := Sought(part)).is_distinctive]
    given = [leaf for leaf in leaves(handoff.payload) if isinstance(leaf, str)]
    texts_sent = (words for message in sent_or_dropped(run) for words in texts_of(message))
    return any(each.is_in(words) for words in (*given, *texts_sent) for each in sought)


class _Control:
    """The agents with control, as the states of inner graphs say."""

    def __init__(self) -> None:
        self.targets: dict[str, str] = {}
        """Agent that a handoff has reached in the turn, to the handoff."""
        self.channels: dict[str, dict[str, str]] = {}
        """State to its channels that hold the name of such an agent."""
        self.opened: dict[str, e.StateOpened] = {}
        self.values: dict[tuple[str, str, tuple[str, ...]], tuple[str, str, int]] = {}
        """Session and form of a state to channel, agent and turn at the end of an earlier turn."""
        self.lost: dict[str, tuple[str, str, int]] = {}
        """State that has begun without the value of its channel, to that value."""


@lint("FLW-12", e.HandoffRequested)
def _note_control(event: e.HandoffRequested, facts: Facts) -> None:
    facts.notes_of(_Control).targets[event.to_agent] = event.handoff


def _form_of(event: e.StateOpened) -> tuple[str, str, tuple[str, ...]]:
    return event.session, event.around, tuple(sorted(event.channels))


@lint("FLW-12", e.StateOpened)
def _open_state(event: e.StateOpened, facts: Facts) -> None:
    control = facts.notes_of(_Control)
    control.opened[event.state] = event
    value = control.values.get(_form_of(event))
    if value is not None and value[0] not in event.shares and value[2] < event.turn:
        control.lost[event.state] = value


@lint("FLW-12", e.StateUpdated, when=_Control)
def _note_channel(event: e.StateUpdated, facts: Facts) -> None:
    control = facts.notes_of(_Control)
    opened = control.opened.get(event.state)
    if opened is None:
        return
    control.lost.pop(event.state, None)
    for channel, value in event.update.items():
        if isinstance(value, str) and value in control.targets:
            control.values[_form_of(opened)] = channel, value, event.turn


@lint("FLW-12", e.AgentStarted, when=_Control)
def control_forgotten(event: e.AgentStarted, facts: Facts) -> Iterable[Hit]:
    """FLW-12: the agent that took over goes on in the next turn, if the state says so.

    An inner graph notes in a channel to which agent control has passed. If the outer state does
    not have the channel, the next turn begins with the first agent again. Seen in
    langgraph-swarm#29.
    """
    lost = facts.notes_of(_Control).lost.pop(event.state, None) if event.state else None
    if lost is None or lost[1] == event.agent:
        return
    channel, agent, turn = lost
    problem = (
        f"turn {event.turn} begins with {event.agent!r} again: {agent!r} took over in turn {turn}, "
        f"and channel `{channel}` of the inner graph, which says so, is not kept between turns"
    )
    yield Hit.at("FLW-12", event, problem, channel=channel, expected=agent, earlier_turn=turn)


class _Unread(dict[str, CallView], TurnNotes):
    """Run to its call with a plain answer, of the current turn."""


@lint("FLW-13", e.ModelReplied, when="is_code")
def _note_reply(event: e.ModelReplied, facts: Facts) -> None:
    if event.reply == "text":
        call = facts.view.calls[event.call]
        if call.reply is not None and _is_to_be_read(call.reply.content):
            facts.notes_of(_Unread)[event.run] = call


ANSWER_MIN: Final = 30
"""The length from which an answer is a text to be read, and no label."""
_SENTENCE: Final = re.compile(r"\S+\s+\S+\s+\S.*[.!]$", re.DOTALL)
_FACT: Final = re.compile(r"\b[A-Za-z]+-?\d{2,}\b|\b\d{4,}\b|\b\d{1,2}:\d\d\b")
"""A fact, for which a sentence of any length is read: the number of an order, a year, a time."""


_PARSED: Final = re.compile(r"</\w+>|```(?:json|xml)|^\s*[{\[]")
"""Marks of an answer that code reads itself: JSON, or a part between tags."""


def _is_to_be_read(text: str) -> bool:
    """Return whether an answer is for a reader: no label or command, and nothing that is parsed."""
    if _PARSED.search(text):
        return False
    return len(text) >= ANSWER_MIN or bool(_SENTENCE.match(text) and _FACT.search(text))


@lint("FLW-13", e.TurnFinished, when=_Unread)
def answer_unread(event: e.TurnFinished, facts: Facts) -> Iterable[Hit]:
    """FLW-13: what an agent answers reaches somebody: an agent, the user, a tool or the state.

    Only texts of code without an adapter are looked for, of 30 characters or more, or short
    sentences with a fact, in a turn in which another agent is asked later, and has the last word.
    Seen in crewAI#724 and crewAI#1410.
    """
    view, unread = facts.view, facts.notes.pop(_Unread)
    turn = view.turns[-1]
    if event.error is not None or event.waits_for or not turn.calls or view.pipeline.has_adapter:
        return
    last = turn.calls[-1]
    for call in unread.values():
        reply = call.reply
        if reply is None or call.agent == last.agent:
            continue
        first = turn.calls.index(call) + 1
        texts = [*texts_brought(turn, first, event)]
        has_end = any(reply.content[-ANSWER_MIN:] in text for text in texts)
        is_read = _is_read(reply, texts, turn.calls[first:])
        if is_read and (has_end or not any(_ends_early(reply.content, text) for text in texts)):
            continue
        receivers = "others cut" if is_read or has_end else "no agent, no tool and not the user"
        problem = (
            f"what agent {call.agent!r} answers in turn {event.turn}, "
            f"{short(reply.content, SHOWN_MAX)!r}, reaches {receivers}"
        )
        yield Hit.at("FLW-13", call, problem)


def _is_read(reply: Message, texts: Sequence[str], later: Iterable[CallView]) -> bool:
    """Return whether an answer has arrived, or a part that code can take out of it."""
    *lines, last = reply.content.splitlines()
    parts = [reply.content, *filter(_is_to_be_read, lines), last, last.partition(": ")[2]]
    sought = [Sought(part) for part in parts if part]
    return any(each.is_in(text) for each in sought for text in texts) or any(
        message.id == reply.id for call in later for message in call.context.messages
    )


def _ends_early(answer: str, text: str) -> bool:
    """Return whether a text has the beginning of an answer, cut within a line, without a mark."""
    start = text.find(answer[:ANSWER_MIN])
    size = parted_at(answer, text[start:]) if start >= 0 else 0
    is_within = 0 < size < len(answer) - ANSWER_MIN and answer[size] != "\n"
    return is_within and text[start + size : start + size + 1] in ("", "\n", '"')
