"""The undocumented parts of the OpenAI Agents SDK that simkit uses, and why.

`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from typing import Final

from simkit.core.compat import Library

_SDK: Final = Library("openai-agents")

# Runs

DEFAULT_RUNNER: Final = _SDK.slot("agents.run:DEFAULT_AGENT_RUNNER")
"""`Runner.run`, `run_sync` and `run_streamed` all call this one runner."""
_SDK.check_layout("agents.run:AgentRunner", "run run_streamed run_sync")
STREAM_EVENTS: Final = _SDK.attribute("agents.result:RunResultStreaming.stream_events")
"""The method that reads a streamed run's events. It is replaced in each result, because the run
is over when its events have been read."""
RUN_KEYS: Final = _SDK.slot("agents.run_internal.run_grouping:uuid4")
"""Draws the key under which a provider may cache a run's prompts. Requests contain it."""
TRACE_STARTS: Final = _SDK.slot("agents.tracing.processors:BatchTraceProcessor.on_trace_start")
SPAN_ENDS: Final = _SDK.slot("agents.tracing.processors:BatchTraceProcessor.on_span_end")
"""Called when a span ends. Nothing is sent to collectors of traces in a scenario."""
GET_ITEMS: Final = _SDK.attribute("agents.memory.session:Session.get_items")
ADD_ITEMS: Final = _SDK.attribute("agents.memory.session:Session.add_items")
"""The methods that read from a session of any class, and write to it."""

# Handoffs and filters

AGENT_REF: Final = _SDK.attribute("agents:Handoff._agent_ref")
"""The agent behind a handoff: the public API has only the handoff's name."""
INPUT_FILTER: Final = _SDK.attribute("agents:Handoff.input_filter")
HANDOFF_INPUT_FILTER: Final = _SDK.attribute("agents:RunConfig.handoff_input_filter")
CALL_MODEL_INPUT_FILTER: Final = _SDK.attribute("agents:RunConfig.call_model_input_filter")
"""The attributes with an application's filters of histories. simkit wraps the filter in each of
them."""
NESTING: Final = _SDK.slot(
    "agents.run_internal.turn_resolution:_nest_handoff_history_with_provenance"
)
"""The SDK's own filter. It puts the history before a handoff into one message."""

# Tools

ON_INVOKE_TOOL: Final = _SDK.attribute("agents:FunctionTool.on_invoke_tool")
"""The call of a tool without a function. The scenario's result replaces it here."""
INVOKE_TOOL: Final = _SDK.attribute(
    "agents.tool:_FailureHandlingFunctionToolInvoker._invoke_tool_impl"
)
"""The innermost call of a tool with a function. The code around it turns a failure into a
result."""
WRAPPED_CALLABLE: Final[str] = _SDK.find("agents.tool:_FUNCTION_TOOL_WRAPPED_CALLABLE_MARKER")
"""The attribute of that call with the function, whose annotation is the type of the tool's
result."""
