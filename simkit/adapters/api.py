"""The names from which adapters are written, simkit's own too: ``docs/how-to/adapters.md``.

These names are public and stay. Everything else below ``simkit.adapters`` is private.
"""

from simkit.adapters.annotations import is_annotated
from simkit.adapters.concurrency.pools import (
    PATIENCE_S,
    Loops,
    SerialExecutor,
    keep_in_step,
    threads_take_turns,
    wait_for_thread,
)
from simkit.adapters.entry import Caller, found_as, home_of, is_factory
from simkit.adapters.environment import DUMMY_KEY, forget_modules
from simkit.adapters.framework_driver import (
    COMPUTED_PROMPT,
    AdapterContext,
    FrameworkDriver,
    FunctionDriver,
    HeldState,
    Restartable,
    SessionMemory,
    choose_method,
    make_run_options,
    put_given_state,
)
from simkit.adapters.input_shapes import (
    given_input,
    input_advice,
    input_example,
    input_fields,
)
from simkit.adapters.instrumentation import Instrumentation
from simkit.adapters.observation import (
    ContextListeners,
    ContextScope,
    ParallelGroups,
    attachment_text,
    function_name,
    let_others_begin,
    observe_result,
    parse_messages,
)
from simkit.adapters.plain_values import (
    NotPlain,
    Snapshots,
    fields_of,
    is_equal,
    names_of,
    plain,
    plain_or_text,
)
from simkit.adapters.recorder.histories import GrowingLists, leading_equal, leading_same
from simkit.adapters.recorder.sessions import Run, ToolRequest
from simkit.adapters.recorder.trace import TraceRecorder, status_after
from simkit.adapters.tool_use import ToolFailure
from simkit.adapters.tool_use import ToolUse as UseTool
from simkit.capture.http.installing import Installation, Replacement, Row
from simkit.capture.http.request_router import is_intercepted
from simkit.core.errors import (
    FrameworkFailed,
    FunctionMissing,
    PipelineError,
    RunHalted,
    ScriptBroken,
    ScriptMisfit,
    SimkitError,
    Unsupported,
)
from simkit.core.messages import (
    ABSENT,
    HANDOFF_PREFIX,
    ROLE_ALIASES,
    JsonValue,
    Message,
    ToolCall,
    Usage,
)
from simkit.language.paths import compile as compile_references
from simkit.language.paths import lookup
from simkit.language.yaml import near as nearest_name
from simkit.providers.openai.parts import arguments_of as parse_arguments
from simkit.providers.values import Offer
from simkit.runtime.models.returned import returned_by
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import AgentRule, App, StoreChannel
from simkit.trace.events import AgentFacts, ChannelFacts, Cut, PipelineFacts
from simkit.trace.reducers import DECLARED_RESET, empty_value
from simkit.trace.store import canonical
from simkit.trace.store import copied as copy_plain

__all__ = [
    "ABSENT",
    "COMPUTED_PROMPT",
    "DECLARED_RESET",
    "DUMMY_KEY",
    "HANDOFF_PREFIX",
    "PATIENCE_S",
    "ROLE_ALIASES",
    "AdapterContext",
    "AgentFacts",
    "AgentRule",
    "App",
    "Caller",
    "ChannelFacts",
    "ContextListeners",
    "ContextScope",
    "Cut",
    "FrameworkDriver",
    "FrameworkFailed",
    "FunctionDriver",
    "FunctionMissing",
    "GrowingLists",
    "HeldState",
    "Installation",
    "Instrumentation",
    "JsonValue",
    "Loops",
    "Message",
    "NotPlain",
    "Offer",
    "ParallelGroups",
    "PipelineError",
    "PipelineFacts",
    "Replacement",
    "Restartable",
    "Row",
    "Run",
    "RunHalted",
    "ScriptBroken",
    "ScriptMisfit",
    "SerialExecutor",
    "SessionMemory",
    "SimkitError",
    "Snapshots",
    "StoreChannel",
    "ToolCall",
    "ToolFailure",
    "ToolRequest",
    "TraceRecorder",
    "Unsupported",
    "Usage",
    "UseTool",
    "UserTurn",
    "attachment_text",
    "canonical",
    "choose_method",
    "compile_references",
    "copy_plain",
    "empty_value",
    "fields_of",
    "forget_modules",
    "found_as",
    "function_name",
    "given_input",
    "home_of",
    "input_advice",
    "input_example",
    "input_fields",
    "is_annotated",
    "is_equal",
    "is_factory",
    "is_intercepted",
    "keep_in_step",
    "leading_equal",
    "leading_same",
    "let_others_begin",
    "lookup",
    "make_run_options",
    "names_of",
    "nearest_name",
    "observe_result",
    "parse_arguments",
    "parse_messages",
    "plain",
    "plain_or_text",
    "put_given_state",
    "returned_by",
    "status_after",
    "threads_take_turns",
    "wait_for_thread",
]
