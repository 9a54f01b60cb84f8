"""``workflow.yaml``, ``tools.yaml`` and ``agents.yaml`` of a folder, as values.

Only the workflow is required. Its names are held against the files that are there, because whoever
wrote them knows the lines of these files, and not those of the file that is made from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from scenarios.agent_engine.from_engine.parts import Part, entries
from simkit.core.errors import SimkitError, SourceError
from simkit.language.yaml import Document, DocumentCache

KINDS: Final = ("agent", "deterministic")
ROLES: Final = ("start", "linear", "decision", "split", "merge", "exit")
TIERS: Final = ("none", "task", "project", "global")
"""Each but the first is a memory; a node sees those up to the one that it names."""

_FILES: Final = ("workflow", "tools", "agents")
_ENDINGS: Final = (".yaml", ".yml")
_FUNCTION: Final = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)[.:]([A-Za-z_]\w*)")
_ARGS: Final = ("args", "parameters", "inputs", "input_schema")
_RETURNS: Final = ("returns", "output_schema", "outputs")
_INSTRUCTIONS: Final = ("instructions", "system_prompt", "prompt")
_MODELS: Final = ("model", "llm")


class Node(msgspec.Struct, frozen=True):
    """A place in the workflow."""

    id: str
    is_deterministic: bool
    role: str
    is_start: bool
    agent: str
    """Its ``agent_id``; empty if it names none."""
    tier: str
    """One of ``TIERS``."""
    tools: tuple[str, ...] | None
    function: str


class Edge(msgspec.Struct, frozen=True):
    """A way between two nodes."""

    source: str
    target: str
    label: str


class Agent(msgspec.Struct, frozen=True):
    """What an ``agent_id`` leads to."""

    instructions: str
    tools: tuple[str, ...] | None


class Tool(msgspec.Struct, frozen=True):
    """Something that nodes may call."""

    description: str
    args: Any
    returns: Any
    function: str


class Engine(msgspec.Struct, frozen=True):
    """What the folder says, and what of it a pipeline cannot."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    agents: Mapping[str, Agent]
    tools: Mapping[str, Tool]
    files: tuple[str, ...]
    """The names of the files that were read."""
    left_out: tuple[str, ...]
    """``file:line: what``, in the order of files and lines."""


def engine_in(folder: str) -> Engine:
    """Returns what the files of a folder say; raises SourceError for what cannot be."""
    paths = _paths(folder)
    documents = {stem: _document(path) for stem, path in paths.items() if path is not None}
    read = _Reading(documents)
    nodes, edges = read.workflow()
    left_out = [
        f"{documents[stem].file}:{line}: {what}"
        for stem in documents
        for line, what in read.left(stem)
    ]
    return Engine(
        nodes,
        edges,
        read.agents,
        read.tools,
        tuple(Path(document.file).name for document in documents.values()),
        (*left_out, *_unread(folder, documents)),
    )


# Files


def _paths(folder: str) -> dict[str, Path | None]:
    place = Path(folder)
    if not place.exists():
        raise SourceError(folder, "there is no such folder")
    if not place.is_dir():
        advice = f"Name the folder that holds it: `{place.parent}`."
        raise SourceError(folder, "this is a file, not a folder", advice=advice)
    found = {
        stem: next((path for end in _ENDINGS if (path := place / f"{stem}{end}").exists()), None)
        for stem in _FILES
    }
    if found["workflow"] is None:
        names = [path.name for path in _yaml_files(place)]
        raise SourceError(
            folder,
            "there is no workflow.yaml in this folder",
            advice=f"It holds: {', '.join(names)}." if names else "It holds no YAML file.",
        )
    return found


def _yaml_files(place: Path) -> list[Path]:
    try:
        return sorted(path for path in place.iterdir() if path.suffix in _ENDINGS)
    except OSError as problem:
        raise SimkitError(f"{place}: {problem.strerror}") from None


def _unread(folder: str, documents: Mapping[str, Document]) -> Iterator[str]:
    read = {Path(document.file) for document in documents.values()}
    for path in _yaml_files(Path(folder)):
        if path not in read:
            yield f"{path}: not read: only workflow.yaml, tools.yaml and agents.yaml are"


def _document(path: Path) -> Document:
    documents = DocumentCache().documents(str(path))
    if len(documents) > 1:
        what = f"the file holds {len(documents)} documents, but must hold one"
        raise documents[1].error((), what)
    return documents[0]


# What they say


