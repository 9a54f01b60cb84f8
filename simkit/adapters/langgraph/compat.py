"""The undocumented parts of LangGraph and LangChain that simkit uses, and why.

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
"""Every call of a graph goes through one of these two methods."""
CONF: Final = _LANGGRAPH.find(f"{_CONSTANTS}:CONF")
CONFIG_KEY_CHECKPOINT_NS: Final = _LANGGRAPH.find(f"{_CONSTANTS}:CONFIG_KEY_CHECKPOINT_NS")
var_child_runnable_config: Final = _CORE.find(
    "langchain_core.runnables.config:var_child_runnable_config"
)
"""The context variable with the configuration of the node in which code runs."""
ensure_config: Final = _LANGGRAPH.find("langgraph._internal._config:ensure_config")
"""Merges a graph's own configuration, that of a call, and that of the node around it."""

# Functions of nodes

ASYNC_AND_PLAIN: Final = (("afunc", "func"), ("_atransform", "_transform"))
"""The attributes with the functions of a `RunnableLambda` or a node, and of a `RunnableGenerator`:
the async one, and the one that a synchronous call of the graph needs."""

# Steps of a graph

loop_class: Final[type] = _LANGGRAPH.find(_LOOP)
"""The owner of the method that saves a checkpoint after the one before it."""
_LANGGRAPH.check_layout(
    _LOOP, "channels checkpoint_ns config output_keys specs status stream_keys tasks"
)
LOOP_BEGINS: Final = _LANGGRAPH.slot(f"{_LOOP}._first")
STEP_ENDS: Final = _LANGGRAPH.slot(f"{_LOOP}.after_tick")
"""Called at the end of a call or a step: from here on, all channels have their new values.
Streams show some of them."""
EMITS: Final = _LANGGRAPH.slot(f"{_LOOP}._emit")
"""Called with every event for a stream, whether the caller asks for such events or not."""
read_channels: Final = _LANGGRAPH.find("langgraph.pregel._io:read_channels")
"""Reads the values of channels, without empty channels."""
LOOP_STOPS: Final = _LANGGRAPH.slot(f"{_LOOP}._suppress_interrupt")
"""Called where a graph stops because of `interrupt_before` or `interrupt_after`: no stream shows
that."""
WRITES_ARE_SAVED: Final = _LANGGRAPH.slot(f"{_LOOP}._reapply_writes_to_succeeded_nodes")
"""Called with the tasks of a step that were complete before the graph stopped, and do not run
again."""
WRITES_ARE_KNOWN: Final = _LANGGRAPH.slot(f"{_LOOP}.output_writes")
map_debug_task_results: Final = _LANGGRAPH.find("langgraph.pregel.debug:map_debug_task_results")
"""Makes the stream's event for a cached result: LangGraph emits none."""
PANIC: Final = _LANGGRAPH.slot("langgraph.pregel._runner:_panic_or_proceed")
"""Raises one of the exceptions of several nodes. In a run, simkit raises the earliest."""
BRANCH_ENDS: Final = _LANGGRAPH.slot("langgraph.graph._branch:BranchSpec._finish")
"""Called when a conditional edge has chosen, with its labels: a stream shows nodes only."""
EXECUTORS: Final = (
    _CORE.slot("langchain_core.runnables.base:get_executor_for_config"),
    _LANGGRAPH.slot("langgraph.prebuilt.tool_node:get_executor_for_config"),
)
"""The thread pools for parallel tools and chains. In a run, simkit executes them one by one."""
IN_BACKGROUND: Final = _LANGGRAPH.slot("langgraph.pregel._executor:BackgroundExecutor.submit")
"""Called with each save of a checkpointer and a cache, and with the nodes of a step if they are
several. In a run, simkit saves at once."""


def client_threads() -> Iterator[Slot]:
    """Yield the functions of langchain-openai that read answers in a thread while a loop waits."""
    place = "langchain_openai.chat_models.base:run_in_executor"
    yield from Library("langchain-openai").slots_if_imported(place)


# Callbacks

