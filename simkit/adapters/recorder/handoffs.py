"""Handoff tools: which tools pass control, by rules, frameworks and names; and their calls.

A tool that takes ``payload`` gets type, query and payload under their names, as in a declared
pipeline; for any other tool the arguments are the payload. An agent that is only known by its run
(``simkit.agent("billing")``) makes a tool ``to_billing`` a handoff when it starts. By then the call
is in the log, and the tool in a context, so that earlier events are adapted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from simkit.core.messages import HANDOFF_PREFIX, Handoff, JsonValue, Message, call_of
from simkit.language.json_schema import place_text, schema_errors
from simkit.providers.values import Offer
from simkit.trace import events as e

PREFIXES: Final = (HANDOFF_PREFIX, "handoff_to_", "to_")
"""Name prefixes of tools that mostly pass control to the agent named after them."""
_ODD: Final = re.compile(r"[\W_]+")


class HandoffTools:
    """The known handoff tools of one scenario's run.

    A name alone is enough only if it fits exactly one known agent. An agent is known by a rule, by
    a reply line, by its framework, or because it has run.
    """

    def __init__(
        self, tools: Mapping[str, str] | None = None, routers: Mapping[str, str] | None = None
    ) -> None:
        """``tools`` and ``routers`` come from the scenario's rules."""
        self.ruled: Final = {**(tools or {})}
        """Tool to its target agent, by a rule."""
        self.routers: dict[str, str] = {**(routers or {})}
        """Tools that take the target agent as an argument, with that argument."""
        self.version = 0
        """A number that grows with every change."""
        self._learned: dict[str, str] = {}
        self.agents: set[str] = set()
        self._alike: dict[str, set[str]] = {}
        """A normalized name to the agents with that name."""
        self._ordinary: set[str] = set()
        self._unguessed: dict[str, Collection[str]] = {}
        self._carried_out: set[str] = set()
        self._used_names: set[str] = set()

    # Learning

    def learn(self, tools: Mapping[str, str], routers: Mapping[str, str] | None = None) -> None:
        """Add a framework's handoff tools; the scenario's rules take precedence."""
        learned, routing = {**self._learned, **tools}, {**self.routers, **(routers or {})}
        if learned != self._learned or routing != self.routers:
            self._learned, self.routers = learned, routing
            self.version += 1

    def __ior__(self, tools: Mapping[str, str]) -> Self:
        """Add a framework's handoff tools, as `learn` does."""
        self.learn(tools)
        return self

    def learn_new(self, tools: Mapping[str, str]) -> None:
        """Add a framework's handoff tools, without changing known ones."""
        self.learn({tool: to for tool, to in tools.items() if tool not in self._learned})

    def know(self, agents: Iterable[str]) -> None:
        """Add names of agents."""
        for agent in agents:
            if agent not in self.agents:
                self.agents.add(agent)
                self._alike.setdefault(_plain(agent), set()).add(agent)
                self.version += 1

    def keep_ordinary(self, tools: Iterable[str]) -> None:
        """Add tools that pass no control, whatever their names."""
        self._ordinary.update(tools)

    def guess_only(self, agent: str, prefixes: Collection[str]) -> None:
        """Guess the agent of a tool only for names with these prefixes."""
        self._unguessed[agent] = [prefix for prefix in PREFIXES if prefix not in prefixes]

    def see(self, tools: Iterable[str]) -> None:
        """Add tools that a framework executes, so that it shows their results."""
        self._carried_out.update(tools)

    def take(self, tools: Iterable[str]) -> None:
        """Add tools whose arguments go to a function of the application."""
        self._used_names.update(tools)

    # Queries

    def is_taken(self, tool: str) -> bool:
        """Return whether a function of the application gets a tool's payload."""
        return tool in self._used_names

    def target_of(self, tool: str, args: JsonValue = None) -> str | None:
        """Return the target agent of a handoff tool; None for any other tool.

        Empty if only the arguments of a call name it.
        """
        if tool in self.routers:
            named = args.get(self.routers[tool]) if isinstance(args, Mapping) else None
            return named if isinstance(named, str) else ""
        return self.ruled.get(tool) or self._learned.get(tool) or self.guessed(tool)

    def guessed(self, tool: str) -> str | None:
        """Return the one agent that a tool's name fits; None if there is not exactly one."""
        prefix = next(
            (known_prefix for known_prefix in PREFIXES if tool.startswith(known_prefix)), ""
        )
        if not prefix or tool in self._ordinary:
            return None
        if prefix != HANDOFF_PREFIX and tool in self._carried_out:
            return None
        name = tool.removeprefix(prefix)
        alike = {name} & self.agents or self._alike.get(_plain(name)) or set()
        agents = [agent for agent in alike if prefix not in self._unguessed.get(agent, ())]
        return agents[0] if len(agents) == 1 else None

    def passed_by(self, tool: str, args: JsonValue) -> JsonValue:
        """Return a call's payload: its arguments without the agent."""
        argument = self.routers.get(tool)
        if argument is None or not isinstance(args, Mapping):
            return args
        return {name: value for name, value in args.items() if name != argument}

    def among(self, offers: Sequence[Offer]) -> Iterator[tuple[str, str]]:
        """Yield the offered handoff tools, each with its target agent."""
        for offer in offers:
            target = self.target_of(offer.name)
            if target is not None:
                yield offer.name, target

    def targets_of(self, offers: Sequence[Offer]) -> tuple[str, ...] | None:
        """Return the target agents of offered tools; None if a tool does not name its target."""
        agents: dict[str, None] = {}
        for offer in offers:
            argument = self.routers.get(offer.name)
            if argument is None:
                target = self.target_of(offer.name)
                agents.update({target: None} if target else {})
            elif not (named := agents_named(offer.schema, argument)):
                return None
            else:
                agents.update(dict.fromkeys(named))
        return tuple(agents)


