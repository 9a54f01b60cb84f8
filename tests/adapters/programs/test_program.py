"""A pipeline that is a program in a process of its own: its turns, what it tells, how it fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest

from simkit.capture.http import loopback
from simkit.checks.judge import Outcome
from simkit.core.errors import SourceError
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.trace import events as e

CLIENT = """
import json, os, sys, urllib.error, urllib.request


def post(path, body, base=os.environ["SIMKIT_URL"]):
    data = json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or "null")


def tell(kind, **body):
    return post(f"/simkit/{kind}", body)


def ask(agent, *texts, tools=()):
    body = {"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}
    if tools:
        body["tools"] = [{"type": "function", "function": {"name": name}} for name in tools]
    answer = post(f"/agents/{agent}/v1/chat/completions", body)
    return answer["choices"][0]["message"]


def turns():
    while turn := tell("next"):
        yield turn

"""
ECHO = """
for turn in turns():
    said = turn["user"] if isinstance(turn["user"], str) else json.dumps(turn["user"])
    tell("reply", reply=ask("clerk", said)["content"])
"""


pytestmark = pytest.mark.usefixtures("cwd")


def run(program: str, scenario: str, head: str = "", command: str = "") -> Outcome:
    """Runs the one scenario of a program."""
    Path("desk.py").write_text(CLIENT + dedent(program))
    command = command or f"{sys.executable} -S desk.py"
    Path("desk.pipeline.yaml").write_text(
        f"version: 1\npipeline: desk\nprogram: {command}\n{dedent(head)}"
    )
    reply = indent(dedent(scenario).strip("\n"), "  ")
    Path("desk.scenario.yaml").write_text(
        f"version: 1\nscenario: s\npipeline: desk.pipeline.yaml\nturns:\n{reply}\n"
    )
    (item,) = items_in("desk.scenario.yaml")
    return simulate(Library().prepared(item))


def find_problems(outcome: Outcome) -> list[str]:
    return [finding.what for finding in outcome.judgement.findings]


def test_a_program_takes_turns_and_its_models_are_answered() -> None:
    outcome = run(
        ECHO,
        """
        - {user: hi, replies: {clerk: hello}, expect: {reply: hello, agents: [clerk]}}
        - user: {json: {order: 7}}
          session: other
          replies: {clerk: seven}
          expect: {context: {clerk: {messages: [{user: '{"order": 7}'}]}}}
        """,
    )

    assert find_problems(outcome) == []


def test_what_a_program_tells_is_claimed() -> None:
    outcome = run(
        """
        for turn in turns():
            tell("started", agent="clerk", input={"task": "look"})
            ask("clerk", turn["user"])
            found = tell("tool", tool="find", args={"order": 7})
            other = tell("tool", tool="own", args={})
            tell("tool_result", tool="own", args={}, result=[1])
            tell("state", agent="clerk", update={"orders": [found["result"]]})
            tell("handoff", **{"from": "clerk", "to": "boss"}, payload={"order": 7})
            tell("finished", agent="clerk", output={"scripted": other["scripted"]})
            tell("started", agent="boss")
            tell("reply", reply=ask("boss", turn["user"], "It is order 7.")["content"])
        """,
        """
        - user: where is it
          replies: {clerk: let me see, boss: on its way}
          tool_results: {find: {at: Rome}}
          expect:
            reply: on its way
            agents: [clerk, boss]
            state: {orders: [{at: Rome}]}
            handoffs: [{from: clerk, to: boss, payload: {order: 7}}]
            tool_calls:
              - {tool: find, agent: clerk, args: {order: 7}, result: {at: Rome}}
              - {tool: own, result: [1]}
            runs: {clerk: {input: {task: look}, output: {scripted: false}}}
        """,
        "channels: {orders: {reducer: append, scope: turn}}\n",
    )

    assert find_problems(outcome) == []


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        ("state: {orders: [{at: Oslo}]}", "state does not match"),
        ("runs: {clerk: {input: {task: sit}}}", "runs.clerk.input does not match"),
        ("runs: {clerk: {output: done}}", "runs.clerk.output does not match"),
        ("handoffs: [{from: clerk, to: boss}]", "handoffs does not match"),
        ("tool_calls: [{tool: find, args: {order: 8}}]", "tool_calls does not match"),
    ],
)
def test_a_claim_on_what_a_program_tells_can_fail(claim: str, problem: str) -> None:
    outcome = run(
        """
        for turn in turns():
            tell("started", agent="clerk", input={"task": "look"})
            ask("clerk", turn["user"])
            tell("tool", tool="find", args={"order": 7})
            tell("state", agent="clerk", update={"orders": [{"at": "Rome"}]})
            tell("finished", agent="clerk", output="told")
        """,
        f"""
        - user: where is it
          replies: {{clerk: let me see}}
          tool_results: {{find: {{at: Rome}}}}
          expect: {{{claim}}}
        """,
        "channels: {orders: {reducer: append, scope: turn}}\n",
    )

    assert [text.partition(" (")[0] for text in find_problems(outcome)] == [problem]


@pytest.mark.slow
def test_refusals_and_failures_reach_the_program_or_its_turn() -> None:
    outcome = run(
        """
        errors = {"a text": "gone", "a type": {"type": "OutOfStock"}}
        errors["both"] = {"type": "OutOfStock", "message": "gone"}
        no = {"from": "clerk", "to": "boss", "refused": "the boss is out"}
        for turn in turns():
            match turn["user"]:
                case "a handoff of its own":
                    tell("started", agent="clerk")
                    ask("clerk", "hi")
                    tell("handoff", **no)
                    tell("reply", error="nobody is there")
                case "a handoff of the model":
                    ask("clerk", "hi", tools=["transfer_to_boss"])
                    tell("handoff", **no)
                    tell("reply", reply="Nobody is there.")
                case "a tool":
                    tell("reply", reply=tell("tool", tool="find", args={}).get("error"))
                case "a model":
                    try:
                        ask("clerk", "hi")
                    except urllib.error.HTTPError as problem:
                        tell("reply", error=f"the provider says {problem.code}")
                case error:
                    tell("reply", error=errors[error])
        """,
        """
        - user: a handoff of its own
          replies: {clerk: one moment}
          expect:
            handoffs: [{from: clerk, to: boss, outcome: rejected, reason: the boss is out}]
            error: {type: FunctionFailed, message: {$contains: nobody is there}}
        - user: a handoff of the model
          replies: {clerk: {handoff: {to: boss}}}
          expect: {handoffs: [{from: clerk, to: boss, outcome: rejected, reason: the boss is out}]}
        - user: a tool
          tool_results: {find: {error: no such order}}
          expect: {reply: no such order}
        - {user: a model, replies: {clerk: {error: rate_limit}}, expect: {error: rate_limit}}
        - user: a text
          expect: {error: {type: FunctionFailed, message: {$ends: "failed: gone"}}}
        - {user: a type, expect: {error: OutOfStock}}
        - {user: both, expect: {error: {type: OutOfStock, message: gone}}}
        """,
    )

    assert find_problems(outcome) == []


def test_a_result_that_the_program_does_not_ask_for_is_left_over() -> None:
    outcome = run(
        """
        for turn in turns():
            ask("clerk", turn["user"])
            tell("tool", tool="find", args={})
        """,
        """
        - user: hi
          replies: {clerk: ok}
          tool_results: {find: [{n: 1}, {n: 2}]}
        """,
    )

    assert [finding.id for finding in outcome.judgement.findings] == ["RUN-01"]


def test_a_program_that_ends_in_a_turn_is_told_with_what_it_printed() -> None:
    outcome = run(
        """
        for turn in turns():
            print("the shop is closed", file=sys.stderr)
            sys.exit(3)
        """,
        "- {user: hi, replies: {clerk: hello}}",
    )

    (subject,) = [text for text in find_problems(outcome) if "exit code" in text]
    assert "desk.py` ended with exit code 3\n  | the shop is closed" in subject


def test_a_program_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "SILENCE_S", 0.2)
    outcome = run(
        "import time; time.sleep(60)", "- {user: hi, expect: {error: {type: ProgramFailed}}}"
    )

    assert find_problems(outcome) == []


MISTAKES = {
    "a channel that is not declared": (
        'tell("state", update={"ordres": [1]})',
        "POST /simkit/state: `update`: the pipeline's file declares no channel 'ordres'. "
        "Did you mean `orders`? Channels: orders, count.",
    ),
    "a reply and an error": (
        'tell("reply", reply=1, error="gone")',
        "POST /simkit/reply: a turn ends with a `reply` or an `error`, and this one has both",
    ),
    "an error without a type": (
        'tell("reply", error={"message": "gone"})',
        'POST /simkit/reply: `error` is {"message":"gone"}. ',
    ),
    "another method": (
        'urllib.request.urlopen(os.environ["SIMKIT_URL"] + "/simkit/state")',
        "GET /simkit/state: unknown report. Did you mean POST /simkit/state?",
    ),
    "a report after the reply": (
        'tell("reply", reply="ok"); tell("state", update={"count": 1})',
        "POST /simkit/state: turn 1 is over: its reply was told. "
        "A turn begins with POST /simkit/next.",
    ),
    "a second reply": (
        'tell("reply", reply="ok"); tell("reply", reply="no")',
        "POST /simkit/reply: turn 1 is over: its reply was told. "
        "A turn begins with POST /simkit/next.",
    ),
    "a model call after the reply": (
        'tell("reply", reply="ok"); ask("clerk", "hi")',
        "POST /agents/clerk/v1/chat/completions: turn 1 is over: its reply was told. "
        "A turn begins with POST /simkit/next.",
    ),
}
"""Mistakes that only a program shows: what it says wrongly, and what it and the user are told."""


def mistaken(program: str, more_turns: str = "") -> tuple[list[str], str]:
    """Returns what is found of a program's mistake, and what the program was told."""
    outcome = run(
        program,
        f"- {{user: hi, replies: {{clerk: {{calls: [{{find: {{}}}}]}}}}}}{more_turns}",
        "channels: {orders: {reducer: append, scope: turn}, count: {reducer: add}}\n",
    )
    results = [
        text.partition("\n")[0] for text in find_problems(outcome) if "ReportInvalid" in text
    ]
    return results, Path("told").read_text()


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("more_turns", ["", "\n- {user: bye}"], ids=["last turn", "not the last"])
def test_a_mistake_in_a_report_is_answered_and_found_once(mistake: str, more_turns: str) -> None:
    code, says = MISTAKES[mistake]

    subject, report = mistaken(
        f"""
        for turn in turns():
            try:
                {code}
            except urllib.error.HTTPError as problem:
                print(problem.code, json.load(problem)["error"]["message"], file=open("told", "w"))
                sys.exit(1)
        """,
        more_turns,
    )

    assert report.startswith(f"400 simkit: {says}")
    assert len(subject) == 1
    assert says in subject[0]


def test_a_report_before_the_first_turn_is_out_of_order() -> None:
    subject, report = mistaken(
        """
        try:
            tell("started", agent="clerk")
        except urllib.error.HTTPError as problem:
            print(json.load(problem)["error"]["message"], file=open("told", "w"))
        """
    )

    says = "POST /simkit/started: no turn has begun. A turn begins with POST /simkit/next."
    assert report == f"simkit: {says}\n"
    assert says in subject[0]


def test_a_program_that_goes_on_after_a_mistake_is_stopped() -> None:
    subject, _ = mistaken(
        """
        open("told", "w").close()
        for turn in turns():
            try:
                tell("state", updates={})
            except urllib.error.HTTPError:
                tell("reply", reply="as if nothing were")
                open("told", "w").write("answered")
        """
    )

    assert len(subject) == 1
    assert Path("told").read_text() == ""


def test_what_a_program_says_that_its_tool_returned_is_written_down_whatever_is_scripted() -> None:
    outcome = run(
        """
        for turn in turns():
            ask("clerk", turn["user"])
            tell("tool_result", tool="find", args={}, result="its own")
        """,
        """
        - user: hi
          replies: {clerk: ok}
          tool_results: {find: scripted}
          expect: {tool_calls: [{tool: find, result: its own}]}
        """,
    )

    assert find_problems(outcome) == [
        "tool 'find' was called in turn 1 and did not ask for the result that the scenario has: "
        "what it returned is its own."
    ]


def test_every_key_of_a_report_is_in_the_trace() -> None:
    outcome = run(
        """
        for turn in turns():
            tell("started", agent="clerk")
            one, two = ask("clerk", turn["user"], tools=["find"])["tool_calls"]
            tell("tool_result", tool="find", call_id=two["id"], args={"order": 2}, error="gone")
            tell("tool_result", tool="find", call_id=one["id"], args={"order": 1}, result="here")
            tell("state", agent="clerk", update={"orders": [1]})
            words = {"type": "late", "query": "Where is it?"}
            tell("handoff", **{"from": "clerk", "to": "boss"}, payload=1, **words)
            tell("finished", agent="clerk", failed=True)
            tell("started", agent="boss")
            try:
                ask("boss", turn["user"])
            except urllib.error.HTTPError as problem:
                tell("reply", reply=f"status {problem.code}")
        """,
        """
        - user: hi
          replies: {clerk: {calls: [{find: {order: 1}}, {find: {order: 2}}]}}
          faults: [{agent: boss, error: rate_limit}]
          expect:
            reply: status 429
            runs: {clerk: {update: {orders: [1]}}}
            handoffs: [{from: clerk, to: boss, type: late, query: Where is it?, payload: 1}]
            tool_calls:
              - {agent: clerk, args: {order: 1}, result: here, asked: {order: 1}}
              - {agent: clerk, args: {order: 2}, error: gone, asked: {order: 2}}
            events: {$has: [{kind: AgentFinished, agent: clerk, status: failed}]}
        """,
        "channels: {orders: {reducer: append, scope: turn}}\n",
    )

    assert find_problems(outcome) == []


def test_a_run_works_for_the_goal_that_the_program_says() -> None:
    scenario = """
        - user: hi
          replies: {clerk: [one, two]}
          expect: {runs: {"clerk[0]": {goal: sell}, "clerk[1]": {goal: GOAL}}}
        """
    program = """
        for turn in turns():
            for goal in ("sell", "send"):
                tell("started", agent="clerk", goal=goal)
                ask("clerk", goal)
                tell("finished", agent="clerk")
        """

    assert find_problems(run(program, scenario.replace("GOAL", "send"))) == []
    assert find_problems(run(program, scenario.replace("GOAL", "sell"))) == [
        "runs.clerk[1].goal does not match"
    ]
    assert "is not observable by driver 'program', which does not see for which goal" in "".join(
        find_problems(run(program.replace(", goal=goal)", ")"), scenario.replace("GOAL", "send")))
    )


def test_a_command_that_is_not_there_is_told_at_its_place() -> None:
    with pytest.raises(SourceError, match=r"desk\.pipeline\.yaml:3:10: `nodde` cannot be started"):
        run(ECHO, "- {user: hi}", command="nodde desk.mjs")


def test_an_option_of_code_in_this_process_is_refused() -> None:
    with pytest.raises(SourceError, match="`setup` is about code that runs in simkit's own"):
        run(ECHO, "- {user: hi}", "app: {setup: a:b}\n")


def test_a_restarted_program_that_keeps_nothing_is_found() -> None:
    outcome = run(
        """
        count = 0
        for turn in turns():
            count += 1
            tell("reply", reply=count)
        """,
        """
        - {user: one, expect: {reply: 1}}
        - {user: two, expect: {reply: 2}}
        - {user: three, restart: true, expect: {reply: 1}}
        """,
    )

    assert [finding.id for finding in outcome.judgement.findings] == ["STA-06"]


def test_a_restarted_program_goes_on_with_what_it_keeps() -> None:
    outcome = run(
        """
        for turn in turns():
            open("count", "a").write("x")
            tell("reply", reply=len(open("count").read()) % 3)
        """,
        """
        - {user: one, expect: {reply: 1}}
        - {user: two, expect: {reply: 2}}
        - {user: three, restart: true, expect: {reply: 0}}
        """,
    )

    assert find_problems(outcome) == []


def test_a_session_is_told_what_its_state_begins_as() -> None:
    Path("desk.py").write_text(
        CLIENT + 'for turn in turns():\n    tell("reply", reply=turn["state"])\n'
    )
    Path("desk.pipeline.yaml").write_text(
        f"version: 1\npipeline: desk\nprogram: [{sys.executable}, desk.py]\n"
        "channels: {orders: {}}\n"
    )
    Path("desk.scenario.yaml").write_text(
        "version: 1\nscenario: s\npipeline: desk.pipeline.yaml\ngiven: {state: {orders: 7}}\n"
        "turns:\n"
        "  - {user: hi, expect: {reply: {orders: 7}, state: {orders: 7}}}\n"
        "  - {user: hi, expect: {reply: {$exact: {}}}}\n"
    )
    (item,) = items_in("desk.scenario.yaml")

    assert find_problems(simulate(Library().prepared(item))) == []


def test_the_program_is_told_of_the_end_and_ends_by_itself() -> None:
    run(ECHO + 'open("ended", "w").write("by itself")\n', "- {user: hi, replies: {clerk: hello}}")

    assert Path("ended").read_text() == "by itself"


def test_two_runs_are_the_same() -> None:
    scenario = "- {user: hi, replies: {clerk: hello}}\n- {user: again, replies: {clerk: yes}}"

    first, second = (run(ECHO, scenario).trace for _ in range(2))

    assert first.digest() == second.digest()
    started = first.events[0]
    assert isinstance(started, e.RunStarted)
    assert started.driver == "program"
    # Nothing of this machine is in it.
    assert "127.0.0.1" not in json.dumps([str(event) for event in first.events])
