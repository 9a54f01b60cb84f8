"""What simkit uses of the OpenAI Agents SDK beside its documented API, and why.

`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from typing import Final

from simkit.core.compat import Library

_SDK: Final = Library("openai-agents")

# Runs

DEFAULT_RUNNER: Final = _SDK.slot("agents.run:DEFAULT_AGENT_RUNNER")
"""`Runner.run`, `run_sync` and `run_streamed` all go to this one runner, whoever calls them."""
_SDK.check_layout("agents.run:AgentRunner", "run run_streamed run_sync")
STREAM_EVENTS: Final = _SDK.attribute("agents.result:RunResultStreaming.stream_events")
"""A streamed run is over when its events have been read: it is replaced in each result."""
RUN_KEYS: Final = _SDK.slot("agents.run_internal.run_grouping:uuid4")
"""Draws the key under which a provider may cache a run's prompts, which is sent in requests."""
TRACE_STARTS: Final = _SDK.slot("agents.tracing.processors:BatchTraceProcessor.on_trace_start")
SPAN_ENDS: Final = _SDK.slot("agents.tracing.processors:BatchTraceProcessor.on_span_end")
"""What is traced in a scenario is not sent to whoever collects traces."""
GET_ITEMS: Final = _SDK.attribute("agents.memory.session:Session.get_items")
ADD_ITEMS: Final = _SDK.attribute("agents.memory.session:Session.add_items")
"""What is read from a session, and written to it, of any class."""

# Handoffs and filters

AGENT_REF: Final = _SDK.attribute("agents:Handoff._agent_ref")
"""The agent behind a handoff: in public, a handoff has its name alone."""
INPUT_FILTER: Final = _SDK.attribute("agents:Handoff.input_filter")
HANDOFF_INPUT_FILTER: Final = _SDK.attribute("agents:RunConfig.handoff_input_filter")
CALL_MODEL_INPUT_FILTER: Final = _SDK.attribute("agents:RunConfig.call_model_input_filter")
"""The application's filters of histories, which are heard where each of them is kept."""
NESTING: Final = _SDK.slot(
    "agents.run_internal.turn_resolution:_nest_handoff_history_with_provenance"
)
"""The SDK's own filter, which puts the history before a handoff into one message."""

# Tools

ON_INVOKE_TOOL: Final = _SDK.attribute("agents:FunctionTool.on_invoke_tool")
"""Where the scenario stands in for a tool that is made of no function."""
INVOKE_TOOL: Final = _SDK.attribute(
    "agents.tool:_FailureHandlingFunctionToolInvoker._invoke_tool_impl"
)
"""The innermost call of a tool made of a function: around it stands what is made of a failure."""
WRAPPED_CALLABLE: Final[str] = _SDK.find("agents.tool:_FUNCTION_TOOL_WRAPPED_CALLABLE_MARKER")
"""Where that keeps the function, whose annotation says what the tool returns."""
