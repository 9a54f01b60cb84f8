"""The log of the ADK: nested agents, handoffs, messages, questions to the user, sessions' state."""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from google.adk.agents import ParallelAgent
from google.genai import types

from simkit.adapters import api
from simkit.adapters.google_adk import compat

SCOPES: Final = {"app:": "global", "user:": "project", "temp:": "turn"}
"""Prefixes of keys, and the scopes that they mean."""
SHARED: Final = ("global", "project")
"""Scopes that several sessions share."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def scope_of(key: str) -> str:
    """Return the scope of a key."""
    prefix = key.partition(":")[0] + ":"
    return SCOPES.get(prefix, "session") if ":" in key else "session"


class States:
    """The recorded state of each session."""

    def __init__(self, recorder: api.TraceRecorder) -> None:
        self._recorder = recorder
        self._reported_values: dict[str, dict[str, bytes]] = {}
        self._written_names: set[str] = set()
        """Ids of events with recorded writes."""

    def observe_state(self, state: Mapping[str, Any]) -> None:
        """Record the changes of a state since the last turn, removed keys included."""
        reported = self._reported_values.setdefault(self._recorder.session, {})
        state_values = _plain(state)
        changed = {
            key: value for key, value in state_values.items() if reported.get(key) != _encode(value)
        }
        changed |= dict.fromkeys(key for key in reported if key not in state_values)
        if not changed:
            return
        for key, value in changed.items():
            if key in state_values:
                reported[key] = _encode(value)
            else:
                del reported[key]
        self._recorder.wrote(changed, cause="given")
        for key in changed:
            if key in state_values and scope_of(key) in SHARED:
                self._recorder.read(key, scope_of(key))

    def wrote(
        self,
        event: str,
        delta: Mapping[str, Any],
        agent: str,
        run: api.Run | None,
        group: str = "",
        branch: str = "",
    ) -> None:
        """Record the writes of an event, once, even if it is seen twice."""
        if event in self._written_names:
            return
        update = _plain(delta)
        if not update:
            return
        self._written_names.add(event)
        reported = self._reported_values.setdefault(self._recorder.session, {})
        reported.update({key: _encode(value) for key, value in update.items()})
        cause = "user" if run is None and not agent else "writes"
        self._recorder.wrote(update, agent, run, cause=cause, group=group, branch=branch)
        for key in update:
            if scope_of(key) in SHARED:
                self._recorder.stored(key, scope_of(key), agent, run)


def _plain(values: Mapping[str, Any]) -> dict[str, api.JsonValue]:
    return {
        key: _data(value) for key, value in values.items() if not key.startswith(compat.OWN_STATE)
    }


def _data(value: Any) -> api.JsonValue:
    try:
        return api.plain(value)
    except api.NotPlain:
        return api.canonical(value)


open_call: Final = contextvars.ContextVar[tuple[int, str]]("simkit_adk_tool", default=(0, ""))
"""The tool that runs here, by identity, and the id of its call."""


@dataclass(slots=True, eq=False)
class AgentRun:
    """One call of ``Runner.run_async``: a turn, or an agent that runs as a tool."""

    outer: Place | None
    words: str
    """The last message: the user's, then the agents'."""
    looked: bool = False
    waiting: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """Unanswered tool calls: id to the agent and the call."""
    places: dict[str, Place] = field(default_factory=dict)
    """The agents that ran in it, by their runs."""
    parked: list[Place] = field(default_factory=list)
    """Agents that were left open while another agent does a task for them."""


class Place:
    """A running agent, or the start of a runner call, which has no run yet."""

    __slots__ = ("agent", "agent_run", "branch", "group", "outer", "parallel", "run", "words")

    def __init__(
        self,
        agent_run: AgentRun,
        outer: Place | None,
        agent: Any = None,
        run: api.Run | None = None,
    ) -> None:
        self.agent_run, self.outer, self.agent, self.run = agent_run, outer, agent, run
        self.branch: str = outer.branch if outer is not None else ""
        self.parallel: str = outer.parallel if outer is not None else ""
        """The parallel group and the run that opened its branch; empty outside branches."""
        self.group = self.words = ""
        """The parallel group of the agents inside it, and the last message there."""

    def say(self, words: str) -> None:
        """Record a message here, which is also the last message of all outer places."""
        self.agent_run.words = words
        place: Place | None = self
        while place is not None and place.agent_run is self.agent_run:
            place.words, place = words, place.outer

    @property
    def opens_branch(self) -> bool:
        """Return whether it is the first agent of a branch of a parallel group."""
        return self.run is not None and self.branch == self.run.id

    @property
    def working(self) -> api.Run | None:
        """Return the agent run that code here belongs to."""
        place: Place | None = self
        while place is not None:
            if place.run is not None:
                return None if place.run.is_over else place.run
            place = place.outer
        return None


_current_place: Final = api.ContextScope[Place]("simkit_adk_place")
place_now, inside = _current_place.now, _current_place.inside


async def steps(place: Place, events: Any) -> AsyncGenerator[Any, None]:
    """Yield from a generator that runs inside a place; its reader does not."""
    try:
        while True:
            with inside(place):
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    return
            yield event
    finally:
        with inside(place):
            await events.aclose()


CONFIRM: Final = "adk_request_confirmation"
"""The call by which the ADK asks whether a tool may be executed."""


def question_of(call: Any) -> api.JsonValue:
    """Return a call's question to the user: its tool, and the arguments."""
    args = call.args or {}
    if call.name != CONFIRM:
        return {"tool": call.name, "args": api.plain_or_text(args)}
    original = args.get("originalFunctionCall") or {}
    confirmation = args.get("toolConfirmation") or {}
    question = {"tool": original.get("name"), "args": api.plain_or_text(original.get("args") or {})}
    for key in ("hint", "payload"):
        if confirmation.get(key):
            question[key] = api.plain_or_text(confirmation[key])
    return question


