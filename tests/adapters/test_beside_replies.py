"""What reply lines say beside text and calls, as code gets it and as judges see it."""

from __future__ import annotations

import pytest

from simkit.core.errors import SourceError
from simkit.core.messages import Usage
from simkit.trace.events import AgentFinished, ModelReplied
from tests.adapters.running import check_app, run_app
from tests.building import Ran, run_yaml

LOOKS = "{calls: [look: {}], thinking: {text: I must look it up., signature: c2ln}}"


def turn(*lines: str, expect: str = "{}") -> str:
    return f"""
agents: {{desk: {{system: You help.}}}}
turns:
  - user: Is it sunny?
    replies: {{desk: [{", ".join(lines)}]}}
    expect: {expect}
"""


def failed(desk: str, *lines: str) -> str:
    """Why a scenario cannot be run as it is written."""
    with pytest.raises(SourceError) as caught:
        run_app(f"thinking_desk:{desk}", turn(*lines))
    return str(caught.value)


def findings(ran: Ran) -> list[str]:
    return [finding.what for finding in ran.judgement.findings]


# Thinking


def test_thinking_that_is_sent_back_is_claimed_as_thinking() -> None:
    claims = """
      reply: "Yes."
      context:
        desk[1]:
          messages:
            - {role: system}
            - {user: Is it sunny?}
            - {role: assistant, content: "", thinking: I must look it up., calls: {$len: 1}}
            - {tool: sunny}
          excludes: [{assistant: {$contains: look it up}}]
      events: {$has: [{kind: ModelReplied, thinking: I must look it up.}]}
"""

    ran = run_app("thinking_desk:keeps", turn(LOOKS, "Yes.", expect=claims))

    assert findings(ran) == []


def test_thinking_that_is_not_sent_back_is_not_in_the_context() -> None:
    claim = '{context: {"desk[1]": {includes: [{role: assistant, thinking: {$contains: look}}]}}}'

    texts = findings(run_app("thinking_desk:drops", turn(LOOKS, "Yes.", expect=claim)))

    assert len(texts) == 1
    assert "includes" in texts[0]


def test_what_a_context_must_not_hold_is_looked_for_in_its_thinking_too() -> None:
    claim = "{context: {desk: {excludes: [{$contains: look it up}]}}}"

    assert findings(run_app("thinking_desk:drops", turn(LOOKS, "Yes.", expect=claim))) == []
    assert len(findings(run_app("thinking_desk:keeps", turn(LOOKS, "Yes.", expect=claim)))) == 1


def test_who_thought_is_the_author_of_what_comes_back_with_its_thinking() -> None:
    ran = run_app("thinking_desk:keeps", turn(LOOKS, "Yes."))

    context = ran.view.calls["c2"].context
    assert [m.agent for m in context.messages if m.role == "assistant"] == ["desk"]
    assert [f.id for f in ran.judgement.warnings] == []


def test_a_run_puts_out_its_text_and_not_what_was_thought() -> None:
    ran = run_app("thinking_desk:keeps", turn("{text: Yes., thinking: Sure.}"))

    assert [event.output for event in ran.events(AgentFinished)] == ["Yes."]


def test_a_request_that_goes_on_from_a_response_has_its_thinking() -> None:
    claim = '{context: {"desk[1]": {includes: [{role: assistant, thinking: Easy.}]}}}'

    check_app("thinking_desk:goes_on", turn("{text: Yes., thinking: Easy.}", "Very.", expect=claim))


# Tokens


def test_tokens_are_reported_as_the_line_says_them() -> None:
    ran = run_app(
        "thinking_desk:keeps",
        turn("{text: Yes., thinking: Sure., usage: {input_tokens: 90, cached_tokens: 60}}"),
    )

    assert [event.usage for event in ran.events(ModelReplied)] == [
        Usage(90, None, 60, None, reasoning_tokens=2)
    ]


# Probabilities, citations, raw


def test_probabilities_reach_the_code_that_asks_for_them() -> None:
    line = "{text: Yes., logprobs: [{Yes: -0.25, No: -1.5}, {.: -0.01}]}"

    check_app("thinking_desk:sure", turn(line, expect='{reply: "Yes: -0.25"}'))


def test_probabilities_that_the_code_no_longer_asks_for_are_a_finding() -> None:
    ran = run_app(
        "thinking_desk:unsure", turn("{text: Yes., logprobs: [{Yes.: -0.25}]}"), fits=False
    )

    assert any(
        "turns[0].replies.desk[0].logprobs cannot be served to 'desk' over openai-chat: logprobs: "
        "the request does not ask for them, with `logprobs: true`." in text
        for text in findings(ran)
    )


def test_raw_is_merged_into_the_response() -> None:
    check_app(
        "thinking_desk:marked",
        turn("{text: Yes., raw: {system_fingerprint: fp_1}}", expect="{reply: fp_1}"),
    )


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("{choices: [{message: {content: No.}}]}", "text"),
        ("{choices: [{message: {tool_calls: [{id: c, type: function, "
         "function: {name: a, arguments: '{}'}}]}}]}", "calls"),
    ],
)  # fmt: skip
def test_raw_that_changes_what_the_line_says_is_refused(raw: str, problem: str) -> None:
    assert (
        f"turns[0].replies.desk[0].raw changes the reply's {problem} in the words of openai-chat. "
        f"Write `{problem}:`; `raw` is for what has no word."
    ) in failed("unsure", f"{{text: Yes., raw: {raw}}}")


def test_raw_that_makes_no_response_is_refused() -> None:
    text = failed("unsure", "{text: Yes., raw: {choices: 3}}")

    assert (
        "replies.desk[0].raw cannot be served to 'desk' over openai-chat: raw.choices: is a "
        in text
    )


def test_a_word_that_a_provider_has_not_is_refused_at_its_place() -> None:
    text = failed("keeps", "{text: Yes., logprobs: [{Yes.: -0.25}]}")

    assert (
        "turns[0].replies.desk[0].logprobs cannot be served to 'desk' over anthropic: logprobs: "
        "Anthropic's messages have no probabilities."
    ) in text
    assert "test.scenario.yaml:8:45:" in text


# Declared pipelines

PIPELINE = """
agents:
  ann: {instructions: Answer., writes: {counted: "${run.usage}"}}
  bob: {instructions: Sum up.}
channels: {messages: {reducer: append}, counted: {}}
flow: {handoffs: {start: ann}}
contracts: [{from: ann, to: bob, mode: delegate}]
"""


def test_a_declared_agents_thinking_is_told_and_shown_to_nobody() -> None:
    ran = run_yaml(
        PIPELINE.replace("ann: {", "ann: {handoffs: [bob], "),
        """
turns:
  - user: Hello
    replies:
      ann:
        - {handoff: {to: bob, query: Go.}, thinking: Bob knows., usage: {cached_tokens: 4}}
        - {text: Done., usage: {output_tokens: 5, reasoning_tokens: 3}}
      bob: {text: Summed up., thinking: Short.}
    expect:
      context: {"*": {excludes: [{$contains: knows}, {$contains: Short}]}}
      events:
        $in_order:
          - {kind: ModelReplied, thinking: Bob knows.}
          - {kind: ModelReplied, thinking: Short.}
      state: {counted: {cached_tokens: 4, output_tokens: 5, reasoning_tokens: 3}}
""",
    )

    assert findings(ran) == []
