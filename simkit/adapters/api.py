"""The names from which an adapter is written, for authors of adapters: ``docs/how-to/adapters.md``.

The names here are stable; everything else below ``simkit.adapters`` is internal.
"""

from simkit.adapters.activations import Run, ToolRequest
from simkit.adapters.entry import found_as
from simkit.adapters.framework_driver import AdapterContext, FrameworkDriver, Restartable, UseTool
from simkit.adapters.instrumentation import Instrumentation
from simkit.adapters.plain_values import NotPlain, Snapshots, fields_of, plain
from simkit.adapters.scoping import ContextListeners
from simkit.adapters.serial_executor import Loops, keep_in_step
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.capture.http.installing import Installation
from simkit.core.errors import FrameworkFailed, PipelineError, ScriptBroken, Unsupported
from simkit.core.messages import Message, ToolCall, Usage
from simkit.runtime.models.returned import returned_by
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import App
from simkit.trace.events import AgentFacts, ChannelFacts, PipelineFacts

__all__ = [
    "AdapterContext",
    "AgentFacts",
    "App",
    "ChannelFacts",
    "ContextListeners",
    "FrameworkDriver",
    "FrameworkFailed",
    "Installation",
    "Instrumentation",
    "Loops",
    "Message",
    "NotPlain",
    "PipelineError",
    "PipelineFacts",
    "Restartable",
    "Run",
    "ScriptBroken",
    "Snapshots",
    "ToolCall",
    "ToolRequest",
    "TraceRecorder",
    "Unsupported",
    "Usage",
    "UseTool",
    "UserTurn",
    "fields_of",
    "found_as",
    "keep_in_step",
    "plain",
    "returned_by",
]
