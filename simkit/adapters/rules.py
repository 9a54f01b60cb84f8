"""Rules under ``agents:`` for a node or an agent that does not exist. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from simkit.adapters.handoff_tools import HandoffTools
from simkit.core.errors import ScriptBroken, ScriptMisfit
from simkit.core.messages import HANDOFF_PREFIX
from simkit.language.yaml import near
from simkit.spec.scenario.apps import AgentRule, App


def handoff_tools_of(app: App) -> HandoffTools:
    """Return the handoff tools in the rules of a scenario.

    A rule with tools adds them to `transfer_to_<agent>`; `handoff: []` means that no tool passes
    control to its agent. A tool whose function the scenario names is a plain one. Raise
    ScriptBroken if two rules name one tool and no argument names the agent.
    """
    tools: dict[str, str] = {}
    shared: dict[str, str] = {}
    first: dict[str, str] = {}
    for agent, rule in app.agents.items():
        for handoff in rule.handoff:
            other = first.setdefault(handoff.tool, agent)
            if other != agent and not (
                handoff.target and handoff.target == shared.get(handoff.tool)
            ):
                raise ScriptBroken(
                    f"tool `{handoff.tool}` passes control to {other!r} and to {agent!r}, and the "
                    "rules do not agree on the argument that says which.\n"
                    f"Name it in each rule: `handoff: {{tool: {handoff.tool}, target: ARGUMENT}}`.",
                    ("agents", agent, "handoff"),
                )
            if handoff.target:
                shared[handoff.tool] = handoff.target
            else:
                tools[handoff.tool] = agent
    handoff_tools = HandoffTools(tools, shared)
    handoff_tools.know(app.agents)
    handoff_tools.keep_ordinary(app.options.tools)
    for agent, rule in app.agents.items():
        if "handoff" in rule.model_fields_set:
            handoff_tools.guess_only(agent, (HANDOFF_PREFIX,) if rule.handoff else ())
    return handoff_tools


def refuse_nodes(app: App) -> None:
    """Raise ScriptBroken for a rule with nodes in a pipeline without nodes."""
    for agent, rule in app.agents.items():
        if rule.node:
            raise ScriptBroken(
                f"`node` names nodes of a graph, and `{app.entry}` is no graph, nor code that "
                "uses LangGraph.\n"
                "Name the graph under `pipeline:`, or say by `system` which calls are the agent's.",
                ("agents", agent, "node"),
            )


def check_nodes(app: App, nodes: Collection[str], are_all: bool) -> None:
    """Raise ScriptMisfit for a rule with a node that no graph has and that never ran.

    If more nodes may exist, a rule may concern a graph that this scenario does not reach: then only
    a near miss of a node's name is an error.
    """
    for agent, rule in app.agents.items():
        for node in rule.node:
            if node not in nodes and (are_all or near(node, nodes)):
                raise ScriptMisfit(_nothing("node", node, app, nodes), ("agents", agent, "node"))


def check_agents(app: App, known: Collection[str], agents_met: Collection[str]) -> None:
    """Raise ScriptMisfit for an agent's rule if it never ran and its name is a near miss.

    ``known`` are the framework's agents, ``agents_met`` those that ran. Code may make further
    agents, so that only a similar name shows a typo.
    """
    for agent in _unmet(app.agents, {*known, *agents_met}):
        names = dict.fromkeys((*known, *agents_met))
        if near(agent, [name for name in names if name not in app.agents]):
            raise ScriptMisfit(_nothing("agent", agent, app, names), ("agents", agent))


def _unmet(rules: Mapping[str, AgentRule], names: Collection[str]) -> Iterator[str]:
    """Yield the agents of rules that match no call by themselves, and are none of the names."""
    for agent, rule in rules.items():
        if agent not in names and not rule.node and not rule.matchers():
            yield agent


def _nothing(noun: str, name: str, app: App, known: Collection[str]) -> str:
    nearest = near(name, known)
    hint = f" Did you mean {nearest!r}?" if nearest else ""
    return (
        f"no {noun} {name!r} worked, and `{app.entry}` has none of that name.{hint}\n"
        f"Its {noun}s: {', '.join(known) or 'none'}."
    )
