"""Scripted replies and tool results: which line is served, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.runtime.models.script import call_with
from simkit.trace.events import TurnFinished, UnusedLines, UnusedResults
from tests.building import Ran, run_yaml

PIPELINE = """
version: 1
pipeline: p
schemas: {Decision: {type: object, required: [to], properties: {to: {enum: [a, b]}}}}
tools:
  log_meal: {args: {type: object, required: [food], properties: {kcal: {type: integer}}}}
  look: {}
agents:
  helper: {instructions: Help., tools: [log_meal, look]}
  router: {instructions: Route., output: {$ref: Decision}}
  bare: {instructions: Bare.}
flow: {router: {decide: router, to: "${run.output.to}"}}
""".replace("[a, b]", "[helper, bare]")


def served(
    lines: str, results: str = "{}", to: str = "helper", expect: str = "{}", turns: int = 1
) -> Ran:
    turn = f"""
  - user: Hi
    replies: {{router: {{json: {{to: {to}}}}}, {to}: {lines}}}
    tool_results: {results}
    expect: {expect}
"""
    return run_yaml(PIPELINE, f"turns:{turn * turns}")


def refused(lines: str, results: str = "{}", to: str = "helper") -> str:
    """What is said of a script that cannot be served, without its place in the file."""
    with pytest.raises(SourceError) as error:
        served(lines, results, to)
    assert error.value.where.startswith("test.scenario.yaml:")
    return error.value.what


# Which line


def test_lines_are_served_in_order_and_belong_to_their_turn() -> None:
    ran = served("[{calls: {look: {}}}, Done.]", "{look: 1}", turns=2)

    assert [ran.turn(n).reply for n in (1, 2)] == ["Done.", "Done."]
    assert [e.unused for e in ran.events(TurnFinished)] == [(), ()]


def test_lines_are_consumed_across_the_runs_of_an_agent_in_the_turn() -> None:
    ran = run_yaml(
        """
agents: {a: {handoffs: [b]}, b: {handoffs: [a]}}
flow: {handoffs: {start: a}}
""",
        """
turns:
  - user: Hi
    replies: {a: [{handoff: {to: b}}, Second run.], b: {handoff: {to: a}}}
    expect: {findings: [FLW-02]}
""",
    )

    assert [run.agent for run in ran.turn().runs] == ["a", "b", "a"]
    assert ran.turn().reply == "Second run."


@pytest.mark.parametrize(
    ("when", "is_served"),
    [
        ("{current_message: [{user: Hi}]}", True),
        ("{current_message: [{user: Ho}]}", False),
        ("{sections: [instructions, current_message]}", True),
        ("{messages: {$has: [{system: Help.}]}}", True),
        ("{messages: {$len: 3}}", False),
        ("{history: []}", True),
        ("{tools: {$has: look}}", True),
        ("{agent: helper, turn: 1}", True),
        ("{turn: 2}", False),
        ("{run: {$absent: true}}", True),
        ("{'messages[-1].content': {$contains: Hi}}", True),
    ],
)
def test_line_is_served_where_its_when_holds_for_the_context(when: str, is_served: bool) -> None:
    ran = served(f"[{{text: Conditional., when: {when}}}, Otherwise.]")

    assert ran.turn().reply == ("Conditional." if is_served else "Otherwise.")


def test_when_speaks_of_what_the_run_has_heard_too() -> None:
    ran = served(
        "[{text: Heard it., when: {run: {$has: [{role: tool, content: found}]}}},"
        " {calls: {look: {}}}]",
        "{look: found}",
    )

    assert ran.turn().reply == "Heard it."


def test_same_agent_twice_at_once_is_told_apart_by_when() -> None:
    ran = run_yaml(
        """
channels: {x: {reducer: append}}
agents: {r: {}, a: {writes: {x: "${run.reply}"}}}
flow: {router: {decide: r, to: "${run.output}"}}
""",
        """
