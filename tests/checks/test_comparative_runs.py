"""STA-06, STA-08: a run against the same without restarts, a session against itself alone."""

from __future__ import annotations

import pytest

from simkit.checks.comparative_runs import reached_by_others, resumed_differs, session_differs
from tests import functions
from tests.building import Ran, run_yaml


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_data", {})
    monkeypatch.setattr(functions, "_calls", {})


def describe_findings(outcome: Ran) -> list[str]:
    """Returns the findings, each with its line."""
    return [
        f"{finding.where.rpartition('.yaml:')[2].split(':')[0]} {finding.id} {finding.what}"
        for finding in outcome.judgement.findings
    ]


ASKING = """
channels: {facts: {reducer: merge}}
tools: {TOOL: {function: "tests.functions:TOOL"}}
agents:
  a: {instructions: A., tools: [TOOL], writes: {messages: ["${run.final_message}"], facts: FACTS}}
flow: {handoffs: {start: a}}
"""
NAMES = ASKING.replace("TOOL", "first_name").replace(
    "FACTS", "{name: '${run.tool_results.first_name}'}"
)
COUNTS = ASKING.replace("TOOL", "calls_so_far").replace(
    "FACTS", "{n: '${run.tool_results.calls_so_far}'}"
)


def asks(name: str, more: str = "") -> str:
    return f"""
          - user: I am {name}
            {more}
            replies: {{a: [{{calls: [first_name: {{name: {name}}}]}}, Hello.]}}"""


def counts(more: str = "") -> str:
    return f"""
          - user: Count
            {more}
            replies: {{a: [{{calls: [calls_so_far: {{}}]}}, Done.]}}"""


# Restarts


@pytest.mark.slow
def test_what_only_the_process_knew_is_lost_by_a_restart() -> None:
    outcome = run_yaml(NAMES, f"turns:{asks('Ann')}{asks('Bob', 'restart: true')}")

    assert describe_findings(outcome) == [
        "17 STA-06 after the restart before turn 2, turn 2 is not what it is without: "
        "context of a, call 2: messages[5].content is Bob restarted, Ann without a restart"
    ]


@pytest.mark.slow
def test_what_a_module_keeps_of_the_first_run_does_not_reach_the_second() -> None:
    outcome = run_yaml(COUNTS, f"turns:{counts()}{counts('restart: true')}")

    assert describe_findings(outcome) == [
        "17 STA-06 after the restart before turn 2, turn 2 is not what it is without: "
        "context of a, call 2: messages[5].content is 1 restarted, 2 without a restart"
    ]


@pytest.mark.slow
def test_last_restart_before_the_difference_is_named() -> None:
    outcome = run_yaml(
        NAMES,
        f"turns:{asks('Ann')}{asks('Ann', 'restart: true')}{asks('Bob', 'restart: true')}"
        f"{asks('Bob', 'restart: true')}",
    )

    assert [finding.split(":")[0] for finding in describe_findings(outcome)] == [
        "20 STA-06 after the restart before turn 3, turn 3 is not what it is without"
    ]


@pytest.mark.slow
def test_restart_that_loses_nothing_is_no_finding() -> None:
    outcome = run_yaml(
        """
        channels: {facts: {reducer: merge}, notes: {reducer: append, scope: project}}
        tools: {look: {}}
        agents:
          a:
            instructions: A.
            tools: [look]
            context:
              - instructions
              - shared: {from: facts}
              - notes: {since_days: 3}
              - history: {from: log}
              - current_message
            writes:
              messages: ["${run.final_message}"]
              facts: {said: "${run.reply}", calls: "${run.tool_calls}"}
              notes: {text: "${run.reply}", at: "2026-01-05"}
        flow: {handoffs: {start: a}}
        """,
        """
        start: 2026-01-05T09:00:00Z
        turns:
          - user: One
            replies: {a: [{calls: [look: {}]}, {text: First., latency_ms: 700}]}
            tool_results: {look: {returns: seen, latency_ms: 40}}
          - user: Two
            restart: true
            replies: {a: Second.}
          - user: Three
            restart: true
            replies: {a: Third.}
            expect: {context: {a: {notes: [{$contains: Second}], history: {$len: 6}}}}
        """,
    )

    assert describe_findings(outcome) == []


