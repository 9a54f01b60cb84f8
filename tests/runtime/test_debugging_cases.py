# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""The three debugging cases of reference system 2: what is told answers its diagnosis questions."""

from __future__ import annotations

import pytest

from simkit.checks.findings import Finding
from simkit.core.errors import SourceError
from simkit.report.text import findings_text
from tests.building import prepared, run_yaml

PIPELINE = """\
channels:
  task_items: {reducer: append, scope: turn}
  project_items: {reducer: append, scope: project}
defaults:
  context: [instructions, input]
  writes: {}
agents:
  searcher:
    tools: [search_codebase, search_history]
    writes: {project_items: [{text: "${run.output}"}]}
  reader: {instructions: Read., writes: {task_items: [{text: "Kept: ${run.output}"}]}}
  analyzer:
    instructions: Analyze.
    context: [instructions, recall: {from: [task_items, project_items], scopes: [project]}, input]
tools:
  search_codebase: {function: "fnmatch:filter"}
  search_history: {}
flow:
  graph:
    nodes:
      search: {agent: searcher, start: true}
      read: {agent: reader}
      analyze: {agent: analyzer, exit: true}
    edges:
      - {from: search, to: read}
      - {from: read, to: analyze}
"""
ANALYSIS_FIRST = (
    ("{from: search, to: read}", "{from: analyze, to: search}"),
    ("{from: read, to: analyze}", "{from: search, to: read}"),
    ("search: {agent: searcher, start: true}", "search: {agent: searcher}"),
    ("read: {agent: reader}", "read: {agent: reader, exit: true}"),
    ("analyze: {agent: analyzer, exit: true}", "analyze: {agent: analyzer, start: true}"),
)


def edited(*replacements: tuple[str, str]) -> str:
    text = PIPELINE
    for old, new in replacements:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def scenario(search: str = "login.py", claims: str = "") -> str:
    expect = f"\n    expect: {{context: {{{claims}}}}}" if claims else ""
    return f"""\
turns:
  - user: find
    replies: {{search: {search}, read: pass, analyze: Nothing.}}{expect}
"""


def refusal(pipeline: str, script: str) -> str:
    """The error of a file; raises if there is none."""
    with pytest.raises(SourceError) as problem:
        run_yaml(pipeline, script)
    return str(problem.value)


def of_claims(pipeline: str, script: str) -> str:
    """What is told of claims that do not hold."""
    findings: list[Finding] = [
        finding
        for finding in run_yaml(pipeline, script).judgement.findings
        if finding.id == "claim"
    ]
    return findings_text(findings)


# Data not reaching the next node


def test_a_previous_output_that_is_null_is_told_with_both_nodes() -> None:
    ran = run_yaml(PIPELINE, scenario("{json: null}"))

    assert ran.error() == (
        "InputInvalid",
        "agent 'read' reads its input, but the output of 'search', which ran before it, is null",
    )
    assert [(run.agent, run.output) for run in ran.turn().runs] == [("search", None)]


def test_an_output_that_nobody_reads_may_be_null() -> None:
    unread = edited(("Read., writes", "Read., context: [instructions], writes"))

    assert run_yaml(unread, scenario("{json: null}")).error() is None


@pytest.mark.parametrize(
    ("edge", "instead", "says"),
    [
        (
            "      - {from: search, to: read}\n",
            "",
            """\
test.scenario.yaml:21:3: the graph is not whole
  at flow.graph
  - no edge leads to `read`
  - no edge leads on from `search`: an end is `exit: true`""",
        ),
        (
            "{from: search, to: read}",
            "{from: search, to: reader}",
            """\
test.scenario.yaml:27:28: unknown node `reader`
  at flow.graph.edges[0].to
  did you mean `read`?   known: search, read, analyze""",
        ),
    ],
    ids=["an edge is missing", "an edge leads nowhere"],
)
def test_edges_that_do_not_connect_the_nodes_are_told_before_anything_runs(
    edge: str, instead: str, says: str
) -> None:
    pipeline = edited((edge, instead))

    with pytest.raises(SourceError) as problem:
        prepared(pipeline, scenario())

    assert str(problem.value) == says


# Tools not being found

CALL = "[calls: {search_codebase: {names: [a.py], pat: b}}, login.py]"


def test_a_tool_that_is_not_defined_is_told_with_those_that_are() -> None:
    pipeline = edited(("[search_codebase, search_history]", "[search_codebas, search_history]"))

    assert (
        refusal(pipeline, scenario())
        == """\
test.scenario.yaml:11:13: unknown tool `search_codebas`
  at agents.searcher.tools[0]
  did you mean `search_codebase`?   known: search_codebase, search_history"""
    )