def answer_to(calls: Mapping[str, Any], value: api.JsonValue) -> types.Content:
    """Return the message that answers calls: a list with one value each, or one value for all."""
    many = isinstance(value, list) and len(value) == len(calls) > 1
    values = value if isinstance(value, list) and many else [value] * len(calls)
    parts = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response=_response(call, answer)
            )
        )
        for call, answer in zip(calls.values(), values, strict=True)
    ]
    return types.Content(role="user", parts=parts)


def _response(call: Any, value: api.JsonValue) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {"confirmed": bool(value)} if call.name == CONFIRM else {"result": value}


TRANSFER: Final = "transfer_to_agent"
"""The tool that passes control, and its argument with the agent."""
ROUTERS: Final = {TRANSFER: "agent_name"}
FINISH: Final = "finish_task"
"""The tool by which an agent reports that its task is done."""
OUTPUT_TOOLS: Final = {"set_model_response": "", FINISH: ""}
"""The tools for structured output, where models have no other way to give it."""
SUMMARIZER: Final = "event_summarizer"
"""The agent name of summaries of old events, for which the ADK has no name."""
MERGED: Final = "of several transfers at once the ADK makes one"


class AdkLog:
    """Records the runs of one scenario's agents."""

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self.adapter_context = adapter_context
        self.recorder, self.writing = adapter_context.recorder, adapter_context.writing
        self.states = States(adapter_context.recorder)
        self._parallel_groups = api.ParallelGroups[AgentRun](adapter_context.recorder)
        self._origins: dict[str, Place] = {}
        """Event id to the place of the agent that made it."""
        self.next_number = itertools.count(1).__next__
        """Returns a number in place of a random value."""

    def clear(self) -> None:
        """Drop open runs of the last turn."""
        self._parallel_groups.clear()
        self._origins.clear()

    # Runner calls

    def begin(self, place: Place | None, message: Any) -> Place:
        """Record a runner call, by a tool of an agent or by the pipeline's own code."""
        words = "" if place is None else place.agent_run.words
        agent_run = AgentRun(place, text_of(message) or words)
        with self.writing():
            self._parallel_groups.begin(agent_run, place)
        return Place(agent_run, place)

    def ended(self, agent_run: AgentRun) -> None:
        """Close the runner call, however it ended."""
        with self.writing():
            for place in agent_run.parked:
                if place.run is not None:
                    self.recorder.end_run(place.run, "cancelled")
            self._parallel_groups.ended(agent_run)

    # Agents

    def agent_began(self, current_place: Place, agent: Any) -> Place:
        """Record an agent's start: in a runner call, inside another agent, or after it.

        An agent that was left open continues.
        """
        parked = current_place.agent_run.parked
        with self.writing():
            resumed = next((place for place in parked if place.agent.name == agent.name), None)
            if resumed is not None:
                parked.remove(resumed)
                return resumed
            outer = self._left_by(current_place, agent)
            if outer.agent is None:
                outer = self._giver(current_place.agent_run, agent.name) or outer
            group = self._group(outer)
            run, parent = self._begin(outer, agent, group)
            place = Place(current_place.agent_run, outer, agent, run)
            if group:
                place.branch, place.parallel = run.id, group
            current_place.agent_run.places[run.id] = place
            self._told_handoffs(parent)
            return place

    def _begin(self, outer: Place, agent: Any, group: str) -> tuple[api.Run, api.Run | None]:
        parent = outer.working
        run = self.recorder.begin_run(
            agent.name,
            self._given_to(agent.name, outer),
            group=group,
            branch=outer.branch,
            outer=outer.branch if group else "",
            parent=parent.id if parent is not None else "",
        )
        return run, parent

    def _giver(self, agent_run: AgentRun, agent: str) -> Place | None:
        """Return the agent whose call gives another one a task; the ADK runs that elsewhere."""
        request = next(self.recorder.pending(agent), None)
        return agent_run.places.get(request.run.id) if request is not None else None

    def _given_to(self, agent: str, outer: Place) -> api.JsonValue:
        """Return an agent's input: the arguments of its call, or the last message."""
        recorder = self.recorder
        request = recorder.call_request(open_call.get()[1]) or next(recorder.pending(agent), None)
        if outer.run is None or request is None or request.call.name != agent:
            return outer.agent_run.words or None
        args = request.call.args
        return args.get("request", args) if isinstance(args, dict) else args

    def _left_by(self, place: Place, agent: Any) -> Place:
        """Return the place inside which an agent runs; end the agent that passed control there."""
        run = place.working
        if run is None or place.outer is None or run is not place.run:
            return place
        if not self._passes_on(run, agent.name):
            return place
        self.recorder.end_run(run, "handed_off")
        return place.outer

    def _passes_on(self, run: api.Run, agent: str = "") -> bool:
        """Return whether a run has requested a handoff, to ``agent`` if given, not made yet."""
        mine = self.recorder.pending_handoffs(run)
        return any(handoff.to_agent == agent or not agent for handoff in mine)

    def _told_handoffs(self, parent: api.Run | None) -> None:
        """Reject the other transfers that a message asked for, after one was made."""
        if not self.recorder.requested:
            return
        over = {run.id for run in self.recorder.runs if run.is_over}
        for handoff in list(self.recorder.requested):
            if handoff.run in over and (parent is None or handoff.run != parent.id):
                self.recorder.refused(handoff, MERGED)

    def _group(self, outer: Place) -> str:
        """Return the parallel group: of a ParallelAgent, or of runner calls that began together."""
        if isinstance(outer.agent, ParallelAgent):
            outer.group = outer.group or self.recorder.begin_group()
            return outer.group
        return "" if outer.agent is not None else self._parallel_groups.starts(outer.agent_run)

    def agent_ended(self, place: Place, problem: BaseException | None, last: Any) -> None:
        """Close an agent run, or leave it open after its ``last`` event.

        An open run can continue.
        """
        run = place.run
        with self.writing():
            if run is None or run.is_over:
                return
            agent_run = place.agent_run
            asks = [call for agent, call in agent_run.waiting.values() if agent == run.agent]
            is_left = isinstance(problem, GeneratorExit)
            has_raised = problem is not None and not is_left
            if self._passes_on(run) and not has_raised:
                self.recorder.end_run(run, "handed_off")
            elif asks and agent_run.outer is None and not has_raised:
                questions = [question_of(call) for call in asks]
                one_only = questions[0] if len(questions) == 1 else questions
                self.recorder.interrupted(run, one_only)
            elif is_left and not _is_answer(last):
                agent_run.parked.append(place)
            else:
                self._end(place, run, _last_status(agent_run, problem))

    def _end(self, place: Place, run: api.Run, status: str) -> None:
        """End an agent run; without a message of its own, its output is the last one there."""
        is_silent = run.final is not None or status != "done"
        self.recorder.end_run(run, status, None if is_silent else place.words or None)

    def summarizer_began(self, place: Place) -> Place:
        """Record the start of a summary of old events."""
        with self.writing():
            return Place(place.agent_run, place, None, self.recorder.begin_run(SUMMARIZER))

    def summarizer_ended(self, place: Place, problem: BaseException | None) -> None:
        """Record its end."""
        with self.writing():
            if place.run is not None:
                self.recorder.end_run(place.run, api.status_after(problem))

    # Events of agents

    def event_made(self, place: Place, event: Any) -> None:
        """Record an event of an agent; the innermost agent comes first."""
        run = place.run
        if run is None or event.author != run.agent or event.id in self._origins:
            return
        if event.partial:
            return
        with self.writing():
            self._origins[event.id] = place
            self._note_waiting(place, event)
            self._note_words(place, run, event)
            to = event.actions.transfer_to_agent
            if to and not self._passes_on(run, to):
                self.recorder.hand_over(run.agent, to, self._passed_by(event), run=run)

    def _passed_by(self, event: Any) -> api.JsonValue:
        """Return the arguments of the tool that passed control; None if several might have."""
        answers = event.get_function_responses()
        request = self.recorder.call_request(answers[0].id or "") if len(answers) == 1 else None
        if request is None:
            return None
        return self.recorder.handoff_tools.passed_by(request.call.name, request.call.args) or None

    def _note_waiting(self, place: Place, event: Any) -> None:
        waiting = place.agent_run.waiting
        for call in event.get_function_calls():
            if call.id in (event.long_running_tool_ids or ()):
                waiting[call.id] = (event.author, call)
        for answer in event.get_function_responses():
            waiting.pop(answer.id, None)

    def _note_words(self, place: Place, run: api.Run, event: Any) -> None:
        """Record an agent's message, also if no model wrote it."""
        words = text_of(event.content)
        if not words or event.get_function_calls() or event.get_function_responses():
            return
        place.say(words)
        if run.final is None or run.final.content != words:
            run.final = self.recorder.known(api.Message("assistant", words, agent=run.agent), run)

    # Session state

    def appended(self, place: Place | None, state: Mapping[str, Any], event: Any) -> None:
        """Record the state changes of an event that is appended to a session."""
        maker = self._origins.get(event.id)
        run = maker.run if maker is not None else None
        with self.writing():
            if place is not None and place.agent_run.outer is None and not place.agent_run.looked:
                place.agent_run.looked = True
                self.states.observe_state(state)
            self.states.wrote(
                event.id,
                event.actions.state_delta,
                run.agent if run is not None else "",
                run,
                maker.parallel if maker is not None else "",
                maker.branch if maker is not None else "",
            )


def text_of(content: types.Content | str | None) -> str:
    """Return the text of a content, without thoughts."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content.parts or ()
    return "".join(part.text for part in parts if part.text and not part.thought)


def _last_status(agent_run: AgentRun, problem: BaseException | None) -> str:
    """Return the status of a run that ended with a problem, or in peace."""
    if problem is None and agent_run.waiting:
        return "interrupted"
    return api.status_after(None if isinstance(problem, GeneratorExit) else problem)


def _is_answer(last: Any) -> bool:
    """Return whether an agent that is left open after an event has given its answer."""
    if last is None:
        return False
    ends = any(response.name == FINISH for response in last.get_function_responses())
    return ends or bool(last.is_final_response())
