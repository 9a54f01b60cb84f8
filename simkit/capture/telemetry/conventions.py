"""Names of telemetry: GenAI semantic conventions of several versions, OpenInference, Langfuse.

`adapters.opentelemetry` reads the spans of running applications by the same names, and `export`
writes today's.
"""

from __future__ import annotations

from typing import Final

AGENT: Final = "gen_ai.agent.name"
OPERATION: Final = "gen_ai.operation.name"
INVOKES: Final = ("invoke_agent", "")
"""Operations of spans that are one run of the agent they name; a span made by hand has none."""
TOOL: Final = "execute_tool"
ASKS: Final = ("chat", "text_completion", "generate_content")
"""Operations of spans that are one model call."""

INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
SYSTEM: Final = "gen_ai.system_instructions"
OFFERS: Final = "gen_ai.tool.definitions"
TOOL_NAME: Final = "gen_ai.tool.name"
CALL_ID: Final = "gen_ai.tool.call.id"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
CONVERSATION: Final = "gen_ai.conversation.id"
PROVIDER: Final = "gen_ai.provider.name"
ERROR: Final = "error.type"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
MCP_METHOD: Final = "mcp.method.name"
SERVER: Final = "gen_ai.data_source.id"

SESSIONS: Final = (CONVERSATION, "session.id", "langfuse.session.id")
"""Where the id of a conversation stands."""
DETAILS: Final = "gen_ai.client.inference.operation.details"
"""The event that has the messages, where the span has not (from 1.37 on)."""
MESSAGE_EVENTS: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""The events of 1.28 to 1.36, one a message; the reply is a `gen_ai.choice`."""
CHOICE: Final = "gen_ai.choice"

HANDOFF_FROM: Final = "gen_ai.handoff.from_agent"
HANDOFF_TO: Final = "gen_ai.handoff.to_agent"
"""No convention has handoffs; these are the names of OpenTelemetry's own instrumentation."""

KIND: Final = "openinference.span.kind"
SHOWN_INPUT: Final = "input.value"
SHOWN_OUTPUT: Final = "output.value"
OBSERVATION: Final = "langfuse.observation.type"
KINDS: Final = (
    "agent agent_handoff chain chat create_agent custom embedding embeddings evaluator event "
    "execute_task execute_tool function generate_content generation goto guardrail handoff "
    "invoke_agent "
    "invoke_workflow llm mcp_tools parser plan prompt reranker response retrieval retriever span "
    "speech speech_group task text_completion tool transcription turn unknown"
)
"""The kinds of spans and runs in all formats, in small letters."""

OWN: Final = "simkit"
"""The scope of spans that simkit exported, whose values have their types."""
PIPELINE: Final = "simkit.pipeline"
"""In a run that simkit exported: the pipeline, as a scenario names it."""
RUN: Final = "simkit.run"
"""Which run of simkit, `file::name` if that is known: two may have scenarios of one name."""
SEED: Final = "simkit.seed"
START: Final = "simkit.start"
SCENARIO: Final = "simkit.scenario"
GIVEN: Final = "simkit.given"
"""In a run that simkit exported: the state before the first turn."""
SESSION: Final = "simkit.session"
TURN: Final = "simkit.turn"
DATA: Final = "simkit.user"
"""The value that the user's message was made of, if it is no text."""
RESUME: Final = "simkit.resume"
"""The user's answer to the question of a turn that waited."""
PROJECT: Final = "simkit.project"
SPANS: Final = "simkit.spans"
"""The number of a turn's spans, so that the file tells of one that is gone."""
SETTINGS: Final = "simkit.settings"
"""Keys of the run's scenario that show in a turn, whose values no trace has."""
FORM: Final = "gen_ai.output.type"
"""The form of a reply: ``json`` for a value."""
