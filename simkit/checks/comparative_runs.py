"""Lints that compare two runs of a scenario: without its restarts, or with one session only.

STA-06 (langgraph#6792, agent-framework#3226) and STA-08 (agno#3937). The session makes the other
run; these functions only compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simkit.checks.findings import Hit
from simkit.checks.scope import Path
from simkit.spec.scenario.model import CUTS
from simkit.trace import events as e
from simkit.trace.diff import Parting, first_parting
from simkit.trace.views import TurnView, View


def resumed_differs(view: View, unbroken: View, restarts: Mapping[int, Path]) -> list[Hit]:
    """STA-06: continuing from a checkpoint equals not having stopped.

    ``restarts`` are the turns before which a new process started, counted from 1, with the places
    in the scenario that say so. Turns of code that were cut off are not compared.
    """
    pairs: Iterable[tuple[TurnView, TurnView]] = zip(view.turns, unbroken.turns, strict=False)
    if view.pipeline.is_code:
        # How far its threads came when a turn was cut off is chance.
        pairs = ((turn, other) for turn, other in pairs if not _is_cut(turn))
    parting = first_parting(pairs)
    if parting is None:
        return []
    restart = max((turn for turn in restarts if turn <= parting.turn), default=0)
    if restart:
        problem = (
            f"after the restart before turn {restart}, turn {parting.turn} is not what it is "
            f"without: {_words(parting, 'restarted', 'without a restart')}"
        )
    else:
        restart = min(restarts)
        problem = (
            f"turn {parting.turn}, before any restart, is not the same in a second run: "
            f"{_words(parting, 'here', 'there')}"
        )
    path = restarts[restart]
    return [Hit("STA-06", problem, parting.turn, parting.agent, data={"at": parting.at}, path=path)]


def session_differs(view: View, alone: View, session: str) -> list[Hit]:
    """STA-08: a session among others has the same results as alone."""
    turns, its = (
        [turn for turn in turns_view.turns if turn.session == session]
        for turns_view in (view, alone)
    )
    parting = first_parting(zip(turns, its, strict=False))
    if parting is None:
        return []
    problem = (
        f"session {session!r} is not what it is alone, from turn {parting.turn} on: "
        f"{_words(parting, 'among others', 'alone')}"
    )
    return [Hit("STA-08", problem, parting.turn, parting.agent, data={"at": parting.at})]


def reached_by_others(view: View) -> set[str]:
    """Return the sessions that share channels with another one on purpose.

    Given values (before any turn) do not count, because a session alone gets them as well.
    """
    projects = view.projects
    wrote: dict[tuple[str, str], set[str]] = {}
    for event in view.events:
        if isinstance(event, e.StoreWritten) and event.turn:
            owner = "" if event.scope == "global" else projects[event.session]
            wrote.setdefault((event.scope, owner), set()).add(event.session)
    return {
        session
        for session, project in projects.items()
        if any(
            wrote.get(shared, set()) - {session}
            for shared in (("global", ""), ("project", project))
        )
    }


def _is_cut(turn: TurnView) -> bool:
    return turn.error is not None and turn.error.type in CUTS


def _words(parting: Parting, left: str, right_name: str) -> str:
    return f"{parting.at} is {parting.left} {left}, {parting.right} {right_name}"
