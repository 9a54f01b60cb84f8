"""One live run of a scenario, and the text of the scenario that replays it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from simkit.checks.findings import CLAIM, Finding
from simkit.checks.judge import Outcome
from simkit.core.errors import CassetteInvalid, SimkitError, UserSilent
from simkit.language.paths import with_texts
from simkit.language.yaml import SourcePath
from simkit.session.execution.recorded import Recording, cassette_path
from simkit.session.live.meter import CacheUse, Meter, ModelCallFacts, cache_use
from simkit.session.live.scripted_words import ClaimUnit, parts_of, without_units
from simkit.session.simulate import Conversation, simulate
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.loading import validated
from simkit.spec.pipeline.models import ModelOptions, PriceTable
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, Prepared, moved_paths
from simkit.spec.scenario.items import items_in
from simkit.spec.scenario.model import Scenario
from simkit.spec.scenario.moments import WHOLE, answered, as_written
from simkit.spec.scenario.writing import block, comment
from simkit.trace.views import said_in

_LEFT_OUT: Final = ("examples", "skip", "xfail", "cassette", "judge_replies")
"""Keys of a scenario that say nothing of one run."""
_ANSWERS: Final = ("replies", "judge_replies")
"""Keys of a turn with answers of models."""
_REFERENCE: Final = re.compile(r"\$\{(?!turns?\b)")
"""The start of a text that is no reference, since all references but these are resolved."""


class ClaimResults(NamedTuple):
    """The claims of one live run that did not hold, and what else was found."""

    unheld: tuple[SourcePath, ...]
    """The claims that did not hold, or whose turn was not reached."""
    unseen: tuple[SourcePath, ...]
    """The claims that were not judged in this run."""
    others: tuple[Finding, ...]
    """Findings that are no claims."""
    faults: tuple[str, ...] = ()
    """The drawn faults that took place."""


class LiveSubject(Protocol):
    """Something that is run live many times."""

    noun: ClassVar[str]
    """The word for it in reports."""

    @property
    def prepared(self) -> Prepared:
        """Return the scenario without reply lines and with a cassette."""

    @property
    def units(self) -> Sequence[ClaimUnit]:
        """Return all of its claims."""

    @property
    def judged(self) -> Sequence[ClaimUnit]:
        """Return the claims that live runs judge."""

    @property
    def notes(self) -> Sequence[str]:
        """Return a line for each of its keys that live runs leave out."""

    @property
    def first_turn(self) -> int:
        """Return the first turn whose models are really asked."""

    @property
    def earlier(self) -> Path | None:
        """Return the cassette that answers the turns before."""

    @property
    def user_models(self) -> Sequence[ModelOptions]:
        """Return the models that speak for users."""

    def converse(self, conversation: Conversation, meter: Meter, now: str) -> Outcome:
        """Take all turns, and return the outcome.

        ``meter`` measures the calls of users' models, which are recorded at ``now``, ISO 8601.
        """

    def results(self, outcome: Outcome) -> ClaimResults:
        """Return which claims did not hold."""

    def played(self, conversation: Conversation) -> Prepared:
        """Return the scenario that was played, with everything filled in."""


class LiveScenario(msgspec.Struct, frozen=True):
    """A scenario as its live runs take it: no reply lines, and only claims that they can keep."""

    noun: ClassVar[str] = "scenario"
    user_models: ClassVar[Sequence[ModelOptions]] = ()
    notes: ClassVar[Sequence[str]] = ()
    prepared: Prepared
    units: tuple[ClaimUnit, ...]
    """All of its claims from the first live turn on."""
    first_turn: int = 1
    """The first turn whose models are really asked."""
    earlier: Path | None = None
    """The cassette that answers the turns before; None if the scenario has none."""

    @property
    def judged(self) -> list[ClaimUnit]:
        """Return the claims that live runs judge."""
        return [unit for unit in self.units if not unit.why_left_out]

    def converse(self, conversation: Conversation, meter: Meter, now: str) -> Outcome:
        """Take all turns, and return the outcome."""
        conversation.follow(self.prepared)
        return conversation.finish()

    def results(self, outcome: Outcome) -> ClaimResults:
        """Return which claims did not hold."""
        judgement, paths = outcome.judgement, self._paths(outcome)
        unheld = {paths[path] for f in judgement.findings if (path := unit_of(f, [*paths]))}
        reached = len(outcome.view.turns)
        unheld |= {unit.path for unit in self.judged if unit.turn > reached}
        return ClaimResults(
            tuple(unit.path for unit in self.judged if unit.path in unheld),
            tuple(paths[path] for f in judgement.passed_over if (path := unit_of(f, [*paths]))),
            tuple(finding for finding in judgement.findings if not unit_of(finding, [*paths])),
        )

    def _paths(self, outcome: Outcome) -> dict[SourcePath, SourcePath]:
        """Return the paths of the judged claims in the file, by their paths in a run.

        They differ where a key, such as a question to the judge, refers to an earlier reply.
        """
        paths = {unit.path: unit.path for unit in self.judged}
        turn_values = said_in(outcome.view)
        for index, source in self.prepared.waiting.items():
            is_whole = index == WHOLE
            at = ("expect",) if is_whole else ("turns", index, "expect")
            expect = source if is_whole else source.get("expect", {})
            values = turn_values if is_whole else turn_values[:index]
            for path, _ in parts_of(expect, at):
                unit_path = tuple(as_written([*path]))
                if unit_path in paths:
                    filled = answered({"path": [*path]}, values)["path"]
                    paths[tuple(filled)] = unit_path
        return paths

    def played(self, conversation: Conversation) -> Prepared:
        """Return the scenario that was played, with everything filled in."""
        return self.prepared.after(said_in(conversation.view))


FindingPlace: TypeAlias = tuple[str, SourcePath, int, str]
"""Id, path, turn and agent of a finding."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one live run."""

    passed: bool = False
    unheld: tuple[SourcePath, ...] = ()
    """The judged claims that did not hold, or whose turn was not reached."""
    unseen: tuple[SourcePath, ...] = ()
    """The claims that were not judged: the pipeline declares what they need as unseen, or, in a
    simulation, nothing that they speak of took place."""
    others: tuple[str, ...] = ()
    """Findings that are no claims: errors and lints, by their names."""
    texts: tuple[str, ...] = ()
    """The headlines of all findings."""
    places: tuple[FindingPlace, ...] = ()
    """The place of each finding, by which a replay is compared."""
    calls: tuple[ModelCallFacts, ...]
    seconds: float
    """Real time."""
    began_at: str = ""
    """ISO 8601."""
    unsaved: str = ""
    """Why a failed run could not be kept; empty if it was."""
    problem: str = ""
    """The error that broke the run off; empty if it came to its end."""
    faults: tuple[str, ...] = ()
    """The drawn faults that took place, by name."""
    cache: CacheUse = CacheUse()
    """The reuse of the providers' caches."""
    is_stopped: bool = False
    """Whether its allowance was spent before it ended; it then counts in no rate."""


