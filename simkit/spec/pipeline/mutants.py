"""Mutants of a declared pipeline: one small fault each, as an edit of its document's values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from simkit.language.paths import parse, with_parts
from simkit.language.yaml import SourcePath

Edit: TypeAlias = Mapping[str, Any]
"""``{set: path, to: value}``, ``{remove: path}``, or ``{insert: path, value: value}`` (before an
index). A path is a text, or its keys and indices."""

KINDS: Final = (
    "filters", "windows", "sections", "conditions", "payload keys", "writes", "reducers", "scopes",
    "contracts", "tools", "routes", "rules",
)  # fmt: skip
"""The kinds of mutants of pipelines, in the order of reports."""
_OTHER_REDUCER: Final = {
    "replace": "append", "append": "replace", "merge": "replace", "add": "replace",
    "union": "append", "by_id": "append",
}  # fmt: skip
_OTHER_SCOPE: Final = {
    "agent_run": "turn", "turn": "session", "session": "turn", "project": "session",
    "global": "project",
}  # fmt: skip
_OTHER_POLICY: Final = {"reject": "stop", "stop": "reject", "retry": "reject"}
_COUNTS: Final = ("max", "top", "since_days")
"""Options of sections that count items."""


class PipelineMutant(msgspec.Struct, frozen=True, kw_only=True):
    """One fault."""

    kind: str
    text: str
    """The fault, as reports print it."""
    path: SourcePath
    """The place in the document that it changes."""
    edits: tuple[Edit, ...]
    agent: str = ""
    """The agent that must run so that anything changes; empty if any may."""


def apply_edits(data: Any, edits: Sequence[Edit]) -> Any:
    """Return a copy of plain data with edits made in order.

    Raise KeyError, IndexError or ValueError for an edit that leads nowhere.
    """
    data = _copy(data)
    for edit in edits:
        (action, path), *_ = edit.items()
        *way, last = parse(path) if isinstance(path, str) else path
        parent = data
        for step in way:
            parent = parent[step]
        if action == "set":
            parent[last] = edit["to"]
        elif action == "remove":
            del parent[last]
        elif action == "insert":
            if not isinstance(last, int) or last > len(parent):
                raise IndexError(f"there is no index {last!r} to insert before")
            parent.insert(last, edit["value"])
        else:
            raise ValueError(f"unknown edit {action!r} in {dict(edit)}")
    return data


def _copy(value: Any) -> Any:
    """Copy plain data; what two aliases share becomes two values."""
    return with_parts(value, _copy)


def pipeline_mutants(data: Mapping[str, Any]) -> Iterator[PipelineMutant]:
    """Yield the mutants of a pipeline's document, in the order of its parts."""
    for name, channel in _mapping(data.get("channels")).items():
        yield from _of_channel(name, _mapping(channel))
    owners: list[tuple[str, SourcePath, Mapping[str, Any]]] = [
        ("", ("defaults",), _mapping(data.get("defaults")))
    ]
    owners += [
        (name, ("agents", name), _mapping(agent))
        for name, agent in _mapping(data.get("agents")).items()
    ]
    for agent, path, spec in owners:
        yield from _of_recipe(agent, path, _list(spec.get("context")))
        yield from _of_agent(agent, path, spec)
    for index, contract in enumerate(_list(data.get("contracts"))):
        yield from _of_contract(("contracts", index), _mapping(contract))
    yield from _of_flow(data)


def _of_channel(name: str, channel: Mapping[str, Any]) -> Iterator[PipelineMutant]:
    path: SourcePath = ("channels", name)
    reducer = channel.get("reducer", "replace")
    if isinstance(reducer, dict) and isinstance(reducer.get("append"), dict):
        last = (*path, "reducer", "append", "last")
        yield from _shifted(f"`last` of channel `{name}`", last, reducer["append"], "")
    kind = next(iter(reducer)) if isinstance(reducer, dict) and reducer else reducer
    if (other := _OTHER_REDUCER.get(str(kind))) is not None:
        yield PipelineMutant(
            kind="reducers",
            text=f"channel `{name}` is reduced by `{other}`, not `{kind}`",
            path=path,
            edits=({"set": (*path, "reducer"), "to": other},),
        )
    scope = str(channel.get("scope", "session"))
    if (other := _OTHER_SCOPE.get(scope)) is not None:
        yield PipelineMutant(
            kind="scopes",
            text=f"channel `{name}` lives as long as the {other}, not the {scope}",
            path=path,
            edits=({"set": (*path, "scope"), "to": other},),
        )


