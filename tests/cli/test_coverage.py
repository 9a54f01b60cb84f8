"""`simkit coverage`, called from outside: what no scenario makes a pipeline do, and where it is."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.viewer import CoverageCollector, RunsCoverage
from tests.cli.projects import Call, Done, with_desk, write
from tests.desk import install

DESK = """\
pipeline: desk
channels:
  messages: {reducer: append, scope: session}
  refunds: {reducer: append, scope: project}
  customer: {scope: session}
defaults:
  context:
    - instructions
    - handoff
    - history:
        filters: [tool_messages]
        window: {rounds: 1}
    - current_message
  writes: {messages: ["${run.final_message}"]}
agents:
  triage: {instructions: Route., output: {type: object}, context: [instructions, current_message]}
  sales: {instructions: You sell., context: [instructions]}
  billing:
    instructions: You bill.
    tools: [find_order]
    handoffs: [refunds]
    writes: {refunds: ["${run.reply}"]}
  refunds: {instructions: You refund., handoffs: []}
tools:
  find_order: {args: {type: object}}
contracts:
  - from: billing
    to: refunds
    payload: {type: object, required: [order], properties: {order: {}, reason: {}}}
flow: {router: {decide: triage, to: "${run.output.agent}"}}
limits: {handoffs_per_turn: 2}
"""
REFUND = """\
scenario: a refund
pipeline: desk.pipeline.yaml
turns:
  - user: I want my money back
    replies:
      triage: {json: {agent: billing}}
      billing:
        - calls: [find_order: {}]
        - handoff: {to: refunds, payload: {order: A-1}}
      refunds: It is on its way.
    tool_results: {find_order: {order: A-1}}
"""
REST = """\
scenario: the rest
pipeline: desk.pipeline.yaml
given: {state: {customer: Ada}}
turns:
  - user: My order?
    replies:
      triage: {json: {agent: billing}}
      billing: [{calls: [find_order: {}]}, It is lost.]
    tool_results: {find_order: {error: the shelf is down}}
  - user: And now?
    restart: true
    replies: {triage: {json: {agent: billing}}, billing: It is found.}
  - user: Buy
    replies: {triage: {json: {agent: sales}}, sales: Bought.}
  - user: Money back
    replies:
      triage: {json: {agent: billing}}
      billing:
        - handoff: {to: refunds, payload: {}}
        - handoff: {to: refunds, payload: {order: A-1, reason: broken}}
      refunds: {error: rate_limit}
    expect: {error: {$any: true}}
  - user: Money back, all of it
    replies:
      triage: {json: {agent: billing}}
      billing:
        - handoff: {to: refunds, payload: {}}
        - handoff: {to: refunds, payload: {}}
        - handoff: {to: refunds, payload: {}}
    expect: {findings: [{id: FLW-01}], error: {$any: true}}