class ReplayFiles(msgspec.Struct, frozen=True):
    """The files that replay a run."""

    scenario: Path
    cassette: Path


def live_scenario(
    prepared: Prepared, units: Sequence[ClaimUnit], first_turn: int = 1
) -> LiveScenario:
    """Return a scenario without reply lines from a turn on, and without claims on turns before.

    ``units`` are its claims from that turn on. Raise SourceError if no model can answer.
    """
    left_out = frozenset(unit.path for unit in units if unit.why_left_out)
    document = prepared.document
    data = {key: value for key, value in document.data.items() if key not in _LEFT_OUT}
    data["turns"] = [
        _live_turn(turn, index, first_turn, left_out) for index, turn in enumerate(data["turns"])
    ]
    if "expect" in data:
        data["expect"] = without_units(data["expect"], ("expect",), left_out)
    # Each run records its own file; the scenario's options of cassettes hold there, too.
    data["cassette"] = {**_cassette_options(document.data), "file": "live"}
    waiting = {
        index: _live_claims(source, left_out)
        if index == WHOLE
        else _live_turn(source, index, first_turn, left_out)
        for index, source in prepared.waiting.items()
    }
    live_document = document.with_data(data)
    live = msgspec.structs.replace(
        prepared,
        scenario=validated(Scenario, live_document),
        document=live_document,
        waiting=waiting,
        source_document=None,
    )
    earlier = cassette_path(prepared) if first_turn > 1 else None
    return LiveScenario(live, tuple(units), first_turn, earlier)


