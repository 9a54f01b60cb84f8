"""Records tool calls and handoffs, and edits of calls by a person or by code."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from simkit.adapters.recorder.carried_over import ScenarioTexts
from simkit.adapters.recorder.handoffs import HandoffTools, told_by
from simkit.adapters.recorder.sessions import Run, Session, ToolRequest
from simkit.core.errors import LimitExceeded
from simkit.core.messages import JsonValue, Message, ToolCall, call_of
from simkit.language.json_schema.coercion import lost_in
from simkit.language.paths import walk
from simkit.providers.attachments import is_failed
from simkit.runtime.conversation import Numbers
from simkit.runtime.scheduler import VirtualClock
from simkit.spec.pipeline.model import Limits
from simkit.trace import events as e
from simkit.trace.events import EditedCall
from simkit.trace.recorder import EventRecorder, Position, Sink
from simkit.trace.store import canonical

USER: Final = "user"
"""The editor of a call, if the user's answer says what it becomes."""
CODE: Final = "code"
"""The editor of a call, if no agent is known."""


def is_edit(before: ToolCall, after: ToolCall) -> bool:
    """Return whether a call is another one now; arguments that are no mapping are unknown."""
    if before.name != after.name:
        return True
    both = isinstance(before.args, Mapping) and isinstance(after.args, Mapping)
    return both and before.args != after.args


def is_said_by(answer: JsonValue, before: ToolCall, after: ToolCall) -> bool:
    """Return whether a user's answer says each value by which a call differs from before.

    Defaults that a schema adds need not be said. A value is said alone, or as words of a text.
    """
    values = [value for _, value in walk(answer)]
    is_renamed = before.name != after.name
    if is_renamed and after.name not in values:
        return False
    if not isinstance(before.args, Mapping) or not isinstance(after.args, Mapping):
        return is_renamed
    if after.args in values:
        return True
    changed = [*lost_in(before.args, after.args)]
    added = [key for key in after.args if key not in before.args]
    is_any = is_renamed or bool(changed)
    return all(_is_said(after.args.get(key), values) for key in changed) and (
        is_any or any(_is_said(after.args[key], values) for key in added)
    )


def _is_said(value: JsonValue, values: list[JsonValue]) -> bool:
    if value in (None, "", [], {}) or isinstance(value, bool):
        return False
    if any(type(value) is type(other) and value == other for other in values):
        return True
    words = re.compile(rf"(?<!\w){re.escape(str(value))}(?!\w)")
    is_plain = isinstance(value, (str, int, float))
    return is_plain and any(isinstance(text, str) and words.search(text) for text in values)


# Records


