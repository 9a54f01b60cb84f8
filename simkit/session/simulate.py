"""simulate(): run a scenario and check it; and the same, turn by turn."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from simkit.checks.findings import CLAIM, Finding, Hit
from simkit.checks.judge import Judgement, Outcome, judge_seen
from simkit.checks.lints import LintRunner
from simkit.checks.turn_claims import answer_to
from simkit.core.errors import SimkitError
from simkit.core.gc_pause import gc_paused
from simkit.core.text import short
from simkit.language.yaml import SourcePath
from simkit.runtime.functions import function_named
from simkit.session.execution import Execution
from simkit.session.execution.processes import Simulate
from simkit.session.execution.recorded import REPLAY, Recording, cassette_path, what_was_recorded
from simkit.session.execution.running import alone, placed, unbroken
from simkit.spec.pipeline.models import is_off
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.model import Turn, begins_process
from simkit.spec.scenario.questions import Question
from simkit.trace.events import ErrorFacts, Event, JudgeAnswered, RunFinished
from simkit.trace.store import Trace
from simkit.trace.views import View, said_in, view_of

if TYPE_CHECKING:
    from simkit.capture.cassettes.traffic import Traffic
    from simkit.session.execution.judging import Judge


class Recorded(msgspec.Struct, frozen=True):
    """The result of a recorded scenario."""

    outcome: Outcome
    """The outcome; differences found by ``verify`` are among its findings."""
    note: str = ""
    """A text about the recorded traffic."""


def simulate(prepared: Prepared, *, seed: int | None = None) -> Outcome:
    """Run a scenario and check it; ``seed`` replaces the scenario's own.

    Raise SourceError if the script cannot be used.

    >>> [scenario] = simkit.load("desk.scenario.yaml")
    >>> outcome = simkit.simulate(scenario)
    >>> outcome.passed, outcome.judgement.findings
    (True, ())
    """
    if not isinstance(prepared, Prepared):
        raise TypeError(
            f"simulate() takes a scenario of simkit.load(), not {short(repr(prepared), 60)}; write "
            '`for scenario in simkit.load("x.scenario.yaml"): simkit.simulate(scenario)`'
        )
    if seed is not None:
        prepared = prepared.with_seed(seed)
    _asked_by_libraries()  # Other runs of this process may have left some.
    with gc_paused, Conversation(prepared) as conversation:
        conversation.follow(prepared)
        outcome = conversation.finish()
    outcome = _with_findings(outcome, late_findings(prepared))
    return outcome if not isinstance(prepared.pipeline, App) else _with_notes(outcome, prepared)


def _asked_by_libraries() -> list[tuple[str, str]]:
    """Return the libraries that asked hosts by themselves since the last call."""
    refusals = sys.modules.get("simkit.capture.http.refusals")
    return [] if refusals is None else refusals.taken_survived()


def _with_notes(outcome: Outcome, prepared: Prepared) -> Outcome:
    """Return an outcome with what is in no trace, since the order of scenarios may decide it.

    Earlier scenarios of this process changed variables; a library asked a host by itself, as some
    do once a process.
    """
    left_values = sys.modules.get("simkit.adapters.recorder.left_values")
    changed = [] if left_values is None else left_values.changed_variables()
    hosts = _asked_by_libraries()
    if not changed and not hosts:
        return outcome
    from simkit.report.results import asked_by_libraries, changed_before

    judgement, off = outcome.judgement, prepared.scenario.lints
    noted, warnings = judgement.noted, judgement.warnings
    # The error names the variable that matters.
    is_told = any(finding.id == "RUN-08" for finding in judgement.findings)
    if changed and not is_told and not is_off(off, "RUN-08"):
        noted = (*noted, changed_before(prepared, changed))
    if hosts and not is_off(off, "RUN-02"):
        warnings = (*warnings, asked_by_libraries(prepared, hosts))
    judgement = msgspec.structs.replace(judgement, noted=noted, warnings=warnings)
    return msgspec.structs.replace(outcome, judgement=judgement)


def late_findings(prepared: Prepared) -> list[Finding]:
    """Return a finding for each effect that code here was refused after its run, once."""
    refusals = sys.modules.get("simkit.capture.http.refusals")
    refused = [] if refusals is None else refusals.late_refusals()
    if not refused or is_off(prepared.scenario.lints, "RUN-02"):
        return []
    from simkit.report.results import refused_late

    return refused_late(prepared, refused)


def _with_findings(outcome: Outcome, findings: Sequence[Finding]) -> Outcome:
    if not findings:
        return outcome
    judgement = msgspec.structs.replace(
        outcome.judgement, findings=(*outcome.judgement.findings, *findings)
    )
    return msgspec.structs.replace(outcome, judgement=judgement)


def run(prepared: Prepared, *, seed: int | None = None) -> Trace:
    """Run a scenario without checking it; ``seed`` and errors are those of `simulate`."""
    if seed is not None:
        prepared = prepared.with_seed(seed)
    with Conversation(prepared) as conversation:
        conversation.follow(prepared)
        return conversation.end()


def record(prepared: Prepared, recording: Recording) -> Recorded:
    """Run a scenario with real traffic, and write its cassette if it passed.

    Raise SourceError as `simulate` does, and CassetteInvalid for a cassette that cannot be read or
    must not be written.
    """
    path = cassette_path(prepared)
    with Conversation(prepared, recording) as conversation:
        traffic = conversation.traffic
        if traffic is None or path is None:
            conversation.follow(prepared)
            note = "nothing was recorded: the scenario names no `cassette`; write `cassette: NAME`"
            return Recorded(conversation.finish(), note)
        try:
            conversation.follow(prepared)
            outcome = _with_differences(conversation.finish(), prepared, traffic)
        except SimkitError:
            if recording.keeps_failed:
                traffic.save(path)
            raise
        saved = traffic.save(path) if outcome.passed or recording.keeps_failed else None
        return Recorded(outcome, what_was_recorded(traffic, path, saved))


def _with_differences(outcome: Outcome, prepared: Prepared, traffic: Traffic) -> Outcome:
    """Return the outcome with differences from the recorded traffic as findings."""
    where = prepared.document.position(("cassette",))
    findings = []
    for text in traffic.differences:
        problem, *lines = text.split("\n")
        details = tuple(line.removeprefix("  ") for line in lines)
        findings.append(Finding(CLAIM, "E", problem, where, ("cassette",), context=details))
    return _with_findings(outcome, findings)


class Conversation(AbstractContextManager["Conversation"]):
    """A scenario's conversation, taken turn by turn; it can be inspected after each.

    Every turn is run once. The caller continues by following a scenario with more turns, or more
    claims. An unusable script raises SourceError; after that it can only be closed.
    """

    def __init__(
        self,
        prepared: Prepared,
        recording: Recording = REPLAY,
        *,
        simulate: Simulate | None = None,
        is_apart: bool = False,
    ) -> None:
        """``simulate`` makes the models and tools that answer in place of the script.

        With ``is_apart`` it has a process of its own, free of module state from other runs.
        """
        self._prepared, self._recording = prepared, recording
        self._simulate, self._is_apart = simulate, is_apart
        self._asks_judge = prepared.scenario.asks_judge
        self._begin(is_durable=_has_processes(prepared.scenario.turns))

    def __exit__(self, *_: object) -> None:
        self.close()

    def follow(self, prepared: Prepared) -> None:
        """Take the new turns of a scenario, up to an error without a claim.

        The turns taken so far must be those of the scenario. The first restart, in a conversation
        without a store, begins it again: it is then taken from its first turn, with a store.
        """
        turns = prepared.scenario.turns
        coming = turns[len(self._execution.turns) :]
        self._prepared, self._asks_judge = prepared, prepared.scenario.asks_judge
        if not self._execution.is_durable and _has_processes(coming):
            self.close()
            self._begin(is_durable=True)
        with gc_paused, placed(prepared):
            for index in sorted(prepared.waiting):
                # The replies that a turn refers to are known once the turns before it are taken.
                self._take(turns[: max(index, 0)])
                if self.turns_taken == index:
                    now = prepared.turn_after(index, said_in(self.view))
                    turns = (*turns[:index], now, *turns[index + 1 :])
            self._take(turns)

    def _take(self, turns: Sequence[Turn]) -> None:
        """Take the new turns of these, and ask the judge about each after it."""
        first = self.turns_taken
        if not self._asks_judge or not any(turn.expect.has("judge") for turn in turns[first:]):
            self._execution.follow(turns)
            return
        for index in range(first, len(turns)):
            self._execution.follow(turns[: index + 1])
            if self.turns_taken <= index:
                break
            self._ask_of_turn(turns[index], index)

    def _ask_of_turn(self, turn: Turn, index: int) -> None:
        """Ask the judge what the claims on a turn ask, and was not asked yet."""
        if turn.expect.has("judge"):
            error = self.view.turns[index].error
            self._ask_judge(turn.expect.questions, turn.judge_replies, index + 1, error)

    def _ask_of_claims(self, places: Collection[int] | None = None) -> None:
        """Ask the judge about taken turns whose claims are newer than they, and about the run.

        ``places`` are the only turns, by index; None means all. After the end, nothing is asked.
        """
        if not self._asks_judge:
            return
        prepared, turns = self._prepared, self._prepared.scenario.turns
        chosen = range(len(turns)) if places is None else places
        asks = [p for p in chosen if p < len(turns) and turns[p].expect.has("judge")]
        is_of_whole = prepared.scenario.expect.has("judge")
        if self._has_ended or not (asks or is_of_whole):
            return
        with gc_paused, placed(prepared):
            scenario = prepared.after(said_in(self.view)).scenario
            for index in asks:
                if index < self.turns_taken:
                    self._ask_of_turn(scenario.turns[index], index)
            if is_of_whole:
                is_broken_off = self._execution.stops(scenario.turns)
                error = self._execution.error if is_broken_off else None
                self._ask_judge(scenario.expect.questions, scenario.judge_replies, 0, error)

    @property
    def _has_ended(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], RunFinished)

    def _ask_judge(
        self,
        questions: Iterable[Question],
        replies: Mapping[str, Any],
        number: int,
        error: ErrorFacts | None,
    ) -> None:
        """Ask the judge about a turn, or, with 0, about the whole run.

        ``replies`` are the file's own answers, with references resolved as in the questions.
        """
        options, trace = self._prepared.scenario.judge, self._execution.trace
        self._judge.ask(options, questions, replies, number, self.view, trace, error)

    @cached_property
    def _judge(self) -> Judge:
        """The judge; only scenarios with questions need the modules that ask."""
        from simkit.session.execution.judging import Judge

        return Judge(self.traffic)

    @property
    def traffic(self) -> Traffic | None:
        """Return the scenario's cassette; None if it has none."""
        return self._execution.traffic

    @property
    def turns_taken(self) -> int:
        """Return the number of turns taken."""
        return len(self._execution.turns)

    @property
    def events(self) -> Sequence[Event]:
        """Return the events so far, which no view needs to read."""
        return self._execution.trace.events

    @property
    def view(self) -> View:
        """Return the view of the trace so far."""
        runner, trace = self._lint_runner, self._execution.trace
        if runner.view.hi != len(trace.events):
            with gc_paused, placed(self._prepared):
                runner.feed(trace)
        return runner.view

    def trace(self) -> Trace:
        """Return the trace as if the conversation ended here."""
        trace = Trace()
        trace.events.extend(self._ended().events)
        return trace

    def judgement(
        self, places: Collection[int] | None = None, *, compared: bool = False
    ) -> Judgement:
        """Return the judgement as if the conversation ended here.

        ``places`` are the only turns, by index, that are checked; None means all. ``compared``:
        also make comparison runs (without restarts, each session alone).
        """
        prepared, execution = self._prepared, self._execution
        if execution.has_died and execution.error is not None:
            from simkit.report.results import finding_of_death

            death = finding_of_death(prepared, self.turns_taken, execution.error.message)
            return Judgement((death,), (), (), ())
        self._ask_of_claims(places)
        view = self._ended()
        if prepared.waiting:
            prepared = prepared.after(said_in(view))
        with gc_paused:
            hits = self._lint_runner.hits
            if compared and self._recording is REPLAY:
                with placed(prepared):
                    hits = [*hits, *_compared(prepared, view)]
                    if not any(hit.id == "RUN-08" and hit.severity is None for hit in hits):
                        hits = [*hits, *_left_compared(prepared, view)]
            with placed(prepared):
                facts = self._lint_runner.facts
                judgement = judge_seen(
                    prepared.scenario, prepared.document, view, facts, hits, function_named, places
                )
        return judgement

    def ask(self, number: int, question: Question) -> JudgeAnswered | None:
        """Ask the judge a question about a turn, counted from 1; return the recorded answer.

        None if nobody can answer: the scenario names no judge, or no cassette.
        """
        with gc_paused, placed(self._prepared):
            self._ask_judge([question], {}, number, self.view.turns[number - 1].error)
        return answer_to(self.view, number, question)

    def end(self) -> Trace:
        """End the conversation; return its trace."""
        self._ask_of_claims()
        with placed(self._prepared):
            self._execution.check_rules()
            return self._execution.finish()

    def finish(self) -> Outcome:
        """End the conversation, make the comparison runs, and return the outcome."""
        return Outcome(self.end(), self.judgement(compared=True), self.view)

    def close(self) -> None:
        """Release all resources; the results so far stay available."""
        if "_judge" in vars(self):
            self._judge.close()
        self._execution.close()

    @cached_property
    def _lint_runner(self) -> LintRunner:
        """The lints, and the one view of the run; made on first use."""
        return LintRunner()

    def _begin(self, *, is_durable: bool) -> None:
        for name in ("_lint_runner", "_judge"):
            vars(self).pop(name, None)
        with placed(self._prepared):
            self._execution = Execution(
                self._prepared,
                is_durable=is_durable,
                is_apart=self._is_apart,
                recording=self._recording,
                simulate=self._simulate,
            )

    def _ended(self) -> View:
        """Return the view as if the conversation ended here."""
        view = self.view
        if isinstance(view.events[-1], RunFinished):
            return view
        ended = copy.copy(view)
        ended.events = list(view.events)
        execution = self._execution
        ended.apply(
            RunFinished(view.events[-1].at, error=execution.error, misfits=execution.misfits)
        )
        return ended


