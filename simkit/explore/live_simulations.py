"""Simulations that run live: their users are drawn, and real models answer.

A run is a scenario: its users' words are chosen by the seed and the number of the run, and it has
the simulation's claims, each turn those that speak of something that took place in it. Faults are
drawn for a run, too: a failure of a provider is answered in place of the provider, which is sent
nothing. Real models decide their answers and the order of them, so neither is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final

import msgspec

from simkit.checks.findings import CLAIM, Finding
from simkit.checks.judge import Outcome
from simkit.core.rng import Chance
from simkit.explore.causes import is_of_provider
from simkit.explore.choices import ODDS, Plan, RandomChoices, TurnPlan, rare
from simkit.explore.claims import claims_on_turns, denials_of
from simkit.explore.conversations import with_claims, with_turns
from simkit.explore.subjects import Subject
from simkit.explore.user_models import LiveUsers, check_cassettes, models_of
from simkit.explore.users import CUT_KEYS, SimulatedUsers
from simkit.language.paths import as_text
from simkit.language.yaml import SourcePath
from simkit.session.execution.recorded import run_name
from simkit.session.live.meter import Meter
from simkit.session.live.scripted_words import ClaimUnit, parts_of
from simkit.session.live.trials import ClaimResults
from simkit.session.simulate import Conversation
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.models import ModelOptions
from simkit.spec.scenario.apps import CassetteOptions
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.model import CUTS, Turn
from simkit.spec.scenario.moments import PossibleMoment
from simkit.spec.scenario.simulated_users import sample
from simkit.spec.scenario.simulations import (
    CRASH,
    DUPLICATE_TURN,
    PROVIDER_FAULTS,
    RESTART,
    TURN_FAULTS,
    JoinedClaims,
    SimulatedTool,
    Simulation,
    with_persona,
)
from simkit.trace.events import ErrorFacts, Event, FaultInjected

CALLS_MAX: Final = 8
"""The number of an agent's calls in one turn that may fail, at most."""
CUTS_OF: Final[Mapping[str, str]] = {key: fault for fault, key in CUT_KEYS.items()}
"""Key of a turn that ends before its reply, to the fault."""


class LiveFaults:
    """The faults of one run."""

    def __init__(self, simulation: Simulation, chance: Random) -> None:
        """``chance`` is that of the run alone: other faults must not change what users say."""
        faults = simulation.faults
        self.of_turns: Mapping[str, float] = _those(faults, TURN_FAULTS)
        """Share of each fault that happens to turns."""
        self._of_calls = _those(faults, PROVIDER_FAULTS)
        # All are drawn, whether there are such faults or not: a share changes no other one.
        self.fates = [chance.randrange(ODDS) for _ in range(simulation.turns)]
        """The numbers that decide what happens to each turn."""
        self._calls = [
            [chance.randrange(ODDS) for _ in range(CALLS_MAX)] for _ in range(simulation.turns)
        ]

    def need_store(self) -> bool:
        """Return whether a process may end, so that a store must be there from the beginning."""
        kinds = [self.fate(index) for index in range(len(self.fates))]
        return CRASH in kinds or RESTART in kinds[1:]

    def fate(self, index: int) -> str:
        """Return what happens to a turn; empty for nothing."""
        return rare(self.fates[index], self.of_turns) if index < len(self.fates) else ""

    def of_calls(self, index: int) -> dict[str, Any]:
        """Return the faults of the model calls of a turn, as a scenario writes them."""
        numbers = self._calls[index] if index < len(self._calls) else ()
        kinds = [rare(number, self._of_calls) for number in numbers]
        faults = [{"call": n, "error": kind} for n, kind in enumerate(kinds, 1) if kind]
        return {"faults": faults} if faults else {}


