"""Recipes at work: sections in order become the messages of one context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.core.messages import Answer
from simkit.runtime.context.rendering import chars_over_four
from simkit.runtime.models.script import ScriptedModel
from simkit.runtime.ports import ModelRequest
from simkit.session.simulate import run
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.files import Library, items_in, scenario_files
from simkit.trace.events import ContextBuilt, InlinePart
from simkit.trace.views import ContextView, view_of
from tests.building import message_lines, prepared, run_yaml


def context_of(recipe: str, given: str = "{}", user: str = "Hi", extra: str = "") -> ContextView:
    """What `helper` is sent in its second turn, with this recipe."""
    ran = run_yaml(
        f"""
version: 1
pipeline: p
channels: {{facts: {{}}, items: {{reducer: append}}}}
agents:
  helper:
    instructions: Help ${{state.facts.name}}.
    context: {recipe}
    {extra}
flow: {{handoffs: {{start: helper}}}}
""",
        f"""
given: {{state: {given}}}
turns:
  - {{user: First, replies: {{helper: Hello}}}}
  - {{user: {user}, replies: {{helper: Bye}}}}
""",
    )
    return ran.context("helper")


FACTS = "{facts: {name: Ada, deep: {list: [1, 2]}}}"


def test_default_recipe_is_instructions_handoff_history_and_current_message() -> None:
    ran = run_yaml(
        """