def _has_processes(turns: Sequence[Turn]) -> bool:
    """Return whether turns may need several processes, so that a store must be there."""
    return any([turn.restart or turn.crash is not None for turn in turns])


def _compared(prepared: Prepared, view: View) -> Iterator[Hit]:
    """Yield the differences to a run without restarts, and to each session alone."""
    scenario = prepared.scenario
    sessions = list(dict.fromkeys([turn.session for turn in scenario.turns]))
    if len(sessions) < 2 and not _has_processes(scenario.turns):
        return
    restarts: dict[int, SourcePath] = {
        index + 1: ("turns", index, "restart") if turn.restart else ("turns", index - 1, "crash")
        for index, turn in enumerate(scenario.turns)
        if begins_process(scenario.turns, index)
    }
    # Few scenarios need what compares runs.
    from simkit.checks.comparative_runs import reached_by_others, resumed_differs

    if restarts and not is_off(scenario.lints, "STA-06"):
        yield from resumed_differs(view, view_of(unbroken(prepared).events), restarts)
    if len(sessions) > 1 and not is_off(scenario.lints, "STA-08"):
        reached = reached_by_others(view)
        whole = cache(lambda _number: view_of(unbroken(prepared).events))
        for session in sessions:
            if session not in reached:
                yield from _session_compared(prepared, view, session, whole)


