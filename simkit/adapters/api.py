"""The names from which adapters are written, simkit's own too: ``docs/how-to/adapters.md``.

These names are public and stay. Everything else below ``simkit.adapters`` is private.
"""

from simkit.adapters.annotations import is_annotated as is_annotated
from simkit.adapters.concurrency.pools import PATIENCE_S as PATIENCE_S
from simkit.adapters.concurrency.pools import Loops as Loops
from simkit.adapters.concurrency.pools import SerialExecutor as SerialExecutor
from simkit.adapters.concurrency.pools import keep_in_step as keep_in_step
from simkit.adapters.concurrency.pools import threads_take_turns as threads_take_turns
from simkit.adapters.concurrency.pools import wait_for_thread as wait_for_thread
from simkit.adapters.entry import Caller as Caller
from simkit.adapters.entry import found_as as found_as
from simkit.adapters.entry import home_of as home_of
from simkit.adapters.entry import is_factory as is_factory
from simkit.adapters.environment import DUMMY_KEY as DUMMY_KEY
from simkit.adapters.environment import forget_modules as forget_modules
from simkit.adapters.framework_driver import COMPUTED_PROMPT as COMPUTED_PROMPT
from simkit.adapters.framework_driver import AdapterContext as AdapterContext
from simkit.adapters.framework_driver import FrameworkDriver as FrameworkDriver
from simkit.adapters.framework_driver import FunctionDriver as FunctionDriver
from simkit.adapters.framework_driver import HeldState as HeldState
from simkit.adapters.framework_driver import Restartable as Restartable
from simkit.adapters.framework_driver import SessionMemory as SessionMemory
from simkit.adapters.framework_driver import choose_method as choose_method
from simkit.adapters.framework_driver import make_run_options as make_run_options
from simkit.adapters.framework_driver import put_given_state as put_given_state
from simkit.adapters.input_shapes import given_input as given_input
from simkit.adapters.input_shapes import input_advice as input_advice
from simkit.adapters.input_shapes import input_example as input_example
from simkit.adapters.input_shapes import input_fields as input_fields
from simkit.adapters.instrumentation import Instrumentation as Instrumentation
from simkit.adapters.observation import ContextListeners as ContextListeners
from simkit.adapters.observation import ContextScope as ContextScope
from simkit.adapters.observation import ParallelGroups as ParallelGroups
from simkit.adapters.observation import attachment_text as attachment_text
from simkit.adapters.observation import function_name as function_name
from simkit.adapters.observation import let_others_begin as let_others_begin
from simkit.adapters.observation import observe_result as observe_result
from simkit.adapters.observation import parse_messages as parse_messages
from simkit.adapters.plain_values import NotPlain as NotPlain
from simkit.adapters.plain_values import Snapshots as Snapshots
from simkit.adapters.plain_values import fields_of as fields_of
from simkit.adapters.plain_values import is_equal as is_equal
from simkit.adapters.plain_values import names_of as names_of
from simkit.adapters.plain_values import plain as plain
from simkit.adapters.plain_values import plain_or_text as plain_or_text
from simkit.adapters.recorder.histories import GrowingLists as GrowingLists
from simkit.adapters.recorder.histories import leading_equal as leading_equal
from simkit.adapters.recorder.histories import leading_same as leading_same
from simkit.adapters.recorder.sessions import Run as Run
from simkit.adapters.recorder.sessions import ToolRequest as ToolRequest
from simkit.adapters.recorder.trace import TraceRecorder as TraceRecorder
from simkit.adapters.recorder.trace import status_after as status_after
from simkit.adapters.tool_use import ToolFailure as ToolFailure
from simkit.adapters.tool_use import ToolUse as _ToolUse
from simkit.adapters.tool_use import request_here as request_here
from simkit.capture.http.installing import Installation as Installation
from simkit.capture.http.installing import Replacement as Replacement
from simkit.capture.http.installing import Row as Row
from simkit.capture.http.request_router import is_intercepted as is_intercepted
from simkit.core.errors import FrameworkFailed as FrameworkFailed
from simkit.core.errors import FunctionMissing as FunctionMissing
from simkit.core.errors import PipelineError as PipelineError
from simkit.core.errors import RunHalted as RunHalted
from simkit.core.errors import ScriptBroken as ScriptBroken
from simkit.core.errors import ScriptMisfit as ScriptMisfit
from simkit.core.errors import SimkitError as SimkitError
from simkit.core.errors import Unsupported as Unsupported
from simkit.core.errors import halt_in as halt_in
from simkit.core.messages import ABSENT as ABSENT
from simkit.core.messages import HANDOFF_PREFIX as HANDOFF_PREFIX
from simkit.core.messages import ROLE_ALIASES as ROLE_ALIASES
from simkit.core.messages import JsonValue as JsonValue
from simkit.core.messages import Message as Message
from simkit.core.messages import ToolCall as ToolCall
from simkit.core.messages import Usage as Usage
from simkit.core.text import guess as guess
from simkit.language.paths import compile as _compile
from simkit.language.paths import lookup as lookup
from simkit.providers.openai.items import arguments_of as _arguments_of
from simkit.providers.values import Offer as Offer
from simkit.runtime.ports import UserTurn as UserTurn
from simkit.runtime.tool_use import returned_by as returned_by
from simkit.spec.scenario.apps import AgentRule as AgentRule
from simkit.spec.scenario.apps import App as App
from simkit.spec.scenario.apps import StoreChannel as StoreChannel
from simkit.trace.events import AgentFacts as AgentFacts
from simkit.trace.events import ChannelFacts as ChannelFacts
from simkit.trace.events import Omission as Omission
from simkit.trace.events import PipelineFacts as PipelineFacts
from simkit.trace.reducers import DECLARED_RESET as DECLARED_RESET
from simkit.trace.reducers import empty_value as empty_value
from simkit.trace.store import canonical as canonical
from simkit.trace.store import copied as _copied

UseTool = _ToolUse
compile_references = _compile
parse_arguments = _arguments_of
copy_plain = _copied