class CallRecorder:
    """Records tool calls and handoffs at the current session, turn and run."""

    def __init__(self, sink: Sink, clock: VirtualClock, limits: Limits) -> None:
        self.events, self.clock = EventRecorder(sink, clock), clock
        self.limits, self.numbers = limits, Numbers()
        self.lock = threading.RLock()
        """Held while an event is emitted: pipelines may use any thread."""
        self.session = ""
        """The session of the current turn."""
        self.turn = 0
        self.runs: list[Run] = []
        """The runs of the current turn."""
        self.handoff_tools = HandoffTools()
        self._session, self._sessions = Session(), dict[str, Session]()
        self.requested: list[e.HandoffRequested] = []
        """This turn's handoffs that were not made yet."""
        self._answers: dict[str, str] = {}
        """Handoff to the answer with which its source continues, until another agent begins."""
        self._handoffs = 0
        """The number of this turn's handoffs that were made."""
        self.answer: JsonValue = None
        """The user's answer with which the current turn resumes; None in other turns."""
        self.texts: ScenarioTexts | None = None
        """The texts of this scenario; None if those of earlier ones are not looked for."""

    @property
    def initial_state(self) -> Mapping[str, JsonValue]:
        """Return the session's initial state."""
        return self._session.initial_state

    @property
    def project(self) -> str:
        """The session's project."""
        return self._session.project

    def at(self, run: Run | None = None, agent: str | None = None) -> Position:
        """Return the current position. The agent is the run's, unless one is named."""
        if agent is None:
            agent = run.agent if run is not None else ""
        return Position(self.session, self.turn, agent, run.id if run is not None else "")

    def limit(self, name: str, used: int) -> None:
        """Raise LimitExceeded, after its event, when a limit is passed."""
        allowed = getattr(self.limits, name)
        if allowed is not None and used > allowed:
            self.events.record_limit(self.at(), limit=name, allowed=allowed)
            raise LimitExceeded(name, allowed)

    # Tools

    def call_id(self, foreign: str) -> str:
        """Return simkit's id for a foreign tool call id; a new one on first use."""
        ids = self._session.ids
        if foreign not in ids:
            ids[foreign] = self.new_call_id()
        return ids[foreign]

    def new_call_id(self) -> str:
        """Return an id for a tool call."""
        self.numbers.calls += 1
        return self._session.served(f"call{self.numbers.calls}", "")

    def served_id(self, ours: str, prefix: str) -> str:
        """Return the id of a call in served responses, in the provider's format."""
        return self._session.served(ours, prefix)

    def call_request(self, foreign: str) -> ToolRequest | None:
        """Return the tool call that a model asked for under a foreign id; None if there is none."""
        return self._session.requests.get(self._session.ids.get(foreign, ""))

    def was_asked_for(self, tool: str) -> bool:
        """Return whether a model has asked for a tool in this turn."""
        requests = self._session.requests.values()
        return any(request.call.name == tool and request.run in self.runs for request in requests)

    def pending(self, tool: str) -> Iterator[ToolRequest]:
        """Yield the calls of a tool that were requested and not executed, oldest first."""
        for request in self._session.requests.values():
            if request.call.name == tool and not request.is_told:
                yield request

    def executing(
        self, is_its_tool: Callable[[str], bool], args: JsonValue
    ) -> Iterator[ToolRequest]:
        """Yield the calls of a tool that are executed now, those with these arguments first."""
        calls = [
            request
            for request in self._session.requests.values()
            if request.is_told and not request.is_answered and is_its_tool(request.call.name)
        ]
        yield from sorted(calls, key=lambda request: request.executed != args)

    def tool_called(self, request: ToolRequest, args: JsonValue = None) -> None:
        """Emit that a tool is executed, with ``args`` if known, else the requested ones."""
        if args is not None and request.call.id in self._session.requests:
            self.note_edit_by_user(request, request.call.name, args)
        request.is_told, call = True, request.call
        request.executed = call.args if args is None else args
        self.events.record_tool_call(
            self.at(request.run, request.agent),
            call_id=call.id,
            tool=call.name,
            args=request.executed,
        )

    def tool_answered(
        self, request: ToolRequest, result: JsonValue = None, error: str = ""
    ) -> None:
        """A tool came back."""
        if request.is_answered:
            return
        if not request.is_told:
            self.tool_called(request)
        request.is_answered = True
        at, call = self.at(request.run, request.agent), request.call
        if error:
            self.events.record_tool_failure(
                at, call_id=call.id, tool=call.name, error=error, server=request.server
            )
        else:
            if self.texts is not None:
                self.texts.add_value(result)
            self.events.record_tool_result(
                at, call_id=call.id, tool=call.name, result=canonical(result), server=request.server
            )

    def called_by_code(self, tool: str, args: JsonValue, run: Run | None) -> ToolRequest:
        """Return a call that the pipeline's own code made, without a model."""
        call = ToolCall(self.new_call_id(), tool, canonical(args))
        return ToolRequest(call, run.agent if run is not None else "", run or Run("", ""))

    # Handoffs

    def hand_over(
        self,
        source: str,
        to: str,
        payload: JsonValue = None,
        *,
        type: str | None = None,
        query: str | None = None,
        run: Run | None = None,
        call_id: str = "",
        is_taken: bool = False,
    ) -> None:
        """Emit a handoff request; the handoff is made when the target starts.

        ``is_taken``: a function of the application gets the payload.
        """
        self.settle_answered()
        self.numbers.handoffs += 1
        payload = canonical(payload)
        self.limit("handoffs_per_turn", self._handoffs + len(self.requested) + 1)
        request = self.events.record_handoff_request(
            self.at(run, source),
            handoff=f"h{self.numbers.handoffs}",
            from_agent=source,
            to_agent=to,
            type=type or "handoff",
            mode="transfer",
            query=query,
            payload=payload,
            call_id=call_id,
            is_taken=is_taken,
        )
        self.requested.append(request)

    def pending_handoffs(self, run: Run) -> list[e.HandoffRequested]:
        """Return the open handoffs of a run, and of the run that it resumes after an answer."""
        of_turn = {known_run.id for known_run in self.runs}
        return [
            request
            for request in self.requested
            if request.handoff not in self._answers
            and (
                request.run == run.id or (request.run not in of_turn and request.agent == run.agent)
            )
        ]

    def refused(self, request: e.HandoffRequested, reason: str) -> None:
        """Emit that a requested handoff is not made."""
        self.requested.remove(request)
        self.events.record_rejection(self._at_request(request), request, reason=reason)

    def answered(self, request: e.HandoffRequested, answer: Message) -> None:
        """Note that the source of a handoff continues with its tool's answer.

        It is rejected, unless a span ends the source, and the target begins next: a framework may
        pass control late (Strands' swarm). Where no end is seen, nothing tells late from never.
        """
        source = next((run for run in self.runs if run.id == request.run), None)
        if source is None or not source.ends_with_span or is_failed(answer):
            self.refused(request, answer.content)
        else:
            self._answers[request.handoff] = answer.content

    def settle_answered(self, next_agent: str = "") -> None:
        """Reject the handoffs with an answer, unless control passes to the next agent now."""
        is_over = {run.id: run.is_over for run in self.runs}
        for request in [*self.requested] if self._answers else ():
            is_target, has_ended = request.to_agent == next_agent, is_over.get(request.run, True)
            is_beside = bool(next_agent) and not is_target and not has_ended
            if request.handoff in self._answers and not is_beside:
                answer = self._answers.pop(request.handoff)
                if not (is_target and has_ended):
                    self.refused(request, answer)

    def _at_request(self, request: e.HandoffRequested) -> Position:
        return Position(self.session, self.turn, request.agent, request.run)

    def _hand_over_by(self, call: ToolCall, to: str, run: Run) -> None:
        """Emit the handoff that a model asks for by a call."""
        payload = told_by(self.handoff_tools.passed_by(call.name, call.args))
        self.hand_over(
            run.agent,
            to,
            payload.payload,
            type=payload.type,
            query=payload.query,
            run=run,
            call_id=call.id,
            is_taken=self.handoff_tools.is_taken(call.name),
        )

    # Edited calls

    def note_edit_by_user(self, request: ToolRequest, tool: str, args: JsonValue) -> None:
        """Record an edit if a call is executed as another one, and the user's answer says so."""
        before = request.call
        if self.answer is None or (before.name == tool and before.args == args):
            return
        after = call_of(before.id, tool, args, self.handoff_tools.target_of(tool, args) or "")
        if is_said_by(self.answer, before, after):
            self._edit(request, after, USER)

    def note_edits_in(self, message: Message, run: Run | None) -> Message:
        """Record what a new message changes in calls that are known; its author is the model.

        ``run`` wrote the message, if that is known. If code shortens the arguments of a call after
        it was executed, that is no edit.
        """
        for call in message.calls:
            request = self._session.requests.get(call.id)
            if request is None or not is_edit(request.call, call):
                continue
            message = replace(message, agent=request.agent)
            if self._may_be_edited(request, call):
                is_users = self.answer is not None and is_said_by(self.answer, request.call, call)
                code = run.agent if run is not None else CODE
                self._edit(request, call, USER if is_users else code)
        return message

    def _may_be_edited(self, request: ToolRequest, call: ToolCall) -> bool:
        if request.call.is_handoff:
            return any(handoff.call_id == call.id for handoff in self.requested)
        return request.executed == call.args if request.is_told else not request.is_answered

    def _edit(self, request: ToolRequest, after: ToolCall, by: str) -> None:
        """Emit that a call was changed. A handoff is rejected, and asked for as it is now."""
        before, request.call = request.call, after
        self.events.record_edit(
            self.at(request.run, request.agent),
            call_id=after.id,
            by=by,
            before=EditedCall(before.name, before.args),
            after=EditedCall(after.name, after.args),
        )
        for handoff in [*self.requested]:
            if handoff.call_id == after.id:
                self.refused(handoff, f"{by} edited the call")
        if after.is_handoff:
            self._hand_over_by(after, after.target, request.run)
