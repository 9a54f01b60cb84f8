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
from tests.cli.projects import BAD, ECHO, GOOD, MISSPELT, Call, Done, write
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
    Path("scenarios/good.scenario.yaml").unlink()
    write("scenarios/desk.pipeline.yaml", DESK)
    write("scenarios/refund.scenario.yaml", REFUND)
    return simkit


def items_of(done: Done) -> dict[str, dict[str, Any]]:
    """The items of a report as JSON, by kind and name."""
    return {f"{item['kind']}: {item['name']}": item for item in json.loads(done.out)["items"]}


def test_what_never_happened_is_listed_with_its_line_and_a_way_to_cover_it(desk: Call) -> None:
    assert desk("coverage") == Done(
        0,
        """\
kind              covered    of      %
--------------  ---------  ----  -----
agents                  3     4   75.0
routes                  1     2   50.0
handoffs                1     1  100.0
payload keys            2     3   66.6
tools                   1     2   50.0
sections                6     7   85.7
filters                 0     1    0.0
windows                 0     1    0.0
channels                2     4   50.0
limits                  0     1    0.0
error policies          0     1    0.0
failures                0     1    0.0
restarts                0     1    0.0
total                  16    29   55.1

scenarios/desk.pipeline.yaml:1  failures: a model call fails
    cover it with a reply line `error: rate_limit` (or `timeout`, `refusal`)
scenarios/desk.pipeline.yaml:1  restarts: a new process goes on
    cover it with `restart: true` on a later turn: a new process that reads only the store
scenarios/desk.pipeline.yaml:4  channels: refunds joined
    cover it with a second write, so that `append` has something to join
scenarios/desk.pipeline.yaml:4  channels: refunds written
    cover it with a run that writes `refunds`
scenarios/desk.pipeline.yaml:11  filters: defaults: history tool_messages
    cover it with earlier messages that `tool_messages` drops, such as tool traffic
scenarios/desk.pipeline.yaml:12  windows: defaults: history window
    cover it with more messages than the window shows
scenarios/desk.pipeline.yaml:17  agents: sales (and so 1 item of it)
    cover it with a turn in which `sales` runs
scenarios/desk.pipeline.yaml:17  routes: triage → sales
    cover it with a reply of `triage`: `json: {agent: sales}`
scenarios/desk.pipeline.yaml:25  tools: find_order failed
    cover it with `tool_results: {find_order: {error: it is down}}`
scenarios/desk.pipeline.yaml:27  error policies: billing → refunds (handoff): reject
    cover it with a handoff to `refunds` that breaks the contract
scenarios/desk.pipeline.yaml:29  payload keys: billing → refunds (handoff): reason present
    cover it with a handoff whose payload has `reason`
scenarios/desk.pipeline.yaml:31  limits: handoffs_per_turn
    cover it with a turn that goes on until `handoffs_per_turn` stops it

covered: 16 of 29 items (55.1 %) by 1 scenario
""",
        "",
    )


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


def test_nothing_is_written(desk: Call) -> None:
    before = sorted(Path().rglob("*"))
    desk("coverage")

    assert [path for path in Path().rglob("*") if path not in before] == []


@pytest.mark.parametrize(("least", "code"), [("55.1", 0), ("55.2", 1), ("100", 1)])
def test_a_share_below_the_floor_ends_with_1(desk: Call, least: str, code: int) -> None:
    done = desk("coverage", "--fail-under", least)

    assert done.code == code
    assert done.err == (f"coverage is below --fail-under {least}\n" if code else "")


def test_where_nothing_ran_no_floor_holds(desk: Call) -> None:
    write("other/late.scenario.yaml", ECHO + GOOD.replace("\nturns:", "\nskip: not today\nturns:"))

    done = desk("coverage", "other", "--fail-under", "1")

    text = "coverage of nothing, since nothing ran, is below --fail-under 1\n"
    assert (done.code, done.err) == (1, text)
    assert desk("coverage", "other").code == 0


