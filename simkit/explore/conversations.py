"""One unscripted conversation: it is run, judged, and kept as a script."""

from __future__ import annotations

import atexit
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final, TextIO

import msgspec

from simkit.checks.claims import check_called
from simkit.checks.findings import CLAIM, Finding
from simkit.checks.judge import Judgement
from simkit.core.errors import SimkitError, SourceError
from simkit.core.messages import JsonValue
from simkit.explore.causes import (
    Cause,
    cause_of,
    is_error,
    is_guardrail,
    is_of_application,
    is_of_provider,
)
from simkit.explore.choices import (
    SIMPLEST,
    ChoiceLog,
    Plan,
    RandomChoices,
    ReplayedChoices,
    Source,
    TurnLog,
)
from simkit.explore.claims import (
    Part,
    Reach,
    claim_parts,
    claims_on_turns,
    denials_of,
    handoffs_by_tool,
    may_have_happened,
    parts_declared,
    parts_taken,
)
from simkit.explore.interfaces import ChoosingModel, ChoosingTools
from simkit.explore.scene import OrderChoices, Scene, interfaces_of, interfaces_of_code
from simkit.explore.subjects import Subject
from simkit.explore.users import CUT_KEYS, SimulatedUsers
from simkit.language.yaml import packed, unpacked
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.models.faults import tool_moment
from simkit.runtime.models.script import call_with
from simkit.runtime.ports import Schedule, Tools, TurnModel
from simkit.session.simulate import Conversation, late_findings
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.model import CUTS, Turn
from simkit.spec.scenario.simulations import CRASH, RESTART, TURN_FAULTS, Simulation
from simkit.trace import events as e
from simkit.trace.store import copied
from simkit.trace.views import View


@contextmanager
def unheard() -> Iterator[None]:
    """Drop what the user's code prints: of thousands of conversations nobody could read it."""
    with redirect_stdout(_nowhere()), redirect_stderr(_nowhere()):
        yield


@lru_cache(maxsize=1)
def _nowhere() -> TextIO:
    # It stays open to the end: handlers of logging that are made now keep it.
    until_exit = ExitStack()
    atexit.register(until_exit.close)
    return until_exit.enter_context(open(os.devnull, "w", encoding="utf-8", errors="replace"))


_TRIALS: Final = {
    RESTART: ChoiceLog((TurnLog(), TurnLog(fate=RESTART))),
    CRASH: ChoiceLog((TurnLog(fate=CRASH), TurnLog())),
}
"""Fault to the simplest conversation whose second turn a new process takes."""
_RESTARTABLE: Final = (
    "simkit restarts declared pipelines, LangGraph graphs, Google ADK agents, and programs that "
    "read the user's messages."
)


def restart_trials(prepared: Prepared, simulation: Simulation, turns: int) -> Iterator[ChoiceLog]:
    """Yield the conversations that show whether code can be restarted, if it may have to be."""
    if isinstance(prepared.pipeline, App) and turns > 1:
        yield from (_TRIALS[fault] for fault in _TRIALS if simulation.faults.get(fault))


def check_restarts(
    prepared: Prepared,
    simulation: Simulation,
    of_profile: Container[str],
    events: Sequence[e.Event],
) -> None:
    """Raise SourceError if a conversation's process ended, and its code could not go on.

    ``of_profile`` are the faults that a profile asks for, and no file.
    """
    ended = events[-1]
    misfits = ended.misfits if type(ended) is e.RunFinished else ()
    for misfit in (each for each in misfits if each.path[-1:] == ("restart",)):
        says_more = "\n" in misfit.what
        faults = [f for f in _TRIALS if simulation.faults.get(f) and f not in of_profile]
        if not faults:
            advice = _advice("Explore it with another `--profile`.", says_more)
            raise SimkitError(f"{misfit.what}\n  {advice}")
        advice = f"Leave {' and '.join(f'`{fault}`' for fault in faults)} out of `faults:`."
        raise prepared.document.error(
            ("faults", faults[0]), misfit.what, advice=_advice(advice, says_more), key=True
        )


def _advice(advice: str, says_more: bool) -> str:
    """Return the advice to do without restarts, behind what the error says itself."""
    return f"Or {advice[0].lower()}{advice[1:]}" if says_more else f"{advice} {_RESTARTABLE}"


_NO_CLAIMS: Final = Expect.model_validate({})