agents: {helper: {instructions: Help.}}
flow: {handoffs: {start: helper}}
""",
        "turns:\n  - {user: A, replies: {helper: B}}\n  - {user: C, replies: {helper: D}}",
    )
    context = ran.context("helper")

    assert message_lines(context.messages) == [
        "system/helper: Help.", "user: A", "assistant/helper: B", "user: C",
    ]  # fmt: skip
    assert context.sections == ["instructions", "history", "current_message"]
    assert [m.section for m in context.messages] == [
        "instructions", "history", "history", "current_message",
    ]  # fmt: skip


def test_sections_stand_in_the_order_of_the_recipe() -> None:
    context = context_of("[current_message, history, instructions]", FACTS)

    assert message_lines(context.messages) == [
        "user: Hi", "user: First", "assistant/helper: Hello", "system/helper: Help Ada.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{shared: {from: facts}}", 'system: {"name":"Ada","deep":{"list":[1,2]}}'),
        ("{shared: {from: items}}", None),
        ("{shared: {from: facts, role: assistant}}",
         'assistant: {"name":"Ada","deep":{"list":[1,2]}}'),
        ("{shared: {from: facts, title: Known facts, after: That is all.}}",
         'system: Known facts\n{"name":"Ada","deep":{"list":[1,2]}}\nThat is all.'),
        ("{shared: {from: facts, format: 'Name: ${state.facts.name}, said: ${user}'}}",
         "system: Name: Ada, said: Hi"),
        ("{shared: {from: facts, format: '${state.facts.deep}', title: T}}",
         'system: T\n{"list":[1,2]}'),
        ("{shared: {from: facts, as: text}}", 'user: {"name":"Ada","deep":{"list":[1,2]}}'),
        ("{shared: {from: facts, as: json, fields: {name: name}}}",
         'user: ```json\n{\n  "name": "Ada"\n}\n```'),
        ("{shared: {from: facts, as: json, role: system, preview: {deep: 1}, title: T, after: E}}",
         'system: T\n```json\n{\n  "name": "Ada",\n  "deep": "{"\n}\n```\nE'),
        ("{shared: {from: items, as: json}}", None),
        ("{shared: {from: facts, fields: {who: name, second: 'deep.list[1]', no: name.x}}}",
         'system: {"who":"Ada","second":2}'),
        ("{shared: {from: facts, fields: {who: name}, preview: {name: 2}}}",
         'system: {"who":"Ad"}'),
        ("{shared: {from: facts, fields: {no: nowhere}}}", None),
        ("{shared: {from: facts, tokens: 9}}", 'system: {"name":"Ada","deep":{"list":[1,2]}}'),
        ("{shared: {from: facts, tokens: 10, as: json}}", None),
        ("{shared: {from: facts, tokens: 8}}", None),
        ("{shared: {from: facts, preview: {name: 2}}}",
         'system: {"name":"Ad","deep":{"list":[1,2]}}'),
        ("{shared: {from: facts, preview: {deep.list: 3, no.such: 1}}}",
         'system: {"name":"Ada","deep":{"list":"[1,"}}'),
        ("{shared: {from: facts, when: {state.facts.name: Ada}}}",
         'system: {"name":"Ada","deep":{"list":[1,2]}}'),
        ("{shared: {from: facts, when: {state.facts.name: Bob}}}", None),
        ("{shared: {from: facts, when: {agent: helper, user: Hi, handoff: null, run: null}}}",
         'system: {"name":"Ada","deep":{"list":[1,2]}}'),
        ("{shared: {from: items, title: Nothing here, after: End}}", None),
        ("handoff", None),
        ("task", None),
        ("{facts_of_mine: {function: 'tests.functions:summary_of_state'}}",
         'system: {"agent":"helper","facts":{"name":"Ada","deep":{"list":[1,2]}}}'),
        ("{facts_of_mine: {function: 'tests.functions:summary_of_state', role: user, title: T}}",
         'user: T\n{"agent":"helper","facts":{"name":"Ada","deep":{"list":[1,2]}}}'),
        ("{mine: {function: 'tests.functions:no_section', title: T}}", None),
        ("{current_message: {title: The user says}}", "user: The user says\nHi"),
        ("{current_message: {role: system, format: '<${user}>'}}", "system: <Hi>"),
        ("{instructions: {after: Be brief.}}", "system/helper: Help Ada.\nBe brief."),
        ("{instructions: {role: user}}", "user/helper: Help Ada."),
        ("{instructions: {as: text}}", "user/helper: Help Ada."),
    ],
)  # fmt: skip
def test_section_makes_this_message_or_none(section: str, message: str | None) -> None:
    context = context_of(f"[{section}]", FACTS)

    assert message_lines(context.messages) == ([] if message is None else [message])
    assert len(context.sections) == (0 if message is None else 1)


def test_section_named_twice_is_told_apart_by_its_name() -> None:
    context = context_of(
        "[{shared: {from: facts, name: one}}, {shared: {from: facts, name: two, title: T}}]",
        "{facts: {name: Ada}}",
    )

    assert context.sections == ["one", "two"]
    assert message_lines(context.section("two")) == ['system: T\n{"name":"Ada"}']
    assert message_lines(context.section("shared")) == []


HISTORY_TEXT = "User: First\nAI: Hello"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{as: text}", f"user: {HISTORY_TEXT}"),
        ("{as: text, role: system}", f"system: {HISTORY_TEXT}"),
        ("{as: text, title: So far, after: Now answer.}",
         f"user: So far\n{HISTORY_TEXT}\nNow answer."),
        ("{as: json}",
         'user: [{"role":"user","content":"First"},{"role":"assistant","content":"Hello"}]'),
    ],
)  # fmt: skip
def test_history_is_one_message_of_the_user_as_text_or_json(options: str, message: str) -> None:
    context = context_of(f"[instructions, {{history: {options}}}, current_message]", FACTS)

    assert message_lines(context.section("history")) == [message]
    assert context.sections == ["instructions", "history", "current_message"]


@pytest.mark.parametrize("key", ["title", "after"])
def test_history_with_words_around_it_is_one_text(key: str) -> None:
    context = context_of(f"[{{history: {{{key}: Around}}}}, current_message]", FACTS)
    text = f"Around\n{HISTORY_TEXT}" if key == "title" else f"{HISTORY_TEXT}\nAround"

    assert [message.content for message in context.section("history")] == [text]


def test_history_that_is_empty_makes_no_text_either() -> None:
    ran = run_yaml(
        """