def test_of_a_file_that_cannot_be_read_the_first_line_of_the_error_is_told(desk: Call) -> None:
    write("scenarios/bad.scenario.yaml", "version: 1\nscenario x\nturns: []\n")

    done = desk("coverage")

    assert done.code == 2
    lines = [line for line in done.out.splitlines() if line.startswith("broken, and left out: ")]
    assert lines == [
        "broken, and left out: scenarios/bad.scenario.yaml:2:1: a `:` is missing after this key"
    ]


def test_lcov_has_a_record_for_each_pipeline_file(desk: Call) -> None:
    write("scenarios/echo.scenario.yaml", ECHO + BAD.replace("reply: bye", "reply: hello"))

    done = desk("coverage", "--format", "lcov")

    records = [record.splitlines() for record in done.out.split("end_of_record\n") if record]
    assert [record[:2] for record in records] == [
        ["TN:simkit", "SF:scenarios/desk.pipeline.yaml"],
        ["TN:simkit", "SF:scenarios/echo.scenario.yaml"],
    ]
    assert {"DA:17,0", "DA:16,1", "DA:25,1", "BRDA:25,0,0,1", "BRDA:25,0,1,0"} <= {*records[0]}
    for record in records:
        data = [line for line in record if line.startswith("DA:")]
        branches = [line for line in record if line.startswith("BRDA:")]
        missed = [line for line in (*data, *branches) if line.endswith(",0")]
        assert f"LF:{len(data)}" in record
        assert f"LH:{len(data) - sum(line in data for line in missed)}" in record
        assert f"BRF:{len(branches)}" in record
        assert f"BRH:{len(branches) - sum(line in branches for line in missed)}" in record


def test_the_pipelines_file_is_named_beside_each_of_several(desk: Call) -> None:
    write("scenarios/echo.scenario.yaml", ECHO + BAD)

    done = desk("coverage")

    assert "\nscenarios/echo.scenario.yaml          1     2  50.0\n" in done.out
    # A scenario that fails happened all the same.
    assert "1 scenario failed, and counted all the same: `simkit replay` shows why" in done.out
    assert done.code == 0


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


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("nowhere",), "nowhere: there is no such file or folder\n"),
        (("-k", "zzz"), "scenarios: nothing to run: none of 1 fits -k 'zzz'\n"),
        (("nowhere.jsonl",), "nowhere.jsonl: there is no such file or folder\n"),
    ],
)
def test_a_wrong_call_is_one_clear_error(
    desk: Call, arguments: tuple[str, ...], error: str
) -> None:
    assert desk("coverage", *arguments) == Done(2, "", error)


def test_a_broken_scenario_is_named_and_ends_with_2(desk: Call) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + MISSPELT)

    done = desk("coverage")

    assert done.code == 2
    assert "broken, and left out: scenarios/bad.scenario.yaml:9:" in done.out
    assert "by 1 scenario\n" in done.out


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


def test_a_page_without_a_place_is_in_simkits_own_folder(desk: Call) -> None:
    done = desk("coverage", "--format", "html", "--fail-under", "90")

    assert done.code == 1
    assert done.out.endswith("wrote .simkit/coverage.html\n")
    assert page_of(".simkit/coverage.html")["measured"] == "1 scenario"


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


def test_a_place_where_nothing_can_be_written_is_named_before_anything_runs(desk: Call) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + MISSPELT)

    done = desk("coverage", "--format", "html", "-o", "nowhere/coverage.html")

    assert done == Done(2, "", "-o: there is no folder nowhere\n")


def test_a_folder_that_cannot_be_made_is_named(desk: Call) -> None:
    Path(".simkit").write_text("mine", encoding="utf-8")

    done = desk("coverage", "--format", "html")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "the page: the folder .simkit cannot be made: File exists\n"
        "  Name a file somewhere else with -o.\n"
    )
    assert Path(".simkit").read_text(encoding="utf-8") == "mine"


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
