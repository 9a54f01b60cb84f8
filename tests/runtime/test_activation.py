"""One activation of an agent: its model calls, its tools, its function, what it leaves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from simkit.core.errors import SimkitError, SourceError
from simkit.core.messages import Usage
from simkit.providers.failures import FAILURES
from simkit.trace.events import AgentFinished, ModelFailed, ModelReplied, ToolFailed, ToolReturned
from tests.building import Ran, message_lines, run_yaml


def pipeline(agent: str, tools: str = "{}", channels: str = "{x: {}}") -> str:
    return f"""
version: 1
pipeline: p
channels: {channels}
tools: {tools}
agents:
  helper: {agent}
  other: {{instructions: O.}}
flow: {{handoffs: {{start: helper}}}}
"""


def answered(replies: str, results: str = "{}", expect: str = "{}", rest: str = "") -> str:
    return f"""
{rest}
turns:
  - user: Hi
    replies: {replies}
    tool_results: {results}
    expect: {expect}
"""


TOOLS = "{instructions: H., tools: [look, find]}"
BOTH = "{look: {}, find: {}}"


# Replies


def test_text_is_the_output_and_the_final_message() -> None:
    ran = run_yaml(
        pipeline("{writes: {x: '${run}', messages: ['${run.final_message}']}}"),
        answered("{helper: {text: Hello, latency_ms: 20, usage: {input_tokens: 3}}}"),
    )
    run = ran.runs("helper")[0]
    wrote = run.update["x"]

    assert (run.output, run.status, message_lines(run.messages)) == (
        "Hello", "done", ["assistant/helper: Hello"],
    )  # fmt: skip
    assert {key: wrote[key] for key in ("agent", "reply", "output", "took_ms")} == {
        "agent": "helper", "reply": "Hello", "output": "Hello", "took_ms": 20,
    }  # fmt: skip
    assert (
        message_lines([wrote["final_message"], *wrote["messages"]])
        == ["assistant/helper: Hello"] * 2
    )
    assert (wrote["tools_called"], wrote["tool_results"]) == ([], {})
    assert [(e.reply, e.usage, e.at) for e in ran.events(ModelReplied)] == [
        ("text", Usage(input_tokens=3), 20)
    ]


def test_json_is_the_output_and_its_text_the_message() -> None:
    ran = run_yaml(pipeline("{}"), answered("{helper: {json: {a: [1, null]}}}"))
    run = ran.runs("helper")[0]

    assert run.output == {"a": [1, None]}
    assert ran.turn().reply == {"a": [1, None]}
    assert message_lines(run.messages) == ['assistant/helper: {"a":[1,null]}']
    assert run.messages[0].data == {"a": [1, None]}


def test_settings_carry_the_output_schema() -> None:
    ran = run_yaml(
        pipeline("{output: {type: object, required: [a]}}"), answered("{helper: {json: {a: 1}}}")
    )

    assert ran.context("helper").settings == {"output": {"type": "object", "required": ["a"]}}


@pytest.mark.parametrize(
    "name",
    [name for name in FAILURES if name != "malformed_json" and not FAILURES[name].is_wire_only],
)
def test_every_failure_of_the_vocabulary_ends_the_turn_with_its_name(name: str) -> None:
    ran = run_yaml(
        pipeline("{}"),
        answered(
            f"{{helper: {{error: {name}}}}}", expect=f"{{error: {{type: {name}}}, reply: null}}"
        ),
    )
    error = ran.turn().error
    known = FAILURES[name]

    assert error is not None
    assert (error.type, error.message, error.status) == (name, known.message, known.status)
    assert [(e.error, e.status, e.message) for e in ran.events(ModelFailed)] == [
        (name, known.status, known.message)
    ]
    assert [e.status for e in ran.events(AgentFinished)] == ["failed"]
    assert ran.calls("helper")[0].error is not None
    assert ran.judgement.passed


def test_failure_may_be_written_in_detail() -> None:
    ran = run_yaml(
        pipeline("{}"),
        answered(
            "{helper: {error: {status: 418, type: teapot, message: Short and stout}}}",
            expect="{error: {type: teapot, message: Short and stout, status: 418}}",
        ),
    )

    assert ran.judgement.findings == ()


MALFORMED = "{helper: {error: malformed_json}}"


@pytest.mark.parametrize("agent", ["{}", "{parse: text}", "{parse: json_in_text}"])
def test_malformed_json_is_a_text_where_no_json_must_stand(agent: str) -> None:
    ran = run_yaml(pipeline(agent), answered(MALFORMED))

    assert ran.error() is None
    assert ran.turn().reply == '{"value": }'
    assert len(ran.calls("helper")) == 1


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("{parse: json}", "agent 'helper' must answer with JSON, but said: '{\"value\": }'"),
        ("{output: {type: string}}", "the output of agent 'helper' is not valid JSON"),
        (
            "{output: {type: object}}",
            "the output of agent 'helper': '{\"value\": }' is not of type 'object'",
        ),
    ],
)
def test_malformed_json_is_an_error_where_json_must_stand(agent: str, message: str) -> None:
    ran = run_yaml(pipeline(agent), answered(MALFORMED, expect="{error: {type: OutputInvalid}}"))

    assert ran.error() == ("OutputInvalid", message)


# Tools


def test_tools_of_one_message_run_at_once_and_are_heard_in_the_order_asked() -> None:
    ran = run_yaml(
        pipeline(TOOLS, BOTH),
        answered(
            "{helper: [{text: Both., calls: {look: {a: 1}, find: {}}}, Done.]}",
            "{look: {returns: [1], latency_ms: 30}, find: {returns: found, latency_ms: 10}}",
        ),
    )

    assert [(e.tool, e.at, e.result) for e in ran.events(ToolReturned)] == [
        ("find", 10, "found"), ("look", 30, [1]),
    ]  # fmt: skip
    assert message_lines(ran.context("helper", call=1).section("run")) == [
        'assistant/helper: Both. [look{"a":1}] [find{}]', "tool/helper: [1]", "tool/helper: found",
    ]  # fmt: skip
    values = [m for m in ran.view.messages.values() if m.role == "tool"]
    assert [(m.tool, m.call_id, m.data) for m in values] == [
        ("look", "call1", [1]), ("find", "call2", None),
    ]  # fmt: skip
    assert [t.fields()["called_at"] for t in ran.turn().tools] == [0, 0]
    assert [t.tool for t in ran.turn().tools] == ["look", "find"]
    assert ran.calls("helper")[1].at == 30


def test_run_knows_what_its_tools_returned() -> None:
    ran = run_yaml(
        pipeline("{tools: [look, find], writes: {x: '${run}'}}", BOTH),
        answered(
            "{helper: [{calls: [look: {n: 1}, look: {n: 2}]}, {calls: {find: {}}}, Done.]}",
            "{look: [first, second], find: {k: 1}}",
        ),
    )

    assert ran.runs("helper")[0].update["x"]["tools_called"] == ["look", "look", "find"]
    assert ran.runs("helper")[0].update["x"]["tool_results"] == {"look": "second", "find": {"k": 1}}


def test_tools_called_are_in_the_order_of_their_answers() -> None:
    ran = run_yaml(
        pipeline("{tools: [look, find], writes: {x: '${run.tools_called}'}}", BOTH),
        answered(
            "{helper: [{calls: {look: {}, find: {}}}, Done.]}",
            "{look: {returns: 1, latency_ms: 9}, find: 2}",
        ),
    )

    assert ran.state("x") == ["find", "look"]


def test_tool_that_fails_is_told_to_the_model_which_goes_on() -> None:
    ran = run_yaml(
        pipeline("{tools: [look], writes: {x: '${run.tool_results}'}}", "{look: {}}"),
        answered(
            "{helper: [{calls: {look: {}}}, Never mind.]}", "{look: {error: The shelf is empty}}"
        ),
    )

    assert [(e.tool, e.error) for e in ran.events(ToolFailed)] == [("look", "The shelf is empty")]
    assert message_lines(ran.context("helper", call=1).section("run"))[-1] == (
        "tool/helper: The shelf is empty"
    )
    assert ran.turn().tools[0].fields()["error"] == "The shelf is empty"
    assert ran.turn().reply == "Never mind."
    assert ran.state("x") == {}


SCHEMA = "returns: {type: object, required: [kcal]}"


def test_result_that_breaks_the_tools_schema_is_an_error_of_the_tool() -> None:
    ran = run_yaml(
        pipeline("{tools: [look]}", f"{{look: {{function: 'builtins:dict', {SCHEMA}}}}}"),
        answered("{helper: [{calls: {look: {}}}, Hm.]}"),
    )

    assert [e.error for e in ran.events(ToolFailed)] == [
        "the result of tool 'look': 'kcal' is a required property"
    ]
    assert ran.events(ToolReturned) == []


def test_an_unchecked_result_fails_its_call_as_a_functions_does() -> None:
    ran = run_yaml(
        pipeline("{tools: [look]}", f"{{look: {{{SCHEMA}}}}}"),
        answered(
            "{helper: [{calls: {look: {}}}, Hm.]}", "{look: {returns: {x: 1}, unchecked: true}}"
        ),
    )

    assert [e.error for e in ran.events(ToolFailed)] == [
        "the result of tool 'look': 'kcal' is a required property"
    ]


@pytest.mark.parametrize("results", ["{look: {food: pizza}}", "{look: [{food: pizza}]}"])
def test_a_scripted_result_that_breaks_the_schema_is_an_error_of_the_scenario(results: str) -> None:
    with pytest.raises(SourceError, match=r"look': 'kcal' is a required property\n.*`returns`"):
        run_yaml(
            pipeline("{tools: [look]}", f"{{look: {{{SCHEMA}}}}}"),
            answered("{helper: [{calls: {look: {}}}, Hm.]}", results),
        )


@pytest.mark.slow
def test_agents_that_wait_for_each_other_without_end_are_an_error_with_its_turn() -> None:
    names = [f"a{number}" for number in range(300)]
    pairs = [*pairwise(names)]
    agents = "\n".join(f"  {name}: {{handoffs: [{to}]}}" for name, to in pairs)
    contracts = "\n".join(f"  - {{from: {name}, to: {to}, mode: delegate}}" for name, to in pairs)
    lines = ", ".join(f"{name}: [{{handoff: {{to: {to}}}}}, done]" for name, to in pairs)
    limits = "{handoffs_per_turn: 999, agent_runs_per_turn: 999}"

    with pytest.raises(SourceError, match=r":\d+:\d+: too many agents wait for each other"):
        run_yaml(
            f"version: 1\npipeline: p\nagents:\n{agents}\n  a299: {{}}\n"
            f"contracts:\n{contracts}\nlimits: {limits}\n"
            "flow: {handoffs: {start: a0}}",
            f"turns: [{{user: Hi, replies: {{{lines}, a299: end}}}}]",
        )


def test_tools_output_may_be_the_output_without_another_call() -> None:
    ran = run_yaml(
        pipeline(
            "{tools: [look, find], returns: tool_output, "
            "writes: {messages: ['${run.final_message}'], x: '${run.output}'}}",
            BOTH,
        ),
        """
