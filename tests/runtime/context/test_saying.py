"""What sections say, and what they read and do not show, on roots made by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from pydantic import TypeAdapter

from simkit.core.messages import Message
from simkit.runtime.context.assembly import Assembly
from simkit.runtime.context.history import Slice
from simkit.runtime.context.rendering import chars_over_four
from simkit.spec.pipeline.recipe import Recipe
from simkit.trace.events import InlinePart, LeftOut, Shortened, Unshown
from tests.building import message_lines, run_yaml


class NoSources:
    """A run that nothing was said before."""

    def history(self, place: int, omit: str) -> Slice | None:
        return None

    def summarised(self, agent: str, place: int, slice_: Slice) -> Message | None:
        return None

    current: tuple[Message, int, int] = (Message("user", "Hi", "m1"), 1, 1)


class Built(NamedTuple):
    messages: list[str]
    left_out: tuple[Unshown, ...]


def built(*recipe: Any, **known: Any) -> Built:
    """What a recipe makes of a root."""
    root = {"state": {}, "user": "Hi", "handoff": None, "agent": "me", "run": None, "input": None,
            "now": datetime(2026, 1, 5, tzinfo=UTC).isoformat(), **known}  # fmt: skip
    sections: Recipe = TypeAdapter(Recipe).validate_python(list(recipe))
    assembly = Assembly("me", "Help.", sections, chars_over_four, lambda name: len)
    result = assembly.build(root, NoSources())
    messages = [part.message for part in result.parts if isinstance(part, InlinePart)]
    assert result.tokens == sum(chars_over_four(message.content) for message in messages)
    return Built(message_lines(messages), result.left_out)


UPSTREAM = {
    "classify": {"output": {"decision": "create"}, "tool_calls": [], "decision": "create"},
    "search": {"output": "Found 3 files", "tool_calls": [{"tool": "look", "result": ["a.py"]}]},
}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"upstream": {}},
         'system: {"classify":{"output":{"decision":"create"},"tool_calls":[],"decision":"create"},'
         '"search":{"output":"Found 3 files","tool_calls":[{"tool":"look","result":["a.py"]}]}}'),
        ({"upstream": {"format": "${upstream.classify.decision}", "role": "user"}}, "user: create"),
        ({"input": {}}, 'user: {"request":"analyse code"}'),
        ({"input": {"role": "system", "preview": {"request": 7}}},
         'system: {"request":"analyse"}'),
        ({"task": {}}, "user: Fetch the data"),
        ({"task": {"title": "Your task:"}}, "user: Your task:\nFetch the data"),
    ],
)  # fmt: skip
def test_sections_of_graphs_and_supervisors_say_what_led_to_the_run(
    section: dict[str, Any], message: str
) -> None:
    known = {"upstream": UPSTREAM, "input": {"request": "analyse code"}, "task": "Fetch the data"}

    assert built(section, **known).messages == [message]


@pytest.mark.parametrize("section", ["upstream", "input", "task"])
@pytest.mark.parametrize("known", [{}, {"upstream": {}, "input": None, "task": None}])
def test_sections_of_graphs_and_supervisors_make_nothing_elsewhere(
    section: str, known: dict[str, Any]
) -> None:
    assert built(section, **known) == ([], ())


def test_preview_of_upstream_is_told_with_its_path() -> None:
    result = built({"upstream": {"preview": {"search.output": 5}}}, upstream=UPSTREAM)

    assert '"output":"Found","tool_calls"' in result.messages[0]
    assert result.left_out == (
        Shortened("upstream", "preview", path="search.output", characters=8),
    )


ROWS = {"data": [{"name": f"product {n}", "note": "n" * 20} for n in range(9)], "total": 9}


def test_a_budget_cuts_a_shared_value_which_stays_json() -> None:
    result = built(
        {"shared": {"from": "result", "tokens": 32, "fields": {"rows": "data", "total": "total"}}},
        state={"result": ROWS},
    )

    assert result == (
        [
            'system: {"rows":[{"name":"product 0","note":"nnnnnnnnnnnnnnnnnnnn"},'
            '{"name":"product 1","note":"nnnnnnnnnnnnnnnnnnnn"}],"total":9}'
        ],
        (Shortened("shared", "tokens", "result", "rows", items=7),),
    )


def test_a_shared_value_of_which_nothing_fits_is_told_as_a_whole() -> None:
    result = built({"shared": {"from": "result", "tokens": 1}}, state={"result": {"a": 1, "b": 2}})

    assert result == ([], (Shortened("shared", "tokens", "result", "", characters=13),))


def test_a_shared_text_is_cut_as_a_text() -> None:
    result = built({"shared": {"from": "result", "tokens": 5}}, state={"result": "x" * 30})

    assert result == (
        [f"system: {'x' * 16}"],
        (Shortened("shared", "tokens", "result", "", characters=14),),
    )


def test_what_one_shared_message_leaves_out_is_told_section_by_section() -> None:
    result = built(
        [
            "instructions",
            {"recall": {"from": "items", "max": 1, "preview": {"text": 2}}},
            {"previous_agents": {"truncate": 4}},
        ],
        state={
            "items": [{"text": "first"}, {"text": "second"}],
            "agent_outputs": {"coach": {"reply": "A long reply"}},
        },
    )

    assert result == (
        ["system/me: Help.\n\n- se\n\n# Context from Previous Agents\n## coach:\nA lo"],
        (
            LeftOut("recall", "items", "max", ((0, 1),)),
            Shortened("recall", "preview", "items", "[1].text", characters=4),
            Shortened("previous_agents", "truncate", "agent_outputs", "coach", characters=8),
        ),
    )


def test_a_section_whose_condition_does_not_hold_reads_nothing() -> None:
    section = {"recall": {"from": "items", "max": 0, "when": {"user": "Bye"}}}

    assert built(section, state={"items": ["a"]}) == ([], (Shortened("recall", "when"),))


def test_a_form_of_its_own_does_not_hide_what_was_left_out() -> None:
    section = {"recall": {"from": "items", "max": 1, "format": "Known: ${state.items[0]}"}}

    assert built(section, state={"items": ["a", "b"]}) == (
        ["system: Known: a"],
        (LeftOut("recall", "items", "max", ((0, 1),)),),
    )


def test_shared_context_is_displayed_as_reference_system_3_displays_it() -> None:
    ran = run_yaml(
        """
channels: {agent_results: {reducer: merge}}
agents:
  analysis_agent:
    instructions: Use database_agent_output in your analysis tools.
    context:
      - - instructions
        - shared:
            from: agent_results
            as: json
            title: "CONTEXT DATA (use this in your tool calls):"
            after: |-
              The context contains structured data from previous steps.
              You can reference fields from this data when calling tools.
      - current_message
flow: {handoffs: {start: analysis_agent}}
""",
        """
given: {state: {agent_results: {database_agent_output: {data: [{sales: 3}]}}}}
turns: [{user: Go, replies: {analysis_agent: Done}}]
""",
    )

    assert message_lines(ran.context("analysis_agent").messages) == [
        """\
system/analysis_agent: Use database_agent_output in your analysis tools.

CONTEXT DATA (use this in your tool calls):
```json
{
  "database_agent_output": {
    "data": [
      {
        "sales": 3
      }
    ]
  }
}
```
The context contains structured data from previous steps.
You can reference fields from this data when calling tools.""",
        "user: Go",
    ]
