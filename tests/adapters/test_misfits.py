"""What a scenario says and code no longer does is a finding at its line: a regression, exit 1."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.adapters.running import run_app
from tests.building import Ran

RULES = """\
app: {path: [.], call: ask, tools: {look_up: healthy:look_up}}
agents: {supervisor: You supervise., expert: You are the expert.}
"""


def misfits(ran: Ran) -> list[tuple[str, str]]:
    """The findings of RUN-01, each with its place below the head that tests share."""
    assert ran.judgement.exit_code == 1
    return [
        (".".join(map(str, finding.path)), finding.what)
        for finding in ran.judgement.findings
        if finding.id == "RUN-01"
    ]


def test_a_tool_that_a_line_calls_and_that_is_no_longer_offered_is_a_finding() -> None:
    ran = run_app(
        "healthy:Supervisor",
        f"""{RULES}
turns:
  - user: What is tea
    replies:
      supervisor: [{{calls: [ask_experts: {{question: Tea}}]}}, It is a drink.]
      expert: A drink.
  - user: And coffee
    replies: {{supervisor: Another.}}
""",
        fits=False,
    )

    assert misfits(ran) == [
        (
            "turns.0.replies.supervisor.0",
            "turns[0].replies.supervisor[0] calls tool 'ask_experts', which agent 'supervisor' is "
            "not offered. Did you mean `ask_expert`? Offered: ask_expert.",
        )
    ]
    (result,) = ran.judgement.findings
    assert "turn 2 did not run" in result.context


def test_an_agent_with_lines_and_claims_that_is_no_longer_reached_is_a_finding() -> None:
    ran = run_app(
        "healthy:Supervisor",
        f"""{RULES}
turns:
  - user: What is tea
    replies: {{supervisor: It is a drink., expert: A drink.}}
    expect: {{agents: [supervisor, expert], context: {{expert: {{includes: [{{user: Tea}}]}}}}}}
""",
    )

    assert misfits(ran) == [
        (
            "turns.0.replies.expert",
            "agent 'expert' never ran in turn 1, but has 1 reply line. Remove it, or route the "
            "turn to the agent.",
        )
    ]


@pytest.mark.skipif(find_spec("langgraph") is None, reason="langgraph is not installed")
@pytest.mark.parametrize(
    ("scenario", "place", "problem"),
    [
        (
            "agents: {checker: {node: modell}}\n"
            "turns: [{user: Tea, replies: {boss: It is a drink.}}]",
            "agents.checker.node", "no node 'modell' worked",
        ),
        (
            "turns:\n  - {user: Tea, replies: {boss: It is a drink.}}\n"
            "  - {resume: 'yes', replies: {boss: Fine.}}",
            "turns.1.resume", "turn 2 answers an interrupt",
        ),
        (
            "turns: [{user: Tea, replies: {boss: It is a drink.}, tool_results: {search: 1}}]",
            "turns.0.tool_results.search", "no model was offered tool `search`",
        ),
    ],
    ids=["a rule", "an answer", "a result"],
)  # fmt: skip
def test_what_speaks_of_something_that_a_graph_no_longer_has_is_a_finding(
    scenario: str, place: str, problem: str
) -> None:
    ((at, reply),) = misfits(run_app("langgraph_teams:prebuilt", scenario, fits=False))

    assert at == place
    assert reply.startswith(problem)