def test_difference_before_any_restart_is_told_as_what_it_is() -> None:
    outcome = run_yaml(NAMES, f"turns:{asks('Ann')}{asks('Bob')}")
    other = run_yaml(NAMES.replace("A.", "B."), f"turns:{asks('Ann')}{asks('Bob')}")

    (hit,) = resumed_differs(outcome.view, other.view, {2: ("turns", 1, "restart")})

    assert (hit.id, hit.turn, hit.path) == ("STA-06", 1, ("turns", 1, "restart"))
    assert hit.what == (
        "turn 1, before any restart, is not the same in a second run: "
        "context of a: messages[0].content is A. here, B. there"
    )


def test_lint_that_is_off_makes_no_second_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simkit.session.simulate.unbroken", lambda _: 1 / 0)

    outcome = run_yaml(
        NAMES, f"lints: {{STA-06: known}}\nturns:{asks('Ann')}{asks('Bob', 'restart: true')}"
    )

    assert describe_findings(outcome) == []


# Sessions


@pytest.mark.slow
def test_session_that_gets_what_another_left_in_a_module_is_found() -> None:
    outcome = run_yaml(NAMES, f"turns:{asks('Ann')}{asks('Bob', 'session: s2')}")

    assert describe_findings(outcome) == [
        "16 STA-08 session 's2' is not what it is alone, from turn 2 on: "
        "context of a, call 2: messages[3].content is Ann among others, Bob alone"
    ]


@pytest.mark.slow
def test_both_sessions_that_share_a_counter_are_found() -> None:
    outcome = run_yaml(
        COUNTS, f"turns:{counts()}{counts('session: s2')}{counts()}{counts('session: s2')}"
    )

    assert describe_findings(outcome) == [
        "16 STA-08 session 's2' is not what it is alone, from turn 2 on: "
        "context of a, call 2: messages[3].content is 2 among others, 1 alone",
        "19 STA-08 session 's1' is not what it is alone, from turn 3 on: "
        "context of a, call 2: messages[5].content is 3 among others, 2 alone",
    ]


GRAPH = """
store: STORE
channels: {notes: {reducer: append, scope: project}}
tools: {look: {}}
agents:
  s:
    instructions: S.
    tools: [look]
    context: [instructions, {notes: {since_days: 1}}, {history: {from: log}}, current_message]
  a: {instructions: A., context: [instructions, upstream, history]}
  b: {instructions: B.}
  m: {instructions: M., context: [instructions, upstream]}
flow:
  graph:
    nodes: {s: {role: split, start: true}, a: {}, b: {}, m: {role: merge, exit: true}}
    edges: [{from: s, to: a}, {from: s, to: b}, {from: a, to: m}, {from: b, to: m}]
"""


def works(session: str, notes: str, more: str = "") -> str:
    """A turn of an hour; what the notes show depends on when it begins."""
    return f"""
          - user: Hi
            session: {session}
            {more}
            replies:
              s: [{{calls: [look: {{n: 1}}]}}, Both.]
              a: {{text: a, latency_ms: 7}}
              b: b
              m: {{text: m, latency_ms: 3600000}}
            tool_results: {{look: {{returns: seen, latency_ms: 40}}}}
            expect: {{context: {{s: {{notes: {notes}}}}}}}"""


