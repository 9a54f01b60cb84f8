"""The interceptor of a scenario's model calls: parse, attribute, record, answer.

It also records what annotated code says, and ends what must not continue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from simkit.adapters.annotations import Mark, current_mark
from simkit.adapters.attribution import Attribution
from simkit.adapters.concurrency.thread_turns import is_in_loop
from simkit.adapters.model_calls import (
    Answerer,
    ModelCall,
    OtherRequests,
    record_answer,
    record_request_beside,
    record_response_beside,
)
from simkit.adapters.recorder.sessions import Run, ToolRequest
from simkit.adapters.recorder.trace import TraceRecorder, status_after
from simkit.adapters.refusals import sent_at
from simkit.adapters.script import ScriptedAnswers
from simkit.capture.http.request_router import Decision, Later, Pauses
from simkit.core import errors
from simkit.core import messages as m
from simkit.core.branches import current_branch
from simkit.core.stopping import halting, halting_at
from simkit.providers.attachments import Chains
from simkit.providers.body_reader import MessageCache
from simkit.providers.failures import BROKEN_OFF, is_clients_own_attempt, patience_ms
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse
from simkit.providers.protocols import PROTOCOLS, protocol_of
from simkit.providers.values import ParsedRequest
from simkit.runtime.models.faults import FaultPlan, ToolStart
from simkit.runtime.scheduler import VirtualClock
from simkit.trace.events import ErrorFacts
from simkit.trace.recorder import WHOLE_RUN

_SETTLES_MS: Final = 1
"""How long a call of a cancelled turn waits; everything that is cancelled has ended by then."""


class _Alone:
    """Waits when no others wait: it advances the clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def sleep(self, seconds: float) -> None:
        self._clock.advance_to(self._clock.now + round(seconds * 1_000))

    async def sleep_in_loop(self, seconds: float) -> None:
        self.sleep(seconds)


class _LastRequest(msgspec.Struct, frozen=True):
    """An agent's last request, and its number of attempts."""

    call: ModelCall
    attempt: int


