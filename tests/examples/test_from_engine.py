"""The example converter: reference system 2's files become a pipeline file that runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.runtime.functions import same
from tests.cli.projects import Done, write

Call = Callable[..., Done]
BLOCKS = Path(__file__).parent / "agent_engine"
"""The blocks of the reference document, by their number in it."""
WHOLE = 3


def block(number: int) -> str:
    return (BLOCKS / f"{number}.yaml").read_text(encoding="utf-8")


def read_written(name: str = "config.pipeline.yaml") -> str:
    return Path(name).read_text(encoding="utf-8")


def agents_and_flow(text: str) -> str:
    return text[text.index("agents:\n") :]


CHANNELS = """\
# What the last node put out, and the three tiers of memory.
channels:
  current_output: {scope: turn}
  task_items: {reducer: append, scope: turn}
  project_items: {reducer: append, scope: project}
  global_items: {reducer: append, scope: global}
"""
RECALL = """\
    - recall:
        from: [task_items, project_items, global_items]
        scopes: [turn, project, global]
        order: newest_first
        tokens: 800
"""


def test_the_example_workflow_becomes_a_pipeline(convert: Call) -> None:
    write("config/workflow.yaml", block(WHOLE))

    assert convert("config") == Done(
        0,
        "config.pipeline.yaml: 5 nodes, 4 edges, 5 agents, 2 tools\n"
        "`simkit validate config.pipeline.yaml` says what it lacks.\n",
        "",
    )
    assert read_written() == (
        "# Made by from_engine of workflow.yaml.\n"
        "version: 1\n"
        "pipeline: config\n"
        + CHANNELS
        + "defaults:\n  context:\n    - instructions\n"
        + RECALL
        + """\
    - upstream
    - input
  writes:
    current_output: ${run.output}
    task_items: {agent: "${agent}", text: "${run.output}"}
# There was no agents.yaml: `instructions:` are for you to write.
agents:
  start: {function: simkit:same}
  searcher: {tools: [search_codebase]}
  reader: {tools: [read_file]}
  analyzer: {}
  exit: {function: simkit:same}
# There was no tools.yaml: `args:` and `returns:` are for you to write.
tools:
  search_codebase: {}
  read_file: {}
flow:
  graph:
    nodes:
      start: {start: true}
      search_files: {agent: searcher}
      read_content: {agent: reader}
      generate_analysis: {agent: analyzer}
      exit: {exit: true}
    edges:
      - {from: start, to: search_files}
      - {from: search_files, to: read_content}
      - {from: read_content, to: generate_analysis}
      - {from: generate_analysis, to: exit}
"""
    )


SCENARIO = """\
version: 1
scenario: the module is searched, read and analysed
pipeline: config.pipeline.yaml
turns:
  - user: {json: {request: analyze auth module}}
    replies:
      search_files:
        - calls: [search_codebase: {query: auth}]
        - {json: {result: Found 2 files}}
      read_content:
        - calls:
            - read_file: {path: auth.py}
            - read_file: {path: login.py}
        - {json: {files: {auth.py: "jwt.decode(token)", login.py: "session.start()"}}}
      generate_analysis: This module handles authentication with JWT.
    tool_results:
      search_codebase: {returns: [auth.py, login.py]}
      read_file: ["jwt.decode(token)", "session.start()"]
    expect:
      agents: [start, search_files, read_content, generate_analysis, exit]
      reply: This module handles authentication with JWT.
      runs:
        start: {input: {request: analyze auth module}, output: {request: analyze auth module}}
        search_files: {input: {request: analyze auth module}}
        read_content: {input: {result: Found 2 files}}
        generate_analysis: {input: {files: {auth.py: "jwt.decode(token)"}}}
        exit: {input: This module handles authentication with JWT.}
      context:
        read_content:
          upstream: [{$contains: [search_codebase, auth.py, login.py]}]
        generate_analysis:
          sections: [recall, upstream, input]
          recall: [{$contains: Found 2 files}]
      model_calls: {start: 0, exit: 0}
      tool_calls:
        - {agent: search_files, tool: search_codebase, result: [auth.py, login.py]}
        - {agent: read_content, tool: read_file, args: {path: auth.py}}
        - {agent: read_content, tool: read_file, args: {path: login.py}}
