"""First scenario: from a first run to a scenario with replies, results and rules. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.adapters.attribution import PromptSignature, rule_of, signatures_of
from simkit.adapters.recorder.handoffs import PREFIXES
from simkit.core.messages import Fails, Message
from simkit.language.json_schema.examples import example_of
from simkit.providers.failures import FAILURES
from simkit.providers.values import Offer, ParsedRequest
from simkit.session.execution.first_run import MADE_UP, UNMARKED, FirstRun, ObservedCall, Used

_LONG: Final = frozenset(("returns", "error", "latency_ms", "when"))
"""Keys of a tool's answer that is more than its result."""


def scenario_of(
    first: FirstRun,
    name: str,
    pipeline: str,
    app: Mapping[str, Any],
    turns: Sequence[Mapping[str, Any]],
    *,
    with_tools: bool = True,
) -> dict[str, Any]:
    """Return the scenario of a first run, without claims.

    ``app`` are the app's options, ``turns`` what the user says; with ``with_tools``, results
    replace the tools' functions.
    """
    agents = agents_of(first)
    handoffs_by_tool = _handoffs(first, agents)
    used = {entry.tool for entry in first.used}
    tools = {tool: entry for tool, entry in first.functions.items() if tool in used and with_tools}
    tree: dict[str, Any] = {"scenario": name, "pipeline": pipeline}
    if app or tools:
        tree["app"] = {**app, **({"tools": {**tools, **app.get("tools", {})}} if tools else {})}
    rules = rules_of(first)
    if rules:
        tree["agents"] = rules
    tree["turns"] = [
        _turn(index, turn, first, agents, handoffs_by_tool, {*tools, *first.stubbed})
        for index, turn in enumerate(turns)
    ]
    return tree


def reach_of(first: FirstRun) -> set[str]:
    """Return what a run reached: its agents, and the tools that they were offered."""
    offers = {offer.name for call in first.calls for offer in call.model_request.offers}
    return {*agents_of(first), *offers}


def uncalled_tools(first: FirstRun) -> dict[tuple[int, str], Offer]:
    """Return tools that no model has called and a scenario can answer, each by the turn and the
    agent that may call it: one for each agent in each turn."""
    called = {call.name for entry in first.calls for call in _message_of(entry).calls}
    tools: dict[tuple[int, str], Offer] = {}
    places: set[tuple[int, str]] = set()
    for agent, call in zip(agents_of(first), first.calls, strict=True):
        place, request = (call.turn, agent), call.model_request
        can_answer = {*first.functions, *(() if call.agent == UNMARKED else first.replaceable)}
        can_answer -= called | {offer.name for offer in tools.values()}
        can_answer = {name for name in can_answer if not name.startswith(PREFIXES)}
        offer = next((each for each in request.offers if each.name in can_answer), None)
        if place not in places and request.choice == "auto" and offer is not None:
            tools[place] = offer
        places.add(place)
    return tools


def with_calls(
    tree: Mapping[str, Any], tools: Mapping[tuple[int, str], Offer], functions: Mapping[str, str]
) -> dict[str, Any]:
    """Return a scenario in which agents first call a tool in some turns, which gives a text."""
    turns = [{**turn, "replies": {**turn["replies"]}} for turn in tree["turns"]]
    for (index, agent), offer in tools.items():
        turn = turns[index]
        lines = turn["replies"][agent]
        call = {offer.name: example_of(offer.schema) if offer.schema is not None else {}}
        lines = lines if isinstance(lines, list) else [lines]
        turn["replies"][agent] = [{"calls": [call]}, *lines]
        result = {offer.name: f"What {offer.name} returns."}
        turn["tool_results"] = {**result, **turn.get("tool_results", {})}
    app = dict(tree.get("app", {}))
    if named := {o.name: functions[o.name] for o in tools.values() if o.name in functions}:
        app["tools"] = {**named, **app.get("tools", {})}
    return {**tree, **({"app": app} if app else {}), "turns": turns}


def rules_of(first: FirstRun) -> dict[str, dict[str, Any]]:
    """Return the rules, as under ``agents:``, that say which unattributed call is whose."""
    agents = agents_of(first)
    return _rules(first, agents, _handoffs(first, agents))


def agents_of(first: FirstRun) -> list[str]:
    """Return the agent of each call."""
    names = iter(_signatures(first)[1])
    agents = [next(names).name if call.agent == UNMARKED else call.agent for call in first.calls]
    other_names = _names_by_tools(first, agents)
    return [other_names.get(agent, agent) for agent in agents]


def _signatures(first: FirstRun) -> tuple[list[PromptSignature], list[PromptSignature]]:
    return signatures_of([_unnumbered(c.model_request) for c in first.calls if c.agent == UNMARKED])


def _unnumbered(request: ParsedRequest) -> ParsedRequest:
    """Return a request whose made-up texts, which an agent's instructions may have, are equal."""
    messages = tuple(
        msgspec.structs.replace(m, content=MADE_UP.sub(" made A-1", m.content))
        for m in request.messages
    )
    return msgspec.structs.replace(request, messages=messages)


def _names_by_tools(first: FirstRun, agents: Sequence[str]) -> dict[str, str]:
    """Return how agents that say nothing of themselves are called by the tools that pass control
    to them: by that name it is guessed what the tool does."""
    unmarked = {
        agent for call, agent in zip(first.calls, agents, strict=True) if call.agent == UNMARKED
    }
    names: dict[str, str] = {}
    for tool, agent in _handoffs(first, agents).items():
        name = next((tool.removeprefix(p) for p in PREFIXES if tool.startswith(p)), "")
        if name and agent in unmarked and name not in agents and name not in names.values():
            names.setdefault(agent, name)
    return names


