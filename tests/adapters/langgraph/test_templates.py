"""Applications as templates write them: the right one holds, a wrong claim on it does not."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from tests.adapters.running import check_app, run_app

LOOKS = "[{calls: [look: {word: a}]}, Done.]"
CASES = {
    "noting": """
    turns:
      - user: Save two.
        replies: {agent: [{calls: [save: {note: a}, save: {note: b}]}, Done.]}
        expect: {state: {notes: [a, b], messages: {$len: 5}}, handoffs: [], reply: Done.}
    """,
    "clerk": f"""
    turns:
      - user: Look.
        replies: {{clerk: {LOOKS}}}
        expect: {{agents: [clerk], state: {{calls: 2, messages: {{$len: 4}}}}}}
      - user: More.
        replies: {{clerk: Fine.}}
        expect: {{runs: {{clerk: {{received: {{calls: 2}}, update: {{calls: 3}}}}}}}}
    """,
    "holding": f"""
    turns:
      - user: Look.
        replies: {{clerk: {LOOKS}}}
        expect:
          agents: [clerk, ends]
          runs: {{clerk: {{update: {{messages: {{$len: 3}}}}, output: Done.}}}}
          state: {{messages: {{$len: 4}}}}
    """,
    "calling": f"""
    turns:
      - user: Look.
        replies: {{expert: {LOOKS}}}
        expect:
          agents: [delegates, expert]
          runs:
            expert:
              received: {{messages: [{{user: "Task: Look."}}]}}
              update: {{messages: {{$len: 3}}}}
    """,
    "human": """
    turns:
      - user: Go.
        expect: {interrupt: {question: ok?}}
      - resume: fine
        replies: {agent: Done.}
        expect: {state: {notes: [fine], messages: {$len: 2}}, agents: [approve, agent]}
    """,
}
BREAKS = {
    "noting": ("notes: [a, b]", "notes: [a]"),
    "clerk": ("update: {calls: 3}", "update: {calls: 1}"),
    "holding": ("{$len: 3}", "{$len: 4}"),
    "calling": ('[{user: "Task: Look."}]', "[{user: Look.}]"),
    "human": ("notes: [fine]", "notes: []"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_right_application_holds_and_every_claim_on_it_was_looked_at(name: str) -> None:
    judgement = check_app(f"langgraph_templates:{name}", CASES[name]).judgement

    assert judgement.passed_over == ()
    assert [warning.what for warning in judgement.warnings] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_is_not_so_of_it_is_found(name: str) -> None:
    reply, wrong = BREAKS[name]
    assert CASES[name].count(reply) == 1
    ran = run_app(f"langgraph_templates:{name}", CASES[name].replace(reply, wrong))

    assert [finding.id for finding in ran.judgement.findings] == ["claim"]


def test_every_application_has_a_claim_that_is_wrong_of_it() -> None:
    assert BREAKS.keys() == CASES.keys()