"""


HITS = {
    "failures: a model call fails": 1, "restarts: a new process goes on": 1,
    "channels: messages joined": 12, "channels: messages written": 14,
    "channels: refunds joined": 1, "channels: refunds written": 2,
    "sections: defaults: instructions": 12, "sections: defaults: handoff": 2,
    "sections: defaults: history": 12, "sections: defaults: current_message": 12,
    # The history of this desk is its conversation, in which no tool speaks.
    "filters: defaults: history tool_messages": 0, "windows: defaults: history window": 3,
    "agents: triage": 6,
    "sections: triage: current_message": 6, "sections: triage: instructions": 6,
    "agents: sales": 1, "routes: triage → sales": 1, "sections: sales: instructions": 1,
    "agents: billing": 5, "routes: triage → billing": 5, "agents: refunds": 2,
    "tools: find_order answered": 1, "tools: find_order failed": 1,
    "handoffs: billing → refunds (handoff)": 2,
    "error policies: billing → refunds (handoff): reject": 3,
    "payload keys: billing → refunds (handoff): order present": 2,
    "payload keys: billing → refunds (handoff): reason absent": 1,
    "payload keys: billing → refunds (handoff): reason present": 1,
    "limits: handoffs_per_turn": 1,
}  # fmt: skip
"""How often two scenarios reach each item."""


@pytest.fixture
def desk(simkit: Call) -> Call:
    """The command line, in a project with a desk and one scenario."""
    return with_desk(simkit, DESK, REFUND)


def items_of(done: Done) -> dict[str, dict[str, Any]]:
    """The items of a report as JSON, by kind and name."""
    return {f"{item['kind']}: {item['name']}": item for item in json.loads(done.out)["items"]}


def test_scenarios_add_up(desk: Call) -> None:
    write("scenarios/rest.scenario.yaml", REST)

    done = desk("coverage", "--format", "json")

    assert {name: item["hits"] for name, item in items_of(done).items()} == HITS
    assert done.code == 0


def test_a_kept_trace_is_read_and_nothing_runs(desk: Call) -> None:
    ran = desk("coverage", "--format", "json")
    assert desk("replay", "-q").code == 0
    write("scenarios/refund.scenario.yaml", REFUND.replace("on its way", "off"))

    of_trace = desk("coverage", ".simkit", "--format", "json")

    assert (of_trace.out, of_trace.code) == (ran.out, 0)


def test_code_has_the_items_that_its_requests_and_its_driver_name(simkit: Call) -> None:
    write("desk.py", "def run(message):\n    return 'Hello.'\n")
    write(
        "scenarios/good.scenario.yaml",
        "scenario: code\npipeline: desk:run\napp: {path: [..]}\nturns: [{user: hi}]\n",
    )

    items = items_of(simkit("coverage", "--format", "json"))

    failing = items["failures: a model call fails"]
    assert (failing["file"], failing["line"]) == ("scenarios/good.scenario.yaml", 2)
    assert failing["code"] == "desk:run"


FORM = """
import openai

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("Plan", "look")
]


def run(text, choice={"type": "function", "function": {"name": "Plan"}}):
    said = openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": text}], tools=TOOLS, tool_choice=choice
    )
    return said.choices[0].message.tool_calls[0].function.arguments