def _rules(
    first: FirstRun, agents: Sequence[str], handoffs_by_tool: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    signatures, owners = _signatures(first)
    calls = (
        agent for call, agent in zip(first.calls, agents, strict=True) if call.agent == UNMARKED
    )
    names = {signature.name: agent for signature, agent in zip(owners, calls, strict=True)}
    rules = {names[signature.name]: rule_of(signature, signatures) for signature in signatures}
    for rule in rules.values():
        if isinstance(starts := rule.get("system"), dict) and "$starts" in starts:
            rule["system"] = {"$starts": MADE_UP.split(starts["$starts"])[0]}
    for tool, target in handoffs_by_tool.items():
        is_known = target in first.targets or tool in [f"{p}{target}" for p in PREFIXES]
        if not is_known:
            rule_of_target = rules.setdefault(target, {})
            rule_of_target["handoff"] = [*rule_of_target.get("handoff", []), tool]
    return {agent: _short(rule) for agent, rule in rules.items()}


def _short(rule: dict[str, Any]) -> dict[str, Any]:
    tools = rule.get("handoff", [])
    return {**rule, "handoff": tools[0]} if len(tools) == 1 else rule


def _calls_answered(agent: str, later: Sequence[tuple[ObservedCall, str]]) -> set[str]:
    """Return the tool calls whose answers later calls of an agent contain."""
    return {
        message.call_id
        for call, name in later
        if name == agent
        for message in call.model_request.messages
    }


def _handoffs(first: FirstRun, agents: Sequence[str]) -> dict[str, str]:
    """Return the tools that pass control, with their targets.

    They are tools whose calls never get an answer for their agent, and after which another agent
    speaks. Where a model must call a tool, that is the form in which code wants its answer. Of
    several tools that are called at once, the one whose name says so has passed control.
    """
    carried_out = {entry.tool for entry in first.used}
    targets: dict[str, set[str]] = {}
    calls = list(zip(first.calls, agents, strict=True))
    for count, (other_call, agent) in enumerate(calls, 1):
        later = [entry for entry in calls[count:] if entry[0].turn == other_call.turn]
        answered = _calls_answered(agent, later)
        message = _message_of(other_call)
        for call in message.calls:
            if call.name in carried_out or other_call.model_request.choice != "auto":
                continue
            passed = later[0][1] if later and later[0][1] != agent else ""
            is_answer = call.id in answered or _may_pass_control(message) != {call.name}
            targets.setdefault(call.name, set()).add("" if is_answer else passed)
    return {
        tool: next(iter(agents_after))
        for tool, agents_after in targets.items()
        if len(agents_after) == 1 and all(agents_after)
    }


def _may_pass_control(message: Message) -> set[str]:
    """Return the tools that a message calls: those whose names say so, if there are any."""
    names = {call.name for call in message.calls}
    return {name for name in names if name.startswith(PREFIXES)} or names


def _message_of(call: ObservedCall) -> Message:
    return call.answer.message if call.answer is not None else Message("assistant")


def _turn(
    index: int,
    given: Mapping[str, Any],
    first: FirstRun,
    agents: Sequence[str],
    handoffs_by_tool: Mapping[str, str],
    tools: Collection[str],
) -> dict[str, Any]:
    replies: dict[str, list[Any]] = {}
    for call, agent in zip(first.calls, agents, strict=True):
        if call.turn == index:
            replies.setdefault(agent, []).append(_line(call, handoffs_by_tool))
    turn = dict(given)
    if replies:
        turn["replies"] = {
            agent: lines[0] if len(lines) == 1 else lines for agent, lines in replies.items()
        }
    results = dict(_results([u for u in first.used if u.turn == index and u.tool in tools]))
    if results:
        turn["tool_results"] = results
    return turn


def _line(used_call: ObservedCall, handoffs_by_tool: Mapping[str, str]) -> Any:
    """Return the reply line for a model's answer."""
    if used_call.answer is not None and used_call.answer.error is not None:
        return {"error": _error(used_call.answer.error)}
    message = _message_of(used_call)
    text = {"text": message.content} if message.content else {}
    if message.calls:
        first = message.calls[0]
        if len(message.calls) == 1 and first.name in handoffs_by_tool:
            payload = {"payload": first.args} if first.args else {}
            return {**text, "handoff": {"to": handoffs_by_tool[first.name], **payload}}
        return {**text, "calls": [{call.name: call.args} for call in message.calls]}
    if used_call.model_request.output is not None and message.data is not None:
        return {"json": message.data}
    return message.content


def _error(fails: Fails) -> Any:
    usual = FAILURES.get(fails.kind)
    if usual is not None and fails.retry_after is None:
        return fails.kind
    error = {"status": fails.status, "type": fails.kind, "message": fails.message}
    return {**error, **({"retry_after": fails.retry_after} if fails.retry_after else {})}


def _results(used: Sequence[Used]) -> Iterator[tuple[str, Any]]:
    """Yield the results of each tool in a turn: a value, or a list of them."""
    by_tool: dict[str, list[Any]] = {}
    for tool_use in used:
        by_tool.setdefault(tool_use.tool, []).append(_answer(tool_use))
    for tool, answers in by_tool.items():
        is_single = len(answers) == 1 and not isinstance(answers[0], list | tuple)
        yield tool, answers[0] if is_single else answers


def _answer(tool_use: Used) -> Any:
    if tool_use.error:
        return {"error": tool_use.error}
    if isinstance(tool_use.result, dict) and tool_use.result and _LONG.issuperset(tool_use.result):
        return {"returns": tool_use.result}
    return tool_use.result