def _plain(name: str) -> str:
    """Return an agent's name as in tools: `Refund Agent` and `refund_agent` are `refund`."""
    base = _ODD.sub("_", name.strip().lower()).strip("_")
    return base.removesuffix("_agent") or base


MISFITS_MAX: Final = 3
"""The number of rejected fields in a message."""
_PARTS: Final = ("type", "query", "payload")
_DEFINED: Final = "#/$defs/"


class HandoffFields(msgspec.Struct, frozen=True):
    """The fields of a handoff in a call."""

    payload: JsonValue = None
    type: str | None = None
    query: str | None = None


def told_by(args: JsonValue) -> HandoffFields:
    """Return the handoff fields in the arguments of a call."""
    if not isinstance(args, dict) or "payload" not in args or not {*args} <= {*_PARTS}:
        return HandoffFields(args or None)
    return HandoffFields(args["payload"], _text(args.get("type")), _text(args.get("query")))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def args_for(line: Handoff, schema: JsonValue) -> dict[str, Any]:
    """Return the arguments with which a model would make the handoff of a line.

    Raise ValueError for a payload that cannot be a tool's arguments. Fields with only one possible
    value in the tool's schema (a ``const``) are filled in.
    """
    whole = schema if isinstance(schema, dict) else {}
    payload: Any = {} if line.payload is None else line.payload
    if "payload" in _properties(whole):
        fields = {"type": line.type, "query": line.query, "payload": payload}
        args = {name: value for name, value in fields.items() if value is not None}
    elif not isinstance(payload, Mapping):
        raise ValueError("the tool takes the payload's keys as its arguments, and it has none")
    else:
        args = {**payload} if line.query is None else {**payload, "query": line.query}
    completed: dict[str, Any] = _completed(args, whole, whole)
    return completed