"""


def test_the_converted_workflow_is_valid_and_runs(convert: Call, simkit: Call) -> None:
    write("config/workflow.yaml", block(WHOLE))
    write("module.scenario.yaml", SCENARIO)

    convert("config")

    assert simkit("validate", "config.pipeline.yaml") == Done(0, "1 file, 0 scenarios: fine\n", "")
    assert simkit("replay", "-q", "module.scenario.yaml") == Done(
        0, "1 scenario: 1 held (0.00 s)\n", ""
    )


TOOLS = """\
tools:
  - id: search_codebase
    description: "Finds files: by words"
    entrypoint: myapp.tools.search
    input_schema:
      type: object
      required: [query]
    output_schema: {type: array}
    permissions: {allow_network: false}
  - id: read_file
    entrypoint: "myapp.tools:read"
    inputs: ReadInput
"""
AGENTS = """\
- id: searcher
  model: anthropic/claude-3-5-haiku
  system_prompt: |
    Find the files.
    Cost: ${low}
- id: reader
  prompt: yes
  tools: [search_codebase]
- id: analyzer
  instructions: Explain what you read.
  temperature: 0.7
- id: writer
  prompt: Write.
"""


def test_tools_and_agents_come_from_their_files_and_what_is_left_out_is_told(convert: Call) -> None:
    write("config/workflow.yml", block(WHOLE))
    write("config/tools.yaml", TOOLS)
    write("config/agents.yaml", AGENTS)
    write("config/memory.yaml", "memory: {}\n")

    done = convert("config", "--name", "assistant")

    assert done.out == (
        "assistant.pipeline.yaml: 5 nodes, 4 edges, 5 agents, 2 tools\n"
        "`simkit validate assistant.pipeline.yaml` says what it lacks.\n"
    )
    assert (
        done.err
        == """\
config/tools.yaml:9: `permissions` of tool `search_codebase` has no counterpart: left out
config/tools.yaml:12: `inputs` of tool `read_file` is no JSON Schema: left out
config/agents.yaml:2: `model` of agent `searcher`: left out, scenarios say what models answer
config/agents.yaml:11: `temperature` of agent `analyzer` has no counterpart: left out
config/agents.yaml:12: agent `writer` is no node's: left out
config/memory.yaml: not read: only workflow.yaml, tools.yaml and agents.yaml are
"""
    )
    text = read_written("assistant.pipeline.yaml")
    assert text.startswith(
        "# Made by from_engine of workflow.yml, tools.yaml, agents.yaml.\n"
        "version: 1\npipeline: assistant\n"
    )
    assert text[text.index("agents:\n") : text.index("flow:")] == (
        """\
agents:
  start: {function: simkit:same}
  searcher:
    instructions: |
      Find the files.
      Cost: $${low}
    tools: [search_codebase]
  reader: {instructions: "yes", tools: [read_file]}
  analyzer: {instructions: Explain what you read.}
  exit: {function: simkit:same}
tools:
  search_codebase:
    description: "Finds files: by words"
    args: {type: object, required: [query]}
    returns: {type: array}
    function: myapp.tools:search
  read_file: {function: myapp.tools:read}
"""
    )


NODES = """\
nodes:
  - {id: in, kind: deterministic, default_start: yes, entrypoint: "myapp.nodes:normal"}
  - {id: other, kind: deterministic, role: start, entrypoint: no such thing}
  - {id: a, agent_id: worker, tools: [t], context: project}
  - {id: b, agent_id: worker, tools: [t], context: global}
  - {id: c, agent_id: twin, context: task}
  - {id: d, agent_id: twin, context: task, role: split}
  - {id: twin, role: merge, schema_id: x}
edges:
  - {from: in, to: a, label: 1, weight: 2}
"""


def test_nodes_share_an_agent_only_if_they_do_the_same_with_it(convert: Call) -> None:
    write("config/workflow.yaml", NODES)
    write("config/tools.yaml", "tools: {t: }\n")
    write("config/agents.yaml", "agents: {worker: {prompt: Work.}, twin: {tools: [t]}}\n")

    done = convert("config")

    assert (
        done.err
        == """\