agents:
  helper: {instructions: H., context: [{history: {as: text, title: So far}}, current_message]}
flow: {handoffs: {start: helper}}
""",
        "turns:\n  - {user: A, replies: {helper: B}}",
    )

    assert ran.context("helper").sections == ["current_message"]


def test_nested_list_is_one_message_whose_sections_keep_their_parts() -> None:
    context = context_of(
        "[[instructions, {shared: {from: facts, title: Facts}}, {shared: {from: items, name: no}}],"
        " history, current_message]",
        "{facts: {name: Ada}}",
    )

    assert message_lines(context.messages) == [
        'system/helper: Help Ada.\n\nFacts\n{"name":"Ada"}',
        "user: First",
        "assistant/helper: Hello",
        "user: Hi",
    ]
    assert context.sections == ["instructions", "shared", "history", "current_message"]
    assert [m.content for m in context.section("instructions")] == ["Help Ada."]
    assert [(m.content, m.section, m.role) for m in context.section("shared")] == [
        ('Facts\n{"name":"Ada"}', "shared", "system")
    ]
    assert list(context.section("no")) == []


def test_nested_message_has_the_role_of_the_first_section() -> None:
    context = context_of("[[{shared: {from: facts, role: user}}, instructions]]", FACTS)

    assert [m.role for m in context.messages] == ["user"]


def test_history_inside_a_nested_message_is_text_and_still_tells_what_it_drops() -> None:
    context = context_of(
        "[[instructions, {history: {window: {messages: 1}, title: So far}}, current_message]]",
        "{facts: {name: Ada}}",
    )

    assert message_lines(context.messages) == [
        "system/helper: Help Ada.\n\nSo far\nAI: Hello\n\nHi"
    ]
    assert context.sections == ["instructions", "history", "current_message"]
    assert [m.content for m in context.section("history")] == ["So far\nAI: Hello"]
    assert [(d.message.content, d.by) for d in context.dropped()] == [("First", "window")]
    assert context.messages[0].id == "m3"  # the logged message that one of its pieces shows


def test_nested_list_whose_sections_are_all_empty_makes_no_message() -> None:
    context = context_of("[[handoff, {shared: {from: items}}], current_message]", FACTS)

    assert context.sections == ["current_message"]


def test_tokens_of_a_context_are_those_of_its_messages() -> None:
    context = context_of(
        "[[instructions, {shared: {from: facts}}], history, current_message]", FACTS, "A question"
    )

    counted = sum(chars_over_four(m.content) for m in context.messages)
    assert context.tokens == counted
    assert sum(tokens for _, _, tokens in context.weights()) in (counted, counted - 1)


def test_user_value_is_shown_as_json_and_kept_as_a_value() -> None:
    context = context_of("[history, current_message]", user="{json: {meal: [pizza, 2]}}")
    (message,) = context.section("current_message")

    assert message.content == '{"meal":["pizza",2]}'
    assert message.data == {"meal": ["pizza", 2]}


def test_users_section_gets_copies() -> None:
    ran = run_yaml(
        """
channels: {facts: {}}
agents:
  helper:
    context: [{mine: {function: "tests.functions:meddling_section"}}, current_message]
flow: {handoffs: {start: helper}}
""",
        "given: {state: {facts: {a: 1}}}\nturns:\n  - {user: A, replies: {helper: B}}",
    )

    assert ran.state("facts") == {"a": 1}
    assert ran.runs("helper")[0].received["facts"] == {"a": 1}


def test_users_section_that_raises_ends_the_turn_with_its_name() -> None:
    ran = run_yaml(
        """
agents:
  helper: {context: [{mine: {function: "tests.functions:failing"}}, current_message]}