def _those(shares: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    return {name: share for name, share in shares.items() if name in names}


def settle(
    turn: dict[str, Any], number: int, events: Sequence[Event], error: ErrorFacts | None
) -> tuple[str, ...]:
    """Take out of a turn, as a scenario writes it, what was drawn and did not take place.

    Return the faults of its model calls that took place, and the one that ended it before its
    reply. ``number`` counts the turn from 1, and ``error`` ended it.
    """
    words = {each.fault for each in events if type(each) is FaultInjected and each.turn == number}
    rules = turn.pop("faults", ())
    used_rules = [rule for rule in rules if f"{rule['error']} on call {rule['call']}" in words]
    if used_rules:
        turn["faults"] = used_rules
    kinds = [str(rule["error"]) for rule in used_rules]
    for key, name in CUTS_OF.items():
        if key not in turn:
            continue
        if error is not None and error.type in CUTS:
            kinds.append(name)
        else:
            del turn[key]
    return tuple(kinds)


def of_turn(turns: Sequence[Mapping[str, Any]], fate: str) -> tuple[str, ...]:
    """Return whether the last turn begins a new process, or says again what the one before did."""
    if "restart" in turns[-1]:
        return (RESTART,)
    is_again = fate == DUPLICATE_TURN and len(turns) > 1 and "user" in turns[-2]
    return (DUPLICATE_TURN,) if is_again else ()


def left_out(subject: Subject) -> Iterator[str]:
    """Yield a line for each key of a simulation that is not drawn in live runs."""
    reasons = {
        "models": "real models answer",
        "misbehaves": "real models leave their interface by themselves",
        "schedule": "models are answered when they answer",
    }
    for key, reason in reasons.items():
        if key in subject.simulation.model_fields_set:
            yield f"`{key}:`, since {reason}"


_BITS: Final = 128
"""The size of the numbers from which a turn is chosen."""
_ALWAYS: Final = "always"
_NEVER: Final = "never"
_FINALLY: Final = "finally"


def live_units(subject: Subject) -> list[ClaimUnit]:
    """Return the claims of a simulation, as its live runs count them."""
    parts = [*parts_of(subject.always, (_ALWAYS,)), *parts_of(subject.finally_, (_FINALLY,))]
    places = range(len(subject.never))
    return [ClaimUnit(path) for path, _ in parts] + [ClaimUnit((_NEVER, n)) for n in places]


def check_tools(subject: Subject) -> None:
    """Raise SourceError for a tool of a declared pipeline for which nothing answers."""
    pipeline, prepared = subject.prepared.pipeline, subject.prepared
    if not isinstance(pipeline, Pipeline):
        return
    for name, tool in pipeline.tools.items():
        answers = subject.simulation.tools.get(name)
        has_result = answers is not None and "returns" in answers.model_fields_set
        if not has_result and not tool.function and not tool.reads:
            raise prepared.document.error(
                ("simulation",),
                f"nothing says what tool `{name}` returns, so a live run cannot go on",
                advice=f"Write `tools: {{{name}: {{returns: …}}}}`, or give the tool a function.",
            )


class LiveSimulation:
    """One live run of a simulation."""

    noun: ClassVar[str] = "conversation"
    first_turn = 1
    earlier: Path | None = None

    def __init__(self, subject: Subject, number: int = 1) -> None:
        """``number`` is that of the run: each has users of its own.

        Raise SimkitError for a cassette of a user that cannot be written.
        """
        self._subject, self._number = subject, number
        prepared = subject.prepared
        check_cassettes(prepared, subject.simulation)
        faults = LiveFaults(
            subject.simulation, Chance(prepared.scenario.seed).child(f"live/{number}/faults").random
        )
        self._faults = faults
        turns = [
            turn.model_copy(update={"restart": faults.need_store()})
            for turn in prepared.scenario.turns
        ]
        scenario = prepared.scenario.model_copy(
            update={"cassette": CassetteOptions(file="live"), "turns": tuple(turns)}
        )
        data = {**prepared.document.data, "cassette": "live"}
        self.prepared = msgspec.structs.replace(
            prepared, scenario=scenario, document=prepared.document.with_data(data)
        )
        self.notes = tuple(left_out(subject))
        self.units = self.judged = live_units(subject)
        self._happened: tuple[str, ...] = ()
        """The faults that took place."""
        self._is_hit = False
        """Whether one took place in the last turn's model calls."""
        self._played = self.prepared
        self._unheld: set[SourcePath] = set()
        self._judged_parts: set[SourcePath] = set()
        self._unit_paths: dict[SourcePath, SourcePath] = {
            unit.path: unit.path for unit in self.units
        }
        """The path of a claim, with personas filled in as in a run, to the path in the file."""

    @property
    def user_models(self) -> Sequence[ModelOptions]:
        """Return the models that speak for users."""
        return models_of(self._subject.simulation)

    def converse(self, conversation: Conversation, meter: Meter, now: str) -> Outcome:
        """Let the users speak until nobody has anything to say, and judge the claims."""
        simulation, prepared = self._subject.simulation, self._subject.prepared
        run = run_name(simulation.simulation, self._number)
        with LiveUsers(prepared, simulation, run, meter.of_users(), now) as voices:
            users = self._talk(conversation, voices)
        return self._judge(conversation, users)

    def _talk(self, conversation: Conversation, voices: LiveUsers) -> SimulatedUsers:
        """Let the users speak until nobody has anything to say, or a turn fails."""
        chance = Chance(self.prepared.scenario.seed).child(f"live/{self._number}").random
        faults = self._faults
        plan = _plan(self._subject, chance, faults.fates)
        users = SimulatedUsers(
            self._subject.simulation,
            RandomChoices(plan, [*faults.of_turns]),
            faults.of_turns,
            voices,
        )
        turns: list[Turn] = []
        goes_on = True
        while goes_on and users.speak():
            index = len(turns)
            data = users.turns[-1]
            data |= self._results(chance, users.speakers[-1].persona) | faults.of_calls(index)
            goes_on = self._takes(conversation, users, turns)
        # After a fault it must go on: without one, the message gets its answer.
        if goes_on and self._is_hit and not users.speakers[-1].is_asked and users.say_again():
            users.turns[-1] |= self._results(chance, users.speakers[-1].persona)
            self._takes(conversation, users, turns)
        return users

    def _takes(self, conversation: Conversation, users: SimulatedUsers, turns: list[Turn]) -> bool:
        """Take the users' last turn; return whether another one may follow."""
        turns.append(_turn(users.turns[-1]))
        # A run that an error breaks off is kept, too.
        self._played = with_turns(self.prepared, users.turns, turns)
        conversation.follow(self._played)
        if conversation.turns_taken < len(turns):
            users.turns.pop()
            return False
        last, data = users.hear(conversation), users.turns[-1]
        kinds = settle(data, len(turns), conversation.events, last.error)
        self._happened += (*of_turn(users.turns, self._faults.fate(len(turns) - 1)), *kinds)
        self._is_hit = bool(kinds)
        if last.error is not None:
            if not kinds or not is_of_provider(last.error):
                return False
            if last.error.type not in CUTS:
                data["expect"] = {"error": last.error.type}
        turns[-1] = _turn(data)
        return True

    def results(self, outcome: Outcome) -> ClaimResults:
        """Return which claims did not hold, and which spoke of nothing that took place."""
        paths = [unit.path for unit in self.units]
        skipped = {self._unit_path(finding) for finding in outcome.judgement.passed_over}
        unheld = tuple(path for path in paths if path in self._unheld)
        unseen = [path for path in paths if path not in self._judged_parts or path in skipped]
        findings = outcome.judgement.findings
        others = tuple(f for f in findings if f.id != CLAIM or "expect" not in f.path)
        return ClaimResults(
            unheld, tuple(path for path in unseen if path not in unheld), others, self._happened
        )

    def played(self, conversation: Conversation) -> Prepared:
        """Return the scenario that was played."""
        return self._played

    def _results(self, chance: Random, persona: Mapping[str, Any]) -> dict[str, Any]:
        """Return the results of the tools that the simulation names, for one turn."""
        tools = self._subject.simulation.tools.items()
        results = {name: _result(tool, chance, persona) for name, tool in tools}
        results = {name: result for name, result in results.items() if result}
        return {"tool_results": results} if results else {}

    def _judge(self, conversation: Conversation, users: SimulatedUsers) -> Outcome:
        """Judge all claims, then those of the scenario that replays the run; return that."""
        subject, view = self._subject, conversation.view
        personas = users.personas[: len(view.turns)]
        claims = claims_on_turns(subject.always, view, personas)
        for persona in personas:
            self._unit_paths |= {_filled(unit.path, persona): unit.path for unit in self.units}
        parts = [path for claim in claims for path, _ in parts_of(claim, (_ALWAYS,))]
        parts += [path for path, _ in parts_of(subject.finally_, (_FINALLY,))]
        self._judged_parts = {self._unit_paths[_filled(path, {})] for path in parts}
        for finding in self._findings(conversation, users, claims, subject.finally_):
            self._unheld.add(self._unit_path(finding))
        broken = []
        for number, thing in enumerate(subject.never):
            self._judged_parts.add((_NEVER, number))
            denials, whole = denials_of(thing, personas)
            if any(self._findings(conversation, users, denials, whole)):
                self._unheld.add((_NEVER, number))
                broken.append(thing)
        joined = [
            _of_turn(claim, broken, persona)
            for claim, persona in zip(claims, personas, strict=True)
        ]
        at_end = JoinedClaims(subject.finally_, broken, at=_FINALLY, is_whole=True).claims
        self._unheld.discard(())
        self._played = self._judged_scenario(conversation, users, joined, at_end)
        conversation.follow(self._played)
        return conversation.finish()

    def _unit_path(self, finding: Finding) -> SourcePath:
        """Return the path of the claim that a finding concerns; empty if it concerns none."""
        path = finding.path
        inner = (_ALWAYS, *path[3:]) if path[:1] == ("turns",) else (_FINALLY, *path[1:])
        units = self._unit_paths.items()
        return next((unit for filled, unit in units if inner[: len(filled)] == filled), ())

    def _findings(
        self,
        conversation: Conversation,
        users: SimulatedUsers,
        claims: Sequence[Mapping[str, Any]],
        whole: Mapping[str, Any],
    ) -> Iterator[Finding]:
        """Yield the claims that do not hold."""
        conversation.follow(self._judged_scenario(conversation, users, claims, whole))
        for finding in conversation.judgement().findings:
            if finding.id == CLAIM and "expect" in finding.path:
                yield finding

    def _judged_scenario(
        self,
        conversation: Conversation,
        users: SimulatedUsers,
        claims: Sequence[Mapping[str, Any]],
        whole: Mapping[str, Any],
    ) -> Prepared:
        """Return the scenario of all turns with these claims, and the results that were used."""
        view = conversation.view
        turns = []
        for index, turn in enumerate(users.turns):
            used = {tool.tool for tool in view.turns[index].tools}
            results = {k: v for k, v in turn.get("tool_results", {}).items() if k in used}
            rest = {key: value for key, value in turn.items() if key != "tool_results"}
            turns.append({**rest, **({"tool_results": results} if results else {})})
        data = with_claims(turns, claims)
        return with_turns(self.prepared, data, map(_turn, data), whole)


def _plan(subject: Subject, chance: Random, fates: Sequence[int]) -> Plan:
    """Return the numbers from which users, and what happens to their turns, are chosen."""
    turns = [TurnPlan(chance.getrandbits(_BITS), rare=(fate,)) for fate in fates]
    # Runs that cost money are few: each may have all faults.
    return Plan(tuple(turns), chance.getrandbits(_BITS), (True,) * len(subject.rare))


def _of_turn(
    claims: Mapping[str, Any], things: Sequence[Any], persona: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the claims on a turn, and those that deny things in it."""
    denied = [with_persona(thing, persona) for thing in things]
    return JoinedClaims(claims, denied, at=_ALWAYS, is_whole=False).claims


def _turn(data: Mapping[str, Any]) -> Turn:
    """Return a turn, in which a model decides what it calls.

    The results of tools may stay unused, and a moment at which it ends may not come.
    """
    turn = Turn.model_validate(data)
    results = {
        name: msgspec.structs.replace(answers, may_wait=True)
        for name, answers in turn.tool_results.items()
    }
    moments = {
        key: PossibleMoment(call=moment.call)
        for key in CUTS_OF
        if (moment := getattr(turn, key)) is not None
    }
    return turn.model_copy(update={"tool_results": results, **moments})


def _result(tool: SimulatedTool, chance: Random, persona: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tool answers in one turn; empty if its function does."""
    latency = {"latency_ms": tool.latency_ms} if tool.latency_ms else {}
    if tool.fails and chance.random() < tool.fails:
        return {"error": tool.error, **latency}
    if "returns" not in tool.model_fields_set:
        return {}
    return {"returns": with_persona(sample(tool.returns, chance.choice), persona), **latency}


def _filled(path: SourcePath, persona: Mapping[str, Any]) -> SourcePath:
    """Return the path of a claim in a run, whose keys may name a user's persona."""
    steps = (with_persona(step, persona) if persona else step for step in path)
    return tuple(step if isinstance(step, int) else as_text(step) for step in steps)