def _left_compared(prepared: Prepared, view: View) -> Iterator[Hit]:
    """Yield the differences to a run without what earlier scenarios of this process left."""
    if isinstance(prepared.pipeline, App) and not is_off(prepared.scenario.lints, "RUN-08"):
        # Commands on declared pipelines do not need it.
        from simkit.session.execution.without_left import reached_by_left_values

        yield from reached_by_left_values(prepared, view)


def _session_compared(
    prepared: Prepared, view: View, session: str, whole: Callable[[int], View]
) -> Sequence[Hit]:
    """Return the differences of a session that other sessions cause.

    State that a file, a library or the process keeps from the first run is no effect of other
    sessions: then the whole second run differs from the first. If later runs are equal, the session
    alone is compared with them; if not, nothing is known. ``whole`` returns the view of the second
    run of all sessions, and of the third.
    """
    from simkit.checks.comparative_runs import session_differs

    starts = [turn.at for turn in view.turns]
    try:
        other = view_of(alone(prepared, session, starts).events)
        hits = session_differs(view, other, session)
        if not hits or not session_differs(view, whole(2), session):
            return hits
        if session_differs(whole(2), whole(3), session):
            return ()
        return session_differs(whole(2), other, session)
    except SimkitError:
        if isinstance(prepared.pipeline, App):
            return ()  # Not all code can be imported twice.
        raise
