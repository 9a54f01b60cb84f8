"""What a model is sent of its tools: once in the trace, and in claims, diffs and digests."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from simkit import Simulation
from simkit.checks.judge import judge
from simkit.language.matching.values import ToolName
from simkit.matchers import partial
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.trace import events as e
from simkit.trace.diff.traces import trace_diff
from simkit.trace.store import decoded
from tests.adapters.running import run_app
from tests.building import Ran, prepared

DESK = """
import openai

client = openai.OpenAI()
QUERY = {{"type": "object", "properties": {{"q": {{"type": "string"}}}}}}
WORDS = {words}


def chat(text):
    function = {{"name": "look_up", "description": WORDS[text], "parameters": QUERY}}
    messages = [{{"role": "system", "content": "Desk"}}, {{"role": "user", "content": text}}]
    tool = {{"type": "function", "function": {{**function, "strict": True}}}}
    made = client.chat.completions.create(model="m", messages=messages, tools=[tool])
    return made.choices[0].message.content
"""
TOOL = {"name": "look_up", "description": "Looks up.", "strict": True}
SCHEMA = {"parameters": {"properties": {"q": {"type": "string"}}}}


def run_desk(folder: Path, claim: Any, *words: str) -> Ran:
    """Runs code that defines its tool by these words, one a turn; a claim on the last."""
    names = [f"t{number}" for number in range(len(words))]
    module = f"desk{abs(hash((words, str(claim))))}"
    text = DESK.format(words=dict(zip(names, words, strict=True)))
    (folder / f"{module}.py").write_text(text, encoding="utf-8")
    turns: list[dict[str, Any]] = [{"user": name, "replies": {"desk": "Hi"}} for name in names]
    turns[-1]["expect"] = {"context": {"desk": {"tools": claim}}}
    scenario = f"app: {{path: [.]}}\nagents: {{desk: Desk}}\nturns: {json.dumps(turns)}"
    return run_app(f"{module}:chat", scenario, folder)


def sentences(item: Ran) -> list[str]:
    return [finding.what for finding in item.judgement.findings]


def test_definitions_are_claimed_beside_names(tmp_path: Path) -> None:
    for claim in (["look_up"], [TOOL], [SCHEMA], {"$has": TOOL}, [{"name": "look_up"}]):
        assert sentences(run_desk(tmp_path, claim, "Looks up.")) == []


@pytest.mark.parametrize(
    ("claim", "difference"),
    [
        ([{"description": "Looks down."}], '"Looks down."'),
        ([{"parameters": {"properties": {"q": {"type": "object"}}}}], '"object"'),
        ([{"strict": False}], "false"),
        ({"$not": {"$has": {"description": {"$contains": "up"}}}}, "up"),
    ],
)
def test_another_definition_is_red(claim: Any, difference: str, tmp_path: Path) -> None:
    (finding,) = run_desk(tmp_path, claim, "Looks up.").judgement.findings

    assert difference in f"{finding.what} {finding.differences}"


def test_a_changed_description_is_another_digest_and_a_difference(tmp_path: Path) -> None:
    first_run = run_desk(tmp_path, ["look_up"], "Looks up.")
    second_run = run_desk(tmp_path, ["look_up"], "Never call this tool.")

    assert first_run.trace.digest() != second_run.trace.digest()
    (call,) = trace_diff(first_run.view, second_run.view).calls
    assert [(edit.at, edit.left, edit.right) for edit in call.edits] == [
        ("definitions.look_up.description", "Looks up.", "Never call this tool.")
    ]


def test_each_definition_is_written_once_and_a_context_refers_to_its_own(tmp_path: Path) -> None:
    item = run_desk(
        tmp_path, [{"description": "Is up."}], "Looks up.", "Is up.", "Looks up.", "Is up."
    )

    defined = [event for event in item.trace.events if isinstance(event, e.ToolDefined)]
    built = [event for event in item.trace.events if isinstance(event, e.ContextBuilt)]
    assert [(event.number, event.description) for event in defined] == [
        (1, "Looks up."), (2, "Is up."),
    ]  # fmt: skip
    assert [event.definitions for event in built] == [(1,), (2,), (1,), (2,)]
    assert sentences(item) == []


OLD = """
agents: {desk: {instructions: x, tools: [look_up]}}
tools: {look_up: {description: Looks up., args: {type: object}}}
flow: {handoffs: {start: desk}}
"""


def old_trace(claim: str) -> tuple[str, list[str]]:
    """What a claim says of a trace as format 2 was: without definitions."""
    ready = prepared(
        OLD, f"turns: [{{user: a, replies: {{desk: b}}, expect: {{context: {{desk: {claim}}}}}}}]"
    )
    lines = [
        line.replace(b',"definitions":[1]', b"").replace(b'"simkit_trace":3', b'"simkit_trace":2')
        for line in run(ready).encoded().splitlines(keepends=True)
        if b'"ToolDefined"' not in line
    ]
    outcome = judge(ready.scenario, ready.document, decoded(b"".join(lines)), function_named)
    return b"".join(lines)[:18].decode(), [finding.what for finding in outcome.judgement.findings]


def test_a_trace_of_format_2_is_read_and_shows_names_alone() -> None:
    header, findings = old_trace("{tools: [look_up]}")
    assert (header, findings) == ('{"simkit_trace":2}', [])
    for claim in ("[{description: Looks up.}]", "{$not: {$has: {description: x}}}"):
        (sentence,) = old_trace(f"{{tools: {claim}}}")[1]
        assert "context.desk.tools is not observable" in sentence
        assert "definitions of tools" in sentence


def test_tests_in_python_see_definitions() -> None:
    with Simulation(f"version: 1\npipeline: p\n{OLD}") as simulation:
        tools = simulation.say("a", replies={"desk": "b"}).context("desk").tools

    assert tools == ["look_up"]
    assert tools[0].definition["description"] == "Looks up."
    assert partial({"name": "look_up", "description": "Looks up."}) in tools
    assert partial({"description": "Never."}) not in tools
    assert tools == [partial({"parameters": {"type": "object"}})]


def test_a_name_keeps_its_definition_in_copies() -> None:
    tool = ToolName("look_up", "Looks up.", {"type": "object"}, True)
    for other in (pickle.loads(pickle.dumps(tool)), copy.deepcopy(tool)):
        assert (other, other.structure) == (tool, tool.structure)
