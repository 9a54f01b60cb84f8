"""Branches: which agent's run a task or a thread works for, if neither framework nor mark says it.

The agent that a task asked last works in it. A task that it starts goes on with that agent, and
what that task asks counts for the first one, too. Each of several parallel tasks has its own
branch, so that the agent which began last does not get the others' tool calls.
"""

from __future__ import annotations

from asyncio import _get_running_loop
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, Final
from weakref import ReferenceType, ref

from simkit.core.context_values import Inside

_SEVERAL: Final = object()
"""In place of a run where branches side by side have asked several agents."""


class Branch:
    """A task or a thread, with the agent run that it works for."""

    __slots__ = ("__weakref__", "_begun_with", "_outer", "_run")

    def __init__(self, outer: Branch | None = None) -> None:
        # A weak reference: tasks that start one another without end must not keep all earlier ones.
        self._outer: ReferenceType[Branch] | None = None if outer is None else ref(outer)
        self._run: Any = None if outer is None else outer._run
        self._begun_with = self._run

    def ask(self, run: object) -> None:
        """Go on with a run whose agent asks a model here."""
        branch: Branch | None = self
        while branch is not None and branch._run is not run:
            before, branch._run = branch._run, run
            outer = None if branch._outer is None else branch._outer()
            if outer is not None and outer._run not in (branch._begun_with, before, run):
                run = _SEVERAL
            branch = outer

    def run_of(self, runs: list[Any]) -> Any:
        """Return the one of a turn's runs that this branch works for; None if none is known."""
        return next((run for run in reversed(runs) if run is self._run), None)


_current: Final = ContextVar[Branch | None]("simkit_branch", default=None)


def in_branch(branch: Branch) -> Inside[Branch]:
    """Let the code inside, and what it starts, work in a branch."""
    return Inside(_current, branch)


def current_branch() -> Branch | None:
    """Return the branch of this code; None outside a turn."""
    return _current.get()


def branch_off(context: Context) -> Context:
    """Give a context that is copied for a task or a thread a branch of its own."""
    outer = context.get(_current)
    if outer is not None:
        context.run(_current.set, Branch(outer))
    return context


def make_task(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Make a task that works in a branch of its own."""
    context, outer = kwargs.get("context"), _current.get()
    if context is not None:
        # A loop's runner makes its tasks in one context, one after the other.
        if _get_running_loop() is not None and not _is_entered(context):
            branch_off(context)
        return make(*args, **kwargs)
    if outer is None:
        return make(*args, **kwargs)
    with Inside(_current, Branch(outer)):
        return make(*args, **kwargs)


def _is_entered(context: Context) -> bool:
    try:
        context.run(bool)
    except RuntimeError:
        return True
    return False