def _cassette_options(data: Mapping[str, Any]) -> Mapping[str, Any]:
    options = data.get("cassette")
    return options if isinstance(options, Mapping) else {}


def _live_turn(
    turn: Mapping[str, Any], index: int, first_turn: int, left_out: frozenset[SourcePath]
) -> dict[str, Any]:
    if index + 1 < first_turn:
        return {key: value for key, value in turn.items() if key != "expect"}
    live = {key: value for key, value in turn.items() if key not in _ANSWERS}
    if "expect" in live:
        live["expect"] = without_units(live["expect"], ("turns", index, "expect"), left_out)
    return live


def _live_claims(expect: Any, left_out: frozenset[SourcePath]) -> Any:
    return without_units(expect, ("expect",), left_out) if isinstance(expect, Mapping) else expect


def run_trial(
    live: LiveSubject,
    files: ReplayFiles,
    prices: PriceTable,
    *,
    allowance_usd: float | None = None,
    needs_prices: bool = False,
    now: str = "",
) -> tuple[Trial, str]:
    """Run a scenario with real models; return the result, and the text of its replay if it failed.

    The cassette of a failed run is saved; its scenario is for the caller to write. Raise
    SimkitError if nothing can be sent: a key, a client or a price is missing.
    """
    prepared = live.prepared
    meter = Meter(
        prices,
        allowance_usd=allowance_usd,
        needs_prices=needs_prices,
        waits=isinstance(prepared.pipeline, App),
    )
    recording = Recording(
        "all",
        now,
        file=files.cassette,
        first_live_turn=live.first_turn,
        earlier=live.earlier,
        observer=meter,
    )
    started = time.perf_counter()
    with Conversation(prepared, recording) as conversation:
        try:
            outcome = live.converse(conversation, meter, now)
        except SimkitError as problem:
            seconds = time.perf_counter() - started
            if meter.is_spent:
                return Trial(calls=meter.calls, seconds=seconds, is_stopped=True), ""
            if meter.has_refused or not any(call.status for call in meter.calls):
                raise
            trial = _broken(live, str(problem), meter, seconds, now)
            if isinstance(problem, UserSilent):
                return trial, ""  # A replay has the user's words, so that it would not fail.
            return _with_replay(live, conversation, files, trial)
        seconds = time.perf_counter() - started
        meter.check_refusals()
        trial = msgspec.structs.replace(
            _trial_of(live, outcome, meter, seconds, now), cache=cache_use(outcome.view, prices)
        )
        if trial.passed:
            return trial, ""
        if meter.calls and not any(call.status for call in meter.calls):
            # Nothing was said, so that there is nothing to replay.
            return _broken(live, _unanswered(trial), meter, seconds, now), ""
        return _with_replay(live, conversation, files, trial)


def _with_replay(
    live: LiveSubject, conversation: Conversation, files: ReplayFiles, trial: Trial
) -> tuple[Trial, str]:
    """Save the cassette of a failed run; return the run, and the text of its scenario."""
    assert conversation.traffic is not None
    try:
        interactions = conversation.traffic.save(files.cassette)
    except CassetteInvalid as problem:
        return msgspec.structs.replace(trial, unsaved=str(problem)), ""
    prepared = live.played(conversation)
    return trial, replay_text(prepared, files, trial, has_traffic=interactions > 0)


