"""What a name probably meant that a run of code does not know: its file is read before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simkit.language.yaml import near
from simkit.trace import events as e
from simkit.trace.views import CallView, RunView, ToolView


def meant_agent(
    agent: str, facts: e.PipelineFacts, runs: Iterable[RunView], calls: Iterable[CallView]
) -> str:
    """Returns ``; did you mean …?`` for an agent that nothing knows, if one is near."""
    known = dict.fromkeys(_agents(facts, runs, calls))
    return _nearest_name(agent, known)


def meant_tool(tool: str, calls: Iterable[CallView], tools: Iterable[ToolView]) -> str:
    """Returns the same for a tool that was neither offered nor called."""
    names = [name for call in calls for name in (call.context.tools or ())]
    return _nearest_name(tool, dict.fromkeys([*names, *(tool_.tool for tool_ in tools)]))


def _agents(
    facts: e.PipelineFacts, runs: Iterable[RunView], calls: Iterable[CallView]
) -> Iterator[str]:
    yield from facts.agents
    yield from (run.agent for run in runs)
    for call in calls:
        yield call.agent
        yield from call.context.handoffs or ()


def _nearest_name(word: str, known: Iterable[str]) -> str:
    names = [name for name in known if name]
    nearest = "" if word in names else near(word, names)
    return f"; did you mean `{nearest}`?" if nearest else ""
