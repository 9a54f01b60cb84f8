"""What an adapter is written with, for authors of adapters: ``docs/adapters.md``.

Whatever is named here stays; everything else below ``simkit.adapters`` is simkit's own.
"""

from simkit.adapters.activations import Asked, Run
from simkit.adapters.ears import Ears
from simkit.adapters.entry import found_as
from simkit.adapters.in_step import keep_in_step
from simkit.adapters.instruments import Instrument
from simkit.adapters.pilots import Cockpit, Pilot, Restartable, UseTool
from simkit.adapters.plain_values import NotPlain, Snapshots, fields_of, plain
from simkit.adapters.scribe import Scribe
from simkit.adapters.sync_loops import Loops
from simkit.errors import FrameworkFailed, PipelineError, ScriptBroken, Unsupported
from simkit.events import AgentFacts, ChannelFacts, PipelineFacts
from simkit.messages import Message, ToolCall, Usage
from simkit.models.returned import returned_by
from simkit.ports import UserTurn
from simkit.scenario.apps import App
from simkit.transports.installing import Installation

__all__ = [
    "AgentFacts",
    "App",
    "Asked",
    "ChannelFacts",
    "Cockpit",
    "Ears",
    "FrameworkFailed",
    "Installation",
    "Instrument",
    "Loops",
    "Message",
    "NotPlain",
    "Pilot",
    "PipelineError",
    "PipelineFacts",
    "Restartable",
    "Run",
    "Scribe",
    "ScriptBroken",
    "Snapshots",
    "ToolCall",
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