def _unanswered(trial: Trial) -> str:
    return (
        f"no provider answered: {trial.texts[0]}\n"
        "  Set its address in the environment, or try again when the network is there."
    )


def _broken(live: LiveSubject, problem: str, meter: Meter, seconds: float, now: str) -> Trial:
    """Return the result of a run that an error broke off: it keeps no claim."""
    headline = problem.partition("\n")[0]
    return Trial(
        unheld=tuple(unit.path for unit in live.judged),
        others=("the run broke off",),
        texts=(headline,),
        calls=meter.calls,
        seconds=seconds,
        began_at=now,
        problem=problem,
    )


def _trial_of(live: LiveSubject, outcome: Outcome, meter: Meter, seconds: float, now: str) -> Trial:
    findings, results = outcome.judgement.findings, live.results(outcome)
    return Trial(
        passed=outcome.judgement.passed,
        unheld=results.unheld,
        unseen=results.unseen,
        others=tuple(dict.fromkeys(map(_name_of, results.others))),
        texts=tuple(finding.what.partition("\n")[0] for finding in findings),
        places=tuple(map(_place_of, findings)),
        calls=meter.calls,
        seconds=seconds,
        began_at=now,
        faults=results.faults,
    )


def unit_of(finding: Finding, paths: Sequence[SourcePath]) -> SourcePath:
    """Return the path of the claim that a finding concerns; empty if it concerns none."""
    if finding.id != CLAIM:
        return ()
    return next((path for path in paths if finding.path[: len(path)] == path), ())


def _place_of(finding: Finding) -> FindingPlace:
    return finding.id, finding.path, finding.turn, finding.agent


def _name_of(finding: Finding) -> str:
    """Return the name under which findings beside claims are counted."""
    if finding.id != CLAIM:
        return f"{finding.id} {LINTS[finding.id].name}" if finding.id in LINTS else finding.id
    # Errors differ in their details, which would make one row of each.
    return finding.what.partition(":")[0].partition("\n")[0]


# The scenario that replays a run


def replay_text(prepared: Prepared, files: ReplayFiles, trial: Trial, *, has_traffic: bool) -> str:
    """Return the text of a scenario that replays a run from its cassette, with the same claims.

    ``prepared`` has the references to replies of the run filled in. Without traffic there is no
    cassette.
    """
    document = prepared.document
    folder = files.scenario.resolve().parent
    tree = {key: value for key, value in document.data.items() if key not in _LEFT_OUT}
    name = files.cassette.name.removesuffix(".yaml")
    options = {**_cassette_options(document.data), "file": name}
    if has_traffic:
        tree["cassette"] = name if len(options) == 1 else options
    literal = {key: value if key == "app" else _literal(value) for key, value in tree.items()}
    literal |= dict(moved_paths(literal, prepared, folder))
    order = ("version", "scenario", "pipeline", "app", "cassette")
    ordered = {key: literal[key] for key in order if key in literal}
    redactor = prepared.redactor(os.environ)
    lines = [
        comment(f"A live run of {trial.began_at} that failed: {redactor.text(trial.texts[0])}"),
        *block(redactor.value({**ordered, **literal}), 0),
    ]
    pipeline_document = prepared.pipeline_document
    is_beside = pipeline_document.file == document.file and "scenario" not in pipeline_document.data
    if is_beside:
        lines += ["---", *block(redactor.value(pipeline_document.data), 0)]
    return "\n".join([*lines, ""])


def _literal(value: Any) -> Any:
    """Return a value that a scenario reads as it is: its references are resolved."""
    return with_texts(value, lambda text: _REFERENCE.sub("$${", text))


def replays(file: Path, trial: Trial) -> bool:
    """Return whether the scenario of a file fails with the findings of a run."""
    try:
        library = Library()
        (item,) = items_in(str(file), library.cache)
        outcome = simulate(library.prepared(item))
    except SimkitError:
        return bool(trial.problem)
    return tuple(map(_place_of, outcome.judgement.findings)) == trial.places