flow: {handoffs: {start: helper}}
""",
        "turns:\n  - {user: A, replies: {}, expect: {error: {type: FunctionFailed}}}",
    )

    assert ran.error() == (
        "FunctionFailed", "`tests.functions:failing` raised ValueError: out of order",
    )  # fmt: skip
    assert ran.runs("helper")[0].status == "failed"


def test_recipe_is_evaluated_once_a_run_and_what_the_run_says_follows() -> None:
    ran = run_yaml(
        """
agents:
  helper: {instructions: H., tools: [look]}
tools: {look: {}}
flow: {handoffs: {start: helper}}
""",
        """
turns:
  - user: A
    replies: {helper: [{text: Looking, calls: {look: {}}}, {calls: {look: {}}}, Done]}
    tool_results: {look: [one, two]}
""",
    )
    contexts = [call.context for call in ran.calls("helper")]

    assert [message_lines(context.section("run")) for context in contexts] == [
        [],
        ["assistant/helper: Looking [look{}]", "tool/helper: one"],
        [
            "assistant/helper: Looking [look{}]",
            "tool/helper: one",
            "assistant/helper: [look{}]",
            "tool/helper: two",
        ],
    ]
    assert [context.sections for context in contexts] == [
        ["instructions", "current_message"],
        ["instructions", "current_message", "run"],
        ["instructions", "current_message", "run"],
    ]
    assert [context.tokens for context in contexts] == [2, 2 + 2 + 1 + 1 + 1, 7 + 0 + 1 + 1 + 1]


def test_section_that_says_the_same_again_is_told_again() -> None:
    ran = run_yaml(
        "agents: {helper: {instructions: H.}}\nflow: {handoffs: {start: helper}}",
        "turns:\n  - {user: A, replies: {helper: B}}\n  - {user: A, replies: {helper: B}}",
    )
    values: list[Any] = [
        [part.message.content for part in built.parts if isinstance(part, InlinePart)]
        for built in ran.events(ContextBuilt)
    ]

    assert values == [["H.", "A"], ["H.", "A"]]


SCENARIOS = Path(__file__).parents[3] / "scenarios"

RENDERED = """
    agents:
      a:
        instructions: A
        tools: [look]
        context:
          - - instructions
            - history: {title: Said before}
          - history: {name: as_text, as: text}
          - history: {name: brief, window: {rounds: 0, messages: 1}, summary: s}
          - current_message
      s: {instructions: Sum up.}
    flow: {handoffs: {start: a}}
"""
"""Histories in every form: a piece of a message, one text, a summary with what is left."""
TWO_TURNS = """
    turns:
      - user: One
        replies: {a: [{calls: [look: {}]}, First.]}
        tool_results: {look: seen}
      - {user: Two, replies: {a: Second., s: In short.}}
"""


@pytest.mark.slow
def test_the_script_and_the_judges_see_the_same_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs_by_name: dict[str, tuple[list[Any], dict[str, list[Any]]]] = {}
    answer = ScriptedModel.answer

    def noting(model: ScriptedModel, request: ModelRequest) -> Answer:
        sections = {name: list(result) for name, result in request.sections().items() if result}
        pairs_by_name[request.call] = list(request.messages()), sections
        return answer(model, request)

    monkeypatch.setattr(ScriptedModel, "answer", noting)
    library = Library()
    scenarios = [
        library.prepared(item) for file in scenario_files(SCENARIOS) for item in items_in(file)
    ]
    compared = 0
    declared = [item for item in scenarios if isinstance(item.pipeline, Pipeline)]
    for scenario in [*declared, prepared(RENDERED, TWO_TURNS)]:
        pairs_by_name.clear()
        view = view_of(run(scenario).events)
        for call, (messages, sections) in pairs_by_name.items():
            context = view.calls[call].context
            by_name = {name: list(context.section(name)) for name in context.sections}
            compared += 1
            assert (messages, sections) == (list(context.messages), by_name), (
                scenario.item.id,
                call,
            )

    assert compared > 100
