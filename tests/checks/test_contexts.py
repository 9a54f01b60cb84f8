"""Claims on contexts: each on a run where it holds, and on the nearest where it does not."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

import msgspec
import pytest

from simkit.trace.events import AnyEvent, ContextBuilt
from tests.building import run_yaml
from tests.checks.judging import (
    FIRST_MEAL,
    HANDOFFS,
    MEALS,
    PARALLEL,
    PIPELINE,
    as_code,
    describe_findings,
    judged,
    text,
    with_claims,
)


@pytest.mark.parametrize(
    "claims",
    [
        "nutrition: {sections: [instructions, history, current_message]}",
        "nutrition: {instructions: [You are a nutrition coach.]}",
        "nutrition: {history: [{user: I ate pizza for lunch}, {assistant: Logged your pizza.}]}",
        "nutrition: {current_message: [{user: And now?}], run: []}",
        "nutrition: {messages: {$len: 4}}",
        "nutrition: {messages: [{role: system}, {$any: true}, {agent: nutrition}, And now?]}",
        "nutrition: {includes: [{user: I ate pizza for lunch}, And now?]}",
        "nutrition: {excludes: [{role: tool}, {$contains: kcal}]}",
        "nutrition: {tools: [log_meal], tokens: {$lt: 50}, settings: {$exact: {}}}",
        "nutrition: {share: {instructions: {$lt: 0.5}, user: {$gt: 0.3}, coach: {$lt: 0.1}}}",
        "nutrition[0]: {tokens: 20}",
        "nutrition[-1]: {tokens: 20}",
        "nutrition[*]: {tokens: 20}",
        '"*": {includes: [And now?]}',
        '"*[0]": {includes: [And now?]}',
        "router: {tools: [], handoffs: []}",
    ],
)
def test_a_claim_that_holds_says_nothing(claims: str) -> None:
    assert describe_findings(MEALS, f"context:\n  {claims}") == ""


def test_the_agents_that_control_may_be_passed_to_are_claimed_beside_the_tools() -> None:
    assert (
        describe_findings(HANDOFFS, "context: {coach: {tools: [], handoffs: [analyst, archivist]}}")
        == ""
    )

    result = describe_findings(HANDOFFS, "context: {coach: {handoffs: [analyst]}}")

    assert result.splitlines()[1:4] == [
        "context.coach.handoffs does not match",
        "at `[analyst]}}`",
        '[1]: wanted nothing, found "archivist"',
    ]


def test_agents_that_a_tool_does_not_name_are_not_observable() -> None:
    def unnamed(event: AnyEvent) -> list[AnyEvent]:
        if not isinstance(event, ContextBuilt):
            return [event]
        return [msgspec.structs.replace(event, handoffs=None)]

    result = describe_findings(HANDOFFS, "context: {coach: {handoffs: []}}", edit=unnamed)

    assert "context.coach.handoffs is not observable: a tool offered passes control" in result


def test_a_section_that_differs_says_where_and_what_was_left_out() -> None:
    result = describe_findings(
        MEALS,
        """
        context:
          nutrition:
            history:
              - user: I ate pizza for lunch
              - {role: tool, content: {$contains: kcal}}
              - assistant: Logged your pizza.
    """,
    )

    assert result == text("""
        claim E [turn 2, nutrition, call 0]
        context.nutrition.history does not match
        at `{role: tool, content: {$contains: kcal}}`
        [1]: wanted {role: "tool", content: {$contains: "kcal"}}, found nothing
          note: 3 wanted, 2 found
        | section history holds 2 messages:
        |   [0] user (turn 1): I ate pizza for lunch
        |   [1] assistant nutrition (turn 1): Logged your pizza.
        | what [1] wants is not shown: tool log_meal of nutrition (turn 1): {"kcal":800} — left out by tool_messages
        | left out by intermediate_ai: 3 messages
        | left out by tool_messages: 1 message
    """)


def test_a_section_that_made_nothing_says_which_did() -> None:
    result = describe_findings(MEALS, "context: {nutrition: {run: [{assistant: Hm}]}}")

    assert result == text("""
        claim E [turn 2, nutrition, call 0]
        context.nutrition.run does not match
        at `{assistant: Hm}]}}`
        [0]: wanted {assistant: "Hm"}, found nothing
          note: 1 wanted, 0 found
        | section run made nothing; those that did: instructions, history, current_message
    """)


def test_sections_that_differ_are_reported_in_their_order() -> None:
    result = describe_findings(
        MEALS, "context: {nutrition: {sections: [instructions, current_message]}}"
    )

    assert result == text("""
        claim E [turn 2, nutrition, call 0]
        context.nutrition.sections does not match
        at `[instructions, current_message]}}`
        [1]: wanted nothing, found "history"
          note: 2 wanted, 3 found
        | left out by intermediate_ai: 3 messages
        | left out by tool_messages: 1 message
    """)


def test_messages_are_the_whole_context_in_order() -> None:
    result = describe_findings(
        MEALS,
        """
        context:
          router:
            messages:
              - system: Choose.
              - user: And now?
    """,
    )

    assert result == text("""
        claim E [turn 2, router, call 0]
        context.router.messages does not match
        at `- system: Choose.`
        [1]: wanted nothing, found {user: "I ate pizza for lunch"}
          note: 2 wanted, 4 found
        [2]: wanted nothing, found {assistant: "Logged your pizza.", agent: "nutrition"}
          note: 2 wanted, 4 found
        | the context holds 4 messages:
        |   [0] system router: Choose.
        |   [1] user (turn 1): I ate pizza for lunch
        |   [2] assistant nutrition (turn 1): Logged your pizza.
        |   [3] user (turn 2): And now?
    """)


def test_of_a_long_context_the_first_messages_and_the_last_are_shown() -> None:
    turns = "".join(
        f"  - user: Question {number}\n"
        f"    replies: {{router: {{json: {{to: nutrition}}}}, nutrition: Answer {number}}}\n"
        for number in range(20)
    )

    result = describe_findings(
        f"turns:\n{turns}    expect:", "context: {router: {messages: {$len: {$lt: 3}}}}"
    )

    assert result == text("""
        claim E [turn 20, router, call 0]
        context.router.messages does not match
        at `{$lt: 3}}}}`
        .: wanted $len: {$lt: 3}, found $len: 40
          note: it is [{system: "Choose.", agent: "router"}, {user: "Question 0"}, {assistant: "Answer 0", agent: "nutrition"}, {user: "Quest…
        | the context holds 40 messages:
        |   [0] system router: Choose.
        |   [1] user (turn 1): Question 0
        |   [2] assistant nutrition (turn 1): Answer 0
        |   [3] user (turn 2): Question 1
        |   [4] assistant nutrition (turn 2): Answer 1
        |   [5] user (turn 3): Question 2
        |   … 33 more
        |   [39] user (turn 20): Question 19
    """)


def test_a_long_message_is_cut() -> None:
    reply = " ".join(["word"] * 100)
    talk = f"""
turns:
  - user: {reply}
    replies: {{router: {{json: {{to: nutrition}}}}, nutrition: Yes.}}
    expect:
"""

    result = describe_findings(talk, "context: {nutrition: {current_message: [Hello]}}")

    assert result == text("""
        claim E [turn 1, nutrition, call 0]
        context.nutrition.current_message does not match
        at `Hello]}}`
        [0]: wanted "Hello", found "word word word word word word word word word word word word word word word word word word "…
        | section current_message holds 1 message:
        |   [0] user (turn 1): word word word word word word word word word word word word word word w…
    """)


def test_a_missing_message_that_a_filter_dropped_is_named() -> None:
    result = describe_findings(
        MEALS,
        """
        context:
          nutrition:
            includes:
              - And now?
              - {role: tool, content: {$contains: kcal}}
    """,
    )

    assert result == text("""
        claim E [turn 2, nutrition, call 0]
        context.nutrition.includes[1] matches no message
        at `{role: tool, content: {$contains: kcal}}`
        | what it wants is not shown: tool log_meal of nutrition (turn 1): {"kcal":800} — left out by tool_messages
        | the context holds 4 messages:
        |   [0] system nutrition: You are a nutrition coach.
        |   [1] user (turn 1): I ate pizza for lunch
        |   [2] assistant nutrition (turn 1): Logged your pizza.
        |   [3] user (turn 2): And now?
        -> Change `tool_messages` in the recipe of 'nutrition', or the claim.
    """)


def test_of_code_the_filter_that_took_a_message_out_is_in_no_recipe() -> None:
    claim = "context: {nutrition: {includes: [{role: tool, content: {$contains: kcal}}]}}"

    result = describe_findings(MEALS, claim, edit=as_code)

    assert result.splitlines()[-1] == (
        "-> Change `tool_messages` that the code applies for 'nutrition', or the claim."
    )


def test_a_missing_message_is_compared_with_the_nearest() -> None:
    result = describe_findings(
        MEALS, "context: {nutrition: {includes: [{user: I ate pasta for lunch}]}}"
    )

    assert result == text("""
        claim E [turn 2, nutrition, call 0]
        context.nutrition.includes[0] matches no message
        at `{user: I ate pasta for lunch}]}}`
        messages[1].content: wanted "I ate pasta for lunch", found "I ate pizza for lunch"
        | the context holds 4 messages:
        |   [0] system nutrition: You are a nutrition coach.
        |   [1] user (turn 1): I ate pizza for lunch
        |   [2] assistant nutrition (turn 1): Logged your pizza.
        |   [3] user (turn 2): And now?
    """)


@pytest.mark.parametrize(
    ("message", "difference"),
    [
        ("{assistant: And now?}", 'messages[3].role: wanted "assistant", found "user"'),
        (
            "{assistant: Logged your pasta.}",
            'messages[2].content: wanted "Logged your pasta.", found "Logged your pizza."',
        ),
    ],
)
def test_what_is_said_in_another_role_is_nearer_than_what_is_not_said(
    message: str, difference: str
) -> None:
    result = describe_findings(MEALS, f"context: {{nutrition: {{includes: [{message}]}}}}")

    assert difference in result


def test_an_excluded_text_is_shown_where_it_stands() -> None:
    result = describe_findings(
        MEALS, "context: {nutrition: {excludes: [{role: tool}, {$contains: pizza}]}}"
    )

    assert result == text("""
        claim E [turn 2, nutrition, call 0]
        context.nutrition.excludes[1] matches a message
        at `{$contains: pizza}]}}`
        | section history shows user (turn 1): I ate pizza for lunch
        -> Filter it out of the history of 'nutrition', or correct the claim.
    """)


def test_an_excluded_text_deep_in_a_message_is_cut_out() -> None:
    talk = f"""
turns:
  - user: {"so " * 60}many calories {"and more " * 30}
    replies: {{router: {{json: {{to: nutrition}}}}, nutrition: Yes.}}
    expect:
"""

    result = describe_findings(talk, "context: {nutrition: {excludes: [{$contains: calories}]}}")

    assert result == text("""
        claim E [turn 1, nutrition, call 0]
        context.nutrition.excludes[0] matches a message
        at `{$contains: calories}]}}`
        | section current_message shows user (turn 1): …so so so so so many calories and more and more and more and more and m…
        -> Remove it from section `current_message` of 'nutrition', or correct the claim.
    """)


def test_excludes_looks_into_instructions_too() -> None:
    result = describe_findings(MEALS, "context: {router: {excludes: [{$contains: Choose}]}}")

    assert result == text("""
        claim E [turn 2, router, call 0]
        context.router.excludes[0] matches a message
        at `{$contains: Choose}]}}`
        | section instructions shows system router: Choose.
        -> Remove it from section `instructions` of 'router', or correct the claim.
    """)


def test_excludes_looks_into_the_arguments_of_calls_too() -> None:
    result = describe_findings(
        FIRST_MEAL, 'context: {"nutrition[1]": {excludes: [{$contains: food}]}}'
    )

    assert result == text("""
        claim E [turn 1, nutrition, call 1]
        context.nutrition[1].excludes[0] matches a message
        at `{$contains: food}]}}`
        | section run shows assistant nutrition (turn 1): log_meal {"food": "pizza"}
        -> It is the run's own message: correct its tools or handoffs, or the claim.
    """)


@pytest.mark.parametrize(
    "claim",
    [
        "includes: [{section: plan}, {section: instructions}]",
        'includes: [\'{"to":"coach"}\', You are a workout coach.]',
        "plan: [{$contains: coach}]",
        "sections: [instructions, plan, current_message]",
        "messages: [{section: instructions}, {user: How was my run?}]",
    ],
)
def test_each_piece_of_a_shared_message_is_a_message_of_its_section(claim: str) -> None:
    assert describe_findings(HANDOFFS, f"context: {{coach: {{{claim}}}}}") == ""


def test_a_piece_of_a_shared_message_can_be_excluded() -> None:
    result = describe_findings(HANDOFFS, "context: {coach: {excludes: [{section: plan}]}}")

    assert result == text("""
        claim E [turn 1, coach, call 0]
        context.coach.excludes[0] matches a message
        at `{section: plan}]}}`
        | section plan shows system coach: {"to":"coach"}
        | it denies or bounds, so it is of all 2 model calls of 'coach' in turn 1; it does not hold of `coach[0]`, `coach[1]`
        -> Remove it from section `plan` of 'coach', or correct the claim.
    """)


def test_what_the_run_said_itself_can_be_excluded_from_its_later_calls() -> None:
    result = describe_findings(
        HANDOFFS, 'context: {"coach[1]": {excludes: [{$contains: rejected}]}}'
    )

    assert result == text("""
        claim E [turn 1, coach, call 1]
        context.coach[1].excludes[0] matches a message
        at `{$contains: rejected}]}}`
        | section run shows tool transfer_to_analyst of coach (turn 1): Handoff to analyst rejected: payload: 'km' is a required property
        -> It is the run's own message: correct its tools or handoffs, or the claim.
    """)


def test_dropped_is_whole_and_in_the_order_of_the_log() -> None:
    holds = describe_findings(
        MEALS,
        """
        context:
          nutrition:
            dropped:
              - {assistant: {to: nutrition}, by: intermediate_ai}
              - {agent: nutrition, calls: [log_meal: {food: pizza}], by: intermediate_ai}
              - {tool: {kcal: 800}, what: message, by: tool_messages}
              - {assistant: {to: nutrition}, by: intermediate_ai, turn: 2}
    """,
    )
    result = describe_findings(
        MEALS,
        """
        context:
          nutrition:
            dropped:
              - {tool: {kcal: 800}, what: message, by: tool_messages}
    """,
    )

    assert holds == ""
    assert result == text(r"""
        claim E [turn 2, nutrition, call 0]
        context.nutrition.dropped does not match
        at `- {tool: {kcal: 800}, what: message, by: tool_messages}`
        [0]: wanted nothing, found {assistant: "{\"to\":\"nutrition\"}", agent: "router", what: "message", by: "intermediate_ai"}
          note: 1 wanted, 4 found
        [1]: wanted nothing, found {assistant: "", agent: "nutrition", calls: [{log_meal: {food: "pizza"}}], what: "message", by: "intermediate_ai"}
          note: 1 wanted, 4 found
        [3]: wanted nothing, found {assistant: "{\"to\":\"nutrition\"}", agent: "router", what: "message", by: "intermediate_ai"}
          note: 1 wanted, 4 found
        | 4 were left out:
        |   [0] assistant router (turn 1): {"to":"nutrition"} — left out by intermediate_ai
        |   [1] assistant nutrition (turn 1): calls log_meal {"food": "pizza"} — left out by intermediate_ai
        |   [2] tool log_meal of nutrition (turn 1): {"kcal":800} — left out by tool_messages
        |   [3] assistant router (turn 2): {"to":"nutrition"} — left out by intermediate_ai
    """)


def test_the_window_drops_too_and_the_omitted_current_message_is_not_listed() -> None:
    talk = """
turns:
  - user: One
    replies: {router: {json: {to: nutrition}}, nutrition: Answer one.}
  - user: Two
    replies: {router: {json: {to: nutrition}}, nutrition: Answer two.}
  - user: Three
    replies: {router: {json: {to: coach}}, coach: Run.}
    expect:
"""

    holds = describe_findings(
        talk,
        """
        context:
          coach:
            dropped: [{user: One, by: window}, {assistant: Answer one., by: window}]
    """,
    )
    result = describe_findings(
        talk,
        """
        context:
          coach:
            dropped: []
            history: [{assistant: Answer one.}, {user: Two}, {assistant: Answer two.}]
    """,
    )

    assert holds == ""
    assert result == text("""
        claim E [turn 3, coach, call 0]
        context.coach.dropped does not match
        at `[]`
        [0]: wanted nothing, found {user: "One", what: "message", by: "window"}
          note: 0 wanted, 2 found
        [1]: wanted nothing, found {assistant: "Answer one.", agent: "nutrition", what: "message", by: "window"}
          note: 0 wanted, 2 found
        | 2 were left out:
        |   [0] user (turn 1): One — left out by window
        |   [1] assistant nutrition (turn 1): Answer one. — left out by window

        claim E [turn 3, coach, call 0]
        context.coach.history does not match
        at `{assistant: Answer one.}, {user: Two}, {assistant: Answer two.}]`
        [0]: wanted {assistant: "Answer one."}, found nothing
          note: 3 wanted, 2 found
        | section history holds 2 messages:
        |   [0] user (turn 2): Two
        |   [1] assistant nutrition (turn 2): Answer two.
        | what [0] wants is not shown: assistant nutrition (turn 1): Answer one. — left out by window
        | left out by window: 2 messages
    """)


def test_tools_tokens_share_and_settings_say_what_was_found() -> None:
    result = describe_findings(
        MEALS,
        """
        context:
          nutrition:
            tools: []
            tokens: {$lt: 5}
            share: {history: 0.1, coach: {$gt: 0}}
            settings: {temperature: 0}
    """,
    )

    assert result == text("""
        claim E [turn 2, nutrition, call 0]
        context.nutrition.tools does not match
        at `[]`
        [0]: wanted nothing, found "log_meal"
          note: 0 wanted, 1 found

        claim E [turn 2, nutrition, call 0]
        context.nutrition.tokens does not match
        at `5}`
        .: wanted $lt: 5, found 20
        | tokens by section: instructions 7, history 11, current_message 2

        claim E [turn 2, nutrition, call 0]
        context.nutrition.share does not match
        at `0.1, coach: {$gt: 0}}`
        history: wanted 0.1, found 0.55
        coach: wanted $gt: 0, found 0.0
        | shares: user 0.40, nutrition 0.60, instructions 0.35, history 0.55, current_message 0.10

        claim E [turn 2, nutrition, call 0]
        context.nutrition.settings does not match
        at `0}`
        temperature: wanted 0, found absent
    """)


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


def test_an_agent_that_was_not_called_is_reported_with_those_that_were() -> None:
    result = describe_findings(MEALS, 'context: {coach: {tokens: 3}, "nutrition[1]": {tokens: 3}}')

    assert result == text("""
        claim E [turn 2, coach]
        agent 'coach' made no model call in turn 2; those that did: router, nutrition
        at `{tokens: 3}, "nutrition[1]": {tokens: 3}}`

        claim E [turn 2, nutrition]
        agent 'nutrition' made 1 model call in turn 2, so there is no [1]: the only one is [0]
        at `{tokens: 3}}`
    """)


def test_an_agent_without_a_model_says_why_it_made_no_call() -> None:
    talk = """
turns:
  - user: hello
    replies: {router: {json: {to: [greeter, counter]}}}
    expect:
"""

    result = describe_findings(talk, "context: {greeter: {tokens: 3}, counter: {tokens: 3}}")

    assert result == text("""
        claim E [turn 1, greeter]
        agent 'greeter' made no model call in turn 1: a `before` rule stood in for its model
        at `{tokens: 3}, counter: {tokens: 3}}`

        claim E [turn 1, counter]
        agent 'counter' made no model call in turn 1: it is a Python function
        at `{tokens: 3}}`
    """)


def test_every_agent_and_every_call_is_held_against_a_star() -> None:
    result = describe_findings(
        FIRST_MEAL, 'context: {"*": {excludes: [{$contains: coach}]}, "nutrition[*]": {run: []}}'
    )

    assert result == text(r"""
        claim E [turn 1, nutrition, call 0]
        context.*.excludes[0] matches a message
        at `{$contains: coach}]}, "nutrition[*]": {run: []}}`
        | section instructions shows system nutrition: You are a nutrition coach.
        -> Remove it from section `instructions` of 'nutrition', or correct the claim.

        claim E [turn 1, nutrition, call 1]
        context.*.excludes[0] matches a message
        at `{$contains: coach}]}, "nutrition[*]": {run: []}}`
        | section instructions shows system nutrition: You are a nutrition coach.
        -> Remove it from section `instructions` of 'nutrition', or correct the claim.

        claim E [turn 1, nutrition, call 1]
        context.nutrition[*].run does not match
        at `[]}}`
        [0]: wanted nothing, found {assistant: "", agent: "nutrition", calls: [{log_meal: {food: "pizza"}}]}
          note: 0 wanted, 2 found
        [1]: wanted nothing, found {tool: "{\"kcal\":800}", agent: "nutrition"}
          note: 0 wanted, 2 found
        | section run holds 2 messages:
        |   [0] assistant nutrition (turn 1): calls log_meal {"food": "pizza"}
        |   [1] tool log_meal of nutrition (turn 1): {"kcal":800}
    """)


def test_a_star_with_a_place_is_that_call_of_every_agent_that_made_it() -> None:
    result = describe_findings(
        FIRST_MEAL, 'context: {"*[1]": {run: []}, "*[2]": {tokens: 3}, "*[-1]": {tokens: {$gt: 1}}}'
    )

    assert result == text(r"""
        claim E [turn 1, nutrition, call 1]
        context.*[1].run does not match
        at `[]}, "*[2]": {tokens: 3}, "*[-1]": {tokens: {$gt: 1}}}`
        [0]: wanted nothing, found {assistant: "", agent: "nutrition", calls: [{log_meal: {food: "pizza"}}]}
          note: 0 wanted, 2 found
        [1]: wanted nothing, found {tool: "{\"kcal\":800}", agent: "nutrition"}
          note: 0 wanted, 2 found
        | section run holds 2 messages:
        |   [0] assistant nutrition (turn 1): calls log_meal {"food": "pizza"}
        |   [1] tool log_meal of nutrition (turn 1): {"kcal":800}

        claim E [turn 1]
        no agent made a model call [2] in turn 1: the first is [0], and nobody made more than 2
        at `{tokens: 3}, "*[-1]": {tokens: {$gt: 1}}}`
    """)


def test_claims_on_a_call_of_the_whole_run_say_its_turn() -> None:
    talk = f"{MEALS.rstrip().removesuffix('expect:').rstrip()}\nexpect:\n"

    result = describe_findings(
        talk + '  context: {"nutrition[0]": {history: [x]}, "nutrition[-1]": {history: {$len: 9}}}'
    )

    assert result == text("""
        claim E [turn 1, nutrition, call 0]
        context.nutrition[0].history does not match
        at `x]}, "nutrition[-1]": {history: {$len: 9}}}`
        [0]: wanted "x", found nothing
          note: 1 wanted, 0 found
        | section history made nothing; those that did: instructions, current_message
        | ran before it in turn 1: router
        | left out by intermediate_ai: 1 message

        claim E [turn 2, nutrition, call 0]
        context.nutrition[-1].history does not match
        at `9}}}`
        .: wanted $len: 9, found $len: 2
          note: it is [{user: "I ate pizza for lunch"}, {assistant: "Logged your pizza.", agent: "nutrition"}]
        | section history holds 2 messages:
        |   [0] user (turn 1): I ate pizza for lunch
        |   [1] assistant nutrition (turn 1): Logged your pizza.
        | left out by intermediate_ai: 3 messages
        | left out by tool_messages: 1 message
    """)


def test_parallel_agents_have_contexts_of_their_own() -> None:
    result = describe_findings(
        PARALLEL, "context: {nutrition: {excludes: [Run.]}, coach: {excludes: [Eat.]}}"
    )

    assert result == ""


RECALLING = """
channels: {items: {reducer: append}, facts: {scope: session}}
agents:
  a:
    context:
      - instructions
      - recall: {tags: [x], max: 1}
      - shared: {from: facts, tokens: 6}
      - current_message
flow: {handoffs: {start: a}}
"""
RECALLED = """
given:
  state:
    items: [{text: Untagged, kind: odd}, {text: Old, tags: [x]}, {text: New, tags: [x]}]
    facts: {rows: [1000, 2000, 3000, 4000]}
turns:
  - user: Hi
    replies: {a: Hello}
    expect:
"""


def recalled(claims: str) -> str:
    """What is found when these claims are made on what a section of items leaves out."""
    ran = run_yaml(RECALLING, f"{RECALLED}      context: {{a: {{{claims}}}}}")
    return "\n".join(
        line for finding in ran.judgement.findings for line in (finding.what, *finding.context)
    )


@pytest.mark.parametrize(
    "claim",
    [
        """left_out: [
            {section: recall, channel: items, text: Untagged, kind: odd, by: tags},
            {section: recall, channel: items, text: Old, by: max},
            {section: shared, channel: facts, path: rows, by: tokens, items: 2},
        ]""",
        "left_out: {$len: 3}",
        "left_out: {$has: [{text: Old}]}",
        "left_out: {$each: {section: {$in: [recall, shared]}}}",
    ],
)
def test_what_sections_left_out_is_claimed_as_a_whole_list(claim: str) -> None:
    assert recalled(claim) == ""


@pytest.mark.parametrize(
    ("agent", "says"),
    [("router", "nothing was left out"), ("nutrition", "4 were left out:")],
)
def test_how_many_messages_were_left_out_is_said(agent: str, says: str) -> None:
    result = describe_findings(MEALS, f"context: {{{agent}: {{dropped: {{$len: 3}}}}}}")

    assert f"| {says}" in result.splitlines()


def test_another_list_of_what_was_left_out_is_told_with_all_that_was() -> None:
    assert (
        recalled("left_out: [{text: Untagged, by: max}]")
        == """\
context.a.left_out does not match
3 were left out:
  [0] recall of channel items, by tags: Untagged
  [1] recall of channel items, by max: Old
  [2] shared of channel facts, by tokens: 2 items at the end of rows"""
    )


def test_a_section_of_items_that_differs_says_how_many_were_left_out() -> None:
    assert (
        recalled("recall: [{$contains: Old}]")
        == """\
context.a.recall does not match
section recall holds 1 message:
  [0] system: - New
left out by tags: 1 of items (session)
left out by max: 1 of items (session)"""
    )


def test_a_text_that_was_left_out_is_told_where_it_is_missed() -> None:
    assert (
        recalled("includes: [{$contains: Untagged}]")
        == """\
context.a.includes[0] matches no message
what it wants is not shown: recall of channel items, by tags: Untagged
the context holds 3 messages:
  [0] system: - New
  [1] system: {"rows":[1000,2000]}
  [2] user (turn 1): Hi"""
    )
