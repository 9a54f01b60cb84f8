"""The three debugging cases of reference system 2: what is told answers its diagnosis questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.checks.findings import Finding
from simkit.core.errors import SourceError
from simkit.report.text import findings_text
from tests.building import prepared, run_yaml
from tests.golden import assert_file_is

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


# Tools that are not found, context that is not there


@pytest.mark.golden
def test_what_is_told_answers_the_questions() -> None:
    call = "[calls: {search_codebase: {names: [a.py], pat: b}}, login.py]"
    answers = {
        "a tool that is not defined": refusal(
            edited(("[search_codebase, search_history]", "[search_codebas, search_history]")),
            scenario(),
        ),
        "a call whose tool id does not match": refusal(
            PIPELINE, scenario("[calls: {search_codebases: {}}, login.py]")
        ),
        "an entrypoint that is no function": refusal(
            edited(("fnmatch:filter", "fnmatch:no_such")), scenario(call)
        ),
        "an entrypoint in no module": refusal(
            edited(("fnmatch:filter", "no_such:filter")), scenario(call)
        ),
        "a tool without an entrypoint": str(
            run_yaml(PIPELINE, scenario("[calls: {search_history: {}}, login.py]")).error()
        ),
        "a tier that the node does not see": of_claims(
            PIPELINE, scenario(claims="analyze: {recall: [{$contains: pass}]}")
        ),
        "what is wanted of a tier that the node does not see": of_claims(
            PIPELINE, scenario(claims="analyze: {includes: [{$contains: 'Kept: pass'}]}")
        ),
        "predecessors that have not run, and empty stores": of_claims(
            edited(*ANALYSIS_FIRST), scenario(claims="analyze: {recall: [{$contains: login.py}]}")
        ),
        "tiers that hold none of the node's channels": refusal(
            edited(("scopes: [project]", "scopes: [global]")), scenario()
        ),
        "a store that is not declared": refusal(
            edited(("from: [task_items, project_items]", "from: [task_items, projects_items]")),
            scenario(),
        ),
    }

    text = "\n\n".join(f"# {case}\n\n{answer}" for case, answer in answers.items())
    assert_file_is(Path(__file__).parent / "golden" / "debugging_cases.txt", f"{text}\n")