class ModelInterceptor:
    """Takes every request of the pipeline, and every annotation, while a scenario runs.

    Any thread may call it; one at a time is recorded. It ends what must not continue.
    """

    def __init__(
        self, recorder: TraceRecorder, attribution: Attribution, script: ScriptedAnswers,
        others: Answerer | None, host_is_allowed: Callable[[str], bool], plan: FaultPlan,
        run_now: Callable[[], Run | None] = lambda: None,
        give_up: Callable[[], None] = lambda: None, wait_turn: Callable[[], None] = lambda: None,
        rename: Callable[[Run, str], None] = lambda run, agent: None,
        around: Callable[[], Run | None] = lambda: None, pauses: Pauses | None = None,
        waits_as: Callable[[str], Pauses | None] = lambda agent: None,
        cancels: Callable[[], Callable[[], None] | None] = lambda: None,
    ) -> None:  # fmt: skip
        """``run_now`` returns the agent run of the calling code, if no annotation does.

        ``give_up`` is called when the run cannot continue. ``wait_turn`` lets threads be served one
        after the other, in an order that is the same every time; ``rename`` gives a run the name
        that a rule has for its agent. ``around`` returns the agent run around an annotated block;
        ``pauses`` lets callers wait in parallel. ``waits_as`` returns the way in which a call of an
        agent waits until it is chosen; None if it is answered at once. ``cancels`` returns the
        function that cancels the task that runs the turn; None if there is no such task.
        """
        self._recorder, self._plan, self._give_up = recorder, plan, give_up
        self._attribution, self._script, self._others = attribution, script, others
        self._run_now, self._rename, self._waits_as = run_now, rename, waits_as
        self._around, self.wait_turn = around, wait_turn
        self.pauses, self._cancels = pauses or _Alone(recorder.clock), cancels
        self.lock: Final = recorder.lock
        """Held while something is recorded."""
        self.halted: errors.SimkitError | None = None
        """Why the run cannot continue, even if the pipeline's code caught the exception."""
        self.cut: errors.TurnCut | None = None
        """The cancellation of this turn; None if there was none."""
        self._chains = Chains()
        self.other_requests = OtherRequests(
            recorder, others, host_is_allowed, self._chains, script.has_lines
        )
        self.counted = self.other_requests.counted
        self._message_caches = {name: MessageCache() for name in PROTOCOLS}
        self._last: dict[tuple[str, str], _LastRequest] = {}
        """The last request of each agent of a session."""
        self._line_failures: dict[tuple[str, str, int], m.Fails] = {}
        """The failure of the last line that answered an agent in a turn."""
        self.last_failure: m.Fails | None = None
        """The last served failure; None if there is none."""

    def take(self, request: HttpRequest) -> Decision | Later:
        """Answer a request, now or later; raise RunHalted if the run cannot continue."""
        self.wait_turn()
        return self._while_locked(lambda: self._take(request))

    def _later(
        self, call: ModelCall, wait_ms: int, finish: Callable[[], Decision | Later]
    ) -> Decision | Later:
        """Return the decision about a call, or a wait; several may wait in parallel."""
        if not wait_ms:
            return finish()
        return Later(
            self.pauses,
            wait_ms,
            lambda: self._while_locked(lambda: self._with_answer(call, finish)),
        )

    def _take(self, request: HttpRequest) -> Decision | Later:
        protocol, remote = protocol_of(request), None
        if protocol is None:
            remote = self.other_requests.remote_agent(request)
            if remote is None:
                return self.other_requests.decide(request)
            protocol = remote.exchange.protocol
        if not self._recorder.turn:
            raise errors.CallUnattributed(
                f"the pipeline calls a model while it is built: {request.method} {request.url}"
                f"{sent_at()}.\nCall models only when the user says something: a function without "
                "parameters is called to make the pipeline, one of the message, "
                "`def answer(text): …`, to answer it."
            )
        try:
            model_request = self._chains.followed(
                protocol.parse_again(request, self._message_caches[protocol.name])
                if protocol.parse_again is not None
                else protocol.parse_request(request)
            )
        except errors.WireInvalid as problem:
            raise errors.CallUnattributed(
                f"{request.method} {request.url} is no request that {protocol.name} knows: "
                f"{problem}"
            ) from problem
        run = (
            self._remote_run(remote.agent, model_request)
            if remote is not None
            else self._run_of(model_request, request)
        )
        if (branch := current_branch()) is not None:
            branch.ask(run)
        attempt = self._attempt(run, model_request)
        call = ModelCall(
            self._recorder.record_request(
                run,
                model_request.messages,
                model_request.offers,
                _settings(model_request),
                hidden=model_request.hidden,
                marks=model_request.marks,
            ),
            run,
            model_request,
            protocol,
            request,
            self._chains,
            self._recorder.context_tokens,
        )
        self._last[run.agent, self._recorder.session] = _LastRequest(call, attempt)
        record_request_beside(call, self._recorder)

        def answer() -> Decision | Later:
            return self._with_answer(call, lambda: self._disturbed(call) or self._answered(call))

        wait = self._waits_as(run.agent)
        return answer() if wait is None else Later(wait, 0, lambda: self._while_locked(answer))

    def _with_answer(
        self, call: ModelCall, work: Callable[[], Decision | Later]
    ) -> Decision | Later:
        """Do the work that answers a call; emit the failure if nothing answers it."""
        try:
            return work()
        except errors.TurnCut:
            raise
        except errors.PipelineError as problem:
            self._recorder.failed(call.run, call.id, m.Fails(*errors.unanswered_as(problem)))
            raise

    def _attempt(self, run: Run, model_request: ParsedRequest) -> int:
        """Return the number of this attempt at a call; emit a retry if it is not the first."""
        last = self._last.get((run.agent, self._recorder.session))
        if (
            last is None
            or last.call.id not in self._recorder.failures
            or last.call.model_request.messages != model_request.messages
        ):
            return 1
        attempt = last.attempt + 1
        self._recorder.events.record_retry(
            self._recorder.at(run), call=last.call.id, attempt=attempt
        )
        return attempt

    def _disturbed(self, call: ModelCall) -> Decision | Later | None:
        """Return the planned failure of a call; None if there is none."""
        planned = self._plan.due(call.run.agent)
        if planned is None:
            return None
        if isinstance(planned, errors.TurnCut):
            return self._end_turn_at(call, planned)
        self._recorder.events.record_fault(self._recorder.at(call.run), fault=planned.words)
        return self._failing(call, planned.fails)

    def _end_turn_at(self, call: ModelCall, cut: errors.TurnCut) -> Later | None:
        """End the turn at a call, as `end_turn` does.

        None means that the call is answered at once: a thread's, which no cancellation reaches, or
        one of a turn that no task runs and that need not end.
        """
        if not self._end_turn(cut) or not is_in_loop():
            return None
        return self._settling(lambda: self._with_answer(call, lambda: self._answered(call)))

    def _answered(self, call: ModelCall) -> Decision | Later:
        if self._others is not None and not self._script.has_lines(call.run.agent):
            is_marked = self._script.is_marked(call.run)
            return self._others.decide(
                call, self._recorder, lambda answer: self._hear(call, is_marked, answer)
            )
        answer = self._scripted(call)
        reply = answer.reply
        if isinstance(reply, m.Fails):
            failed = reply
            return self._later(call, answer.latency_ms, lambda: self._failing(call, failed))
        return self._later(call, answer.latency_ms, lambda: self._served(call, answer))

    def _served(self, call: ModelCall, answer: m.Answer) -> HttpResponse:
        response = self._script.served(call, answer)
        record_response_beside(call, response, self._recorder)
        return response

    def _scripted(self, call: ModelCall) -> m.Answer:
        """Return the next line's answer; a client's own retries fail as the last line did.

        So a failure that nothing follows reaches the pipeline's code, however often its client
        library retries (docs/decisions/028).
        """
        key = call.run.agent, self._recorder.session, self._recorder.turn
        try:
            answer = self._script.chosen(call)
        except errors.ReplyMissing:
            last = self._line_failures.get(key)
            latest = self._last.get((call.run.agent, self._recorder.session))
            is_again = latest is not None and latest.attempt > 1
            if last is None or not is_clients_own_attempt(call.request, is_again):
                raise
            return m.Answer(last)
        if isinstance(answer.reply, m.Fails):
            self._line_failures[key] = answer.reply
        else:
            self._line_failures.pop(key, None)
        return answer

    def _hear(self, call: ModelCall, is_marked: bool, answer: HttpAnswer) -> None:
        """Record a provider's answer, from the thread that reads it."""
        with self.lock:
            try:
                record_response_beside(call, answer, self._recorder)
                self.last_failure = (
                    record_answer(call, answer, self._recorder, is_marked) or self.last_failure
                )
            except errors.SimkitError as problem:
                # Code that reads the answer could take it for the provider's failure.
                self.halt(problem)

    def _failing(self, call: ModelCall, fails: m.Fails) -> Decision | Later:
        waits = fails.kind in ("timeout", "stall")
        wait_ms = (patience_ms(call.request) or 0) if waits else 0
        return self._later(call, wait_ms, lambda: self._failed(call, fails))

    def _failed(self, call: ModelCall, fails: m.Fails) -> Decision:
        self.last_failure = fails
        answer = call.protocol.failed(call.id, fails, call.model_request)
        partial = ""
        if (
            fails.kind in BROKEN_OFF
            and call.model_request.is_streamed
            and isinstance(answer, HttpResponse)
        ):
            partial = call.protocol.parse_response(answer, call.model_request).message.content
        self._recorder.failed(call.run, call.id, fails, partial)
        record_response_beside(call, answer, self._recorder)
        return answer

    def _run_of(self, model_request: ParsedRequest, request: HttpRequest) -> Run:
        if server := self.other_requests.sampling_server(model_request.messages):
            sampled = self._recorder.open_run(server) or self._recorder.begin_run(server)
            sampled.is_remote = True
            return sampled
        mark = current_mark()
        if mark is not None:
            if mark.run is None or mark.run.is_over:
                mark.run = self._recorder.begin_marked(mark.agent, self._around())
            marked: Run = mark.run
            return marked
        current = self._run_now()
        agent = self._attribution.agent_of(model_request, request, current.agent if current else "")
        if current is not None:
            if current.agent == agent:
                return current
            if not current.model_calls:
                self._rename(current, agent)
                return current
        run, requested = self._recorder.open_run(agent), self._recorder.requested
        if run is None or any(h.to_agent == agent and h.run != run.id for h in requested):
            # Another agent hands over to it: its open run does not go on.
            return self._recorder.begin_run(agent)
        return run

    def _remote_run(self, agent: str, model_request: ParsedRequest) -> Run:
        """Return the run of a remote agent, to which the agent that works hands over."""
        recorder, source = self._recorder, self.run_here()
        if (run := recorder.open_run(agent)) is not None:  # It is asked again.
            return run
        if source is None:
            # Code that says nothing of its agents: the one that works, or that worked last.
            local_runs = [each for each in recorder.runs if not each.is_remote]
            source = next((each for each in reversed(local_runs) if not each.is_over), None)
            source = source or next(reversed(local_runs), None)
        parent = ""
        if source is not None:
            (message,) = model_request.messages
            parent = source.id if not source.is_over else ""
            recorder.hand_over(source.agent, agent, message.data, query=message.content, run=source)
        run = recorder.begin_run(agent, parent=parent)
        run.is_remote = True
        return run

    def run_here(self) -> Run | None:
        """Return the run for which this code works; None if nothing says it."""
        mark, branch, runs = current_mark(), current_branch(), self._recorder.runs
        run = mark.run if mark is not None else self._around()
        if run is None and branch is not None:
            run = branch.run_of(runs)
        elif run is None and len(runs) == 1:  # It began outside the turn: a server's thread.
            (run,) = runs
        return run

    def ended(self, error: ErrorFacts | None) -> None:
        """Report unused and drifted recordings at the end of the run."""
        others = self._others if error is None else None
        self._recorder.events.record_run_end(
            WHOLE_RUN,
            error=error,
            unplayed=tuple(others.unplayed()) if others is not None else (),
            drifted=tuple(others.drifted()) if others is not None else (),
        )

    # Ends of the run and of turns

    def _while_locked(self, work: Callable[[], Decision | Later]) -> Decision | Later:
        """Do work that records, while nobody else does."""
        with self.lock:
            if self.halted is not None:
                raise halting(self.halted)
            with halting_at(self.halt):
                return work()

    def halt(self, problem: errors.SimkitError) -> errors.RunHalted | errors.SimkitError:
        """Record why the run cannot continue; return the exception for the pipeline's code."""
        with self.lock:
            self.halted = self.halted or problem
        self._give_up()
        return halting(problem)

    def refuse_crashed(self) -> None:
        """Raise RunHalted if the process has ended: what goes on in its threads begins nothing."""
        if isinstance(self.halted, errors.ProcessCrashed):
            raise halting(self.halted)

    def begin_tool(self, request: ToolRequest) -> ToolStart | None:
        """Count a tool's call that begins; return None in a turn that no tool ends."""
        return self._plan.begin_tool(request.agent, request.call.name)

    def end_turn_if_due(self, start: ToolStart | None, at: str) -> bool:
        """End the turn if it is to end at this moment of a tool's call.

        Return whether its task was cancelled, and has to wait for that (`settle`); raise RunHalted
        if the process ends.
        """
        if start is None:
            return False
        with self.lock:
            cut = self._plan.due_at_tool(start, at)
            if cut is None:
                return False
            with halting_at(self.halt):
                return self._end_turn(cut)

    async def settle(self) -> None:
        """Let this task wait until everything that is cancelled has ended; it may be itself."""
        await self.pauses.sleep_in_loop(_SETTLES_MS / 1_000)

    def _end_turn(self, cut: errors.TurnCut) -> bool:
        """Raise ProcessCrashed, or let the user cancel the turn; return whether it is cancelled."""
        cancel = self._cancels() if isinstance(cut, errors.TurnCancelled) else None
        if isinstance(cut, errors.TurnCancelled) and cancel is None:
            if not self._plan.is_certain:
                return False
            raise errors.ScriptMisfit(
                f"turn {self._recorder.turn} cannot be cancelled: no task of asyncio runs it.\n"
                "Only asynchronous code ends where it waits: name an `async def` under "
                "`pipeline`, or let the process end there: `crash`.",
                ("turns", self._recorder.turn - 1, "cancel"),
            )
        self._recorder.events.record_fault(self._recorder.at(), fault=cut.moment)
        self._recorder.is_cut = True
        if cancel is None:
            raise cut
        # The task may end at once, in another thread.
        self.cut = cut
        cancel()
        return True

    def _settling(self, work: Callable[[], Decision | Later]) -> Later:
        """Return a wait until everything that is cancelled has ended, and the work after it."""
        return Later(self.pauses, _SETTLES_MS, lambda: self._while_locked(work))

    # Annotations

    def agent_began(self, mark: Mark) -> None:
        """Handle the start of an agent."""
        self.wait_turn()
        with self.lock:
            mark.run = self._recorder.begin_marked(mark.agent, self._around())

    def agent_ended(self, mark: Mark, problem: BaseException | None) -> None:
        """Handle the end, or the failure, of annotated code."""
        self.wait_turn()
        with self.lock:
            if mark.run is not None:
                self._recorder.end_run(mark.run, status_after(problem))

    def handed_over(
        self, source: str, to: str, payload: Any, type: str | None, query: str | None
    ) -> None:
        """Handle a handoff."""
        self.wait_turn()
        with self.lock:
            runs = self._recorder.runs
            run = next((r for r in reversed(runs) if not source or r.agent == source), None)
            self._recorder.hand_over(
                source or (run.agent if run is not None else ""),
                to,
                payload,
                type=type,
                query=query,
                run=run,
            )

    def state_changed(self, agent: str, update: dict[str, Any]) -> None:
        """Handle new values of channels."""
        self.wait_turn()
        with self.lock:
            self._recorder.wrote(update, agent)


def _settings(model_request: ParsedRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {"model": model_request.model} if model_request.model else {}
    settings.update(model_request.settings)
    if model_request.output is not None:
        settings["output"] = model_request.output
    if model_request.choice != "auto":
        settings["tool_choice"] = model_request.choice
    return settings