class ExploredRun(msgspec.Struct, frozen=True):
    """A conversation that was run."""

    turns: tuple[Mapping[str, Any], ...]
    """The turns of a scenario that repeats it, without the simulation's claims."""
    causes: Mapping[Cause, Finding]
    model_calls: int
    claims: tuple[Mapping[str, Any], ...] = ()
    """The claims on each turn that were judged."""
    reach: Reach = Reach()
    denials: Mapping[Cause, Mapping[str, Any]] = {}
    """The claim of each cause that is a thing which must never happen."""
    tape: ChoiceLog = ChoiceLog()
    """The choices that it used; empty for one of an enumeration."""
    observed: tuple[Prepared, View] | None = None
    """The scenario and the trace of which coverage is measured; None if it is not."""


def converse(subject: Subject, choices: Plan | ChoiceLog, *, observes: bool = False) -> ExploredRun:
    """Run the conversation of a plan or a tape; raise SourceError if the pipeline cannot be run.

    ``observes``: what happened is kept, so that coverage can be measured.
    """
    source = (
        ReplayedChoices(choices)
        if isinstance(choices, ChoiceLog)
        else RandomChoices(choices, subject.rare)
    )
    run = converse_by(subject, source, observes=observes)
    return msgspec.structs.replace(run, tape=source.tape())


def converse_by(subject: Subject, source: Source, *, observes: bool = False) -> ExploredRun:
    """Run a conversation, and judge it by the lints and the simulation's claims.

    Raise SourceError, as `simkit.simulate` does, if the pipeline cannot be run.
    """
    with unheard():
        return _Conversation(subject, source).run(observes)


