"""The undocumented parts of the Agent Development Kit that simkit uses, and why.

`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from typing import Any, Final

from simkit.core.compat import Library

_ADK: Final = Library("google-adk")

# Runs

RUN: Final = _ADK.slot("google.adk.runners:Runner.run_async")
"""Every call of a runner goes through this function, ``run`` and ``run_debug`` too."""
WORK: Final = _ADK.slot("google.adk.agents:BaseAgent.run_async")
"""The work of an agent of any class, from its first event to its end."""
SUMMARISE: Final = _ADK.slot(
    "google.adk.apps.llm_event_summarizer:LlmEventSummarizer.maybe_summarize_events"
)
"""The ADK asks a model here, without an agent."""
APPEND_EVENT: Final = _ADK.attribute("google.adk.sessions:BaseSessionService.append_event")
"""Changes a session, in a service of any class."""
NEW_ID: Final = _ADK.slot("google.adk.platform.uuid:new_uuid")
"""Draws the ids of events, calls, sessions and turns, which are counted in a run."""
CREDENTIALS: Final = _ADK.slot("google.auth:default")
"""The machine's own credentials, which a scenario does not use."""
LOGGERS: Final = ("google_adk", "google_genai")
"""Loggers that print each failure that a scenario provokes, with its stack."""
OWN_STATE: Final = ("_adk", "temp:_adk")
"""Prefixes of keys in a session's state that belong to the ADK."""

# Requests and the filters that change them

MODEL_REQUEST: Final = _ADK.slot(
    "google.adk.plugins.plugin_manager:PluginManager.run_before_model_callback"
)
"""Called before each model request: plugins first, then the agent's callbacks."""
CALLBACKS: Final = _ADK.slot("google.adk.agents:LlmAgent.canonical_before_model_callbacks")
"""The property with an agent's callbacks. Each callback may be a filter."""
PLUGIN_CALLBACK: Final = _ADK.attribute(
    "google.adk.plugins.base_plugin:BasePlugin.before_model_callback"
)
"""The function that calls a plugin's callback, of any class. Such a callback may be a filter,
too."""
contents_processor: Final[Any] = _ADK.find("google.adk.flows.llm_flows.contents:request_processor")
"""Makes the history that a model is sent. simkit calls it again, to see the history without
``include_contents``."""

# Tools

TOOL_REQUEST: Final = _ADK.slot(
    "google.adk.plugins.plugin_manager:PluginManager.run_before_tool_callback"
)
"""Called before each tool call, for a tool of any class."""
RUN_TOOL: Final = _ADK.attribute("google.adk.tools:BaseTool.run_async")
"""Executes the tool, inside the application's callbacks."""
