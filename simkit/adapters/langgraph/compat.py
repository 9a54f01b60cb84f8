"""What simkit uses of LangGraph and LangChain beside their documented API, and why.

`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CellType
from typing import Any, Final

from simkit.core.compat import Library, Slot

_LANGGRAPH: Final = Library("langgraph")
_CORE: Final = Library("langchain-core")
_LOOP: Final = "langgraph.pregel._loop:PregelLoop"
_CONSTANTS: Final = "langgraph._internal._constants"

# Calls of graphs

STREAM: Final = _LANGGRAPH.slot("langgraph.pregel:Pregel.stream")
ASTREAM: Final = _LANGGRAPH.slot("langgraph.pregel:Pregel.astream")
"""Every call of a graph goes through one of these two, whichever method is called."""
CONF: Final = _LANGGRAPH.find(f"{_CONSTANTS}:CONF")
CONFIG_KEY_STREAM: Final = _LANGGRAPH.find(f"{_CONSTANTS}:CONFIG_KEY_STREAM")
"""Where a graph that another calls finds the stream to which it sends what happens in it."""
CONFIG_KEY_RUNTIME: Final = _LANGGRAPH.find(f"{_CONSTANTS}:CONFIG_KEY_RUNTIME")
DEFAULT_RUNTIME: Final = _LANGGRAPH.find("langgraph.runtime:DEFAULT_RUNTIME")
"""Whoever finds a stream there expects a runtime beside it."""
CONFIG_KEY_CHECKPOINT_NS: Final = _LANGGRAPH.find(f"{_CONSTANTS}:CONFIG_KEY_CHECKPOINT_NS")
var_child_runnable_config: Final = _CORE.find(
    "langchain_core.runnables.config:var_child_runnable_config"
)
"""The context variable with the configuration of the node in which code runs."""
ensure_config: Final = _LANGGRAPH.find("langgraph._internal._config:ensure_config")
"""Puts a graph's own configuration under that of a call: a stream may be in either."""
StreamProtocol: Final = _LANGGRAPH.find("langgraph.pregel.protocol:StreamProtocol")
DuplexStream: Final = _LANGGRAPH.find("langgraph.pregel._loop:DuplexStream")
"""The streams: one that a function hears, and one that goes to two."""

# Steps of a graph

_LANGGRAPH.check_layout(_LOOP, "channels checkpoint_ns specs status stream stream_keys tasks")
LOOP_BEGINS: Final = _LANGGRAPH.slot(f"{_LOOP}._first")
STEP_ENDS: Final = _LANGGRAPH.slot(f"{_LOOP}.after_tick")
"""From here on all channels hold what a call, or a step, has left: streams say it of some."""
read_channels: Final = _LANGGRAPH.find("langgraph.pregel._io:read_channels")
"""Reads what channels hold, without those that hold nothing."""
LOOP_STOPS: Final = _LANGGRAPH.slot(f"{_LOOP}._suppress_interrupt")
"""Where a graph stops because `interrupt_before` or `interrupt_after` says so: no stream does."""
WRITES_ARE_SAVED: Final = _LANGGRAPH.slot(f"{_LOOP}._reapply_writes_to_succeeded_nodes")
"""Tells of the tasks of a step that were done before the graph stopped, and do not work again."""
WRITES_ARE_KNOWN: Final = _LANGGRAPH.slot(f"{_LOOP}.output_writes")
map_debug_task_results: Final = _LANGGRAPH.find("langgraph.pregel.debug:map_debug_task_results")
"""A cached result is put out without its stream; this makes what the stream would say of it."""
PANIC: Final = _LANGGRAPH.slot("langgraph.pregel._runner:_panic_or_proceed")
"""Raises any of the problems of several nodes; in a run it is the one that came first."""
BRANCH_ENDS: Final = _LANGGRAPH.slot("langgraph.graph._branch:BranchSpec._finish")
"""Hears what a conditional edge has chosen, with its labels: a stream shows nodes alone."""
EXECUTORS: Final = (
    _CORE.slot("langchain_core.runnables.base:get_executor_for_config"),
    _LANGGRAPH.slot("langgraph.prebuilt.tool_node:get_executor_for_config"),
)
"""The threads of tools and of chains beside each other, which are one by one in a run."""