def _of_recipe(agent: str, owner: SourcePath, recipe: Sequence[Any]) -> Iterator[PipelineMutant]:
    owner_words = f"{agent}'s" if agent else "every"
    base = (*owner, "context")
    for index, entry in enumerate(recipe):
        for inner, item in enumerate(entry) if isinstance(entry, list) else ((-1, entry),):
            path = (*base, index) if inner < 0 else (*base, index, inner)
            name, options = _section(item)
            is_alone = len(recipe) == 1 if inner < 0 else len(entry) == 1
            if not is_alone:
                yield _removed(
                    "sections", f"{owner_words} context has no section `{name}`", path, agent
                )
            inside = (*path, name)
            yield from _of_section(
                agent, f"section `{name}` of {owner_words} context", inside, options
            )
        if index:
            first, second = _section(recipe[index - 1])[0], _section(entry)[0]
            yield PipelineMutant(
                kind="sections",
                text=f"sections `{first}` and `{second}` of {owner_words} context are swapped",
                path=(*base, index),
                edits=(
                    {"set": (*base, index - 1), "to": entry},
                    {"set": (*base, index), "to": recipe[index - 1]},
                ),
                agent=agent,
            )


def _section(item: Any) -> tuple[str, Mapping[str, Any]]:
    """Return a section's kind and options; of a shared message, those of its first section."""
    while isinstance(item, list) and item:
        item = item[0]
    if isinstance(item, dict) and item:
        kind, options = next(iter(item.items()))
        return str(kind), _mapping(options)
    return str(item), {}


def _of_section(
    agent: str, words: str, path: SourcePath, options: Mapping[str, Any]
) -> Iterator[PipelineMutant]:
    for key, value in options.items():
        at = (*path, key)
        if key == "filters":
            for index, entry in enumerate(_list(value)):
                name = next(iter(entry)) if isinstance(entry, dict) and entry else entry
                text = f"{words} has no filter `{name}`"
                yield _removed("filters", text, (*at, index), agent)
        elif key == "window":
            for unit in _mapping(value):
                text = f"`{unit}` of the window in {words}"
                yield from _shifted(text, (*at, unit), value, agent)
        elif key in _COUNTS:
            yield from _shifted(f"`{key}` of {words}", at, options, agent)
        elif key == "fields" and "handoff" in path:
            for field in _mapping(value):
                text = f"{words} lacks the field `{field}`"
                yield _removed("payload keys", text, (*at, field), agent)
        elif key in ("when", "threshold", "tags", "scopes", "time_ranges", "truncate", "tokens"):
            yield _removed("conditions", f"{words} has no `{key}`", at, agent)


def _of_agent(agent: str, path: SourcePath, spec: Mapping[str, Any]) -> Iterator[PipelineMutant]:
    subject = agent or "every agent"
    for channel in _mapping(spec.get("writes")):
        text = f"{subject} does not write `{channel}`"
        yield _removed("writes", text, (*path, "writes", channel), agent)
    for index, tool in enumerate(_list(spec.get("tools"))):
        text = f"{subject} is not offered tool `{tool}`"
        yield _removed("tools", text, (*path, "tools", index), agent)
    for key in ("before", "after"):
        for index, rule in enumerate(_list(spec.get(key))):
            at = (*path, key, index)
            yield _removed(
                "rules", f"rule {index + 1} under `{key}` of {subject} is gone", at, agent
            )
            if "when" in _mapping(rule):
                text = f"rule {index + 1} under `{key}` of {subject} always applies"
                yield _removed("rules", text, (*at, "when"), agent)
    if spec.get("returns") == "tool_output":
        yield _removed("rules", f"{subject} answers after its tool", (*path, "returns"), agent)


