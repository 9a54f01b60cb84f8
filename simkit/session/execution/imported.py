"""Scenarios of conversations that happened elsewhere, from their model calls and tools."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.exports import json_value, mapping_or_empty
from simkit.capture.telemetry.messages import loaded
from simkit.capture.telemetry.recorded import RecordedConversation, RecordedTurn
from simkit.capture.telemetry.spans import Step
from simkit.core.messages import ABSENT, HANDOFF_PREFIX, Message
from simkit.providers.failures import MALFORMED
from simkit.providers.values import ParsedRequest, ParsedResponse
from simkit.session.execution.first_run import UNMARKED, FirstRun, ObservedCall, Used
from simkit.session.execution.first_scenario import agents_of, scenario_of
from simkit.spec.scenario.model import DEFAULT_START
from simkit.update.observed_values import claim_of


def imported_scenario(
    conversation: RecordedConversation,
    name: str,
    pipeline: str,
    app: Mapping[str, Any],
    functions: Mapping[str, str],
) -> dict[str, Any]:
    """Return the scenario of a conversation, with the claims that hold for what was recorded.

    ``functions`` are those of tools that the application itself calls, by name.
    """
    run = _run_of(conversation, functions)
    own = conversation.own
    turns = [{"user": turn.user} for turn in conversation.turns]
    tree = scenario_of(run, name, pipeline, app, turns)
    if run.calls and {call.agent for call in run.calls} == {UNMARKED} and len(tree["agents"]) == 1:
        # All calls are its own, also those of today's code with other instructions.
        tree["agents"] = {agent: {"system": {"$any": True}} for agent in tree["agents"]}
    state, start = own.get(names.GIVEN), own.get(names.START)
    settings = {
        "seed": own.get(names.SEED),
        "start": start if start != DEFAULT_START else "",
        "servers": _servers(conversation),
        "given": state and {"state": state},
    }
    tree |= {key: value for key, value in settings.items() if value}
    owners = iter(agents_of(run))
    systems = has_instructions(conversation)
    is_whole = has_whole_contexts(conversation)
    for turn, entry in zip(conversation.turns, tree["turns"], strict=True):
        agents = [next(owners) for _ in turn.calls]
        claims = dict(_claims(turn, agents, systems, is_whole))
        _add_own(entry, turn, own, agents)
        if claims:
            entry["expect"] = claims
    return tree


def _add_own(
    entry: dict[str, Any], turn: RecordedTurn, first: Mapping[str, Any], declared: Sequence[str]
) -> None:
    """Write a turn as simkit itself knows it; ``first`` is what it says of the first one.

    ``declared`` are the agents of its calls, in a declared pipeline.
    """
    if names.DATA in turn.own:
        entry["user"] = {"json": turn.own[names.DATA]}
    if names.RESUME in turn.own:
        del entry["user"]
        entry["resume"] = turn.own[names.RESUME]
    if turn.own.get(names.SESSION, first.get(names.SESSION)) != first.get(names.SESSION):
        entry["session"] = turn.own[names.SESSION]
    if turn.own.get(names.PROJECT, "p1") != "p1":
        entry["project"] = turn.own[names.PROJECT]
    for agent in () if ":" in first.get(names.PIPELINE, ":") else dict.fromkeys(declared):
        calls = [c for c, name in zip(turn.calls, declared, strict=True) if name == agent]
        lines = entry["replies"][agent] if len(calls) > 1 else [entry["replies"][agent]]
        own = [_own_line(line, call) for line, call in zip(lines, calls, strict=True)]
        entry["replies"][agent] = own if len(own) > 1 else own[0]


def _own_line(line: Any, call: Step) -> Any:
    """Return a reply line of a declared pipeline, whose handoffs the trace shows as calls."""
    if line == MALFORMED:
        return {"error": "malformed_json"}
    form = call.attributes.get(names.FORM)
    if form in ("json", "interrupt") and isinstance(line, str):
        return {form: json_value(line) if form == "json" else loaded(line)}
    if not isinstance(line, Mapping):
        return line
    rest = {key: value for key, value in line.items() if key not in ("calls", "handoff")}
    if "handoff" in line:
        parts = line["handoff"].get("payload", {})
        return {**rest, "handoff": {"to": line["handoff"]["to"], **parts}}
    calls = line.get("calls", ())
    ((tool, args),) = calls[0].items() if len(calls) == 1 else (("", {}),)
    if not tool.startswith(HANDOFF_PREFIX):
        return line
    return {**rest, "handoff": {"to": tool.removeprefix(HANDOFF_PREFIX), **args}}


def has_instructions(conversation: RecordedConversation) -> bool:
    """Return whether any model call shows instructions, or none shows a message."""
    messages = [
        m for turn in conversation.turns for call in turn.calls for m in call.messages or ()
    ]
    return not messages or any(message.role == "system" for message in messages)


def _servers(conversation: RecordedConversation) -> dict[str, Any]:
    """Return the MCP servers whose tools were called, with the arguments that were seen."""
    servers: dict[str, Any] = {}
    for turn in conversation.turns:
        schemas = {o.name: o.schema for call in turn.calls for o in call.offers if o.schema}
        for tool in turn.tools:
            if tool.server:
                server = servers.setdefault(tool.server, {"mcp": {"tools": {}}})
                types = {
                    k: _TYPES.get(type(v), "object") for k, v in mapping_or_empty(tool.args).items()
                }
                args = schemas.get(tool.name) or types
                server["mcp"]["tools"].setdefault(tool.name, {"args": args})
    return servers


_TYPES: Final = {
    bool: "boolean", float: "number", int: "integer", list: "array", str: "string",
}  # fmt: skip


def has_whole_contexts(conversation: RecordedConversation) -> bool:
    """Return whether the calls' messages are all that the models were sent.

    Some exporters write only what began an agent's run: then later calls of it lack its own calls.
    """
    for turn in conversation.turns if not conversation.own else ():
        calls_by_agent: dict[str, set[str]] = {}
        for call in turn.calls:
            request_ids = {c.id for message in call.messages or () for c in message.calls}
            reply_ids = calls_by_agent.setdefault(call.agent, set())
            if call.messages is not None and not reply_ids <= request_ids:
                return False
            if call.agent and call.answer is not None:
                reply_ids |= {c.id for c in call.answer.calls}
    return True


def _run_of(conversation: RecordedConversation, functions: Mapping[str, str]) -> FirstRun:
    calls = [
        ObservedCall(
            index,
            call.agent or UNMARKED,
            ParsedRequest("", "", call.messages or (), call.offers),
            _response_of(call),
        )
        for index, turn in enumerate(conversation.turns)
        for call in turn.calls
    ]
    used = [use for index, turn in enumerate(conversation.turns) for use in _uses(index, turn)]
    targets = frozenset(name for turn in conversation.turns for name in turn.targets)
    return FirstRun(
        tuple(calls), tuple(used), functions, targets, frozenset(use.tool for use in used)
    )


def _response_of(call: Step) -> ParsedResponse:
    if call.answer is None or (call.error is not None and not call.answer.content):
        return ParsedResponse(Message("assistant"), error=call.error)
    return ParsedResponse(call.answer)


def _uses(index: int, turn: RecordedTurn) -> Iterator[Used]:
    """Yield the tools' results: those of their spans, else those in later contexts."""
    targets = tuple("transfer_to_" for _ in turn.targets[:1])
    without = turn.asking | {
        a.name for a in turn.asks if a.is_handoff or a.name.startswith(targets)
    }
    yield from _uses_in_contexts(index, turn, without | {tool.name for tool in turn.tools})
    for tool in turn.tools:
        if tool.name not in without and tool.failed:
            yield Used(index, tool.name, error=tool.status.strip() or "it failed")
        elif tool.name not in without and tool.result is not ABSENT:
            yield Used(index, tool.name, tool.result)


