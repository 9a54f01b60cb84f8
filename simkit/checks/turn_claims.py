"""Claims on a turn, or on the whole run: reply, end, state, what happened, a judge's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

import msgspec

from simkit.checks import claims
from simkit.checks.findings import Finding, Scope
from simkit.checks.runs import error_line
from simkit.core.text import counted, short
from simkit.language.matching import Mismatch
from simkit.language.matching.operators import is_operator
from simkit.language.matching.values import value_in
from simkit.language.paths import head_of, walk
from simkit.spec.scenario.questions import Question
from simkit.trace import events as e
from simkit.trace.views import View, event_fields, log_fields

_ENDS: Final = ("outcome", "reason")
"""Fields of a handoff's outcome; only a rejected one has a reason."""


Locate = Callable[[Sequence[Mismatch]], int | None]
"""Returns the index of the event that some mismatches concern."""


def _compare(
    name: str,
    claimed: Any,
    value: Any,
    lines: claims.Lines,
    event: Locate,
    scope: Scope,
    builder: claims.FindingBuilder,
) -> Iterator[Finding]:
    path = (*scope.path, name)
    yield from builder.compare(
        claimed, value, path, name, turn=scope.turn, context=lines, event=event
    )


def _check_list(
    name: str,
    claimed: Any,
    values: Sequence[Any],
    lines: Iterator[str],
    event_of: Callable[[int], int | None],
    scope: Scope,
    builder: claims.FindingBuilder,
) -> Iterator[Finding]:
    """Check a list; ``event_of`` returns the event of the element at an index."""

    def event(misses: Sequence[Mismatch]) -> int | None:
        index = claims.element_of(claimed, values, misses)
        return None if index is None else event_of(index)

    return _compare(name, claimed, values, lines, event, scope, builder)