@pytest.mark.parametrize("store", ["memory", "sqlite", ""])
def test_sessions_that_share_nothing_are_as_if_alone(store: str) -> None:
    pipeline = GRAPH.replace("store: STORE", f"store: {store}" if store else "")
    text, over = "[{$contains: Given.}]", "[]"
    outcome = run_yaml(
        pipeline,
        f"""
        start: 2026-01-05T09:00:00Z
        limits: {{virtual_ms: 999999999}}
        given: {{state: {{notes: [{{text: Given., at: "2026-01-04T10:30:00Z"}}]}}}}
        turns:{works("s1", text)}{works("s2", text)}{works("s1", over)}{works("s2", over)}
        """,
    )

    assert describe_findings(outcome) == []
    # What was given to the project reaches each of them alone as well.
    assert reached_by_others(outcome.view) == set()
    # Ids stand in what is compared: they are others where the session is alone.
    assert '"call_id":"call4"' in outcome.context("a").section("upstream")[0].content


def test_sessions_of_other_projects_have_each_what_was_given_to_it() -> None:
    outcome = run_yaml(
        GRAPH.replace("store: STORE", ""),
        f"""
        start: 2026-01-05T09:00:00Z
        limits: {{virtual_ms: 999999999}}
        given: {{state: {{notes: [{{text: Given., at: "2026-01-04T10:30:00Z"}}]}}}}
        turns:{works("s1", "[{$contains: Given.}]")}{works("s2", "[]", "project: p2")}
        """,
    )

    assert describe_findings(outcome) == []


SHARING = """
channels: {notes: {reducer: append, scope: SCOPE}}
agents:
  a:
    instructions: A.
    context: [instructions, notes, current_message]
    writes: {notes: {text: "${run.reply}"}}
flow: {handoffs: {start: a}}
"""


def noted(scope: str, project: str) -> Ran:
    return run_yaml(
        SHARING.replace("SCOPE", scope),
        f"""
        given: {{state: {{notes: [{{text: Given.}}]}}}}
        turns:
          - {{user: One, replies: {{a: First.}}}}
          - {{user: Two, session: s2, project: {project}, replies: {{a: Second.}}}}
        """,
    )


@pytest.mark.parametrize(
    ("scope", "project", "reached"),
    [
        ("project", "p1", {"s1", "s2"}),
        ("project", "p2", set()),
        ("global", "p2", {"s1", "s2"}),
        ("session", "p1", set()),
    ],
)
def test_sessions_that_share_on_purpose_are_not_held_against_themselves(
    scope: str, project: str, reached: set[str]
) -> None:
    outcome = noted(scope, project)

    assert describe_findings(outcome) == []
    assert reached_by_others(outcome.view) == reached


def test_session_that_alone_writes_what_it_shares_is_reached_by_nobody() -> None:
    outcome = run_yaml(
        SHARING.replace("SCOPE", "project").replace("agents:", "agents:\n  b: {}")
        .replace("start: a", 'start: "${user.agent}"'),
        """
        turns:
          - {user: {json: {agent: a}}, replies: {a: First.}}
          - {user: {json: {agent: b}}, session: s2, replies: {b: Second.}}
        """,
    )  # fmt: skip

    assert describe_findings(outcome) == []
    assert reached_by_others(outcome.view) == {"s2"}


def test_first_difference_of_a_session_is_told_with_the_turn_of_the_scenario() -> None:
    among = run_yaml(
        "agents: {a: {instructions: A.}}\nflow: {handoffs: {start: a}}",
        """
        turns:
          - {user: One, session: s2, replies: {a: x}}
          - {user: Two, replies: {a: y}}
          - {user: Three, replies: {a: z}}
        """,
    )
    alone = run_yaml(
        "agents: {a: {instructions: A.}}\nflow: {handoffs: {start: a}}",
        "turns: [{user: Two, replies: {a: y}}, {user: Three, replies: {a: other}}]",
    )

    (hit,) = session_differs(among.view, alone.view, "s1")

    assert (hit.id, hit.turn, hit.agent) == ("STA-08", 3, "a")
    assert hit.what == (
        "session 's1' is not what it is alone, from turn 3 on: "
        "output of a is z among others, other alone"
    )
