"""Public names: each is there, nobody else is, and its docstring has an example that runs."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import simkit
from simkit import matchers

NAMES = {
    "simkit": {
        *("Handoff", "Message", "Outcome", "SimkitError", "Simulation", "SourceError", "Trace"),
        *("__version__", "agent", "explore", "fakes", "handoff"),
        *("load", "read_trace", "same", "simulate"),
        *("state", "view_of"),
    },
    "simkit.adapters.api": {
        *("ABSENT", "COMPUTED_PROMPT", "DECLARED_RESET", "DUMMY_KEY", "HANDOFF_PREFIX"),
        *("PATIENCE_S", "ROLE_ALIASES", "AdapterContext", "AgentFacts", "AgentRule", "App"),
        *("Caller", "ChannelFacts", "ContextListeners", "ContextScope", "FrameworkDriver"),
        *("FrameworkFailed", "FunctionDriver", "FunctionMissing", "GrowingLists", "HeldState"),
        *("Installation", "Instrumentation", "JsonValue", "Loops", "Message", "NotPlain"),
        *("Offer", "Omission", "ParallelGroups", "PipelineError", "PipelineFacts", "Replacement"),
        *("Restartable", "Row", "Run", "RunHalted", "ScriptBroken", "ScriptMisfit"),
        *("SerialExecutor", "SessionMemory", "SimkitError", "Snapshots", "StoreChannel"),
        "ToolCall",
        *("ToolFailure", "ToolRequest", "TraceRecorder", "Unsupported", "Usage", "UseTool"),
        *("UserTurn", "attachment_text", "canonical", "choose_method", "compile_references"),
        *("copy_plain", "empty_value", "fields_of", "forget_modules", "found_as"),
        *("given_input", "halt_in", "input_advice", "input_example", "input_fields"),
        *("function_name", "home_of", "is_annotated", "is_equal", "is_factory", "is_intercepted"),
        *("keep_in_step", "leading_equal", "leading_same", "let_others_begin", "lookup"),
        *("make_run_options", "names_of", "observe_result", "parse_arguments"),
        *("parse_messages", "plain", "plain_or_text", "put_given_state", "returned_by", "guess"),
        "request_here",
        *("status_after", "threads_take_turns", "wait_for_thread"),
    },
    "simkit.matchers": {
        *("Expected", "absent", "all_of", "anything", "approx", "contains", "each", "either"),
        *("ends", "equal", "exact", "explained", "gt", "gte"),
        *("has", "in_order", "json_text", "keys", "length"),
        *("lt", "lte", "message", "not_", "one_of", "other_than", "partial", "regex", "starts"),
        *("type_", "unique", "unordered", "valid"),
    },
    "simkit.testing": {"AdapterConformance"},
    "simkit.vcr": {
        *("before_record_request", "before_record_response", "is_nearest_recording"),
        *("matches_model_request", "register", "vcr_config"),
    },
}
"""What users import. A name that goes, or changes, needs a line in CHANGELOG.md."""

PIPELINE = """\
version: 1
pipeline: desk
agents: {desk: {instructions: Answer.}}
flow: {handoffs: {start: desk}}
"""
SCENARIO = """\
version: 1
scenario: the desk answers
pipeline: ./desk.pipeline.yaml
turns: [{user: Hello, replies: {desk: Good day.}, expect: {reply: Good day.}}]
"""
WITHOUT_EXAMPLE = {"Expected", "Outcome", "__version__", "explained"}
"""Values and results, which the examples of functions show."""


def _public(module: ModuleType) -> set[str]:
    """Return the names that a module lists, or imports for others."""
    return set(getattr(module, "__all__", [name for name in vars(module) if name[0].isalpha()]))


@pytest.mark.parametrize("module", NAMES)
def test_a_module_offers_these_names_and_no_others(module: str) -> None:
    imported = importlib.import_module(module)

    assert _public(imported) == NAMES[module]
    assert [name for name in NAMES[module] if getattr(imported, name, None) is None] == []


def documented() -> list[tuple[str, Any]]:
    """Return the objects whose docstrings must have an example."""
    named = [(name, getattr(simkit, name)) for name in sorted(NAMES["simkit"] - WITHOUT_EXAMPLE)]
    # Each function of `simkit.matchers` is wrapped, so that naming it without calling it is seen.
    functions = [(name, getattr(matchers, name)) for name in sorted(NAMES["simkit.matchers"])]
    return named + [pair for pair in functions if pair[0] not in WITHOUT_EXAMPLE]


@pytest.mark.parametrize(
    ("name", "thing"), [pytest.param(*pair, id=pair[0]) for pair in documented()]
)
def test_its_example_runs(name: str, thing: Any, cwd: Path) -> None:
    Path("desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    Path("desk.scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    (scenario,) = simkit.load("desk.scenario.yaml")
    Path("desk.jsonl").write_bytes(simkit.simulate(scenario).trace.encoded())
    names = {"simkit": simkit, **{name: getattr(matchers, name) for name in matchers.__all__}}
    text = thing.__doc__ or ""
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    report: list[str] = []

    result = doctest.DocTestRunner().run(example, out=report.append)

    assert result.attempted > 0, f"the docstring of `{name}` has no example"
    assert result.failed == 0, "".join(report)
