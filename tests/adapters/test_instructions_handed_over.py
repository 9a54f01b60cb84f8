"""A history that is handed over with the first agent's instructions in it is found (CTX-03)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("agents") is None:
    pytest.skip("openai-agents is not installed", allow_module_level=True)

from tests.adapters.running import run_app

CODE = """
from agents import Agent, handoff

def with_prompt(data):
    prompt = {"role": "system", "content": "You triage all requests."}
    said = data.input_history
    if isinstance(said, str):
        said = ({"role": "user", "content": said},)
    return data.clone(input_history=(prompt, *said))

billing = Agent(name="billing", instructions="You answer about bills.")
bad = Agent(
    name="triage",
    instructions="You triage all requests.",
    handoffs=[handoff(billing, input_filter=with_prompt)],
)
good = Agent(name="triage", instructions="You triage all requests.", handoffs=[billing])
"""


@pytest.mark.parametrize(("name", "expected"), [("bad", ["CTX-03"]), ("good", [])])
def test_a_prompt_that_travels_with_the_history_is_found(
    name: str, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "prompt_desk.py").write_text(CODE, encoding="utf-8")
    scenario = """
        turns:
          - user: What do I owe
            replies: {triage: {handoff: {to: billing}}, billing: 42 EUR.}
    """

    ran = run_app(f"prompt_desk:{name}", scenario, tmp_path)

    assert [finding.id for finding in ran.judgement.findings] == expected
