"""Lints that hold a run against another of the same scenario: without its restarts, or one session.

STA-06 (langgraph#6792, agent-framework#3226) and STA-08 (agno#3937). Whoever runs scenarios makes
the other run; these functions only compare.
"""

from __future__ import annotations

from collections.abc import Sequence

from simkit import events as e
from simkit.diff import Parting, first_parting
from simkit.expect.findings import Hit
from simkit.views import View


def resumed_differs(view: View, unbroken: View, restarts: Sequence[int]) -> list[Hit]:
    """STA-06: continuing from a checkpoint equals not having stopped.

    ``restarts`` are the turns before which a new process started, counted from 1.
    """
    parting = first_parting(zip(view.turns, unbroken.turns, strict=False))
    if parting is None:
        return []
    restart = max((turn for turn in restarts if turn <= parting.turn), default=parting.turn)
    what = (
        f"after the restart before turn {restart}, turn {parting.turn} is not what it is without: "
        f"{_words(parting, 'restarted', 'without a restart')}"
    )
    path = ("turns", restart - 1, "restart")
    return [Hit("STA-06", what, parting.turn, parting.agent, data=_data(parting), path=path)]


def session_differs(view: View, alone: View, session: str) -> list[Hit]:
    """STA-08: a session among others is as if it were alone."""
    turns = [turn for turn in view.turns if turn.session == session]
    parting = first_parting(zip(turns, alone.turns, strict=False))
    if parting is None:
        return []
    what = (
        f"session {session!r} is not what it is alone, from turn {parting.turn} on: "
        f"{_words(parting, 'among others', 'alone')}"
    )
    return [Hit("STA-08", what, parting.turn, parting.agent, data=_data(parting))]


def reached_by_others(view: View, session: str) -> bool:
    """Whether another session wrote what this one shares with it on purpose."""
    projects = {
        event.session: event.project for event in view.events if isinstance(event, e.SessionStarted)
    }
    return any(
        isinstance(event, e.StoreWritten)
        and event.session != session
        and (event.scope == "global" or projects[event.session] == projects.get(session))
        for event in view.events
    )


def _words(parting: Parting, here: str, there: str) -> str:
    return f"{parting.at} is {parting.one} {here}, {parting.other} {there}"


def _data(parting: Parting) -> dict[str, str]:
    return {"at": parting.at}
