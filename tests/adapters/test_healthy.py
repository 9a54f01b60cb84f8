"""No lint fires on pipelines of code that are in order, however they are built."""

from __future__ import annotations

import pytest

from tests.adapters.running import run_app

APP = "app: {path: [.], call: ask, tools: {look_up: healthy:look_up}}"
PLAIN = "app: {path: [.]}"
SCENARIOS = {
    "Supervisor": f"""
        {APP}
        agents: {{supervisor: You supervise., expert: You are the expert.}}
        turns:
          - user: What is tea
            replies:
              supervisor: [{{calls: [ask_expert: {{question: Tea}}]}}, It is a drink.]
              expert: [{{calls: [look_up: {{topic: tea}}]}}, A drink.]
            expect: {{reply: It is a drink., tool_calls: {{$len: 2}}}}
          - user: And coffee
            replies:
              supervisor:
                - calls: [ask_expert: {{question: Coffee}}, ask_expert: {{question: Beans}}]
                - It is another.
              expert: [{{calls: [look_up: {{topic: coffee}}]}}, A drink., Beans.]
            expect: {{reply: It is another.}}
    """,
    "Router": f"""
        {APP}
        agents: {{router: You route., sales: You are sales., help: You are help.}}
        turns:
          - user: Price
            replies: {{router: {{json: {{to: sales}}}}, sales: Ten.}}
          - user: Broken
            replies: {{router: {{json: {{to: help}}}}, help: Restart it.}}
          - user: Broken
            replies: {{router: {{json: {{to: help}}}}, help: Restart it.}}
          - user: Price
            replies: {{router: {{json: {{to: sales}}}}, sales: Ten.}}
            expect: {{agents: [router, sales], reply: Ten.}}
    """,
    "chain": f"""
        {PLAIN}
        agents: {{researcher: You research., writer: You write., editor: You edit.}}
        turns:
          - user: Tea
            replies:
              researcher: Leaves.
              writer: [Tea is leaves., Tea is hot.]
              editor: [More, fine]
            expect: {{reply: Tea is hot.}}
          - user: Tea
            replies: {{researcher: Leaves., writer: Tea is leaves., editor: fine}}
    """,
    "together": f"""
        {PLAIN}
        turns:
          - user: Shall we
            replies: {{law: Yes., money: No., chair: Perhaps.}}
            expect: {{reply: Perhaps., model_calls: {{law: 1, money: 1, chair: 1}}}}
    """,
    "Handoffs": f"""
        {APP}
        agents: {{front: You are front., back: You are back.}}
        turns:
          - user: Hello
            replies: {{front: {{handoff: {{to: back}}}}, back: [{{calls: [look_up: {{}}]}}, Here.]}}
            expect: {{agents: [front, back], handoffs: [{{from: front, to: back}}]}}
          - user: Back please
            replies: {{back: {{handoff: {{to: front}}}}, front: Again.}}
            expect: {{agents: [back, front], reply: Again.}}
    """,
    "Debate": f"""
        {APP}
        agents: {{pro: You are pro., contra: You are contra.}}
        turns:
          - user: Tea
            replies: {{pro: [Good., Really.], contra: [Bad., No.]}}
            expect: {{reply: "No."}}
    """,
    "Summarised": f"""
        {APP}
        agents: {{helper: {{system: {{$starts: You help.}}}}, summariser: You summarise.}}
        turns:
          - user: One
            replies: {{helper: First.}}
          - user: Two
            replies: {{helper: Second.}}
          - user: Three
            replies: {{helper: Third., summariser: One and two.}}
          - user: Four
            replies: {{helper: Fourth.}}
            expect:
              context:
                helper:
                  messages:
                    - system: "You help. So far: One and two."
                    - user: Three
                    - assistant: Third.
                    - user: Four
    """,
}


@pytest.mark.parametrize("pipeline", SCENARIOS)
def test_a_pipeline_that_is_in_order_has_no_finding(pipeline: str) -> None:
    ran = run_app(f"healthy:{pipeline}", SCENARIOS[pipeline])

    assert ran.judgement.findings == ()
    assert ran.judgement.warnings == ()


def test_a_handoff_back_to_an_agent_whose_run_goes_on_is_made() -> None:
    """Nothing says that `transfer_to_back` passes control: no agent has this name."""
    scenario = f"""
        {APP}
        agents: {{front: You are front., helper: You are back.}}
        turns:
          - user: Hello
            replies:
              front: [{{calls: [transfer_to_back: {{}}]}}, Again.]
              helper: {{handoff: {{to: front}}}}
            expect: {{handoffs: [{{from: helper, to: front}}], reply: Again.}}
    """

    judgement = run_app("healthy:Handoffs", scenario).judgement

    assert (judgement.findings, judgement.warnings) == ((), ())