turns:
  - user: Hi
    replies:
      r: {json: {parallel: [a, a]}}
      a: [{text: One, when: {turn: 1}}, {text: Two, when: {agent: a}}]
""",
    )

    assert ran.state("x") == ["One", "Two"]


def test_summarisers_line_may_speak_of_the_sections_that_it_reads() -> None:
    ran = run_yaml(
        """
agents:
  a: {context: [{history: {window: {rounds: 1}, summary: scribe}}, current_message]}
  scribe: {instructions: Sum up.}
flow: {handoffs: {start: a}}
""",
        """
turns:
  - {user: One, replies: {a: A}}
  - {user: Two, replies: {a: B}}
  - user: Three
    replies:
      a: C
      scribe:
        when: {history: [{user: One}, {assistant: A}], instructions: {$len: 1}}
        text: Summed up.
""",
    )

    assert ran.history("a")[0] == "system/scribe: Summed up."


# No line


def test_call_with_no_line_left_is_told_with_the_number_of_lines() -> None:
    ran = served(
        "[{calls: {look: {}}}, {calls: {look: {}}}]",
        "{look: 1}",
        expect="{error: {type: ReplyMissing}, findings: [RUN-01]}",
    )

    assert ran.error() == (
        "ReplyMissing",
        "agent 'helper' made model call #3 in turn 1, but the scenario has 2 replies for it.\n"
        "Add one under turns[0].replies.helper, or expect the turn to stop earlier.",
    )


def test_call_of_an_agent_without_lines_is_told_with_those_that_have_some() -> None:
    ran = run_yaml(
        PIPELINE,
        """
turns:
  - user: Hi
    replies: {router: {json: {to: helper}}, bare: x}
    expect: {error: {type: ReplyMissing}, findings: [RUN-01]}
""",
    )

    assert ran.error() == (
        "ReplyMissing",
        "agent 'helper' made a model call in turn 1, but the scenario has no reply for it "
        "(the turn has replies for router, bare).\n"
        "Add one under turns[0].replies.helper, or expect another agent to run.",
    )


def test_call_for_which_no_when_holds_is_told_with_the_lines_that_wait() -> None:
    ran = served(
        "[{text: x, when: {turn: 5}}, {text: y, when: {turn: 6}}]",
        expect="{error: {type: ReplyMissing}, findings: [RUN-01]}",
    )

    assert ran.error() == (
        "ReplyMissing",
        "agent 'helper' made model call #1 in turn 1, but none of its unused lines (1, 2) has a "
        "`when` that holds for the context.\n"
        "  1. at turn: wanted 5, found 1\n"
        "  2. at turn: wanted 6, found 1\n"
        "Change a `when` under turns[0].replies.helper, or add a line without one.",
    )


def test_lines_that_nobody_asked_for_are_told_with_their_places() -> None:
    ran = run_yaml(
        PIPELINE,
        """
turns:
  - user: Hi
    replies: {router: {json: {to: helper}}, helper: [One, Two, Three], bare: x}
    expect: {findings: [RUN-01]}