"""


def test_a_tool_that_is_the_form_of_an_answer_needs_no_result(simkit: Call) -> None:
    """Code reads the call, and no reply and no tool result could cover that it is answered."""
    write("planner.py", FORM)
    write(
        "scenarios/good.scenario.yaml",
        "scenario: code\npipeline: planner:run\napp: {path: [..]}\nagents: {a: {model: m}}\n"
        "turns: [{user: hi, replies: {a: {calls: [Plan: {}]}}}]\n",
    )

    items = items_of(simkit("coverage", "--format", "json"))

    assert [name for name in items if name.startswith("tools")] == [
        "tools: look answered", "tools: look failed"
    ]  # fmt: skip


@pytest.mark.slow
def test_pytest_prints_the_same_in_one_process_and_in_several(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(pytester, monkeypatch)
    pytester.path.joinpath("desk.pipeline.yaml").write_text(DESK, encoding="utf-8")
    for name, text in (("refund", REFUND), ("rest", REST)):
        pytester.path.joinpath(f"{name}.scenario.yaml").write_text(text, encoding="utf-8")

    alone = pytester.runpytest_subprocess("--simkit-coverage")
    spread = pytester.runpytest_subprocess("--simkit-coverage", "-n2")

    without = pytester.runpytest_subprocess()
    text = "\n".join(alone.outlines)
    report = text[text.index("kind  ") : text.index("covered: 28 of 29 items (96.5 %)")]
    assert "desk.pipeline.yaml:11  filters: defaults: history tool_messages" in report
    assert report in "\n".join(spread.outlines)
    assert "simkit coverage" not in "\n".join(without.outlines)


def page_of(file: str) -> dict[str, Any]:
    """The data of a page of coverage."""
    html = Path(file).read_text(encoding="utf-8")
    data = json.loads(html.partition('id="data">')[2].partition("</script>")[0])
    index = json.loads(zlib.decompress(base64.b64decode(data["index"])))
    assert index["scenarios"] == []
    coverage: dict[str, Any] = index["coverage"]
    return coverage


def test_a_page_has_the_same_items_and_a_picture_with_what_was_used(desk: Call) -> None:
    items = items_of(desk("coverage", "--format", "json"))

    done = desk("coverage", "--format", "html", "-o", "coverage.html")

    line = "covered: 16 of 29 items (55.1 %) by 1 scenario: wrote coverage.html\n"
    assert done == Done(0, line, "")
    page = page_of("coverage.html")
    parts = {f"{part['kind']}: {part['name']}": part for part in page["parts"]}
    keys = ("file", "line", "hint")
    assert {name: [part.get(key) for key in keys] for name, part in parts.items()} == {
        name: [item.get(key) for key in keys] for name, item in items.items()
    }
    assert {name: part.get("hits", 0) for name, part in parts.items()} == {
        name: item["hits"] for name, item in items.items()
    }
    (graph,) = page["graphs"]
    used = {node["name"] for node in graph["nodes"] if node.get("runs")}
    assert used == {"triage", "billing", "refunds"}
    assert "sales" in {node["name"] for node in graph["nodes"]}


def test_each_form_can_be_written_to_a_file(desk: Call) -> None:
    for form in ("text", "json", "lcov"):
        printed = desk("coverage", "--format", form)

        done = desk("coverage", "--format", form, "-o", "report")

        text = Path("report").read_text(encoding="utf-8")
        line = "covered: 16 of 29 items (55.1 %) by 1 scenario: wrote report"
        if form == "json":
            assert json.loads(text).items() <= json.loads(printed.out).items()
            assert json.loads(done.out)["printed"] == [line]
        else:
            assert (done.out, text) == (f"{line}\n", printed.out)


def test_a_secret_is_not_in_the_page(desk: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "find_order")

    desk("coverage", "--format", "html", "-o", "coverage.html")

    names = {part["name"] for part in page_of("coverage.html")["parts"]}
    assert "triage → sales" in names
    assert not any("find_order" in name for name in names)


@pytest.mark.slow
def test_a_campaign_has_one_coverage_in_one_process_and_in_several(desk: Call) -> None:
    pages = {}
    for processes in ("1", "2"):
        call = ("explore", "scenarios/desk.pipeline.yaml", "--runs", "150", "-j", processes)
        done = desk(*call, "--coverage", "coverage.html", "--to", f"found{processes}")
        assert "wrote coverage.html" in done.out
        pages[processes] = page_of("coverage.html")
        # The next campaign would begin with what this one has found.
        shutil.rmtree(".simkit")

    assert pages["1"] == pages["2"]
    assert pages["1"]["measured"] == "150 conversations"
    agents = [part for part in pages["1"]["parts"] if part["kind"] == "agents"]
    assert sum(part.get("hits", 0) for part in agents) >= 150


def test_the_coverage_of_a_campaign_does_not_depend_on_the_order_of_its_parts(desk: Call) -> None:
    library = Library()
    write("desk.pipeline.yaml", DESK)
    write("a.scenario.yaml", REFUND)
    write("b.scenario.yaml", REST)
    parts = []
    for file in ("a.scenario.yaml", "b.scenario.yaml"):
        (item,) = items_in(file, library.cache)
        prepared = library.prepared(item)
        collector = CoverageCollector()
        collector.add(prepared, simulate(prepared).view)
        parts.append(collector.coverage())
    first, second = parts

    assert first.merged(second) == second.merged(first)
    assert first.merged(second) != first
    assert first.merged(RunsCoverage()) == first


@pytest.mark.slow
def test_pytest_writes_one_page_for_all_processes_with_simulations(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(pytester, monkeypatch)
    for name, text in (
        ("desk.pipeline", DESK),
        ("refund.scenario", REFUND),
        ("drawn.simulation", "simulation: drawn\npipeline: desk.pipeline.yaml\n"),
    ):
        pytester.path.joinpath(f"{name}.yaml").write_text(text, encoding="utf-8")
    options = ("--simkit-runs", "20", "--simkit-coverage-html", "coverage.html")

    pages = []
    for more in ((), ("-n2",)):
        done = pytester.runpytest_subprocess(*options, *more)
        done.stdout.fnmatch_lines(["simkit: wrote coverage.html, covered: * of 29 items (*"])
        done.stdout.no_fnmatch_line("*simkit coverage*")
        pages.append(page_of(str(pytester.path / "coverage.html")))

    assert pages[0] == pages[1]
    assert pages[0]["measured"] == "21 runs"