def _uses_in_contexts(index: int, turn: RecordedTurn, without: Collection[str]) -> Iterator[Used]:
    tools = {ask.id: ask.name for ask in turn.asks}
    results: dict[str, str] = {}
    for step in turn.calls:
        for message in step.messages or ():
            if message.role == "tool":
                results.setdefault(message.call_id, message.content)
    for identity, tool in tools.items():
        if identity in results and tool not in without:
            yield Used(index, tool, results[identity])


def _claim_of(message: Message, call: Step) -> dict[str, Any]:
    claim: dict[str, Any] = claim_of(message)
    if message.content and message.call_id in call.failures:
        return {**claim, message.role: {"$contains": message.content}}
    if call.lacks_texts and message.calls:
        return {"role": message.role, "calls": claim["calls"]}
    return claim


def _claims(
    turn: RecordedTurn, agents: Sequence[str], has_systems: bool, is_whole: bool
) -> Iterator[tuple[str, Any]]:
    contexts = dict(_contexts(turn, agents, has_systems)) if is_whole else {}
    if contexts:
        yield "context", contexts
    if turn.failed:
        # A call that the trace does not have is no error that it tells of.
        others = {"$not": {"$in": ["ReplyMissing", "ScriptMisfit"]}}
        yield "error", {"type": turn.own.get(names.ERROR, others)}
    if turn.targets or any(call.failed for call in turn.calls):
        return
    tools = [{"tool": c.name, "args": claim_of(c.args)} for c in turn.asks if not c.is_handoff]
    if tools:
        yield "tool_calls", {"$has": tools}


def _contexts(
    turn: RecordedTurn, agents: Sequence[str], has_systems: bool
) -> Iterator[tuple[str, Any]]:
    for position, (call, agent) in enumerate(zip(turn.calls, agents, strict=True)):
        if not call.messages:
            continue
        index = agents[:position].count(agent)
        messages = [_claim_of(message, call) for message in call.messages]
        # Without instructions it is not known whether there were any.
        claim: dict[str, Any] = {"messages" if has_systems else "includes": messages}
        if call.offers:
            claim["tools"] = {"$has": [offer.name for offer in call.offers]}
        yield (f"{agent}[{index}]" if index else agent), claim