turns:
  - {user: One, replies: {helper: {calls: {look: {}}}}, tool_results: {look: {a: 1}}}
  - {user: Two, replies: {helper: {calls: {look: {}, find: {}}}}, tool_results: {look: 1, find: 2}}
""",
    )

    assert [ran.turn(n).reply for n in (1, 2)] == [{"a": 1}, {"look": 1, "find": 2}]
    assert [ran.state("x", n) for n in (1, 2)] == [{"a": 1}, {"look": 1, "find": 2}]
    assert [len(ran.calls("helper", n)) for n in (1, 2)] == [1, 1]
    assert ran.state("messages") == ["user: One", "user: Two"]


def test_tool_that_fails_is_no_output_so_the_model_is_told() -> None:
    ran = run_yaml(
        pipeline("{tools: [look], returns: tool_output}", "{look: {}}"),
        answered(
            "{helper: [{calls: {look: {n: 1}}}, {calls: {look: {n: 2}}}]}",
            "{look: [{error: Not there}, {returns: 3}]}",
        ),
    )

    assert ran.turn().reply == 3
    assert (
        message_lines(ran.context("helper", call=1).section("run"))[-1] == "tool/helper: Not there"
    )


@pytest.mark.parametrize(
    ("function", "args", "result"),
    [
        ("add", "{a: 1, b: 2}", 3),
        ("add", "{a: 1}", 2),
        ("add_later", "{a: 1, b: 2}", 3),
        ("whole", "{b: 1, a: 2}", ["a", "b"]),
        ("named", "{name: Ada, report: r, function: f}", "Ada, r, f"),
        ("Meal", "{food: pizza}", {"food": "pizza", "kcal": 0}),
    ],
)
def test_tool_without_a_scripted_result_runs_for_real(
    function: str, args: str, result: Any
) -> None:
    ran = run_yaml(
        pipeline("{tools: [look]}", f"{{look: {{function: 'tests.functions:{function}'}}}}"),
        answered(f"{{helper: [{{calls: {{look: {args}}}}}, Done.]}}"),
    )
    results = ran.turn().tools[0].result

    assert (results["value"] if function == "Meal" else results) == result


def test_tool_named_in_the_scenario_is_not_run() -> None:
    ran = run_yaml(
        pipeline("{tools: [look]}", "{look: {function: 'tests.functions:failing'}}"),
        answered("{helper: [{calls: {look: {}}}, Done.]}", "{look: 1}"),
    )

    assert ran.turn().tools[0].result == 1


def test_real_tool_that_raises_is_told_to_the_model() -> None:
    ran = run_yaml(
        pipeline("{tools: [look]}", "{look: {function: 'tests.functions:failing'}}"),
        answered("{helper: [{calls: {look: {}}}, Done.]}"),
    )

    assert "ValueError: out of order" in str(ran.turn().tools[0].error)
    assert ran.turn().reply == "Done."


# Functions


@pytest.mark.parametrize(
    ("function", "output", "message"),
    [
        ("count_letters", {"letters": 2}, 'assistant/helper: {"letters":2}'),
        ("count_letters_later", {"letters": 2}, 'assistant/helper: {"letters":2}'),
        ("shout", "HI", "assistant/helper: HI"),
    ],
)
def test_function_agent_returns_its_output(function: str, output: Any, message: str) -> None:
    ran = run_yaml(pipeline(f"{{function: 'tests.functions:{function}'}}"), answered("{}"))
    run = ran.runs("helper")[0]

    assert run.output == ran.turn().reply == output
    assert message_lines(run.messages) == [message]
    assert ran.state("messages") == ["user: Hi", message]
    assert ran.turn().calls == []


def test_function_agent_that_returns_nothing_says_nothing() -> None:
    ran = run_yaml(pipeline("{function: 'tests.functions:nothing'}"), answered("{}"))

    assert ran.turn().reply is None
    assert ran.state("messages") == ["user: Hi"]
    assert ran.runs("helper")[0].status == "done"


def test_function_agent_may_pass_control() -> None:
    ran = run_yaml(
        pipeline("{function: 'tests.functions:pass_on', handoffs: [other]}"),
        answered("{other: Done.}"),
    )

    assert [r.agent for r in ran.turn().runs] == ["helper", "other"]
    assert ran.turn().handoffs[0].event.payload == {"said": "Hi"}
    assert message_lines(ran.context("other").section("current_message")) == ["user: go on"]
    assert ran.turn().reply == "Done."


def test_function_agent_whose_handoff_is_rejected_ends_without_output() -> None:
    ran = run_yaml(
        pipeline("{function: 'tests.functions:pass_to_nobody', handoffs: [other]}"), answered("{}")
    )

    assert ran.turn().handoffs[0].outcome == "rejected"
    assert ran.turn().reply is None


def test_function_agent_that_raises_ends_the_turn_with_its_name() -> None:
    ran = run_yaml(
        pipeline("{function: 'tests.functions:failing'}"),
        answered("{}", expect="{error: {type: FunctionFailed}}"),
    )

    assert ran.error() == (
        "FunctionFailed", "`tests.functions:failing` raised ValueError: out of order",
    )  # fmt: skip
    assert ran.runs("helper")[0].status == "failed"


def test_what_a_function_changes_in_place_is_noticed_and_changes_nothing() -> None:
    ran = run_yaml(
        pipeline(
            "{function: 'tests.functions:change_state'}",
            channels="{facts: {}, items: {reducer: append}, same: {}}",
        ),
        answered("{}", rest="given: {state: {facts: {a: 1}, items: [1], same: [1]}}"),
    )

    assert [e.changed_in_place for e in ran.events(AgentFinished)] == [("extra", "facts", "items")]
    assert ran.state("facts") == {"a": 1}
    assert ran.state("items") == [1]
    assert [finding.id for finding in ran.judgement.warnings] == ["STA-10"]


def test_function_that_is_not_there_is_told_before_anything_runs() -> None:
    with pytest.raises(SimkitError) as error:
        run_yaml(pipeline("{function: 'tests.functions:no_such'}"), answered("{}"))

    assert "has no function 'no_such'" in str(error.value)


# Limits


def reached(ran: Ran) -> list[tuple[str, int]]:
    return [(limit.limit, limit.allowed) for limit in ran.turn().limits]


LOOP = "{helper: [" + ", ".join(["{calls: {look: {}}}"] * 3) + ", Done.]}"


def test_model_calls_of_a_run_are_limited() -> None:
    ran = run_yaml(
        pipeline("{tools: [look]}", "{look: {}}") + "\nlimits: {model_calls_per_run: 2}",
        answered(LOOP, "{look: 1}", "{error: {type: LimitExceeded}, findings: [FLW-01, RUN-01]}"),
    )

    assert ran.error() == ("LimitExceeded", "limit `model_calls_per_run` reached: 2 allowed")
    assert reached(ran) == [("model_calls_per_run", 2)]
    assert len(ran.calls("helper")) == 2
    assert ran.runs("helper")[0].status == "failed"


def test_a_limit_may_be_used_up() -> None:
    ran = run_yaml(
        pipeline("{tools: [look]}", "{look: {}}") + "\nlimits: {model_calls_per_run: 4}",
        answered(LOOP, "{look: 1}"),
    )

    assert ran.error() is None
    assert reached(ran) == []