def _of_contract(path: SourcePath, contract: Mapping[str, Any]) -> Iterator[PipelineMutant]:
    sources = ", ".join(map(str, _list(contract.get("from")) or [contract.get("from")]))
    name = f"the contract {sources} → {contract.get('to')}"
    yield _removed("contracts", f"{name} is gone", path)
    for index in range(len(_list(contract.get("rules")))):
        text = f"{name} has no rule {index + 1}"
        yield _removed("contracts", text, (*path, "rules", index))
    for key in ("carries", "history", "query", "timeout_ms", "depth_max", "mode", "approval"):
        if key in contract:
            yield _removed("contracts", f"{name} has no `{key}`", (*path, key))
    for channel in _mapping(contract.get("writes")):
        text = f"{name} does not write `{channel}`"
        yield _removed("writes", text, (*path, "writes", channel))
    payload = _mapping(contract.get("payload"))
    for index, key in enumerate(_list(payload.get("required"))):
        text = f"{name} does not require `{key}`"
        yield _removed("payload keys", text, (*path, "payload", "required", index))
    policy = str(contract.get("on_invalid", "reject"))
    if "payload" in contract or "rules" in contract or "query" in contract:
        other = _OTHER_POLICY.get(policy, "reject")
        yield PipelineMutant(
            kind="contracts",
            text=f"{name} is kept by `{other}`, not `{policy}`",
            path=path,
            edits=({"set": (*path, "on_invalid"), "to": other},),
        )


def _of_flow(data: Mapping[str, Any]) -> Iterator[PipelineMutant]:
    flow = _mapping(data.get("flow"))
    agents = [*_mapping(data.get("agents"))]
    graph = _mapping(flow.get("graph"))
    nodes = [*_mapping(graph.get("nodes"))]
    for index, edge in enumerate(_list(graph.get("edges"))):
        source, target = _mapping(edge).get("from"), _mapping(edge).get("to")
        other = next((name for name in nodes if name not in (source, target)), None)
        if other is not None:
            path = ("flow", "graph", "edges", index, "to")
            text = f"the edge from {source} leads to {other}, not to {target}"
            yield _set("routes", text, path, other)
    router = _mapping(flow.get("router"))
    decider = router.get("decide")
    for name in agents:
        if router and name != decider:
            text = f"the router always sends to {name}"
            yield _set("routes", text, ("flow", "router", "to"), name)
    start = _mapping(flow.get("handoffs")).get("start")
    for name in agents:
        if start is not None and name != start:
            yield _set("routes", f"turns start with {name}", ("flow", "handoffs", "start"), name)
    for goal, spec in _mapping(_mapping(flow.get("supervisor")).get("goals")).items():
        at = ("flow", "supervisor", "goals", goal, "steps")
        steps = _list(_mapping(spec).get("steps"))
        for index in range(len(steps)):
            if len(steps) > 1:
                text = f"goal `{goal}` has no step {index + 1}"
                yield _removed("routes", text, (*at, index))


def _shifted(
    words: str, path: SourcePath, options: Mapping[str, Any], agent: str
) -> Iterator[PipelineMutant]:
    """Yield a number that is one larger, and one smaller; 0 is unlimited."""
    value = options.get(str(path[-1]))
    if isinstance(value, bool) or not isinstance(value, int) or not value:
        return
    for other in (value + 1, value - 1):
        if other:
            yield _set("windows", f"{words} is {other}, not {value}", path, other, agent)


def _set(kind: str, text: str, path: SourcePath, value: Any, agent: str = "") -> PipelineMutant:
    edits = ({"set": path, "to": value},)
    return PipelineMutant(kind=kind, text=text, path=path, edits=edits, agent=agent)


def _removed(kind: str, text: str, path: SourcePath, agent: str = "") -> PipelineMutant:
    return PipelineMutant(kind=kind, text=text, path=path, edits=({"remove": path},), agent=agent)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []
