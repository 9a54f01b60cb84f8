"""From what a first run shows to a scenario that says the same: replies, results, rules. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.adapters.naming import Voice, rule_of, voices_of
from simkit.core.messages import HANDOFF_PREFIX, Fails, Message
from simkit.providers.failures import FAILURES
from simkit.session.execution.first_run import UNMARKED, Seen, Spoken, Used

_LONG: Final = frozenset(("returns", "error", "latency_ms", "when"))
"""Keys of a tool's answer that is more than the value that it returns."""


def scenario_of(
    seen: Seen,
    name: str,
    pipeline: str,
    app: Mapping[str, Any],
    said: Sequence[str],
    *,
    with_tools: bool = True,
) -> dict[str, Any]:
    """Returns the scenario of a first run, without claims.

    ``app`` are the app's options; ``with_tools`` lets results stand in for the tools' functions.
    """
    agents = _agents(seen)
    passing = _handoffs(seen, agents)
    used = {entry.tool for entry in seen.used}
    tools = {tool: entry for tool, entry in seen.functions.items() if tool in used and with_tools}
    tree: dict[str, Any] = {"version": 1, "scenario": name, "pipeline": pipeline}
    tree["app"] = {**app, **({"tools": tools} if tools else {})}
    rules = _rules(seen, agents, passing)
    if rules:
        tree["agents"] = rules
    tree["turns"] = [
        _turn(place, text, seen, agents, passing, tools) for place, text in enumerate(said)
    ]
    return tree


def _agents(seen: Seen) -> list[str]:
    """Returns whose each call is."""
    unmarked = [one for one in seen.spoken if one.agent == UNMARKED]
    names = iter(voices_of([one.asked for one in unmarked])[1])
    return [next(names).name if one.agent == UNMARKED else one.agent for one in seen.spoken]


def _rules(
    seen: Seen, agents: Sequence[str], passing: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    voices: list[Voice] = voices_of([s.asked for s in seen.spoken if s.agent == UNMARKED])[0]
    rules: dict[str, dict[str, Any]] = {}
    for voice in voices:
        rules[voice.name] = rule_of(voice, voices)
    for tool, target in passing.items():
        if tool != f"{HANDOFF_PREFIX}{target}":
            known = rules.setdefault(target, {})
            known["handoff"] = [*known.get("handoff", []), tool]
    return {agent: _short(rule) for agent, rule in rules.items()}


def _short(rule: dict[str, Any]) -> dict[str, Any]:
    tools = rule.get("handoff", [])
    return {**rule, "handoff": tools[0]} if len(tools) == 1 else rule


def _handoffs(seen: Seen, agents: Sequence[str]) -> dict[str, str]:
    """Returns the tools that pass control, and to whom.

    They are those whose calls are never answered to the agent that made them, and after which
    another agent speaks.
    """
    carried_out = {entry.tool for entry in seen.used}
    targets: dict[str, set[str]] = {}
    for place, (one, agent) in enumerate(zip(seen.spoken, agents, strict=True)):
        rest = list(zip(seen.spoken, agents, strict=True))[place + 1 :]
        later = [(other, whose) for other, whose in rest if other.turn == one.turn]
        answered = {
            m.call_id for other, whose in later if whose == agent for m in other.asked.messages
        }
        for call in _said(one).calls:
            if call.name in carried_out:
                continue
            passed = later[0][1] if later and later[0][1] != agent else ""
            targets.setdefault(call.name, set()).add("" if call.id in answered else passed)
    return {
        tool: next(iter(found)) for tool, found in targets.items() if len(found) == 1 and all(found)
    }


def _said(one: Spoken) -> Message:
    return one.heard.message if one.heard is not None else Message("assistant")


def _turn(
    place: int,
    text: str,
    seen: Seen,
    agents: Sequence[str],
    passing: Mapping[str, str],
    tools: Mapping[str, str],
) -> dict[str, Any]:
    replies: dict[str, list[Any]] = {}
    for one, agent in zip(seen.spoken, agents, strict=True):
        if one.turn == place:
            replies.setdefault(agent, []).append(_line(one, passing))
    turn: dict[str, Any] = {"user": text}
    if replies:
        turn["replies"] = {
            agent: lines[0] if len(lines) == 1 else lines for agent, lines in replies.items()
        }
    results = dict(_results([u for u in seen.used if u.turn == place and u.tool in tools]))
    if results:
        turn["tool_results"] = results
    return turn


def _line(one: Spoken, passing: Mapping[str, str]) -> Any:
    """Returns the reply line that says what a model said."""
    if one.heard is not None and one.heard.error is not None:
        return {"error": _error(one.heard.error)}
    message = _said(one)
    text = {"text": message.content} if message.content else {}
    if message.calls:
        first = message.calls[0]
        if len(message.calls) == 1 and first.name in passing:
            payload = {"payload": first.args} if first.args else {}
            return {**text, "handoff": {"to": passing[first.name], **payload}}
        return {**text, "calls": [{call.name: call.args} for call in message.calls]}
    if one.asked.output is not None and message.data is not None:
        return {"json": message.data}
    return message.content


def _error(fails: Fails) -> Any:
    usual = FAILURES.get(fails.kind)
    if usual is not None and fails.retry_after is None:
        return fails.kind
    found = {"status": fails.status, "type": fails.kind, "message": fails.message}
    return {**found, **({"retry_after": fails.retry_after} if fails.retry_after else {})}


def _results(used: Sequence[Used]) -> Iterator[tuple[str, Any]]:
    """Yields what each tool answers in a turn: a value, or one after the other."""
    by_tool: dict[str, list[Any]] = {}
    for one in used:
        by_tool.setdefault(one.tool, []).append(_answer(one))
    for tool, answers in by_tool.items():
        is_single = len(answers) == 1 and not isinstance(answers[0], list | tuple)
        yield tool, answers[0] if is_single else answers


def _answer(one: Used) -> Any:
    if one.error:
        return {"error": one.error}
    if isinstance(one.result, dict) and one.result and _LONG.issuperset(one.result):
        return {"returns": one.result}
    return one.result