def check_handoffs(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Check handoff requests in order; an element of a plain list means a made one by default."""
    handoffs = [handoff.fields() for handoff in scope.handoffs]
    title = f"handoffs requested {scope.words}:"
    otherwise = f"no handoff was requested {scope.words}"

    def event_of(index: int) -> int | None:
        id_ = scope.handoffs[index].id
        return claims.event_at(scope, e.HandoffRequested, lambda event: event.handoff == id_)

    claimed = _made_by_default(scope.expect.handoffs)
    lines = claims.listing(title, handoffs, _handoff_line, otherwise)
    return _check_list("handoffs", claimed, handoffs, lines, event_of, scope, builder)


def _made_by_default(matcher: Any) -> Any:
    """Return the claim with ``made`` added to elements of a plain list without an outcome.

    Inside operators nothing is added, because it would weaken a denial.
    """
    if not isinstance(matcher, (list, tuple)):
        return matcher
    return [
        {**element, "outcome": "made"} if _is_named(element) and not _says_end(element) else element
        for element in matcher
    ]


def _is_named(matcher: Any) -> bool:
    """Return whether an element names fields of a handoff beside its operators."""
    return isinstance(matcher, Mapping) and any(not is_operator(key) for key in matcher)


def _says_end(matcher: Any) -> bool:
    """Return whether a matcher of one handoff mentions its outcome, also inside an operator."""
    if isinstance(matcher, (list, tuple)):
        return any(_says_end(element) for element in matcher)
    return isinstance(matcher, Mapping) and any(
        _says_end(inner) if is_operator(key) else head_of(key) in _ENDS
        for key, inner in matcher.items()
    )


def _handoff_line(handoff: Mapping[str, Any]) -> str:
    reason = f": {short(handoff['reason'], 160)}" if handoff.get("reason") else ""
    kind = f"{handoff['type']}, {handoff['mode']}" if handoff["type"] else handoff["mode"]
    return f"{handoff['from']} → {handoff['to']} ({kind}), {handoff['outcome']}{reason}"


def check_tool_calls(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Check tool calls in order."""
    calls = [tool.fields() for tool in scope.tools]
    title, otherwise = f"tools called {scope.words}:", f"no tool was called {scope.words}"

    def event_of(index: int) -> int | None:
        tool = scope.tools[index]
        key = tool.call_id, tool.tool, tool.at
        return claims.event_at(
            scope, e.ToolCalled, lambda event: (event.call_id, event.tool, event.at) == key
        )

    claimed = scope.expect.tool_calls
    lines = chain(
        claims.listing(title, calls, lambda call: f"{call['tool']} by {call['agent']}", otherwise),
        _asked_for(scope),
    )
    return _check_list("tool_calls", claimed, calls, lines, event_of, scope, builder)


def _asked_for(scope: Scope) -> Iterator[str]:
    """Yield the calls that models asked for and an error kept from being made."""
    call_ids = {tool.call_id for tool in scope.tools}
    replies = [call.reply for call in scope.all_calls if call.reply is not None]
    names = [
        f"{call.name} by {reply.agent}"
        for reply in replies
        for call in reply.calls
        if call.id not in call_ids and not call.is_handoff
    ]
    if names and scope.error is not None:
        yield f"asked for, and not made before the turn ended: {claims.listed(names)}"


def check_logs(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Check the log records of the code's own loggers, in order."""
    records = [
        (index, event)
        for index, event in enumerate(scope.events, scope.span.start or 0)
        if isinstance(event, e.LogRecorded)
    ]
    logs = [log_fields(event) for _, event in records]
    title, otherwise = f"log records {scope.words}:", f"nothing was logged {scope.words}"
    lines = claims.listing(title, logs, _log_line, otherwise)
    claimed = scope.expect.logs
    return _check_list("logs", claimed, logs, lines, lambda i: records[i][0], scope, builder)


def _log_line(record: Mapping[str, Any]) -> str:
    return f"{record['level']} {record['logger']}: {short(record['message'], 160)}"


def check_events(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Check fields of the events."""
    events = [event_fields(scope.view.whole_event(event)) for event in scope.events]
    first, claimed = scope.span.start or 0, scope.expect.events
    lines = _events_near(scope)
    return _check_list("events", claimed, events, lines, lambda i: first + i, scope, builder)


def _events_near(scope: Scope) -> Iterator[str]:
    """Yield the events of the claimed kinds; if there are none, the existing kinds."""
    kinds = {
        text for path, text in walk(scope.expect.events) if "kind" in path and isinstance(text, str)
    }
    near = [(index, event) for index, event in enumerate(scope.events) if e.kind_of(event) in kinds]
    if not near:
        known_kinds = dict.fromkeys(e.kind_of(event) for event in scope.events)
        yield f"kinds of events {scope.words}: {', '.join(known_kinds) or 'none'}"
        return
    yield f"events of these kinds {scope.words}:"
    lines = claims.cut_short([f"{index + 1}. {_event_line(event)}" for index, event in near])
    yield from (f"  {line}" for line in lines)


def _event_line(event: e.AnyEvent) -> str:
    words = [e.kind_of(event)]
    if isinstance(event, (e.HandoffRequested, e.HandoffMade, e.HandoffRejected)):
        words.append(f"{event.from_agent} → {event.to_agent}")
    elif isinstance(event, e.RouteChosen):
        words.append(f"{event.agent} → {', '.join(event.targets)}")
    elif event.agent:
        words.append(event.agent)
    for name in ("tool", "limit", "status"):
        value = getattr(event, name, "")
        if value and isinstance(value, str):
            words.append(value)
    return " ".join(words)


def check_state(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Check the channels after the turn, or after the run."""
    claimed, state = scope.expect.state, scope.state
    lines, event = partial(_writers, scope=scope), partial(_write_of, scope=scope)
    return _compare("state", claimed, state, lines, event, scope, builder)


def _write_of(misses: Sequence[Mismatch], scope: Scope) -> int | None:
    """Return the last write of the first differing channel that was written."""
    channels = [_channel(str(miss.path[0]), scope) for miss in misses if miss.path]
    places = (claims.write_of(scope, channel) for channel in channels)
    return next((index for index in places if index is not None), None)


def _writers(misses: Sequence[Mismatch], scope: Scope) -> Iterator[str]:
    """Yield the agents that wrote the differing channels."""
    keys = dict.fromkeys(str(miss.path[0]) for miss in misses if miss.path)
    channels = dict.fromkeys(_channel(key, scope) for key in keys)
    for channel in [name for name in channels if name][: claims.LINES_MAX]:
        facts = scope.pipeline.channels.get(channel)
        if facts is not None and facts.scope == "agent_run":
            yield f"channel {channel} has scope agent_run: it is in no state, only in `runs`"
            continue
        writes = [
            scope_update
            for scope_update in scope.updates
            if channel in scope_update.update and not scope_update.state
        ]
        by = claims.listed(list(dict.fromkeys(_writer(update) for update in writes)))
        yield (
            f"channel {channel} was written {scope.words} by {by}"
            if writes
            else f"channel {channel} was not written {scope.words}"
        )


def _channel(key: str, scope: Scope) -> str:
    """Return the channel that a claim's key leads into."""
    if key in scope.state or key in scope.pipeline.channels:
        return key
    return head_of(key)


def _writer(update: e.StateUpdated) -> str:
    if update.cause in ("given", "user"):
        return "what is given" if update.cause == "given" else "the user's message"
    if update.cause == "handoff":
        return f"the contract of {update.agent}'s handoff {update.handoff}"
    rule = f" (`{update.cause}` rule)" if update.cause in ("before", "after") else ""
    return f"{update.agent}{rule}"


def check_reply(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Check the output of the last finished run."""
    lines, last = [], scope.replying_run
    if scope.error is not None:
        lines.append(error_line(scope))
    elif scope.reply is None:
        lines.append(f"no run left a reply {scope.words}")
    elif last is not None:
        lines.append(f"the last run with an output is {last.agent}'s")

    def event(_: Sequence[Mismatch]) -> int | None:
        if scope.error is not None:
            return claims.end_of(scope)
        return None if last is None else claims.run_of(scope, last, "end")

    claimed, reply = scope.expect.reply, scope.reply
    if isinstance(claimed, str) and isinstance(reply, (dict, list)):
        # A text is compared with the words, of which `parse:` or code has made a value.
        words = "" if last is None or last.message is None else last.message.content
        reply = words if value_in(words) == reply else reply
        lines.append(
            "the agent's text is JSON, so simkit reads it as a value: claim the value, or give "
            "the agent `parse: text`"
        )
    return _compare("reply", claimed, reply, lines, event, scope, builder)


def check_model_calls(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Check the number of each agent's model calls."""
    for agent, expected in (scope.expect.model_calls or {}).items():
        ids = [call.id for call in scope.calls.get(agent, ())]
        actual = len(ids)
        if actual == expected:
            continue
        counts = [f"{name} {len(calls)}" for name, calls in scope.calls.items()]
        first = ids[min(expected, actual - 1)] if ids else None
        calls = counted(actual, "model call")
        yield builder.finding(
            (*scope.path, "model_calls", agent),
            f"agent {agent!r} made {calls} {scope.words}, wanted {expected}",
            turn=scope.turn,
            agent=agent,
            context=[f"model calls {scope.words}: {claims.listed(counts)}"],
            event=claims.event_at(scope, e.ContextBuilt, lambda event: event.call == first),  # noqa: B023
        )


def check_error(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Check the error that ended the turn, or the run; a plain text is its type."""
    claimed, error = scope.expect.error, scope.error
    if isinstance(claimed, str):
        claimed = {"type": claimed}
    if error is None:
        lines = [f"there was no error {scope.words}"]
        return _compare("error", claimed, None, lines, lambda _: None, scope, builder)
    fields: dict[str, Any] = msgspec.to_builtins(error)
    actual = {name: value for name, value in fields.items() if value not in ("", 0)}
    lines = [error_line(scope)]
    return _compare("error", claimed, actual, lines, lambda _: claims.end_of(scope), scope, builder)


def check_interrupt(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Check the question with which the turn ended."""
    claimed, question = scope.expect.interrupt, scope.interrupt
    lines = [] if question is not None else [f"nothing was asked {scope.words}"]
    index = claims.event_at(scope, e.TurnInterrupted, last=True)
    return _compare("interrupt", claimed, question, lines, lambda _: index, scope, builder)


_ANSWERED = (
    "`simkit record` asks the model where the scenario names a `cassette:`. Or write the answer "
    "under `judge_replies:`."
)
_RECORDED_ANEW = (
    "`simkit record --mode new_episodes` asks the model a question that was added, `--mode all` "
    "asks everything again, as a question or a reply that was changed needs."
)


def check_judge(scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    """Yield the questions whose answer does not match, is of another kind, or is missing."""
    for question in scope.expect.questions:
        yield from _check(question, scope, builder)


def _check(question: Question, scope: Scope, builder: claims.FindingBuilder) -> Iterator[Finding]:
    path = (*scope.path, "judge", question.text)
    index, answered = _answer_at(scope.view, scope.turn, question)
    if answered is None:
        yield builder.finding(
            path,
            "nobody answered this question to the judge",
            turn=scope.turn,
            fix=_ANSWERED,
            breaks=True,
        )
    elif answered.error:
        headline, *details = answered.error.split("\n")
        yield builder.finding(
            path,
            f"the judge gave no answer: {headline}",
            turn=scope.turn,
            context=[*details, *_reason(answered)],
            fix=_RECORDED_ANEW if answered.model else "",
            event=index,
        )
    else:
        yield from builder.compare(
            question.matcher,
            answered.answer,
            (*path, *question.at),
            "the judge's answer",
            turn=scope.turn,
            context=_reason(answered),
            event=lambda _: index,
        )


def answer_to(view: View, turn: int, question: Question) -> e.JudgeAnswered | None:
    """Return the last answer to a question about a turn, or, with 0, about the whole run.

    None if it was not asked, or for an answer of another kind.
    """
    return _answer_at(view, turn, question)[1]


def _answer_at(
    view: View, turn: int, question: Question
) -> tuple[int | None, e.JudgeAnswered | None]:
    """Return the same with its index in the trace."""
    key = (question.text, question.answer, question.choices)
    for index in range(len(view.events) - 1, -1, -1):
        event = view.events[index]
        if (
            isinstance(event, e.JudgeAnswered)
            and event.turn == turn
            and (event.question, event.form, event.choices) == key
        ):
            return index, event
    return None, None


def _reason(answered: e.JudgeAnswered) -> list[str]:
    return [f"the judge's reason: {answered.reason}"] if answered.reason else []
