"""A conversation led from Python, turn by turn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from simkit.errors import SimkitError, SourceError
from simkit.events import AnyEvent, TurnFinished
from simkit.expect.findings import Finding
from simkit.expect.judge import Judgement, judge
from simkit.report.text import findings_text
from simkit.runtime.functions import function_named
from simkit.scenario.claims import Expect
from simkit.scenario.files import Library, Prepared
from simkit.scenario.items import Item
from simkit.scenario.model import DEFAULT_START, Scenario, Turn
from simkit.scenario.names import check_scenario
from simkit.session import run, simulate
from simkit.shape import validated
from simkit.simulation.outcome import TurnOutcome
from simkit.simulation.pipelines import pipeline_of
from simkit.simulation.places import Place, document_at, place_of_caller
from simkit.trace import Trace
from simkit.views import View, view_of

__tracebackhide__ = True
"""pytest shows the line of the test, not what is beneath it."""
_ANY_ERROR: Final = Expect.model_validate({"error": {"$any": True}})
ADVICE: Final = (
    "A test that looks at `run.findings` or `run.error` answers for what is there; "
    "a lint is turned off with a reason: lints={'CTX-01': 'why'}."
)


class _Script(NamedTuple):
    """What was said so far."""

    turns: tuple[Turn, ...] = ()
    written: tuple[Mapping[str, Any], ...] = ()
    """The turns as the test wrote them."""
    places: tuple[Place, ...] = ()
    """Where it wrote them."""

    def longer(self, turn: Turn, written: Mapping[str, Any], place: Place) -> _Script:
        """Returns the script with one more turn."""
        return _Script((*self.turns, turn), (*self.written, written), (*self.places, place))


class Simulation:
    """A conversation with a pipeline, whose models are scripted by whoever leads it.

    ``pipeline`` is a file, YAML text of several lines, or a mapping. As a context manager it is
    checked at its end.
    """

    def __init__(
        self,
        pipeline: str | os.PathLike[str] | Mapping[str, Any],
        *,
        state: Mapping[str, Any] | None = None,
        seed: int = 0,
        start: str = DEFAULT_START,
        limits: Mapping[str, Any] | None = None,
        lints: Mapping[str, str] | None = None,
        name: str = "",
        folders: Sequence[Path] = (),
        library: Library | None = None,
    ) -> None:
        """``state`` is what channels hold at first, ``lints`` those turned off, with the reason.

        ``folders`` are searched for the pipeline's file, after that of the calling file.
        """
        self._place = place_of_caller()
        self._values = {
            "version": 1, "scenario": name or self._place.where, "pipeline": "the pipeline",
            "seed": seed, "start": start, "given": {"state": dict(state or {})},
            "limits": dict(limits or {}), "lints": dict(lints or {}),
        }  # fmt: skip
        self._script = self._ran = _Script()
        self._trace: Trace | None = None
        self._judgement: Judgement | None = None
        self._seen: set[Finding] = set()
        self._view = View()
        try:
            self._pipeline, self._pipeline_document = pipeline_of(
                pipeline, self._place, library or Library(), folders
            )
            first = {**self._values, "turns": [{"user": "Hello"}]}
            document = document_at(first, self._place, [self._place])
            self._scenario = validated(Scenario, document)
            check_scenario(self._scenario, document, self._pipeline)
        except SimkitError as problem:
            raise _told(problem, self._place) from None

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if problem is None:
            self.check()

    def say(
        self,
        user: str | Mapping[str, Any],
        *,
        replies: Mapping[str, Any] | None = None,
        tool_results: Mapping[str, Any] | None = None,
        session: str | None = None,
        project: str | None = None,
        restart: bool = False,
    ) -> TurnOutcome:
        """The user says a text or ``{"json": …}``; returns what came of the turn.

        ``replies`` and ``tool_results`` are what a scenario file has under these keys.
        """
        return self._take({"user": user}, replies, tool_results, session, project, restart)

    def resume(
        self,
        value: Any,
        *,
        replies: Mapping[str, Any] | None = None,
        tool_results: Mapping[str, Any] | None = None,
        session: str | None = None,
        project: str | None = None,
        restart: bool = False,
    ) -> TurnOutcome:
        """The user answers what an agent asked; returns what came of the turn."""
        return self._take({"resume": value}, replies, tool_results, session, project, restart)

    @property
    def view(self) -> View:
        """The views on all that happened so far; runs what was said since somebody looked."""
        self._catch_up()
        return self._view

    @property
    def trace(self) -> Trace:
        """Everything that happened so far; raises if the user has said nothing."""
        self._catch_up()
        if self._trace is None:
            raise self._place.error("the user has said nothing yet")
        return self._trace

    @property
    def findings(self) -> list[Finding]:
        """What lints found in all turns; who has looked at them answers for them."""
        return self.look_at_findings()

    def check(self) -> None:
        """Raises AssertionError for findings that nobody has looked at."""
        unseen = self.unseen()
        if unseen:
            raise AssertionError(f"{findings_text(unseen)}\n\n{ADVICE}")

    def unseen(self) -> list[Finding]:
        """The findings that nobody has looked at."""
        return [one for one in self.judgement().findings if one not in self._seen]

    def judgement(self) -> Judgement:
        """What the judge says of all turns so far."""
        if self._judgement is None:
            self._judgement = self._judged()
        return self._judgement

    # what an outcome asks

    def look_at_findings(self, number: int | None = None) -> list[Finding]:
        """Returns the findings of a turn, or of all, and remembers that they were looked at."""
        found = [one for one in self.judgement().findings if number in (None, one.turn)]
        self._seen.update(found)
        return found

    def expects_error(self, number: int) -> bool:
        """Whether somebody has looked at the error with which a turn ended."""
        return self._script.turns[number - 1].expect.has("error")

    def expect_error(self, number: int) -> None:
        """Notes that somebody has looked at the error with which a turn ended."""
        turns = list(self._script.turns)
        turns[number - 1] = turns[number - 1].model_copy(update={"expect": _ANY_ERROR})
        is_behind = self._ran is not self._script or len(self._view.turns) < len(turns)
        self._script = self._script._replace(turns=tuple(turns))
        if not is_behind:
            self._ran = self._script
        self._judgement = None

    def place_of(self, number: int) -> Place:
        """Where the user spoke in a turn."""
        return self._script.places[number - 1]

    # below the surface

    def _take(
        self, said: dict[str, Any], replies: Mapping[str, Any] | None,
        tool_results: Mapping[str, Any] | None, session: str | None, project: str | None,
        restart: bool,
    ) -> TurnOutcome:  # fmt: skip
        """Adds a turn; it is run when somebody looks."""
        place = place_of_caller()
        said |= {"replies": dict(replies or {}), "tool_results": dict(tool_results or {})}
        said |= {key: name for key, name in (("session", session), ("project", project)) if name}
        said |= {"restart": True} if restart else {}
        try:
            alone = document_at({**self._values, "turns": [said]}, self._place, [place])
            scenario = validated(Scenario, alone)
            (turn,) = scenario.turns
            unbroken = turn.model_copy(update={"restart": False})
            first = scenario.model_copy(update={"turns": (unbroken,)})
            check_scenario(first, alone, self._pipeline)
        except SimkitError as problem:
            raise _told(problem, place) from None
        self._script = self._script.longer(turn, said, place)
        self._judgement = None
        return TurnOutcome(self, len(self._script.turns))

    def _catch_up(self) -> None:
        """Runs the whole conversation anew if something was said since it was run."""
        if self._ran is self._script:
            return
        place = self._script.places[-1]
        try:
            prepared = self._prepared()
            check_scenario(prepared.scenario, prepared.document, self._pipeline)
            trace = run(prepared)
            _hold_to_repeat(self._trace, trace, place)
        except SimkitError as problem:
            raise _told(problem, place) from None
        self._ran, self._trace, self._view = self._script, trace, view_of(trace.events)

    def _prepared(self) -> Prepared:
        script = self._script
        values = {**self._values, "turns": list(script.written)}
        document = document_at(values, self._place, script.places)
        scenario = self._scenario.model_copy(update={"turns": script.turns})
        item = Item(document.file, scenario.scenario, 0, self._place.line)
        return Prepared(
            item, scenario, document, self._pipeline, self._pipeline_document, (), document
        )

    def _judged(self) -> Judgement:
        if not self._script.turns:
            return Judgement((), (), (), ())
        prepared = self._prepared()
        turns = prepared.scenario.turns
        if any(turn.restart for turn in turns) or len({turn.session for turn in turns}) > 1:
            # Only this also holds the run against others: unbroken ones, sessions alone.
            return simulate(prepared).judgement
        return judge(prepared.scenario, prepared.document, self.trace, function_named)


def _hold_to_repeat(before: Trace | None, now: Trace, place: Place) -> None:
    """Raises if what was said before did not happen again as it had happened."""
    if before is None:
        return
    old = _of_turns(before.events)
    for one, other in zip(old, now.events, strict=False):
        if one != other:
            raise place.error(
                f"turn {getattr(one, 'turn', 0)} did not come out as before when it was run again"
                f" ({type(one).__name__} differs): user code keeps something in its module that "
                "belongs into a channel"
            )


def _of_turns(events: Sequence[AnyEvent]) -> Sequence[AnyEvent]:
    """Returns the events up to the end of the last turn; how the run ends may change."""
    ends = [place for place, event in enumerate(events, 1) if isinstance(event, TurnFinished)]
    return events[: ends[-1] if ends else 0]


def _told(problem: SimkitError, place: Place) -> SourceError:
    """Returns the error that says where the test said what is wrong."""
    if not isinstance(problem, SourceError):
        return place.error(str(problem))
    at = problem.at
    if at.startswith("turns["):
        # Which turn it is, the place says.
        at = at.partition("].")[2]
    return SourceError(problem.where, problem.what, at, problem.near, problem.known, problem.advice)