""",
    )

    assert ran.events(TurnFinished)[0].unused == (
        UnusedLines("helper", (1, 2), 1), UnusedLines("bare", (0,), 0),
    )  # fmt: skip


# Lines that cannot be served


def test_tool_that_is_not_offered_is_told_with_the_nearest() -> None:
    assert refused("{function: 'tests.functions:answer_with_typo'}") == (
        "turns[0].replies.helper[0] calls tool 'log_meals', which agent 'helper' is not offered. "
        "Did you mean `log_meal`? Offered: log_meal, look."
    )


def test_tool_of_a_line_that_a_function_makes_is_checked_when_it_is_served() -> None:
    assert refused("{function: 'tests.functions:answer_with_call'}", to="bare") == (
        "turns[0].replies.bare[0] calls tool 'look', which agent 'bare' is not offered. "
        "Offered: none."
    )


def test_arguments_that_the_tools_schema_refuses_are_told() -> None:
    assert refused(
        "[{calls: [look: {}, log_meal: {food: x, kcal: much}]}, Done.]", "{look: 1}"
    ) == (
        "turns[0].replies.helper[0] calls tool 'log_meal' with arguments that its schema refuses: "
        "kcal: 'much' is not of type 'integer'. Correct the line, or the tool's `args`."
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            "{rows: {data: [{text: it's up}]}}",
            "rows: {'data': [{'text': \"it's up\"}]} is not of type 'string'. The tool takes the "
            'JSON as a text; write it as a text: \'{"data":[{"text":"it\'\'s up"}]}\'.',
        ),
        (
            "{rows: '{}', more: [[1]]}",
            "more[0]: [1] is not of type 'string'. The tool takes the JSON as a text; "
            "write it as a text: '[1]'.",
        ),
        ("{rows: 3}", "rows: 3 is not of type 'string'. Correct the line, or the tool's `args`."),
        (
            "{rows: '{}', count: {}}",
            "count: {} is not of type 'integer'. Correct the line, or the tool's `args`.",
        ),
    ],
    ids=["an object", "a list inside a list", "a number", "an object where no text is wanted"],
)
def test_object_where_a_tool_takes_json_as_a_text_is_told_as_that_text(
    args: str, message: str
) -> None:
    with pytest.raises(SourceError) as error:
        run_yaml(
            """
tools:
  analyze:
    args:
      properties:
        rows: {type: string}
        more: {items: {type: string}}
        count: {type: integer}
agents: {analyst: {tools: [analyze]}}
flow: {handoffs: {start: analyst}}
""",
            f"turns:\n  - user: Hi\n    replies: {{analyst: {{calls: [analyze: {args}]}}}}\n",
        )

    assert error.value.what == (
        "turns[0].replies.analyst[0] calls tool 'analyze' with arguments that its schema refuses: "
        f"{message}"
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{json: {too: helper}}", "'to' is a required property"),
        ("{json: {to: nobody}}", "to: 'nobody' is not one of ['helper', 'bare']"),
        ("Let me see.", "'Let me see.' is not of type 'object'"),
        ("'{\"to\": 3}'", "to: 3 is not one of ['helper', 'bare']"),
    ],
)
def test_reply_that_the_output_schema_refuses_is_told(line: str, text: str) -> None:
    with pytest.raises(SourceError) as error:
        run_yaml(PIPELINE, f"turns:\n  - {{user: Hi, replies: {{router: {line}}}}}")

    assert error.value.what == (
        "turns[0].replies.router[0] does not satisfy the output schema of agent 'router': "
        f"{text}. Correct the line, or the schema (`output` of the agent, or what code sends); "
        "to send nonsense on purpose write `error: malformed_json`."
    )


def test_place_of_a_line_that_cannot_be_served_is_its_place_in_the_file() -> None:
    with pytest.raises(SourceError) as error:
        run_yaml(
            PIPELINE,
            """
version: 1
scenario: s
pipeline: p
turns:
  - user: Hi
    replies:
      router: {json: {to: helper}}
      helper:
        - calls: {look: {}}
        - calls: {log_meal: {}}
    tool_results: {look: 1}
