"""`simkit coverage`, called from outside: what no scenario makes a pipeline do, and where it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.projects import BAD, ECHO, MISSPELT, Done, write
from tests.desk import install

Call = Callable[..., Done]

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

    missing = [name for name, item in items_of(done).items() if not item["hits"]]
    # The history of this desk is its conversation, in which no tool speaks.
    assert missing == ["filters: defaults: history tool_messages"]
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


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("nowhere",), "nowhere: there is no such file or folder\n"),
        (("-k", "zzz"), "scenarios: there is no scenario that fits -k 'zzz'\n"),
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