def client_threads() -> Iterator[Slot]:
    """Yield where answers of langchain-openai are read in a thread for which its loop waits."""
    place = "langchain_openai.chat_models.base:run_in_executor"
    yield from Library("langchain-openai").slots_if_imported(place)


# What a graph consists of

_LANGGRAPH.check_layout(
    "langgraph.graph.state:StateGraph",
    "branches channels edges input_schema nodes schemas waiting_edges",
)
_LANGGRAPH.check_layout("langgraph.graph.state:CompiledStateGraph", "builder channels nodes config")
_LANGGRAPH.check_layout("langgraph.graph._node:StateNodeSpec", "ends input_schema")
_LANGGRAPH.check_layout("langgraph.graph._branch:BranchSpec", "ends")
_LANGGRAPH.check_layout("langgraph.pregel._read:PregelNode", "bound subgraphs")
_LANGGRAPH.check_layout("langgraph._internal._runnable:RunnableCallable", "afunc func")
_LANGGRAPH.check_layout("langgraph.prebuilt.tool_node:ToolNode", "tools_by_name")
"""Names, edges, schemas and tools of a graph are read where it keeps them: nothing says them."""
_LANGGRAPH.check_layout("langgraph.channels.binop:BinaryOperatorAggregate", "operator typ")
"""A channel's reducer, which decides how claims read its updates."""
AGENT_NAME: Final = "lc_agent_name"
"""Where `create_agent` puts the agent's name, among a graph's metadata."""
DESTINATION: Final = "__handoff_destination"
"""Where langgraph-supervisor and langgraph-swarm write to which agent a tool passes control."""
NODE: Final = "langgraph_node"
NAMESPACE: Final = "langgraph_checkpoint_ns"
"""Metadata of all that a node's code calls: the node, and the tasks in which it runs."""
OVERWRITE: Final = _LANGGRAPH.find(f"{_CONSTANTS}:OVERWRITE")
PUSH: Final = _LANGGRAPH.find(f"{_CONSTANTS}:PUSH")
RETURN: Final = _LANGGRAPH.find(f"{_CONSTANTS}:RETURN")
"""In what streams say: a write that takes the place of what was there, the trigger of a `Send`, and
a function's result."""

# Tools, stores and filters

RUN: Final = _CORE.attribute("langchain_core.tools:BaseTool._run")
ARUN: Final = _CORE.attribute("langchain_core.tools:BaseTool._arun")
"""What carries out a tool of any class, inside of LangChain's callbacks and its error handling."""
base_arun: Final = _CORE.find("langchain_core.tools:BaseTool._arun")
"""What calls `_run` in a thread, which is seen there."""
BATCH: Final = _LANGGRAPH.attribute("langgraph.store.base:BaseStore.batch")
ABATCH: Final = _LANGGRAPH.attribute("langgraph.store.base:BaseStore.abatch")
"""Everything that is read from a store, or written to it, is one of these."""
_WORKER: Final = "func"


def worker_cell(messages_filter: Any) -> CellType:
    """Return the cell with the function that does the work of `trim_messages` or `filter_messages`.

    Whoever has imported the filter by name has the function around it.
    """
    free = messages_filter.__code__.co_freevars
    if _WORKER not in free:
        name = messages_filter.__name__
        raise _CORE.missing(f"langchain_core.messages.utils:{name}.{_WORKER}")
    cell: CellType = messages_filter.__closure__[free.index(_WORKER)]
    return cell


def middleware_requests() -> Iterator[Slot]:
    """Yield where middleware changes what a model is sent, if prebuilt agents are used."""
    place = "langchain.agents.middleware.types:ModelRequest.override"
    yield from Library("langchain").slots_if_imported(place)