_MANAGERS: Final = "langchain_core.callbacks.manager"
_STARTS: Final = ("on_chain_start", "on_tool_start", "on_chat_model_start")
_ENDS: Final = {
    "Chain": ("on_chain_end", "on_chain_error"),
    "Tool": ("on_tool_end", "on_tool_error"),
    "LLM": ("on_llm_end",),
}
RUN_STARTS: Final = tuple(
    _CORE.slot(f"{_MANAGERS}:{kind}CallbackManager.{name}")
    for kind in ("", "Async")
    for name in _STARTS
)
RUN_ENDS: Final = tuple(
    _CORE.slot(f"{_MANAGERS}:{kind}CallbackManagerFor{subject}Run.{name}")
    for kind in ("", "Async")
    for subject, names in _ENDS.items()
    for name in names
)
"""Called with each event of a run, whether it has handlers or not. A start returns the run."""


def splits_of_runs() -> Iterator[Slot]:
    """Yield the function that separates tracers from other handlers, if this version has it.

    With a `TracePolicy`, both are called with each event, and with different payloads.
    """
    yield from _LANGGRAPH.slots_if_present("langgraph._internal._runnable:_split_handlers")


# The parts of a graph

_LANGGRAPH.check_layout(
    "langgraph.graph.state:StateGraph",
    "branches channels edges input_schema nodes output_schema schemas state_schema waiting_edges",
)
_LANGGRAPH.check_layout("langgraph.graph.state:CompiledStateGraph", "builder channels nodes config")
_LANGGRAPH.check_layout("langgraph.graph._node:StateNodeSpec", "ends input_schema")
_LANGGRAPH.check_layout("langgraph.graph._branch:BranchSpec", "ends")
_LANGGRAPH.check_layout("langgraph.pregel._read:PregelNode", "bound subgraphs")
_LANGGRAPH.check_layout("langgraph._internal._runnable:RunnableCallable", "afunc func")
_LANGGRAPH.check_layout("langgraph.prebuilt.tool_node:ToolNode", "tools_by_name")
"""Names, edges, schemas and tools are read from these attributes: no API returns them."""
_LANGGRAPH.check_layout("langgraph.channels.binop:BinaryOperatorAggregate", "operator typ")
"""A channel's reducer. It decides how claims read the channel's updates."""
AGENT_NAME: Final = "lc_agent_name"
"""The key of the agent's name in a graph's metadata, written by `create_agent`."""
DESTINATION: Final = "__handoff_destination"
"""The key under which langgraph-supervisor and langgraph-swarm store the target of a tool."""
NODE: Final = "langgraph_node"
NAMESPACE: Final = "langgraph_checkpoint_ns"
"""The key in the metadata of all calls of a node's code: the node, and the tasks in which it
runs."""
OVERWRITE: Final = _LANGGRAPH.find(f"{_CONSTANTS}:OVERWRITE")
PUSH: Final = _LANGGRAPH.find(f"{_CONSTANTS}:PUSH")
RETURN: Final = _LANGGRAPH.find(f"{_CONSTANTS}:RETURN")
"""Special names in streams: a write that overwrites the old value, the trigger of a `Send`, and a
function's result."""

# Tools, stores and filters

RUN: Final = _CORE.attribute("langchain_core.tools:BaseTool._run")
ARUN: Final = _CORE.attribute("langchain_core.tools:BaseTool._arun")
"""Executes a tool of any class, inside LangChain's callbacks and its error handling."""
base_arun: Final = _CORE.find("langchain_core.tools:BaseTool._arun")
"""Calls `_run` in a thread, which simkit observes here."""
BATCH: Final = _LANGGRAPH.attribute("langgraph.store.base:BaseStore.batch")
ABATCH: Final = _LANGGRAPH.attribute("langgraph.store.base:BaseStore.abatch")
"""Every read or write of a store is one of these operations."""
_WORKER: Final = "func"


def worker_cell(messages_filter: Any) -> CellType:
    """Return the cell with the function that does the work of `trim_messages` or `filter_messages`.

    A module that imported the filter by name has the function around it.
    """
    free = messages_filter.__code__.co_freevars
    if _WORKER not in free:
        name = messages_filter.__name__
        raise _CORE.missing(f"langchain_core.messages.utils:{name}.{_WORKER}")
    cell: CellType = messages_filter.__closure__[free.index(_WORKER)]
    return cell


def middleware_requests() -> Iterator[Slot]:
    """Yield the methods in which middleware of prebuilt agents changes the messages to a model."""
    place = "langchain.agents.middleware.types:ModelRequest.override"
    yield from Library("langchain").slots_if_imported(place)