def misfit_of(args: JsonValue, schema: JsonValue) -> str:
    """Return the errors of a call's arguments by its tool's schema, field by field."""
    if not isinstance(schema, dict):
        return ""
    errors = schema_errors(schema, args)
    lines = [f"{place_text(path)[1:]}: {text}" if path else text for path, text in errors]
    more = f"; and {len(lines) - MISFITS_MAX} more" if len(lines) > MISFITS_MAX else ""
    return "; ".join(lines[:MISFITS_MAX]) + more


def agents_named(schema: JsonValue, argument: str | None) -> tuple[str, ...]:
    """Return the agents that a tool's schema allows as an argument; none if it lists none."""
    values = _properties(schema if isinstance(schema, dict) else {}).get(argument or "")
    names = values.get("enum") if isinstance(values, dict) else None
    return tuple(name for name in names or () if isinstance(name, str))


def passes_to(schema: JsonValue, argument: str | None, agent: str) -> bool:
    """Return whether a tool with an agent argument accepts an agent."""
    named = agents_named(schema, argument)
    return argument is not None and (not named or agent in named)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _completed(value: Any, schema: Any, whole: Mapping[str, Any]) -> Any:
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if isinstance(reference, str) and reference.startswith(_DEFINED):
        schema = whole.get("$defs", {}).get(reference.removeprefix(_DEFINED))
    if not isinstance(value, dict) or not isinstance(schema, dict):
        return value
    properties = _properties(schema)
    required = schema.get("required") or ()
    fixed = {
        name: properties[name]["const"]
        for name in required
        if name not in value and "const" in properties.get(name, ())
    }
    values = {name: _completed(item, properties.get(name), whole) for name, item in value.items()}
    return {**fixed, **values}


_replaced = msgspec.structs.replace


def may_turn_out(event: e.ContextBuilt) -> bool:
    """Return whether a tool in a context may become a handoff, by its name."""
    if not event.tools:
        return False
    marked = {tool for tool, _ in event.handoff_tools}
    return any(tool.startswith(PREFIXES) and tool not in marked for tool in event.tools)


def with_handoffs(events: Iterable[e.AnyEvent]) -> list[e.AnyEvent]:
    """Return a turn's events, with the handoffs marked in calls and tools."""
    result = [*events]
    targets = {
        event.call_id: event.to_agent
        for event in result
        if isinstance(event, e.HandoffRequested) and event.call_id
    }
    tools = {
        call.name: targets[call.id]
        for event in result
        if isinstance(event, e.MessageAdded)
        for call in event.message.calls
        if not call.is_handoff and call.id in targets
    }
    return [_agreeing(event, targets, tools) for event in result] if tools else result


def _agreeing(
    event: e.AnyEvent, targets: Mapping[str, str], tools: Mapping[str, str]
) -> e.AnyEvent:
    if isinstance(event, e.MessageAdded) and event.message.calls:
        return _replaced(event, message=with_targets(event.message, targets))
    if isinstance(event, e.ContextBuilt):
        pairs = tuple(_pairs(event, tools))
        if len(pairs) > len(event.handoff_tools):
            agents = event.handoffs
            if agents is not None:
                agents = tuple(dict.fromkeys((*agents, *(to for _, to in pairs if to))))
            return _replaced(event, handoffs=agents, handoff_tools=pairs)
    return event


def _pairs(event: e.ContextBuilt, tools: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the handoff tools in the order in which they were offered."""
    targets = dict(event.handoff_tools)
    for tool in event.tools:
        target = targets.get(tool, tools.get(tool))
        if target is not None:
            yield tool, target


def with_targets(message: Message, targets: Mapping[str, str]) -> Message:
    """Return a message with its calls to the agents in ``targets`` marked as handoffs."""
    calls = tuple(
        call_of(call.id, call.name, call.args, targets[call.id])
        if not call.is_handoff and call.id in targets
        else call
        for call in message.calls
    )
    return _replaced(message, calls=calls)