class _Conversation:
    def __init__(self, subject: Subject, source: Source) -> None:
        self._subject, simulation = subject, subject.simulation
        pipeline = subject.prepared.pipeline
        shares = {**simulation.misbehaves, **simulation.faults}
        # Users whom a file describes say what stands there.
        may_refer = subject.is_made_up and not isinstance(pipeline, Pipeline)
        self._users = SimulatedUsers(
            simulation,
            source,
            {name: shares[name] for name in shares if name in TURN_FAULTS},
            subject.voices,
            may_use_tools=not isinstance(pipeline, Pipeline) or bool(pipeline.tools),
            may_refer=may_refer,
        )
        self._scene = Scene(
            source,
            simulation,
            subject.lines,
            {name: shares[name] for name in shares if name not in TURN_FAULTS},
            brings_up_numbers=may_refer,
        )
        self._source = source
        self._order: OrderChoices | None = None
        """The order of answers; None before the run."""
        self._claims: list[dict[str, Any]] = []
        self._denials: dict[Cause, Mapping[str, Any]] = {}
        self._turns: list[Turn] = []
        self._is_broken = False
        """Whether the last turn ended in a way that no turn may follow."""

    def run(self, observes: bool) -> ExploredRun:
        users, subject = self._users, self._subject
        # Whether a store is needed must be known before the first turn.
        data = [{"user": ".", "restart": flag} for flag in users.ends_process()]
        first = self._prepared(data, map(_turn, data))
        with Conversation(first, simulate=self._answering) as conversation:
            self._scene.names = frozenset(conversation.view.pipeline.agents)
            while users.speak() and self._take_last(conversation):
                pass
            self._repeat_after_fault(conversation)
            if subject.always or subject.finally_:
                view, personas = conversation.view, self._users.personas
                self._claims = claims_on_turns(subject.always, view, personas)
            compares = self._has_others(conversation.turns_taken)
            if self._claims or compares or any("expect" in turn for turn in users.turns[-1:]):
                # Only now is it known that an error ends the last turn on purpose.
                turns = [*self._script()] if compares else users.turns
                conversation.follow(self._judged(turns, self._claims, subject.finally_))
            self._check_called(conversation.view)
            judgement = conversation.judgement(compared=compares)
            denied = dict(self._broken_denials(conversation))
            conversation.end()
            check_restarts(
                subject.prepared, subject.simulation, subject.of_profile, conversation.events
            )
            _raise_broken(judgement)
            events, view = conversation.events, conversation.view
            observed = (subject.prepared, view) if observes else None
        warnings = filter(is_of_application, judgement.warnings)
        late = late_findings(subject.prepared)
        causes: dict[Cause, Finding] = {}
        for finding in (*warnings, *judgement.findings, *late):
            if not finding.follows:
                causes.setdefault(cause_of(finding), finding)
        causes |= denied
        return ExploredRun(
            tuple(self._script()),
            causes,
            [*map(type, events)].count(e.ContextBuilt),
            tuple(self._claims),
            self._reach(view, judgement),
            self._denials,
            observed=observed,
        )

    def _check_called(self, view: View) -> None:
        """Raise SourceError for an unknown argument at its place in the file."""
        if self._subject.has_claims:
            prepared = self._subject.prepared
            scenario = prepared.scenario
            (turn,) = scenario.turns
            claims = [(("turns", 0, "expect"), turn.expect), (("expect",), scenario.expect)]
            check_called(scenario, prepared.document, claims, view)

    def _reach(self, view: View, judgement: Judgement) -> Reach:
        """Return what the conversation may have reached, and what it did reach."""
        subject = self._subject
        # One that is misspelt there is never reached.
        rules = {*subject.prepared.scenario.agents, *subject.lines}
        is_code = not isinstance(subject.prepared.pipeline, Pipeline)
        named = {Part("agent", name) for name in rules if is_code}
        skipped = {finding.path[3:5] for finding in judgement.passed_over}
        judged = {
            part
            for claims in self._claims
            for part in claim_parts(claims)
            if tuple(part.name.split(".", 2)[1:]) not in skipped
        }
        may, did = self._users.states()
        declared = frozenset(parts_declared(view.pipeline))
        started = {part for part in parts_taken(view) if part.kind != "edge" or part in declared}
        handoffs = handoffs_by_tool(view.events)
        offered = {handoffs.get(part, part) for part in self._scene.offered}
        requested = {handoffs.get(part, part) for part in self._scene.reached}
        return Reach(
            declared.union(offered, named, claim_parts(subject.always), may),
            frozenset(started | requested | judged | did | (self._scene.provided & declared)),
        )

    def _broken_denials(self, conversation: Conversation) -> Iterator[tuple[Cause, Finding]]:
        """Yield the things that happened and must never happen, each judged by itself."""
        for number, thing in enumerate(self._subject.never):
            personas = self._users.personas[: conversation.turns_taken]
            claims, whole = denials_of(thing, personas)
            if not may_have_happened(claims, whole, conversation.view):
                continue
            conversation.follow(self._judged(self._users.turns, claims, whole))
            for finding in conversation.judgement().findings:
                if finding.id == CLAIM and not is_error(finding):
                    cause = Cause(CLAIM, "", f"never.{number}")
                    at_turn = finding.path[0] == "turns"
                    self._denials[cause] = claims[int(finding.path[1])] if at_turn else whole
                    yield cause, finding
                    break

    def _repeat_after_fault(self, conversation: Conversation) -> None:
        """Let the user say the last message again if a fault hit it: without one, it must work."""
        users = self._users
        if self._is_broken or not self._scene.faults or not self._scene.faults[-1]:
            return
        if users.speakers[-1].is_asked or not users.say_again():
            return
        self._scene.source = simplest = ReplayedChoices(SIMPLEST)
        simplest.begin_turn(0)
        self._take_last(conversation)

    def _take_last(self, conversation: Conversation) -> bool:
        """Take the users' last turn; return whether another one may follow."""
        users, count = self._users, conversation.turns_taken
        self._is_broken = True
        self._scene.persona = users.speakers[-1].persona
        self._turns.append(_turn(users.turns[-1]))
        conversation.follow(self._prepared(users.turns, self._turns))
        misfit = self._scene.misfit
        if misfit is not None:
            where = self._subject.prepared.document.position(misfit.path)
            raise SourceError(where, misfit.what)
        if conversation.turns_taken == count:
            users.turns.pop()
            return False
        last = users.hear(conversation)
        self._settle_cut(last.error, conversation.events)
        if last.error is None:
            self._is_broken = False
            return True
        is_of_fault = bool(self._scene.faults[-1]) and is_of_provider(last.error)
        if not is_of_fault and not is_guardrail(last.error):
            return False
        self._is_broken = False
        if last.error.type in CUTS:
            return True
        users.turns[-1]["expect"] = {"error": last.error.type}
        self._turns[-1] = _turn(users.turns[-1])
        return True

    def _settle_cut(self, error: e.ErrorFacts | None, events: Sequence[e.Event]) -> None:
        """Note that the last turn was cut, and where; one that ended before was not to be cut."""
        turn = self._users.turns[-1]
        for fault, key in CUT_KEYS.items():
            if key not in turn:
                continue
            if error is not None and error.type in CUTS:
                self._scene.faults[-1].add(fault)
                faults = (
                    event.fault for event in reversed(events) if type(event) is e.FaultInjected
                )
                moments = (tool_moment(words) for words in faults)
                turn[key] = next(filter(None, moments)) if "tool" in turn[key] else turn[key]
            else:
                del turn[key]
            self._turns[-1] = _turn(turn)

    def _has_others(self, count: int) -> bool:
        """Return whether there is a run to compare with: of one session, or without restarts.

        ``count`` is the number of turns that were taken.
        """
        turns = self._turns[:count]
        return len({turn.session for turn in turns}) > 1 or any(turn.restart for turn in turns)

    def _judged(
        self,
        turns: Sequence[Mapping[str, Any]],
        claims: Sequence[Mapping[str, Any]],
        whole: Mapping[str, Any],
    ) -> Prepared:
        """Return the scenario of all turns, with claims on each and on the whole conversation."""
        data = with_claims(turns, claims)
        return self._prepared(data, map(_turn, data), whole)

    def _prepared(
        self,
        data: Sequence[Mapping[str, Any]],
        turns: Iterable[Turn],
        claims: Mapping[str, Any] = {},
    ) -> Prepared:
        return with_turns(self._subject.prepared, data, turns, claims)

    def _answering(self, ready: CompiledPipeline | None) -> tuple[TurnModel, Tools, Schedule]:
        """Return the models and tools that answer by choice, and the order that is chosen."""
        scene, source = self._scene, self._source
        # A restart makes the models again, and the order goes on.
        order = self._order = self._order or OrderChoices(
            self._subject.simulation.schedule,
            source.order,
            is_each=source.is_each,
            may_be_at_once=ready is not None,
            commutes=source.is_each and ready is not None and not self._subject.names_function,
        )
        if ready is None:
            interfaces = interfaces_of_code(self._subject.prepared.pipeline)
            served = interfaces.tool_returns
            # Tools of code run for real, but those of servers: the code itself calls them.
            tools = ChoosingTools(
                scene, interfaces, lambda tool: tool not in served, lambda *_: None
            )
            return ChoosingModel(scene, interfaces), tools, order
        interfaces = interfaces_of(ready)
        functions = {
            name: tool.function for name, tool in ready.pipeline.tools.items() if tool.function
        }

        def run(tool: str, args: JsonValue) -> JsonValue:
            return copied(call_with(ready.functions.named(functions[tool]), copied(args)))

        # A tool that reads a channel needs no function.
        real = {*functions, *(name for name, tool in ready.pipeline.tools.items() if tool.reads)}
        return (
            ChoosingModel(scene, interfaces),
            ChoosingTools(scene, interfaces, real.__contains__, run),
            order,
        )

    def _script(self) -> Iterator[dict[str, Any]]:
        """Yield each turn that was taken, as a scenario says it."""
        scene, order = self._scene, self._order
        assert order is not None
        for index, (turn, replies, results) in enumerate(
            zip(self._users.turns, scene.replies, scene.results, strict=False)
        ):
            script = {key: value for key, value in turn.items() if key != "expect"}
            if replies:
                script["replies"] = {
                    agent: given[0] if len(given) == 1 else given
                    for agent, given in replies.items()
                }
            if results:
                script["tool_results"] = results
            if names := order.order_of(index):
                script["schedule"] = names
            if "expect" in turn:
                script["expect"] = turn["expect"]
            yield script


