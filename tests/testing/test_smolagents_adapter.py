"""The example of docs/how-to/adapters.md, an adapter for smolagents, on the real library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.third_party import ThirdParty

pytest.importorskip("smolagents", reason="smolagents is not installed")
pytest.importorskip("openai", reason="openai is not installed")

pytestmark = pytest.mark.slow

TEAM = """\
scenario: a desk asks two agents at once, and remembers what it answered
pipeline: smolagents_team:desk
turns:
  - user: Can I cycle home?
    replies:
      desk:
        - {calls: [{weather: {task: Is it warm?}}, {traffic: {task: Is it quiet?}}]}
        - {json: You can.}
      weather: [{calls: [{measure: {city: Rome}}]}, {json: {warm: true}}]
      traffic: ["<code>it = measure('Rome')</code>", "<code>final_answer(it['degrees'])</code>"]
    tool_results:
      measure: [{returns: {city: Rome, degrees: 30}}, {returns: {city: Rome, degrees: 40}}]
    expect:
      reply: You can.
      agents: [desk, [weather, traffic]]
      model_calls: {desk: 2, weather: 2, traffic: 2}
      runs: {weather: {output: {warm: true}}, traffic: {output: 40}, desk: {output: You can.}}
      tool_calls:
        $unordered:
          - {agent: desk, tool: weather, result: {$contains: "'warm': True"}}
          - {agent: desk, tool: traffic, result: {$contains: "40"}}
          - {agent: weather, tool: measure, args: {city: Rome}}
          - {agent: traffic, tool: measure, args: {city: Rome}}
      context:
        "weather[0]": {includes: [{user: {$contains: Is it warm?}}], excludes: [{$contains: quiet}]}
        "desk[1]": {includes: [{$contains: "'warm': True"}, {$contains: "40"}]}
  - user: And tomorrow?
    replies: {desk: {json: I do not know.}}
    expect:
      reply: I do not know.
      context: {desk: {includes: [{user: {$contains: Can I cycle home?}}, {$contains: You can.}]}}
  - user: Can I?
    session: s2
    replies: {desk: {json: "No."}}
    expect: {context: {desk: {excludes: [{$contains: cycle}]}}}
---
scenario: an agent without a name, and a model that answers with no call first
pipeline: smolagents_team:nameless
turns:
  - user: Hello
    replies: {agent: [Good day., {json: Good day.}]}
    expect:
      reply: Good day.
      model_calls: {agent: 2}
      runs: {agent: {output: Good day.}}
"""


@pytest.fixture
def smolagents(tmp_path: Path) -> ThirdParty:
    return ThirdParty("smolagents", tmp_path)


def test_the_adapter_keeps_the_rules_and_is_under_100_lines(smolagents: ThirdParty) -> None:
    done = smolagents.pytest()

    assert " passed, 28 skipped in " in done.stdout.splitlines()[-1], done.stdout
    assert "smolagents, state: not supported: agents share no state" in done.stdout
    assert len(smolagents.text("simkit").splitlines()) < 100


def test_the_adapter_needs_nothing_but_the_public_api(smolagents: ThirdParty) -> None:
    lines = smolagents.text("simkit").splitlines()

    assert [line for line in lines if "simkit" in line] == ["from simkit.adapters import api"]


def test_the_hook_of_streams_is_needed_to_keep_its_rule(smolagents: ThirdParty) -> None:
    """Those of the other rules are removed one by one from the adapter for `relay`."""
    smolagents.edit("simkit", "return self._steps(run, result)", "pass")

    done = smolagents.pytest("-k", "is_kept and stream")

    assert "the adapter 'smolagents' breaks the rule `stream`" in done.stdout, done.stdout


def test_a_team_is_answered_offline_the_same_every_time(smolagents: ThirdParty) -> None:
    (smolagents.folder / "team.scenario.yaml").write_text(TEAM, encoding="utf-8")

    done = smolagents.simkit("replay", "--verify", "team.scenario.yaml")

    assert done.returncode == 0, done.stdout
    assert "2 scenarios: 2 passed" in done.stdout
