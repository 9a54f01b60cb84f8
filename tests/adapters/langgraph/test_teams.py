"""Tools that run an agent: what one message asks for at once is one parallel group."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from tests.adapters.running import check_app

BOSS = """\
      boss:
        - calls: [task: {description: flights}, task: {description: hotels}]
        - Both done.
"""


def lines(agent: str) -> str:
    """Two reply lines, each for one of the tasks."""
    return f"      {agent}:\n" + "".join(
        f"        - {{text: {text} found, when: {{messages: {{$has: [{{user: {text}}}]}}}}}}\n"
        for text in ("flights", "hotels")
    )


@pytest.mark.parametrize(
    ("name", "agents", "helpers"),
    [
        ("prebuilt", "[boss, [worker, worker]]", ["worker"]),
        ("asynchronous", "[boss, [worker, worker]]", ["worker"]),
        ("by_hand", "[boss, tools, [worker, worker], boss]", ["worker"]),
        ("with_steps", "[boss, [plan, plan], write, write]", ["plan", "write"]),
    ],
)
def test_two_tasks_of_one_message_are_one_group(name: str, agents: str, helpers: list[str]) -> None:
    text = "".join(map(lines, helpers))
    expect = f"    expect: {{reply: Both done., agents: {agents}}}\n"
    check_app(
        f"langgraph_teams:{name}",
        f"turns:\n  - user: Plan my trip\n    replies:\n{BOSS}{text}{expect}",
    )
