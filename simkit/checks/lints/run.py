"""Lints on the run itself: does the script fit, and is everything under control?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.runner import reads
from simkit.checks.selection import meant_agent, meant_tool
from simkit.core.errors import ScriptMisfit
from simkit.core.text import counted
from simkit.providers.failures import FAILURES
from simkit.trace import events as e
from simkit.trace.views import TurnView, View

_SHOWN_MAX: Final = 5


class ScriptMismatch:
    """RUN-01: every reply line and tool result is used, and every call has one.

    The same goes for everything else in the scenario that the pipeline does not do: a rule for an
    agent that does not exist, results of a tool that is not offered. If a call found no fitting
    line, unused lines are not reported as well. In a turn with a planned fault lines may stay
    unused: the pipeline may give up.
    """

    id = "RUN-01"

    def __init__(self) -> None:
        self._missing: list[e.ModelFailed] = []
        self._disturbed = 0
        """The last turn with a fault."""

    @reads(e.RunFinished)
    def end_run(self, event: e.RunFinished, view: View) -> Iterable[Hit]:
        """Report what the pipeline did not do."""
        return [self._of_misfit(misfit) for misfit in event.misfits]

    @reads(e.FaultInjected)
    def disturb(self, event: e.FaultInjected, view: View) -> Iterable[Hit]:
        """Remember the turn."""
        self._disturbed = event.turn
        return ()

    @reads(e.ModelFailed)
    def miss(self, event: e.ModelFailed, view: View) -> Iterable[Hit]:
        """Remember a call without a fitting line."""
        if event.error == "no_reply_line":
            self._missing.append(event)
        return ()

    @reads(e.TurnFinished)
    def end(self, event: e.TurnFinished, view: View) -> Iterable[Hit]:
        """Report what was not used."""
        if not event.unused and not event.unused_results and not self._missing:
            return ()
        if event.error is not None and event.error.type == ScriptMisfit.__name__:
            return ()  # The misfit kept the turn from using the rest of its lines.
        missing, self._missing = self._missing, []
        turn = view.turns[-1]
        unused = {left.agent for left in event.unused}
        hits = [self._of_missing(failed, view, failed.agent in unused) for failed in missing]
        failed_agents = {failed.agent for failed in missing}
        hits += [
            self._of_unused(left, turn, view)
            for left in event.unused
            if left.agent not in failed_agents and event.turn != self._disturbed
        ]
        if hits or event.turn == self._disturbed:
            # Unused lines call no tools: one cause, one finding.
            return hits
        return [self._of_unused_results(left, turn, view) for left in event.unused_results]

    def _of_unused_results(self, left: e.UnusedResults, turn: TurnView, view: View) -> Hit:
        tool, number = left.tool, turn.number
        calls = counted(left.calls, "time") if left.calls else "not"
        path: tuple[str | int, ...] = ("turns", number - 1, "tool_results", tool)
        if left.is_list:
            results = counted(len(left.answers), "unused result")
            which = ", ".join(f"[{place}]" for place in left.answers)
            problem = (
                f"tool {tool!r} has {results} in turn {number}: {which}. It was called {calls}, "
                "and each result answers one call; one result that is a list is "
                "`{returns: [...]}`."
            )
            path = (*path, left.answers[0])
        elif any(tool_view.tool == tool for tool_view in turn.tools):
            problem = (
                f"tool {tool!r} was called in turn {number} and did not ask for the result that "
                "the scenario has: what it returned is its own."
            )
        else:
            called = (tool_view for before in view.turns for tool_view in before.tools)
            nearest = meant_tool(tool, view.calls.values(), called)
            problem = (
                f"tool {tool!r} was not called in turn {number}, but has a result{nearest or '.'}"
            )
        data = {"tool": tool, "answers": list(left.answers), "calls": left.calls}
        return Hit(self.id, problem, number, data=data, path=path)

    def _of_misfit(self, misfit: e.Misfit) -> Hit:
        root, *rest = misfit.path or ("",)
        turn = rest[0] + 1 if root == "turns" and rest and isinstance(rest[0], int) else 0
        agent = str(rest[2]) if len(rest) > 2 and rest[1] == "replies" else ""
        return Hit(self.id, misfit.what, turn, agent, path=misfit.path)

    def _of_missing(self, event: e.ModelFailed, view: View, has_unused: bool) -> Hit:
        index = view.calls[event.call].index
        path: tuple[str | int, ...] = ("turns", event.turn - 1)
        if index or has_unused:
            path = (*path, "replies", event.agent)
        return Hit(self.id, event.message, event.turn, event.agent, index, path=path)

    def _of_unused(self, left: e.UnusedLines, turn: TurnView, view: View) -> Hit:
        agent, number = left.agent, turn.number
        lines = counted(len(left.lines), "reply line")
        which = ", ".join(f"[{line}]" for line in left.lines)
        pronoun = "it" if len(left.lines) == 1 else "them"
        if left.calls:
            unused = counted(len(left.lines), "unused reply line")
            calls = counted(left.calls, "model call")
            problem = (
                f"agent {agent!r} has {unused} in turn {number}: {which}. "
                f"It made {calls}. Remove {pronoun}, or let the agent be asked again."
            )
        elif any(run.agent == agent for run in turn.runs):
            problem = (
                f"agent {agent!r} made no model call in turn {number}, but has {lines}. "
                f"Remove {pronoun}, or let the agent ask a model."
            )
        else:
            runs = (run for before in view.turns for run in before.runs)
            nearest = meant_agent(agent, view.pipeline, runs, view.calls.values())
            problem = (
                f"agent {agent!r} never ran in turn {number}, but has {lines}{nearest or '.'} "
                f"Remove {pronoun}, or route the turn to the agent."
            )
        path = ("turns", number - 1, "replies", agent)
        data = {"lines": list(left.lines), "calls": left.calls}
        return Hit(self.id, problem, number, agent, data=data, path=path)


class Uncontrolled:
    """RUN-02: user code uses no thread, process or network that simkit does not control.

    The list of nondeterministic effects is Temporal's.
    """

    id = "RUN-02"

    @reads(e.UncontrolledEffect)
    def look(self, event: e.UncontrolledEffect, view: View) -> Iterable[Hit]:
        """Report every effect."""
        actor = f"agent {event.agent!r}" if event.agent else "the pipeline"
        when = f" in turn {event.turn}" if event.turn else ""
        problem = f"{actor} reached {event.effect} at {event.where}{when}"
        data = {"effect": event.effect, "where": event.where}
        return (Hit(self.id, problem, event.turn, event.agent, data=data),)


class Unplayed:
    """RUN-04: every recorded interaction of a cassette answers a request.

    After a planned fault the pipeline may make fewer requests. From litellm#37360: unused
    recordings fail at the end.
    """

    id = "RUN-04"

    def __init__(self) -> None:
        self._is_disturbed = False

    @reads(e.FaultInjected)
    def disturb(self, event: e.FaultInjected, view: View) -> Iterable[Hit]:
        """Remember that there was a fault."""
        self._is_disturbed = True
        return ()

    @reads(e.RunFinished)
    def end_run(self, event: e.RunFinished, view: View) -> Iterable[Hit]:
        """Report what was not used."""
        if not event.unplayed or self._is_disturbed:
            return ()
        number = counted(len(event.unplayed), "recorded interaction")
        problem = f"{number} of the cassette answered nothing:{_listed(event.unplayed)}"
        data = {"interactions": list(event.unplayed)}
        return (Hit(self.id, problem, 0, data=data, path=("cassette",)),)


class Drifted:
    """RUN-05: a request equals its recording, also if the policy allows another.

    Unnoticed drift makes recordings stale: konveyor/kai#462.
    """

    id = "RUN-05"

    @reads(e.RunFinished)
    def look(self, event: e.RunFinished, view: View) -> Iterable[Hit]:
        """Report all drift at once."""
        if not event.drifted:
            return ()
        number = counted(len(event.drifted), "request")
        problem = f"{number} differed from what was recorded:{_listed(event.drifted)}"
        data = {"interactions": list(event.drifted)}
        return (Hit(self.id, problem, 0, data=data, path=("cassette",)),)


class Unread:
    """RUN-06: simkit reads every request to a model provider, so that claims see it.

    A path of no known protocol is answered from a recording, or by an allowed host, without a
    context, a reply or a tool call in the trace. It may not have been a model call: a warning.
    """

    id = "RUN-06"

    @reads(e.RequestUnread)
    def look(self, event: e.RequestUnread, view: View) -> Iterable[Hit]:
        """Report each request."""
        problem = (
            f"{event.method} {event.url} is {event.interface}, which simkit does not read: "
            "if it asks a model, no claim sees what was sent and answered"
        )
        data = {"url": event.url, "interface": event.interface}
        return (Hit(self.id, problem, event.turn, data=data),)


class LostError:
    """RUN-07: every error that ends a thread or a task of the pipeline is taken by other code.

    A provider's failure that the scenario plans is none: an application may let such work go. As
    pytest's warning for unhandled exceptions of threads, which passes.
    """

    id = "RUN-07"

    @reads(e.ErrorLost)
    def look(self, event: e.ErrorLost, view: View) -> Iterable[Hit]:
        """Report each error."""
        error = event.error
        if error.type in FAILURES:
            return ()
        actor = f" of agent {event.agent!r}" if event.agent else ""
        problem = (
            f"a {event.ended}{actor} ended with an error in turn {event.turn}, and no code took "
            f"it: {error.message}"
        )
        data = {"ended": event.ended, "error": error.type}
        return (Hit(self.id, problem, event.turn, event.agent, data=data),)


def _listed(lines: Sequence[str]) -> str:
    lines_shown = [f"\n{line}" for line in lines[:_SHOWN_MAX]]
    more = len(lines) - _SHOWN_MAX
    return "".join(lines_shown) + (f"\n… {more} more" if more > 0 else "")
