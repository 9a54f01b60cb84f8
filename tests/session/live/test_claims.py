"""Claims that only a script can keep are left out of live runs, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simkit.session.live.scripted_words import claim_units
from simkit.session.live.trials import live_scenario
from simkit.spec.pipeline.models import prices_in
from tests.recording import prepared

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "live.md"
PIPELINE = """\
version: 1
pipeline: desk
models: {default: openai/gpt-5-mini}
channels: {case: {}, count: {reducer: add, default: 0}}
agents:
  triage: {instructions: You sort requests about bicycles., handoffs: [billing]}
  billing: {instructions: You refund., tools: [find_order]}
tools: {find_order: {args: {type: object}}}
contracts: [{from: triage, to: billing, payload: {type: object}}]
flow: {handoffs: {start: triage}}
"""
SCENARIO = """\
version: 1
scenario: a desk
pipeline: desk.pipeline.yaml
given: {state: {case: C-9}}
turns:
  - user: Order A-1 came broken
    replies:
      triage:
        text: I pass you on.
        handoff: {to: billing, payload: {order: A-1, priority: urgent, copies: 3}}
      billing:
        - calls: [find_order: {id: A-1, depth: 2}]
        - You get 12 % back by Friday.
    tool_results: {find_order: {state: delivered}}
    expect: CLAIMS
"""


def left_out(folder: Path, claims: str, first_turn: int = 1) -> dict[str, str]:
    """Returns the claims of a scenario, each with why it is left out."""
    (folder / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    file = folder / "desk.scenario.yaml"
    file.write_text(SCENARIO.replace("CLAIMS", claims), encoding="utf-8")
    return {unit.label: unit.why_left_out for unit in claim_units(prepared(file), first_turn)}


@pytest.mark.parametrize(
    ("claims", "label", "word"),
    [
        ("{reply: You get 12 % back by Friday.}", "reply", "You get 12 % back by Friday."),
        ("{reply: {$contains: friday}}", "reply", "friday"),
        ("{reply: {$not: {$contains: by Friday}}}", "reply", "by Friday"),
        ("{handoffs: [{to: billing, payload: {priority: urgent}}]}", "handoffs", "urgent"),
        ("{handoffs: [{payload: {copies: 3}}]}", "handoffs", "3"),
        ("{tool_calls: [{tool: find_order, args: {depth: 2}}]}", "tool_calls", "2"),
        (
            "{context: {billing: {includes: [{$contains: urgent}]}}}",
            "context.billing.includes",
            "urgent",
        ),
        ("{runs: {billing: {reply: {$ends: Friday.}}}}", "runs.billing.reply", "Friday."),
    ],
)
def test_a_claim_on_words_of_reply_lines_is_left_out(
    tmp_path: Path, claims: str, label: str, word: str
) -> None:
    assert left_out(tmp_path, claims) == {
        f"turn 1: {label}": f"{word!r} stands in reply lines only"
    }


@pytest.mark.parametrize(
    "claims",
    [
        "{agents: [triage, billing]}",
        "{model_calls: {billing: 2}}",
        "{reply: {$contains: A-1}}",
        "{reply: {$contains: refund}}",
        "{reply: {$regex: Friday}}",
        "{reply: {$len: {$gte: 3}}}",
        "{handoffs: [{from: triage, to: billing, payload: {order: A-1}}]}",
        "{handoffs: {$len: 3}}",
        "{tool_calls: [{tool: find_order, args: {id: A-1}, result: {state: delivered}}]}",
        "{state: {count: 3}}",
        "{state: {case: C-9}}",
        "{context: {billing: {excludes: [{$contains: bicycles}]}}}",
        "{context: {billing: {sections: [instructions], tools: [find_order]}}}",
        "{context: {billing: {messages: [{role: system}]}}}",
    ],
)
def test_a_claim_that_a_model_can_keep_is_judged(tmp_path: Path, claims: str) -> None:
    assert set(left_out(tmp_path, claims).values()) == {""}


def test_a_failure_on_purpose_does_not_happen_live(tmp_path: Path) -> None:
    claims = "{error: ModelError}"
    text = SCENARIO.replace("- You get 12 % back by Friday.", "- error: rate_limit")
    (tmp_path / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    file = tmp_path / "desk.scenario.yaml"
    file.write_text(text.replace("CLAIMS", claims), encoding="utf-8")

    (unit,) = claim_units(prepared(file))

    assert unit.why_left_out == "a reply line of the turn fails on purpose"


def test_each_channel_and_each_claim_on_an_agent_is_a_claim_of_its_own(tmp_path: Path) -> None:
    claims = (
        "{state: {case: urgent, count: 0}, "
        "context: {billing: {includes: [{$contains: urgent}], excludes: [{role: tool}]}}}"
    )
    (tmp_path / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    file = tmp_path / "desk.scenario.yaml"
    file.write_text(SCENARIO.replace("CLAIMS", claims), encoding="utf-8")
    scenario = prepared(file)

    live = live_scenario(scenario, claim_units(scenario))

    assert live.prepared.document.data["turns"][0]["expect"] == {
        "state": {"count": 0},
        "context": {"billing": {"excludes": [{"role": "tool"}]}},
    }
    assert [unit.label for unit in live.judged] == [
        "turn 1: state.count",
        "turn 1: context.billing.excludes",
    ]
    assert "replies" not in live.prepared.document.data["turns"][0]


def test_lines_of_replayed_turns_are_given_to_the_turns_after(tmp_path: Path) -> None:
    (tmp_path / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    file = tmp_path / "desk.scenario.yaml"
    more = (
        "  - {user: When?, replies: {triage: By Friday.}, expect: {reply: {$contains: Friday}}}\n"
    )
    file.write_text(SCENARIO.replace("CLAIMS", "{agents: []}") + more, encoding="utf-8")

    whys = [unit.why_left_out for unit in claim_units(prepared(file), 1)]
    (unit,) = claim_units(prepared(file), 2)

    assert whys == ["", "'Friday' stands in reply lines only"]
    assert (unit.label, unit.why_left_out) == ("turn 2: reply", "")


def test_the_page_shows_what_its_files_give(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, content in re.findall(r"```(?:yaml|text)\n# (\S+)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(content, encoding="utf-8")

    units = claim_units(prepared(tmp_path / "counter.scenario.yaml"))
    prices = prices_in(str(tmp_path / "prices.yaml"))

    for unit in units:
        if unit.why_left_out:
            assert f"    {unit.label}: {unit.why_left_out}\n" in text
        else:
            assert f"  {unit.label}  " in text
    assert len(units) == 4
    assert prices.price_of("gpt-5-mini") is not None
    assert prices.price_of("claude-haiku-4-5") is not None