config/workflow.yaml:3: `entrypoint` of node `other` is no `module:function`: left out
config/workflow.yaml:3: `role` of node `other`: left out, another is the default start
config/workflow.yaml:8: `schema_id` of node `twin` has no counterpart: left out
config/workflow.yaml:10: `weight` of edge 1 has no counterpart: left out
"""
    )
    assert agents_and_flow(read_written()) == (
        """\
agents:
  in: {function: myapp.nodes:normal}
  other: {function: simkit:same}
  a: {instructions: Work., tools: [t]}
  b:
    instructions: Work.
    tools: [t]
    context:
      - instructions
      - recall:
          from: [task_items, project_items, global_items]
          scopes: [turn, project, global]
          order: newest_first
          tokens: 800
      - upstream
      - input
  twin:
    tools: [t]
    context:
      - instructions
      - recall:
          from: [task_items, project_items, global_items]
          scopes: [turn]
          order: newest_first
          tokens: 800
      - upstream
      - input
  twin_node: {context: [instructions, upstream, input]}
tools:
  t: {}
flow:
  graph:
    nodes:
      in: {start: true}
      other: {}
      a: {}
      b: {}
      c: {agent: twin}
      d: {agent: twin, role: split}
      twin: {agent: twin_node, role: merge}
    route_by: {contains: "${run.output}"}
    edges:
      - {from: in, to: a, label: "1"}
"""
    )


FRAGMENTS = {
    1: (
        "3 nodes, 0 edges, 3 agents, 0 tools",
        """\
    nodes:
      search: {}
      analyze: {}
      decide: {}
    edges: []
""",
        """\
config.pipeline.yaml:39:3: VAL-04: the graph is not whole
  at flow.graph
  - no node has `start: true`
  - no edge leads to `analyze`, `decide`
  - no edge leads on from `search`, `analyze`, `decide`: an end is `exit: true`
""",
    ),
    2: (
        "1 node, 0 edges, 1 agent, 1 tool",
        """\
    nodes:
      search: {}
    edges: []
""",
        """\
config.pipeline.yaml:22:3: VAL-04: the graph is not whole
  at flow.graph
  - no node has `start: true`
  - no edge leads on from `search`: an end is `exit: true`
""",
    ),
    4: (
        "4 nodes, 4 edges, 4 agents, 0 tools",
        """\
    nodes:
      classify_request: {agent: classifier, role: decision}
      create_document: {agent: creator}
      update_document: {agent: updater}
      finalize: {agent: finalizer, role: merge}
    route_by: {contains: "${run.output}"}
    edges:
      - {from: classify_request, to: create_document, label: create}
      - {from: classify_request, to: update_document, label: update}
      - {from: create_document, to: finalize}
      - {from: update_document, to: finalize}
""",
        """\
config.pipeline.yaml:31:3: VAL-04: the graph is not whole
  at flow.graph
  - no node has `start: true`
  - no edge leads on from `finalize`: an end is `exit: true`
""",
    ),
    5: (
        "1 node, 0 edges, 1 agent, 0 tools",
        """\
    nodes:
      finalize: {role: merge}
    edges: []
""",
        """\
config.pipeline.yaml:19:3: VAL-04: the graph is not whole
  at flow.graph
  - no node has `start: true`
  - no edge leads on from `finalize`: an end is `exit: true`
""",
    ),
    6: (
        "3 nodes, 2 edges, 3 agents, 2 tools",
        """\
    nodes:
      search_docs: {role: split}
      search_code: {role: split}
      analyze_together: {role: merge}
    edges:
      - {from: search_docs, to: analyze_together}
      - {from: search_code, to: analyze_together}
""",
        """\
config.pipeline.yaml:34:3: VAL-04: the graph is not whole
  at flow.graph
  - no node has `start: true`
  - no edge leads to `search_code`
  - no edge leads on from `analyze_together`: an end is `exit: true`
""",
    ),
    7: (
        "3 nodes, 0 edges, 3 agents, 0 tools",
        """\
    nodes:
      step1: {}
      step2: {}
      step3: {}
    edges: []
""",
        """\
config.pipeline.yaml:29:3: VAL-04: the graph is not whole
  at flow.graph
  - no node has `start: true`
  - no edge leads to `step2`, `step3`
  - no edge leads on from `step1`, `step2`, `step3`: an end is `exit: true`
