"""Claims on contexts: each on a run where it holds, and on the nearest where it does not."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import msgspec
import pytest

from simkit.trace.events import AnyEvent, ContextBuilt
from tests.adapters.running import run_app
from tests.checks.judging import HANDOFFS, MEALS, PIPELINE, describe_findings, judged, with_claims


def test_agents_that_a_tool_does_not_name_are_not_observable() -> None:
    def unnamed(event: AnyEvent) -> list[AnyEvent]:
        if not isinstance(event, ContextBuilt):
            return [event]
        return [msgspec.structs.replace(event, handoffs=None)]

    result = describe_findings(HANDOFFS, "context: {coach: {handoffs: []}}", edit=unnamed)

    assert "context.coach.handoffs is not observable: a tool offered passes control" in result


def test_a_history_in_one_message_is_nobodys_share() -> None:
    pipeline = PIPELINE.replace("{window: {messages: 2}}", "{as: text, name: older}")
    talk = MEALS.replace(
        "to: nutrition}}\n      nutrition: Nothing", "to: coach}}\n      coach: Nothing"
    )
    claimed = with_claims(talk, "context: {coach: {share: {older: {$gt: 0.2}, user: {$lt: 0.2}}}}")

    _, output = judged(claimed, pipeline=pipeline)
    _, apart = judged(claimed, pipeline=pipeline.replace("as: text, ", ""))

    assert output.findings == ()
    assert [finding.differences[0].at for finding in apart.findings] == ["user"]


@pytest.mark.parametrize(("number", "is_told"), [(0, True), (1, False)])
def test_code_that_keeps_no_conversation_is_told_so(
    number: int, is_told: bool, tmp_path: Path
) -> None:
    code = f"""
        from openai import OpenAI

        client, past = OpenAI(), []

        def run(text):
            messages = [*past, {{"role": "user", "content": text}}]
            answer = client.chat.completions.create(model="gpt-5", messages=messages)
            past[:] = messages[len(messages) - {number}:]
            return answer.choices[0].message.content
        """
    (tmp_path / f"kept_{number}.py").write_text(dedent(code), encoding="utf-8")
    scenario = """
        agents: {desk: {model: gpt-5}}
        turns:
          - {user: Order A-17, replies: {desk: ok}}
          - {user: Hm, replies: {desk: ok}}
          - user: And now?
            replies: {desk: ok}
            expect: {context: {desk: {includes: [{$contains: A-17}]}}}
        """

    ran = run_app(f"kept_{number}:run", scenario, tmp_path)

    (finding,) = [each for each in ran.judgement.findings if each.id == "claim"]
    assert ("no agent is sent anything of an earlier turn" in str(finding)) is is_told
