"""What must never happen, and what a run is compared with: one session alone, no restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.checks.findings import CLAIM
from simkit.core.errors import SourceError
from simkit.explore.campaigns import Bounds, run_campaign
from simkit.explore.causes import CLAIM_KEYS, label_of
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import converse
from simkit.explore.scenarios import headline, scenario_text, shows
from simkit.explore.search import Discovery
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.explore.desks import DESK
from tests.explore.test_simulations import BUYER, campaign_of, labels, subject_of

PAID = DESK.replace("tools: [look]", "tools: [look, refund]").replace(
    "tools:\n", "tools:\n  refund: {args: {type: object}}\n"
)
TWICE = "models: {desk: [{calls: [{refund: {order: '${persona.order}'}}]}, Done.]}\n"


def summary(discovery: Discovery) -> str:
    return f"{label_of(discovery.cause)} {discovery.cause.detail}: {headline(discovery)}"


@pytest.mark.slow
def test_what_happens_twice_is_found_in_a_whole_conversation(tmp_path: Path) -> None:
    text = BUYER + TWICE + "never: [{tool: refund, twice_with: args}]\n"
    subject = subject_of(tmp_path, text, pipeline=PAID)

    discoveries = campaign_of(subject).discoveries
    (discovery,) = (each for each in discoveries if label_of(each.cause) == "never")

    assert summary(discovery) == (
        'never never.0: a tool call {tool: "refund"} happened twice with the same args'
    )
    file = tmp_path / "a.scenario.yaml"
    file.write_text(scenario_text(discovery, subject, tmp_path, "simkit explore"), encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    prepared = library.prepared(item)
    assert prepared.scenario.expect.tool_calls == {
        "$unique": {"of": {"tool": "refund"}, "by": "args"}
    }
    findings = simulate(prepared).judgement.findings
    (finding,) = (finding for finding in findings if finding.id == CLAIM)
    assert finding.path[:2] == ("expect", "tool_calls")


def test_what_happens_is_found_in_its_turn_with_the_persona_of_the_user(tmp_path: Path) -> None:
    models = "models: {desk: [{calls: [{refund: {order: B-7}}]}, Done.]}\n"
    never = "never: [{tool: refund, args: {order: {$not: '${persona.order}'}}}]\n"
    subject = subject_of(tmp_path, BUYER + models + never, pipeline=PAID)

    ends = TurnPlan(answers=(0, 1))
    right = converse(subject, Plan((ends,), personas=1))
    wrong = converse(subject, Plan((ends, ends), personas=0))

    assert [label for label in map(label_of, right.causes) if label in CLAIM_KEYS] == []
    (cause,) = (cause for cause in wrong.causes if label_of(cause) == "never")
    assert wrong.causes[cause].path[:4] == ("turns", 0, "expect", "tool_calls")
    assert wrong.denials[cause] == {
        "tool_calls": {
            "$not": {"$has": [{"tool": "refund", "args": {"order": {"$not": "A-1042"}}}]}
        }
    }


def test_each_thing_is_found_by_itself_beside_other_claims(tmp_path: Path) -> None:
    text = """
models: {desk: [{handoff: {to: billing, payload: {order: "7"}}}]}
always: {events: {$len: {$gte: 1}}, handoffs: {$len: {$lte: 1}}}
never:
  - {to: billing}
  - {kind: LimitReached}
  - {from: desk, payload: {order: "7"}}
  - {kind: AgentStarted, agent: billing}
  - {kind: RunStarted, twice_with: seed}
"""
    record = converse(subject_of(tmp_path, text), Plan((TurnPlan(),)))

    assert [cause.detail for cause in record.causes] == ["never.0", "never.2", "never.3"]


MISTAKES = {
    "never: [{args: {a: 1}}]": "must be an event (`kind`), a tool call (`tool`) or a handoff",
    "never: refund": "must be a list",
    "never: [refund]": "must be an event (`kind`), a tool call (`tool`) or a handoff",
    "never: []": "must not be empty",
    "never: [{kind: ToolCaled}]": "unknown event `ToolCaled`",
    "never: [{kind: LimitReached}, {tool: lok}]": "unknown tool `lok`",
    "never: [{tool: look, twice_with: arg}]": "unknown field of a tool call `arg`",
    "never: [{tool: look, twice_with: []}]": "`$unique` takes",
    "never: [{to: biling, twice_with: payload}]": "unknown agent `biling`",
    "always: {events: [{kind: ToolCaled}]}\nnever: [{kind: LimitReached}]": "`ToolCaled`",
    "users: {u: {says: Hi, persona: {a: 1}}}\nnever: [{tool: look, args: '${persona.a}', "
    "twice_with: args}]": "a whole conversation may have several users, so it has no persona",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_at_its_place(mistake: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as problem:
        subject_of(tmp_path, mistake + "\n")

    assert MISTAKES[mistake] in str(problem.value)
    first = (DESK + "\n").count("\n")
    line = int(problem.value.where.split(":")[1])
    assert line - first in range(mistake.count("\n") + 1)
    wrong = "always" if mistake.startswith("always") else "never"
    assert problem.value.at.startswith(wrong)


SHARING = """
from openai import OpenAI

client = OpenAI(api_key="sk-test")


class Desk:
    notes = []

    def answer(self, text):
        self.notes.append(text)
        system = f"You are the desk. Notes: {'; '.join(self.notes)}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        reply = client.chat.completions.create(model="gpt-5-mini", messages=messages)
        return reply.choices[0].message.content
"""
SIMULATION = """
version: 1
simulation: the desk
pipeline: sharing_desk:Desk
app: {path: [.], fresh: true}
agents: {desk: {system: {$starts: You are the desk.}}}
users: {u: {says: [Hi., Yo.], sessions: 2}}
"""


@pytest.mark.slow
def test_words_of_another_session_are_found_and_the_scenario_shows_them(tmp_path: Path) -> None:
    (tmp_path / "sharing_desk.py").write_text(SHARING, encoding="utf-8")
    subject = subject_of(tmp_path, SIMULATION, pipeline="")

    campaign = run_campaign("desk", subject, Bounds(runs=15))

    discoveries = labels(campaign)
    assert [*discoveries] == ["STA-08"]
    # A new process shows it, too: it is no state of earlier conversations.
    assert discoveries["STA-08"].is_alone
    file = tmp_path / "a.scenario.yaml"
    file.write_text(scenario_text(discoveries["STA-08"], subject, tmp_path, "c"), encoding="utf-8")
    assert shows(file, discoveries["STA-08"].cause)


def test_sessions_of_a_declared_pipeline_that_share_nothing_are_no_finding(tmp_path: Path) -> None:
    users = "users: {u: {says: [Hi., Yo.], sessions: 2}}\nmodels: {desk: Hello.}\n"
    subject = subject_of(tmp_path, users)

    record = converse(subject, Plan((TurnPlan(user=0), TurnPlan(user=1), TurnPlan(user=2))))

    assert len({turn["session"] for turn in record.turns}) == 2
    assert record.causes == {}
