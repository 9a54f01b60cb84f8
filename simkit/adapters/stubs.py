"""Stubs: whether a turn's tool results can reach their tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from simkit.adapters.trace_recorder import TraceRecorder
from simkit.core.errors import ScriptBroken, ScriptMisfit
from simkit.language.yaml import near
from simkit.spec.scenario.apps import App


def unnamed(stubs: Iterable[str], app: App) -> Iterator[str]:
    """Yield the tools with results whose functions the scenario does not name."""
    yield from (tool for tool in stubs if tool not in app.options.tools)


def refuse_unreachable(tools: Iterable[str], app: App, turn: int) -> None:
    """Raise ScriptBroken if nothing can replace a tool's function, so that it would run."""
    for tool in tools:
        raise _nobody_knows(tool, app, turn)


def refuse_unreached(
    tools: Iterable[str], app: App, recorder: TraceRecorder, reached: Collection[str]
) -> None:
    """Raise ScriptMisfit for results that no call of the turn could have used.

    ``reached`` are the tools with calls that were answered, or seen to be executed.
    """
    for tool in tools:
        if tool in reached:
            continue
        if recorder.was_asked_for(tool):
            unknown = _nobody_knows(tool, app, recorder.turn)
            raise ScriptMisfit(unknown.what, unknown.path)
        if tool not in recorder.offered:
            names = ", ".join(sorted(recorder.offered)) or "none"
            nearest = near(tool, recorder.offered)
            hint = f" Did you mean `{nearest}`?" if nearest else ""
            raise ScriptMisfit(
                f"no model was offered tool `{tool}`.{hint} Offered: {names}.",
                ("turns", recorder.turn - 1, "tool_results", tool),
            )


def _nobody_knows(tool: str, app: App, turn: int) -> ScriptBroken:
    home = app.entry.partition(":")[0]
    return ScriptBroken(
        f"simkit does not know the function of tool `{tool}`.\nName it: `app: {{tools: {{{tool}: "
        f"{home}:{tool}}}}}`, or wherever it is defined.",
        ("turns", turn - 1, "tool_results", tool),
    )