class _Reading:
    """The files, read in the order in which names lead from one to the other."""

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._documents = documents
        self._parts: dict[str, list[Part]] = {stem: [] for stem in documents}
        tools = self._entries("tools", "tool")
        self.tools = {name: _tool(part) for name, part in tools.items()}
        agents = self._entries("agents", "agent")
        self.agents = {name: self._agent(part) for name, part in agents.items()}
        self._agent_parts = agents

    def left(self, stem: str) -> list[tuple[int, str]]:
        """Returns line and sentence of all that is left out of a file."""
        return sorted(left for part in self._parts[stem] for left in part.left_out())

    def workflow(self) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
        """Returns the nodes and the edges."""
        top = self._top("workflow")
        if "workflow" in top.document.data:
            inner = top.document.data["workflow"]
            top.take("workflow")
            if not isinstance(inner, Mapping):
                raise top.error("must be a mapping with `nodes:` and `edges:`", "workflow")
            top = self._part("workflow", ("workflow",), "the workflow", inner)
        has_nodes, has_edges = (bool(top.take(key)[0]) for key in ("nodes", "edges"))
        if not has_nodes and not has_edges:
            raise top.error("there are neither `nodes:` nor `edges:`")
        _, written = top.take("nodes")
        found = entries(top.document, (*top.path, "nodes"), written, "node")
        parts = self._kept("workflow", found)
        nodes = _with_one_start([self._node(name, part) for name, part in parts.items()], parts)
        for name, part in self._agent_parts.items():
            if all(node.agent != name for node in nodes):
                part.leave(f"agent `{name}` is no node's: left out")
        return tuple(nodes), tuple(self._edges(top, tuple(parts) if has_nodes else None))

    def _top(self, stem: str) -> Part:
        document = self._documents[stem]
        if not isinstance(document.data, Mapping):
            raise document.error((), "must be a mapping with `nodes:` and `edges:`")
        return self._part(stem, (), "the file", document.data)

    def _part(self, stem: str, path: tuple[str | int, ...], called: str, data: Any) -> Part:
        part = Part(self._documents[stem], path, called, data)
        self._parts[stem].append(part)
        return part

    def _kept(self, stem: str, parts: dict[str, Part]) -> dict[str, Part]:
        self._parts[stem] += parts.values()
        return parts

    def _entries(self, stem: str, noun: str) -> dict[str, Part]:
        """The entries of `tools.yaml` or `agents.yaml`, below their key or at the top."""
        document = self._documents.get(stem)
        if document is None:
            return {}
        path: tuple[str | int, ...] = ()
        value = document.data
        if isinstance(value, Mapping):
            top = self._part(stem, (), "the file", value)
            key, value = top.take(stem)
            if not key:
                raise top.error(f"must be a list of {stem}, or a mapping with `{stem}:`")
            path = (stem,)
        return self._kept(stem, entries(document, path, value, noun))

    def _agent(self, part: Part) -> Agent:
        for key in _MODELS:
            if part.take(key)[0]:
                what = f"`{key}` of {part.called}: left out, scenarios say what models answer"
                part.leave(what, key)
        return Agent(part.text(*_INSTRUCTIONS), self._tools_named(part))

    def _tools_named(self, part: Part) -> tuple[str, ...] | None:
        names = part.texts("tools")
        for place, name in enumerate(names or ()):
            if "tools" in self._documents and name not in self.tools:
                known = tuple(self.tools)
                raise part.error(f"unknown tool `{name}`", "tools", place, word=name, known=known)
        return names

    def _node(self, name: str, part: Part) -> Node:
        is_deterministic = part.one_of("kind", KINDS) == "deterministic"
        role = part.one_of("role", ROLES)
        agent = part.text("agent_id")
        if agent and is_deterministic:
            part.leave(f"`agent_id` of {part.called}: left out, it is deterministic", "agent_id")
            agent = ""
        if agent and "agents" in self._documents and agent not in self.agents:
            known = tuple(self.agents)
            raise part.error(f"unknown agent `{agent}`", "agent_id", word=agent, known=known)
        return Node(
            name,
            is_deterministic,
            role,
            part.flag("default_start"),
            agent,
            part.one_of("context", TIERS) or "none",
            self._tools_named(part),
            _function(part) if is_deterministic else "",
        )

    def _edges(self, top: Part, nodes: tuple[str, ...] | None) -> Iterator[Edge]:
        _, written = top.take("edges")
        if not isinstance(written, list | None):
            raise top.error("must be a list", "edges")
        for place, value in enumerate(written or ()):
            if not isinstance(value, Mapping):
                raise top.error("an edge must be a mapping with `from:` and `to:`", "edges", place)
            path = (*top.path, "edges", place)
            part = self._part("workflow", path, f"edge {place + 1}", value)
            yield Edge(_end(part, "from", nodes), _end(part, "to", nodes), part.text("label"))


def _end(part: Part, key: str, nodes: tuple[str, ...] | None) -> str:
    """Returns one end of an edge; it must be one of the nodes, if the file has any."""
    end = part.text(key)
    if not end:
        raise part.error(f"an edge needs `{key}:`")
    if nodes is not None and end not in nodes:
        raise part.error(f"unknown node `{end}`", key, word=end, known=nodes)
    return end


def _tool(part: Part) -> Tool:
    return Tool(
        part.text("description"), _schema(part, _ARGS), _schema(part, _RETURNS), _function(part)
    )


def _schema(part: Part, keys: tuple[str, ...]) -> Any:
    key, value = part.take(*keys)
    if value is None or isinstance(value, Mapping | bool):
        return value
    part.leave(f"`{key}` of {part.called} is no JSON Schema: left out", key)
    return None


def _function(part: Part) -> str:
    """Returns an entrypoint as ``module:function``."""
    key, _ = part.take("entrypoint", "function")
    text = part.text(key) if key else ""
    found = _FUNCTION.fullmatch(text)
    if text and found is None:
        part.leave(f"`{key}` of {part.called} is no `module:function`: left out", key)
    return f"{found[1]}:{found[2]}" if found else ""


def _with_one_start(nodes: list[Node], parts: Mapping[str, Part]) -> list[Node]:
    """Returns the nodes with those marked that start: the default one, else those of that role."""
    has_default = any(node.is_start for node in nodes)
    found = []
    for node in nodes:
        is_start = node.is_start or (node.role == "start" and not has_default)
        if node.role == "start" and not is_start:
            part = parts[node.id]
            part.leave(f"`role` of {part.called}: left out, another is the default start", "role")
        found.append(msgspec.structs.replace(node, is_start=is_start))
    return found
