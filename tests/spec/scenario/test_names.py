"""Names in a scenario file: each leads somewhere, or the file is refused with what is near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import assert_says
from tests.refusals import Case, parametrized, refusal_of, table

BASE, REFUSED, ACCEPTED = table("spec/scenario/names.yaml")


pytestmark = pytest.mark.usefixtures("cwd")


def test_base_of_the_table_is_accepted() -> None:
    assert refusal_of(BASE) == ""


@parametrized(REFUSED)
def test_name_that_leads_nowhere_is_refused(case: Case) -> None:
    assert_says(refusal_of(case.text), case.says)


@parametrized(ACCEPTED)
def test_name_that_leads_somewhere_is_accepted(case: Case) -> None:
    assert refusal_of(case.text) == ""


@pytest.mark.parametrize(
    ("shared", "says"),
    [
        (
            "given: {state: {decison: none}}",
            "s.yaml:2:17: unknown channel `decison`\n"
            "  at given.state.decison\n"
            "  did you mean `decision`?   known: messages, decision",
        ),
        (
            "tool_results: {log_mael: {kcal: 800}}",
            "s.yaml:2:16: no agent has tool `log_mael`\n"
            "  at tool_results.log_mael\n"
            "  did you mean `log_meal`?   known: log_meal, store",
        ),
        (
            "agents: {coach: You are a coach}",
            "s.yaml:2:1: `agents` is about a pipeline that is code, and this one is YAML\n"
            "  at agents",
        ),
        ("tool_results: {log_meal: {kcal: 800}}", ""),
    ],
)
def test_names_in_a_shared_file_are_the_pipelines_too(shared: str, says: str) -> None:
    Path("s.yaml").write_text(f"version: 1\n{shared}\n")

    refusal = refusal_of(BASE.replace("turns:\n", "use: [s.yaml]\nturns:\n"))

    assert refusal == says


_PIPELINE = """
version: 1
pipeline: p
agents: {a: {instructions: One., tools: [find], handoffs: [b]}, b: {instructions: Two.}}
contracts: [{from: a, to: b, type: x, payload: {type: object}}]
flow: {handoffs: {start: a}}
---
version: 1
scenario: s
pipeline: p
given: {state: {messages: [{role: assistant, calls: [{tool: older, args: {}, id: c1}]},
                           {role: tool, tool: older, call_id: c1, content: "7"}]}}
turns:
  - user: Hello
    replies: {a: Done.}
    expect: EXPECT
"""


@pytest.mark.parametrize(
    ("claim", "word", "near"),
    [
        ("context: {a: {excludes: [{role: tool, tool: finde}]}}", "tool `finde`", "find"),
        ("context: {a: {excludes: [{calls: {$has: [{tool: finde}]}}]}}", "tool `finde`", "find"),
        (
            "context: {a: {messages: {$not: {$has: {calls: [{name: finde}]}}}}}",
            "tool `finde`",
            "find",
        ),
        (
            "context: {a: {dropped: {$not: {$has: {role: tool, tool: finde}}}}}",
            "tool `finde`",
            "find",
        ),
        ("context: {a: {excludes: [{section: histori}]}}", "section `histori`", "history"),
        ("context: {a: {run: {$not: {$has: {role: tool, tool: finde}}}}}", "tool `finde`", "find"),
        (
            "runs: {a: {messages: {$not: {$has: {role: tool, tool: finde}}}}}",
            "tool `finde`",
            "find",
        ),
        ("runs: {bee: {messages: []}}", "agent `bee`", "b"),
        ("runs: {a: {messages: {$not: {$has: {agent: bb}}}}}", "agent `bb`", "b"),
    ],
)
def test_name_in_a_matcher_of_messages_that_is_none_is_refused(
    claim: str, word: str, near: str
) -> None:
    refusal = refusal_of(_PIPELINE.replace("EXPECT", f"{{{claim}}}"))

    assert f"unknown {word}" in refusal
    assert f"did you mean `{near}`?" in refusal or near == "b"


@pytest.mark.parametrize(
    "matcher",
    [
        "{role: tool, tool: find}",
        "{role: tool, tool: older}",
        "{role: tool, tool: transfer_to_b}",
        "{tool: what the tool says}",
        "{calls: {$has: [{tool: transfer_to_b}]}}",
        "{calls: {$has: [{tool: {$contains: fin}}]}}",
    ],
)
def test_tool_that_messages_may_name_is_accepted(matcher: str) -> None:
    claim = f"{{context: {{a: {{excludes: [{matcher}]}}}}}}"

    assert refusal_of(_PIPELINE.replace("EXPECT", claim)) == ""