""",
    ),
}
"""Block to what it holds, its graph, and what it lacks."""


@pytest.mark.parametrize("number", FRAGMENTS)
def test_a_fragment_is_converted_and_validate_says_what_it_lacks(
    convert: Call, simkit: Call, number: int
) -> None:
    holds, graph, lacks = FRAGMENTS[number]
    write("config/workflow.yaml", block(number))

    done = convert("config")

    assert (done.code, done.out.splitlines()[0]) == (0, f"config.pipeline.yaml: {holds}")
    assert read_written().endswith(f"flow:\n  graph:\n{graph}")
    verdict = "1 error" if lacks else "fine"
    assert simkit("validate", "config.pipeline.yaml") == Done(
        2 if lacks else 0, f"1 file, 0 scenarios: {verdict}\n", lacks
    )


def test_a_node_that_passes_on_returns_its_input() -> None:
    assert same({"input": {"request": "x"}, "user": "y"}) == {"request": "x"}


# Where it is written


def test_the_file_to_write_can_be_named(convert: Call) -> None:
    write("config/workflow.yaml", block(WHOLE))
    Path("designs").mkdir()

    done = convert("config", "--output", "designs/x.pipeline.yaml")

    assert done.code == 0
    assert "pipeline: config\n" in read_written("designs/x.pipeline.yaml")
    assert os.listdir("designs") == ["x.pipeline.yaml"]


def test_nothing_is_overwritten(convert: Call) -> None:
    write("config/workflow.yaml", block(WHOLE))
    write("config.pipeline.yaml", "mine\n")

    assert convert("config") == Done(
        2,
        "",
        "config.pipeline.yaml: the file is there already, and nothing is overwritten\n"
        "  Name another with `--output`, or move this one away.\n",
    )
    assert read_written() == "mine\n"


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    convert: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("config/workflow.yaml", block(WHOLE))
    link = os.link

    def late(source: Path, target: str) -> None:
        write(target, "mine\n")
        link(source, target)

    monkeypatch.setattr("os.link", late)

    done = convert("config")

    assert done.err.startswith("config.pipeline.yaml: the file is there already")
    assert read_written() == "mine\n"
    assert sorted(os.listdir()) == ["config", "config.pipeline.yaml", "scenarios"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["config", "--output", "x.yaml"],
            "x.yaml: the name of a pipeline file must end with `.pipeline.yaml`\n"
            "  Write `--output x.pipeline.yaml`.\n",
        ),
        (
            ["config", "--output", "nowhere/x.pipeline.yaml"],
            "nowhere/x.pipeline.yaml: it cannot be written: No such file or directory\n",
        ),
        (
            ["config", "--name", "a/b"],
            "--name a/b: a name is no path\n  `--output FILE` says where the file is written.\n",
        ),
        (["nowhere"], "nowhere: there is no such folder\n"),
        (
            ["config/workflow.yaml"],
            "config/workflow.yaml: this is a file, not a folder\n"
            "  Name the folder that holds it: `config`.\n",
        ),
        (
            ["scenarios"],
            "scenarios: there is no workflow.yaml in this folder\n"
            "  It holds: good.scenario.yaml.\n",
        ),
    ],
)
def test_a_wrong_call_writes_nothing(convert: Call, arguments: list[str], error: str) -> None:
    write("config/workflow.yaml", block(WHOLE))

    assert convert(*arguments) == Done(2, "", error)
    assert sorted(os.listdir()) == ["config", "scenarios"]


# What cannot be read

KIND = "  - {id: a, kind: robot}\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "nodes:\n  - id: a\n   kind: agent\n",
            ":3:4: this does not fit into the list that starts on line 2\n"
            "  indent it like its neighbours; if it belongs to a text, quote the whole text\n",
        ),
        ("", ":1:1: the file holds no document\n"),
        ("nodes: []\n---\nnodes: []\n", ":3:1: the file holds 2 documents, but must hold one\n"),
        ("- id: a\n", ":1:1: must be a mapping with `nodes:` and `edges:`\n"),
        (
            "workflow: []\n",
            ":1:11: must be a mapping with `nodes:` and `edges:`\n  at workflow\n",
        ),
        (
            "workflow: {name: x}\n",
            ":1:11: there are neither `nodes:` nor `edges:`\n  at workflow\n",
        ),
        ("nodes: 3\n", ":1:8: must be a list of entries with `id:`, not 3\n  at nodes\n"),
        ("nodes: [a]\n", ":1:9: must be a mapping, not the text `a`\n  at nodes[0]\n"),
        (
            "nodes:\n  - id: a\n  - kind: agent\n",
            ":3:5: node 2 of the list has no `id:`\n  at nodes[1]\n",
        ),
        (
            "nodes:\n  - id: a\n  - id: a\n",
            ":3:9: two nodes are called `a`; the first is on line 2\n  at nodes[1].id\n",
        ),
        ("nodes: [{id: [a]}]\n", ":1:14: must be a text, not a list\n  at nodes[0].id\n"),
        (
            "nodes: [{id: a, kind: agnt}]\n",
            ":1:23: unknown kind `agnt`\n  at nodes[0].kind\n"
            "  did you mean `agent`?   known: agent, deterministic\n",
        ),
        (
            "nodes: [{id: a, role: middle}]\n",
            ":1:23: unknown role `middle`\n  at nodes[0].role\n"
            "  known: start, linear, decision, split, merge, exit\n",
        ),
        (
            "nodes: [{id: a, context: golbal}]\n",
            ":1:26: unknown context `golbal`\n  at nodes[0].context\n"
            "  did you mean `global`?   known: none, task, project, global\n",
        ),
        (
            "nodes: [{id: a, default_start: maybe}]\n",
            ":1:32: must be true or false, not the text `maybe`\n  at nodes[0].default_start\n",
        ),
        (
            "nodes: [{id: a, tools: t}]\n",
            ":1:24: must be a list, not the text `t`\n  at nodes[0].tools\n",
        ),
        (
            "nodes: [{id: a, tools: [t, serch]}]\n",
            ":1:28: unknown tool `serch`\n  at nodes[0].tools[1]\n"
            "  did you mean `search`?   known: search, t\n",
        ),
        (
            "nodes: [{id: a, agent_id: wrker}]\n",
            ":1:27: unknown agent `wrker`\n  at nodes[0].agent_id\n"
            "  did you mean `worker`?   known: worker\n",
        ),
        (
            "nodes: [{id: search}]\nedges:\n  - {from: search, to: serch}\n",
            ":3:24: unknown node `serch`\n  at edges[0].to\n"
            "  did you mean `search`?   known: search\n",
        ),
        ("nodes: [{id: a}]\nedges: [{from: a}]\n", ":2:9: an edge needs `to:`\n  at edges[0]\n"),
        (
            "edges: [a]\n",
            ":1:9: an edge must be a mapping with `from:` and `to:`\n  at edges[0]\n",
        ),
        ("edges: {a: b}\n", ":1:8: must be a list\n  at edges\n"),
    ],
)
def test_what_is_wrong_in_the_workflow_is_told_where_it_stands(
    convert: Call, text: str, error: str
) -> None:
    write("config/workflow.yaml", text)
    write("config/tools.yaml", "- id: search\n- id: t\n")
    write("config/agents.yaml", "agents: [{id: worker}]\n")

    assert convert("config") == Done(2, "", f"config/workflow.yaml{error}")
    assert not Path("config.pipeline.yaml").exists()


@pytest.mark.parametrize(
    ("file", "text", "error"),
    [
        ("tools", "tool: []\n", ":1:1: must be a list of tools, or a mapping with `tools:`\n"),
        (
            "tools",
            "tools: [{id: t}, {id: t}]\n",
            ":1:23: two tools are called `t`; the first is on line 1\n  at tools[1].id\n",
        ),
        ("agents", "agents: {a: 1}\n", ":1:13: must be a mapping, not 1\n  at agents.a\n"),
        ("agents", "[", ":1:1: the `[` opened here is never closed\n"
         "  close it; a text that starts with it, or contains ` #`, needs quotes\n"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_other_files_is_told_where_it_stands(
    convert: Call, file: str, text: str, error: str
) -> None:
    write("config/workflow.yaml", block(WHOLE))
    write(f"config/{file}.yaml", text)

    assert convert("config") == Done(2, "", f"config/{file}.yaml{error}")