def test_a_call_whose_tool_id_does_not_match_is_told_with_the_nodes_tools() -> None:
    assert (
        refusal(PIPELINE, scenario("[calls: {search_codebases: {}}, login.py]"))
        == """\
test.scenario.yaml:35:32: agent `search` has no tool `search_codebases`
  at turns[0].replies.search[0].calls.search_codebases
  did you mean `search_codebase`?   known: search_codebase, search_history"""
    )


@pytest.mark.parametrize(
    ("entrypoint", "says"),
    [
        (
            "fnmatch:no_such",
            "test.scenario.yaml:18:31: function `fnmatch:no_such`: module 'fnmatch' has no function 'no_such'",
        ),
        (
            "no_such:filter",
            "test.scenario.yaml:18:31: function `no_such:filter`: there is no module 'no_such'. "
            "It is looked for in the working directory and on sys.path.",
        ),
    ],
)
def test_an_entrypoint_that_is_no_real_function_is_told_where_it_is_written(
    entrypoint: str, says: str
) -> None:
    assert refusal(edited(("fnmatch:filter", entrypoint)), scenario(CALL)) == says


def test_a_tool_without_an_entrypoint_is_told_with_those_that_have_one() -> None:
    ran = run_yaml(PIPELINE, scenario("[calls: {search_history: {}}, login.py]"))

    assert ran.error() == (
        "ToolMissing",
        "agent 'search' called tool 'search_history' in turn 1, "
        "which has neither a result in the scenario nor a function in the pipeline.\n"
        "It was called without arguments.\n"
        "Add one under turns[0].tool_results.search_history, "
        "or an entrypoint under tools.search_history.function.\n"
        "There are functions for: search_codebase.",
    )


# Context not available


def test_a_tier_that_the_node_does_not_see_is_told_with_what_it_holds() -> None:
    assert (
        of_claims(PIPELINE, scenario(claims="analyze: {recall: [{$contains: pass}]}"))
        == """\
test.scenario.yaml:36:55: context.analyze.recall does not match (turn 1, call [0])
    expect: {context: {analyze: {recall: [{$contains: pass}]}}}
  at [0]: wanted $contains: "pass", found {system: "project_items:\\n- login.py"}
  section recall holds 1 message:
    [0] system: project_items: - login.py
  left out by scopes: 1 of task_items (turn)"""
    )


def test_what_is_wanted_of_a_tier_that_the_node_does_not_see_is_named() -> None:
    assert (
        of_claims(PIPELINE, scenario(claims="analyze: {includes: [{$contains: 'Kept: pass'}]}"))
        == """\
test.scenario.yaml:36:45: context.analyze.includes[0] matches no message (turn 1, call [0])
    expect: {context: {analyze: {includes: [{$contains: 'Kept: pass'}]}}}
  what it wants is not shown: recall of channel task_items, by scopes: Kept: pass
  the context holds 3 messages:
    [0] system analyze: Analyze.
    [1] system: project_items: - login.py
    [2] user: pass"""
    )


def test_predecessors_that_have_not_run_and_empty_stores_are_told() -> None:
    pipeline = edited(*ANALYSIS_FIRST)

    assert (
        of_claims(pipeline, scenario(claims="analyze: {recall: [{$contains: login.py}]}"))
        == """\
test.scenario.yaml:36:43: context.analyze.recall does not match (turn 1, call [0])
    expect: {context: {analyze: {recall: [{$contains: login.py}]}}}
  at [0]: wanted {$contains: "login.py"}, found nothing
    1 wanted, 0 found
  section recall made nothing; those that did: instructions, input
  ran before it in turn 1: none
  empty when it ran: task_items (turn), project_items (project)"""
    )


def test_tiers_that_hold_none_of_the_nodes_channels_are_told_with_those_they_have() -> None:
    pipeline = edited(("scopes: [project]", "scopes: [global]"))

    assert (
        refusal(pipeline, scenario())
        == """\
test.scenario.yaml:16:81: none of the channels has one of them: `task_items` (turn), `project_items` (project): the section could never show anything
  at agents.analyzer.context[1].recall.scopes"""
    )


def test_a_store_that_is_not_declared_is_told_with_those_that_are() -> None:
    pipeline = edited(("from: [task_items, project_items]", "from: [task_items, projects_items]"))

    assert (
        refusal(pipeline, scenario())
        == """\
test.scenario.yaml:16:57: unknown channel `projects_items`
  at agents.analyzer.context[1].recall.from[1]
  did you mean `project_items`?   known: task_items, project_items, messages"""
    )