""",
        )
    line = int(error.value.where.split(":")[1])

    pipeline_lines = PIPELINE.strip("\n").count("\n") + 2
    assert line == pipeline_lines + 10


@pytest.mark.parametrize(
    ("agent", "line", "output"),
    [
        ("{parse: json_in_text, output: {type: object}}", "'So: {\"a\": 1}.'", {"a": 1}),
        ("{output: {type: string}}", "'12'", "12"),
        ("{parse: text, output: {type: string}}", "'{\"a\": 1}'", '{"a": 1}'),
        ("{parse: json, output: {type: integer}}", "'12'", 12),
        ("{output: {type: array}}", "'[1]'", [1]),
        ("{output: 'tests.functions:Meal'}", "{json: {food: pizza}}", {"food": "pizza"}),
    ],
)
def test_text_is_checked_as_the_value_that_the_agent_reads_in_it(
    agent: str, line: str, output: Any
) -> None:
    ran = run_yaml(
        f"agents: {{a: {agent}}}\nflow: {{handoffs: {{start: a}}}}",
        f"turns:\n  - {{user: Hi, replies: {{a: {line}}}}}",
    )

    assert ran.turn().reply == output


def test_handoff_line_is_not_checked_here_its_contract_judges_it() -> None:
    ran = run_yaml(
        "agents: {a: {output: {type: object}, handoffs: [b]}, b: {}}\n"
        "flow: {handoffs: {start: a}}\n"
        "contracts: [{from: a, to: b, payload: {type: object, required: [x]}}]",
        "turns:\n  - {user: Hi, replies: {a: [{handoff: {to: b, payload: {}}}, {json: {}}]}}",
    )

    assert ran.turn().handoffs[0].outcome == "rejected"


# Functions


def test_function_answers_from_the_messages() -> None:
    ran = served("{function: 'tests.functions:answer', latency_ms: 7}", to="bare")

    assert ran.turn().reply == "I was sent 2 messages, last: Hi"
    assert ran.turn().calls[-1].at == 0
    assert ran.events(TurnFinished)[0].at == 7


def test_function_may_answer_with_any_line() -> None:
    assert served("{function: 'tests.functions:answer_in_json'}", to="bare").turn().reply == {
        "from": "function"
    }


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("failing", "`tests.functions:failing` raised ValueError: out of order"),
        ("answer_nonsense", "`tests.functions:answer_nonsense` returned a dict, which is no reply "
         "line. Return a text, or a mapping such as {'json': …}."),
        ("nothing", "`tests.functions:nothing` returned a NoneType, which is no reply line. "
         "Return a text, or a mapping such as {'json': …}."),
        ("odd_keys", "`tests.functions:odd_keys` returned a dict, which is no reply line. "
         "Return a text, or a mapping such as {'json': …}."),
    ],
)  # fmt: skip
def test_function_that_gives_no_line_is_the_scripts_fault(function: str, text: str) -> None:
    assert refused(f"{{function: 'tests.functions:{function}'}}", to="bare") == (
        f"turns[0].replies.bare[0]: {text}"
    )


# Tool results


def results_of(results: str, *args: str, expect: str = "{}") -> list[Any]:
    lines = ", ".join(f"{{calls: {{look: {arg}}}}}" for arg in args)
    ran = served(f"[{lines}, Done.]", f"{{look: {results}}}", expect=expect)
    return [tool.error or tool.result for tool in ran.turn().tools]


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ("7", [7, 7]),
        ("null", [None, None]),
        ("{kcal: 1}", [{"kcal": 1}, {"kcal": 1}]),
        ("{returns: []}", [[], []]),
        ("{error: Down}", ["Down", "Down"]),
        ("{returns: 1, latency_ms: 5}", [1, 1]),
        ("{latency_ms: 5}", [None, None]),
        ("{returns: 1, kcal: 2}", [{"returns": 1, "kcal": 2}] * 2),
        ("[1, {error: Down}]", [1, "Down"]),
        ("[[1], [2]]", [[1], [2]]),
        ("[{when: {n: 2}, returns: two}, one]", ["one", "two"]),
        ("{when: {n: {$gt: 0}}, returns: positive}", ["positive", "positive"]),
    ],
)
def test_tool_answers_with_a_value_or_with_successive_ones(
    results: str, expected: list[Any]
) -> None:
    assert results_of(results, "{n: 1}", "{n: 2}") == expected


MISSING = "{error: {type: ToolMissing}, findings: [RUN-01]}"


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (
            "{look: [1, 2]}",
            "agent 'helper' called tool 'look' in turn 1 again, but the scenario has 2 results "
            "for it.\nIt was called without arguments.\nAdd one under turns[0].tool_results.look.",
        ),
        (
            "{look: [1]}",
            "agent 'helper' called tool 'look' in turn 1 again, but the scenario has 1 result "
            "for it.\nIt was called without arguments.\nAdd one under turns[0].tool_results.look.",
        ),
        (
            "{look: {when: {n: 5}, returns: 1}}",
            "agent 'helper' called tool 'look' in turn 1, but no result's `when` holds for its "
            "arguments.\nIt was called without arguments.\n"
            "Add one under turns[0].tool_results.look.",
        ),
        (
            "{log_meal: 1}",
            "agent 'helper' called tool 'look' in turn 1, which has neither a result in the "
            "scenario nor a function in the pipeline.\nIt was called without arguments.\n"
            "Add one under turns[0].tool_results.look, "
            "or an entrypoint under tools.look.function.\nThere are results for: log_meal.",
        ),
    ],
)
def test_tool_that_nobody_answers_ends_the_turn_with_what_to_do(results: str, message: str) -> None:
    ran = served("[" + "{calls: {look: {}}}, " * 3 + "Done.]", results, expect=MISSING)

    assert ran.error() == ("ToolMissing", message)
    assert ran.runs("helper")[0].status == "failed"


def test_results_belong_to_their_turn() -> None:
    ran = served("[{calls: {look: {}}}, Done.]", "{look: [first]}", turns=2)

    assert [ran.turn(n).tools[0].result for n in (1, 2)] == ["first", "first"]


@pytest.mark.parametrize(
    ("function", "result"),
    [(dict, {"a": 1}), (lambda a: a, 1), (lambda given: [given], [{"a": 1}])],
    ids=["built in, without a signature", "by name", "as one mapping"],
)
def test_a_tools_function_gets_its_arguments_by_name_or_as_one_mapping(
    function: Callable[..., Any], result: Any
) -> None:
    assert call_with(function, {"a": 1}) == result


# What is left over


def test_results_that_no_call_had_are_left_over_as_reply_lines_are() -> None:
    calls = "[{calls: {look: {}}}, Done.]"
    ran = served(calls, "{look: [a, b, {error: No}], log_meal: 1}")

    assert ran.events(TurnFinished)[0].unused_results == (
        UnusedResults("look", (1, 2), 1, is_list=True), UnusedResults("log_meal", (0,), 0),
    )  # fmt: skip
    assert [
        (finding.id, finding.what.partition(" in ")[0]) for finding in ran.judgement.findings
    ] == [
        ("RUN-01", "tool 'look' has 2 unused results"),
        ("RUN-01", "tool 'log_meal' was not called"),
    ]


def test_only_result_of_a_tool_is_left_over_if_its_condition_held_of_no_call() -> None:
    ran = served("{calls: {look: {}}}", "{look: {returns: 1, when: {name: Ada}}}")

    assert ran.events(TurnFinished)[0].unused_results == (UnusedResults("look", (0,), 1),)


def test_lines_that_are_left_over_explain_their_tools_results() -> None:
    ran = served("[Done., {calls: {look: {}}}]", "{look: 1}")

    assert [(finding.id, finding.agent) for finding in ran.judgement.findings] == [
        ("RUN-01", "helper")
    ]


def test_a_declared_tool_that_returns_a_list_is_not_answered_by_a_part_of_it() -> None:
    pipeline = PIPELINE.replace("tools:", "tools:\n  find: {returns: {type: array}}", 1)
    pipeline = pipeline.replace("tools: [log_meal, look]", "tools: [find, log_meal, look]")
    turn = "turns: [{user: Hi, replies: {router: {json: {to: helper}}, helper: LINES}"
    scenario = turn.replace("LINES", "[{calls: {find: {}}}, Done.]")

    with pytest.raises(SourceError, match=r"Write `find: \{returns: \[1\]\}`"):
        run_yaml(pipeline, f"{scenario}, tool_results: {{find: [1]}}}}]")
    ran = run_yaml(pipeline, f"{scenario}, tool_results: {{find: {{returns: [1]}}}}}}]")
    assert ran.turn().tools[0].result == [1]