def with_claims(
    turns: Sequence[Mapping[str, Any]], claims: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return turns as data, with claims on each.

    A claim replaces the turn's own one: that only excuses an error that a fault explains.
    """
    nothing: Mapping[str, Any] = {}
    return [
        {**turn, "expect": {**turn.get("expect", {}), **claim}} if claim else turn
        for turn, claim in zip_longest(turns, claims, fillvalue=nothing)
    ]


def with_turns(
    prepared: Prepared,
    data: Sequence[Mapping[str, Any]],
    turns: Iterable[Turn],
    claims: Mapping[str, Any] = {},
) -> Prepared:
    """Return a scenario with turns, as data and as models, and with claims on the whole run."""
    whole = {key: value for key, value in prepared.document.data.items() if key != "expect"}
    if claims:
        whole["expect"] = claims
    expect = Expect.model_validate(claims) if claims else _NO_CLAIMS
    update = {"turns": tuple(turns), "expect": expect}
    return msgspec.structs.replace(
        prepared,
        scenario=prepared.scenario.model_copy(update=update),
        document=prepared.document.with_data({**whole, "turns": list(data)}),
        waiting={},
    )


def _raise_broken(judgement: Judgement) -> None:
    """Raise SourceError for a finding that the scenario itself is wrong."""
    for finding in judgement.findings:
        if finding.breaks:
            raise SourceError(finding.where, finding.what)


def _turn(data: Mapping[str, Any]) -> Turn:
    return _read_turn(packed(data))


@lru_cache(maxsize=1024)
def _read_turn(encoded: bytes) -> Turn:
    return Turn.model_validate(unpacked(encoded))
