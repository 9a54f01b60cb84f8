"""What simkit uses of the Agent Development Kit beside its documented API, and why.

`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from typing import Any, Final

from simkit.core.compat import Library

_ADK: Final = Library("google-adk")

# Runs

RUN: Final = _ADK.slot("google.adk.runners:Runner.run_async")
"""Every call of a runner goes through it, ``run`` and ``run_debug`` too."""
WORK: Final = _ADK.slot("google.adk.agents:BaseAgent.run_async")
"""The work of an agent of any class, from its first event to its end."""
SUMMARISE: Final = _ADK.slot(
    "google.adk.apps.llm_event_summarizer:LlmEventSummarizer.maybe_summarize_events"
)
"""A model is asked there, and by no agent."""
APPEND_EVENT: Final = _ADK.attribute("google.adk.sessions:BaseSessionService.append_event")
"""What changes a session, in a service of any class."""
NEW_ID: Final = _ADK.slot("google.adk.platform.uuid:new_uuid")
"""Draws the ids of events, calls, sessions and turns, which are counted in a run."""
CREDENTIALS: Final = _ADK.slot("google.auth:default")
"""The machine's own credentials, which a scenario does not use."""
LOGGERS: Final = ("google_adk", "google_genai")
"""They print each failure that a scenario provokes, with its stack, where nobody listens."""
OWN_STATE: Final = ("_adk", "temp:_adk")
"""Prefixes of the keys of a session's state that the ADK keeps for itself."""

# Requests, and what changes them

MODEL_REQUEST: Final = _ADK.slot(
    "google.adk.plugins.plugin_manager:PluginManager.run_before_model_callback"
)
"""A model is about to be asked: plugins are first, then the agent's callbacks."""
CALLBACKS: Final = _ADK.slot("google.adk.agents:LlmAgent.canonical_before_model_callbacks")
"""The property with an agent's callbacks, each of which may be a filter."""
PLUGIN_CALLBACK: Final = _ADK.attribute(
    "google.adk.plugins.base_plugin:BasePlugin.before_model_callback"
)
"""So may be each plugin's, of any class."""
contents_processor: Final[Any] = _ADK.find("google.adk.flows.llm_flows.contents:request_processor")
"""Makes the history that a model is sent: once more as it would be without ``include_contents``."""

# Tools

TOOL_REQUEST: Final = _ADK.slot(
    "google.adk.plugins.plugin_manager:PluginManager.run_before_tool_callback"
)
"""A tool of any class is about to be carried out."""
RUN_TOOL: Final = _ADK.attribute("google.adk.tools:BaseTool.run_async")
"""What carries it out, inside of the application's callbacks."""
