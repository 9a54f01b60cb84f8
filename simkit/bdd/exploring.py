"""Stories in which nobody says what happens: conversations are explored, and claims hold in all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from simkit.bdd.assembling import EVERY, LISTS, WHOLE, Lines, Places
from simkit.checks.findings import CLAIM, Finding
from simkit.checks.judge import Judgement
from simkit.core.errors import SimkitError, SourceError
from simkit.core.text import counted
from simkit.explore.campaigns import Bounds, command_of, run_campaign
from simkit.explore.causes import CLAIM_KEYS, label_of, refused_lines
from simkit.explore.claims import unjudged_claims
from simkit.explore.scenarios import shown_lines, title_of
from simkit.explore.subjects import USER_TEXTS, Subject, made_up_subject, simulation_subject
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import SIMULATION_SUFFIX, ScenarioCase, simulations_in

RUNS: Final = 100
"""The number of conversations, if nothing else is said."""
_OF_FILES: Final = ("version", "scenario", "pipeline")
"""The keys of a story whose users are those of a simulation."""
NOTHING: Final = Judgement((), (), (), ())


class Explored:
    """The conversations of one story; each claim explores them."""

    def __init__(
        self,
        library: Library,
        places: Places,
        values: dict[str, Any],
        texts: Sequence[str],
        file: str,
        runs: int | None,
    ) -> None:
        """``texts`` are what users say, ``file`` is a simulation that holds its own users.

        Without either, they say what users of a support desk say.
        """
        self._library, self._places, self._values = library, places, values
        self._texts, self._file, self._runs = tuple(texts) or USER_TEXTS, file, runs or RUNS
        self._is_checked = False
        """Whether errors and lints were looked for."""
        self._unjudged: list[Finding] = []
        """Claims that no conversation judged."""

    def claim(self, path: Sequence[str], matcher: Any, lines: Lines, turn: int | None) -> Judgement:
        """Explore with one claim on every turn, or on whole conversations; raise SourceError."""
        if turn not in (EVERY, WHOLE):
            raise self._error(
                "no turn is the last one of conversations that are explored",
                lines,
                "Write `it always holds that …`, or `at the end, …`.",
            )
        self.check(_nested(path, matcher), lines, turn)
        return NOTHING

    def end(self, lines: Lines) -> Judgement:
        """Look for errors and lints, unless a line did; raise SourceError for one."""
        if not self._is_checked:
            self.check({}, lines, WHOLE)
        return msgspec.structs.replace(NOTHING, passed_over=tuple(self._unjudged))

    def check(self, claim: Mapping[str, Any], lines: Lines, turn: int | None) -> None:
        """Explore; raise SourceError for what breaks a claim, or any rule if there is none."""
        self._is_checked |= not claim
        try:
            subject = self._subject(claim, lines)
            failure, unjudged = _explored(
                subject, self._file or self._places.file, self._runs, claim, is_whole=turn == WHOLE
            )
        except SourceError:
            raise
        except SimkitError as problem:
            raise self._error(str(problem), lines) from problem
        if failure:
            raise self._error(failure, lines)
        where = self._places.position(lines[0])
        if claim:
            for name in unjudged:
                text = f"{name} was not looked at: what it speaks of happened in no conversation"
                self._unjudged.append(Finding(CLAIM, "W", text, where))

    def _subject(self, claim: Mapping[str, Any], lines: Lines) -> Subject:
        if not self._file:
            return made_up_subject(self._prepared(claim, lines), self._texts)
        if not self._file.endswith(SIMULATION_SUFFIX) or not os.path.isfile(self._file):
            raise SimkitError(f"there is no simulation `{self._file}`")
        cases = simulations_in(self._file, self._library.cache)
        if len(cases) != 1:
            raise SimkitError(f"`{self._file}` holds {counted(len(cases), 'simulation')}, not one")
        subject = simulation_subject(self._library, cases[0])
        self._check_fits(subject.prepared, self._prepared(claim, lines))
        return subject

    def _check_fits(self, simulation: Prepared, story: Prepared) -> None:
        """Raise SimkitError for a story that says what its simulation has already."""
        if _pipeline_of(simulation) != _pipeline_of(story):
            raise SimkitError(
                f"`{self._file}` simulates another pipeline: {simulation.scenario.pipeline}\n"
                "  Name that one, since the claims of the story speak of it."
            )
        more = [key for key in self._values if key not in _OF_FILES]
        if more:
            raise SimkitError(
                f"`{self._file}` says how its conversations begin: it would ignore what the story "
                f"says of {', '.join(f'`{key}`' for key in more)}\n"
                "  Write that into the simulation."
            )

    def _prepared(self, claim: Mapping[str, Any], lines: Lines) -> Prepared:
        """Return the story as a scenario of one turn, which also checks the claim's names."""
        expect = {"expect": claim} if claim else {}
        values = {**self._values, "turns": [{"user": "Hello.", **expect}]}
        places = self._places.copy()
        places.say(("turns", 0), lines, below=1)
        document = places.document(values, partial(places.root, values))
        case = ScenarioCase(places.file, values["scenario"], 0, places.scenario[0])
        return self._library.assembled(case, document)

    def _error(self, problem: str, lines: Lines, advice: str = "") -> SourceError:
        return SourceError(self._places.position(lines[0]), problem, advice=advice)


def _pipeline_of(prepared: Prepared) -> tuple[str, object]:
    """Return what is equal for equal pipelines."""
    if isinstance(prepared.pipeline, App):
        return prepared.scenario.pipeline, None
    document = prepared.pipeline_document
    return os.path.realpath(document.file), document.index


def _explored(
    subject: Subject, name: str, runs: int, claim: Mapping[str, Any], *, is_whole: bool
) -> tuple[str, list[str]]:
    """Explore; return what breaks a claim, or any rule if there is none; empty if nothing does.

    Return also the claims that no conversation judged.
    ``is_whole``: the claim is one on the whole conversation.
    """
    if claim:
        always, finally_ = ({}, claim) if is_whole else (claim, {})
        subject = msgspec.structs.replace(subject, always=always, finally_=finally_, never=())
    bounds = Bounds(runs=runs)
    campaign = run_campaign(name, subject, bounds)
    if campaign.refused:
        return "\n".join(refused_lines(subject, campaign)), []
    for discovery in campaign.discoveries:
        if claim and label_of(discovery.cause) not in CLAIM_KEYS:
            continue  # The end of the story reports it.
        command = "pytest" if subject.is_made_up else command_of(name, subject, bounds)
        texts = shown_lines(discovery, subject, campaign.growing, command)
        lines = [f"    {line}".rstrip() for line in texts]
        return "\n".join([title_of(discovery), "", *lines]), []
    return "", unjudged_claims(campaign.reach)


def _nested(path: Sequence[str], matcher: Any) -> dict[str, Any]:
    """Return a claim as `expect:` holds it."""
    claim: Any = [matcher] if path[-1] in LISTS else matcher
    for key in reversed(path):
        claim = {key: claim}
    assert isinstance(claim, dict)
    return claim
