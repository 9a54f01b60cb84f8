"""Conversations led from Python, and the `sim` fixture from outside."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from simkit import Simulation, SourceError
from simkit.matchers import contains, length, message, partial
from simkit.session.simulation.asking import place_wrong_calls
from simkit.session.simulation.outcome import TurnOutcome
from tests.golden import assert_says, cases

ROOT = Path(__file__).resolve().parents[3]
PIPELINE = """\
version: 1
pipeline: support
channels:
  messages: {reducer: append, scope: session}
  notes: {reducer: append, scope: session}
agents:
  triage:
    instructions: You route.
    handoffs: [refunds]
    context:
      - instructions
      - notes
      - history: {from: log, filters: [tool_messages, tool_calls], window: {messages: 3}}
      - current_message
  refunds: {instructions: You refund., tools: [pay]}
tools: {pay: {args: {type: object, required: [amount]}}}
contracts:
  - {from: triage, to: refunds, type: refund, payload: {type: object, required: [order]}}
flow: {handoffs: {start: triage}}
"""
REFUND: dict[str, Any] = {
    "triage": {"handoff": {"to": "refunds", "payload": {"order": 7}}},
    "refunds": [{"calls": {"pay": {"amount": 40}}}, "You get 40 euros back."],
}


def simulated(**options: Any) -> Simulation:
    return Simulation(PIPELINE, **options)


def test_a_turn_can_be_looked_at_from_all_sides() -> None:
    desk = simulated()

    run = desk.say("I want my money back", replies=REFUND, tool_results={"pay": "paid"})

    assert run.reply == "You get 40 euros back."
    assert run.agents == ["triage", "refunds"]
    assert run.model_calls == {"triage": 1, "refunds": 2}
    assert run.handoffs == [
        partial({"from": "triage", "to": "refunds", "payload": {"order": 7}, "outcome": "made"})
    ]
    assert run.tool_calls == [partial({"tool": "pay", "args": {"amount": 40}, "result": "paid"})]
    assert run.state == partial({"messages": length(2)})
    assert (run.error, run.interrupt, run.findings) == (None, None, [])
    assert [type(event).__name__ for event in run.events][::26] == ["TurnStarted", "TurnFinished"]


def test_a_context_is_a_list_of_messages_that_knows_its_sections() -> None:
    desk = simulated()
    run = desk.say("I want my money back", replies=REFUND, tool_results={"pay": "paid"})

    first, last = run.context("refunds", 0), run.context("refunds", -1)

    assert first == [
        message(system="You refund."),
        message(system=contains("7"), section="handoff"),
        message(user="I want my money back"),
    ]
    assert first.sections == ["instructions", "handoff", "current_message"]
    assert first.section("handoff") == [message(system=contains("7"))]
    assert first.section("history") == []
    assert (first.tools, first.tokens, first.settings) == (["pay"], 11, {})
    assert last[-1] == message(role="tool", content="paid")


def test_the_next_turn_goes_on_and_shows_what_was_dropped() -> None:
    desk = simulated(state={"notes": [{"text": "Is a friend", "at": "2026-01-04T00:00:00Z"}]})
    desk.say("I want my money back", replies=REFUND, tool_results={"pay": "paid"})

    run = desk.say("Thanks", replies={"triage": "Bye."})

    context = run.context("triage")
    assert context.section("notes") == [message(system=contains("Is a friend"))]
    assert context.section("history")[-1] == message(assistant="You get 40 euros back.")
    assert context.dropped == [
        partial({"agent": "triage", "what": "tool_calls", "by": "tool_calls"}),
        partial({"agent": "triage", "what": "message", "by": "tool_calls"}),
        partial({"role": "tool", "tool": "transfer_to_refunds", "by": "tool_messages"}),
        partial({"agent": "refunds", "what": "tool_calls", "by": "tool_calls"}),
        partial({"agent": "refunds", "what": "message", "by": "tool_calls"}),
        partial({"role": "tool", "tool": "pay", "by": "tool_messages"}),
    ]
    assert context.left_out == []


def test_a_pipeline_may_be_a_mapping_and_an_outcome_of_before_stays_as_it_was() -> None:
    desk = Simulation(
        {
            "version": 1,
            "pipeline": "echo",
            "agents": {"a": {"instructions": "Say."}},
            "flow": {"handoffs": {"start": "a"}},
        }
    )

    first = desk.say("one", replies={"a": "1"})
    second = desk.say({"json": {"n": 2}}, replies={"a": {"json": {"n": 2}}})

    assert (first.reply, second.reply) == ("1", {"n": 2})
    assert first.context("a") == [message(system="Say."), message(user="one")]


def test_a_question_is_answered_and_sessions_know_nothing_of_each_other() -> None:
    desk = simulated()

    turn = desk.say("Money!", replies={"triage": {"interrupt": "Which order?"}})
    done = desk.resume(7, replies={"triage": "Fine."})
    other = desk.say("Hello", session="s2", replies={"triage": "Hi."})

    assert (turn.interrupt, done.reply) == ("Which order?", "Fine.")
    assert other.context("triage").section("history") == []
    desk.check()


@pytest.mark.slow
def test_a_new_process_goes_on_where_the_old_one_ended() -> None:
    desk = simulated()
    desk.say("I want my money back", replies={"triage": "Why?"})

    run = desk.say("It broke", replies={"triage": "I see."}, restart=True)

    assert message(assistant="Why?") in run.context("triage")
    desk.check()


@pytest.mark.slow
def test_a_first_restart_begins_anew_and_what_was_seen_before_is_seen_again() -> None:
    desk = simulated()
    first = desk.say("I want my money back", replies={"triage": "Why?"})
    before = (first.reply, first.context("triage"))

    run = desk.say("It broke", replies={"triage": "I see."}, restart=True)

    assert message(assistant="Why?") in run.context("triage")
    assert (first.reply, first.context("triage")) == before
    desk.check()


def test_an_error_that_was_looked_at_lets_the_conversation_go_on() -> None:
    desk = simulated()
    failed = desk.say("Hello", replies={"triage": {"error": "rate_limit"}})
    run = desk.say("Hello?", replies={"triage": "Hi."})

    with pytest.raises(SourceError, match="turn 2 was not run: turn 1 ended with rate_limit: "):
        _ = run.reply
    with pytest.raises(SourceError, match="turn 1 ended with rate_limit: "):
        _ = failed.reply
    assert failed.error is not None
    with pytest.raises(SourceError, match="turn 1 is over when `say` returns: leave out `await`"):
        failed.__await__()
    assert (failed.error.type, failed.reply, run.reply) == ("rate_limit", None, "Hi.")
    desk.check()


def test_a_finding_fails_unless_it_was_looked_at_or_turned_off() -> None:
    lines = {"triage": ["Hi.", "Never said."]}
    unseen, simulation, off = simulated(), simulated(), simulated(lints={"RUN-01": "on purpose"})
    for desk in (unseen, simulation, off):
        run = desk.say("Hello", replies=lines)
        if desk is simulation:
            assert [finding.id for finding in run.findings] == ["RUN-01"]

    with pytest.raises(AssertionError, match="RUN-01: agent 'triage' has 1 unused reply line"):
        unseen.check()
    simulation.check()
    off.check()


def test_a_finding_names_the_argument_in_which_something_is_missing() -> None:
    desk = simulated()
    desk.say("Hello", replies={"refunds": "Hi."})

    with pytest.raises(AssertionError, match=r"Add one under turn 1's replies\['triage'\], or"):
        desk.check()


def test_a_conversation_is_checked_when_its_block_ends_well() -> None:
    with pytest.raises(AssertionError, match="RUN-01"), simulated() as desk:
        desk.say("Hello", replies={"triage": ["Hi.", "Never said."]})
    with pytest.raises(SourceError), simulated() as desk:
        desk.say("Hello", replies={"triage": ["Hi.", "Never said."]}).context("refunds")


CALLS: list[int] = []


def count(_messages: Any) -> str:
    CALLS.append(1)
    return f"call {len(CALLS)}"


def test_user_code_that_remembers_outside_of_channels_is_found_out() -> None:
    desk = simulated()
    module = sys.modules[__name__]
    sys.modules.setdefault("counting_for_simulation", module)
    line = {"triage": {"function": "counting_for_simulation:count"}}

    assert desk.say("Hello", replies=line).reply == "call 1"
    assert desk.say("Hello again", replies=line).reply == "call 2"

    with pytest.raises(SourceError, match="turn 1 gave another result when it was run again"):
        desk.check()


@cases(__file__, "refused")
def test_a_mistake_is_told_at_the_line_that_made_it(turn: dict[str, Any], says: str) -> None:
    desk = simulated()

    line = sys._getframe().f_lineno + 2
    with pytest.raises(SourceError) as problem:
        _ = desk.say("Hello", **turn).reply

    where, _, text = str(problem.value).partition(" ")
    assert where == f"{Path(__file__).relative_to(Path.cwd())}:{line}:13:"
    assert_says(text, says)


def test_an_agent_of_several_calls_has_no_one_context() -> None:
    run = simulated().say("Money back", replies=REFUND, tool_results={"pay": "paid"})

    with pytest.raises(SourceError) as problem:
        run.context("refunds")

    assert str(problem.value).partition(": ")[2] == (
        "turn 1: agent `refunds` made 2 model calls: say which, `context('refunds', 0)` or "
        "`context('refunds', -1)`, or look at all of them, `contexts('refunds')`"
    )
    assert run.contexts("refunds") == [run.context("refunds", 0), run.context("refunds", -1)]


def test_an_agent_that_was_not_asked_has_no_context() -> None:
    run = simulated().say("Hello", replies={"triage": "Hi."})

    with pytest.raises(SourceError) as other:
        run.context("refunds")
    with pytest.raises(SourceError) as second:
        run.context("triage", 1)

    results = [str(problem.value).partition(": ")[2] for problem in (other, second)]
    assert results == [
        "turn 1: agent `refunds` made no model call\n  known: triage",
        "turn 1: agent `triage` made 1 model call, and none is `1`",
    ]


def test_a_pipeline_that_is_not_there_is_told_with_the_nearest(cwd: Path) -> None:
    (cwd / "support.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")

    assert Simulation("support.pipeline.yaml").say("Hi", replies={"triage": "Hi."}).reply == "Hi."
    with pytest.raises(SourceError, match=r"there is no pipeline `suport\.pipeline\.yaml`") as it:
        Simulation("suport.pipeline.yaml")
    assert it.value.near == "support.pipeline.yaml"


TESTS = """\
from simkit.matchers import contains, message

def test_holds(sim):
    run = sim("support.pipeline.yaml").say("Hello", replies={"triage": "Hi."})
    assert run.reply == "Hi."

def test_one_message_differs(sim):
    run = sim("support.pipeline.yaml").say("Hello", replies={"triage": "Hi."})
    assert run.context("triage")[1] == message(user=contains("money"))

def test_one_of_the_messages_differs(sim):
    run = sim("support.pipeline.yaml").say("Hello", replies={"triage": "Hi."})
    assert [one.content for one in run.context("triage")] == [contains("route"), contains("money")]

def test_a_line_is_unused(sim):
    desk = sim("support.pipeline.yaml")
    run = desk.say(
        "Hello",
        replies={"triage": ["Hi.", "Never said."]},
    )
    assert run.reply == "Hi."

def test_a_name_is_misspelt(sim):
    desk = sim("support.pipeline.yaml")
    desk.say("Hello", replies={"triagge": "Hi."})
"""
FAILURES = """\
_____________________________ test_one_message_differs _____________________________

sim = <sim>

    def test_one_message_differs(sim):
        run = sim("support.pipeline.yaml").say("Hello", replies={"triage": "Hi."})
>       assert run.context("triage")[1] == message(user=contains("money"))
E       assert message(user='Hello', section='current_message') == message(user=contains('money'))
E         at content: wanted $contains: "money", found "Hello"

test_it.py:9: AssertionError
_________________________ test_one_of_the_messages_differs _________________________

sim = <sim>

    def test_one_of_the_messages_differs(sim):
        run = sim("support.pipeline.yaml").say("Hello", replies={"triage": "Hi."})
>       assert [one.content for one in run.context("triage")] == [contains("route"), contains("money")]
E       AssertionError: assert ['You route.', 'Hello'] == ['You route.'...ains('money')]
E         
E         At index 1 diff: 'Hello' != contains('money')
E         
E         Full diff:
E           [
E               'You route.',
E         -     contains('money'),
E         +     'Hello',
E           ]

test_it.py:13: AssertionError
______________________________ test_a_line_is_unused _______________________________
test_it.py:17:11: RUN-01: agent 'triage' has 1 unused reply line in turn 1: number 2. It made 1
  model call. Remove it, or let the agent be asked again.
    run = desk.say(
        "Hello",
        replies={"triage": ["Hi.", "Never said."]},
    )
  RUN-01 script-mismatch: every reply line and every tool result is used, and every model call and
    tool call has one
  → Remove the unused line or result, move it to the turn that needs it, or add the missing one.

A test that accesses `run.findings` or `run.error` accepts them; a lint is turned off with a reason: lints={'CTX-01': 'why'}.

reproduce: pytest test_it.py::test_a_line_is_unused
_____________________________ test_a_name_is_misspelt ______________________________

sim = <sim>

    def test_a_name_is_misspelt(sim):
        desk = sim("support.pipeline.yaml")
>       desk.say("Hello", replies={"triagge": "Hi."})
E       simkit.SourceError: test_it.py:25:5: unknown agent `triagge`
E         at replies.triagge
E         did you mean `triage`?   known: triage, refunds

test_it.py:25: SourceError
"""  # noqa: E501


def _without_accidents(line: str) -> str:
    """A line without an address, and without what some versions of pytest add."""
    if line.startswith("sim = <"):
        return "sim = <sim>"
    return line.partition(" (-: missing")[0]


@pytest.fixture
def _alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest with no plugin but simkit's: what others do beside it is tested in tests/compat/."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p simkit.pytest_plugin -p no:cacheprovider")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "84")
    (pytester.path / "support.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("_alone")
def test_pytest_shows_only_what_differs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)

    result = pytester.runpytest_subprocess("-v")

    text = result.stdout.str()
    part = text.partition("= FAILURES =")[2].partition("\n")[2].partition("\n===")[0] + "\n"
    lines = [_without_accidents(line.rstrip()) for line in part.splitlines()]
    assert lines == [line.rstrip() for line in FAILURES.splitlines()]
    result.assert_outcomes(passed=1, failed=4)


@pytest.mark.slow
@pytest.mark.usefixtures("_alone")
def test_warnings_are_counted_and_an_expected_failure_may_be_a_finding(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.xfail(strict=True)
        def test_a_finding_is_expected(sim):
            sim("support.pipeline.yaml").say("Hello", replies={"triage": ["Hi.", "Unused."]})

        def test_a_seed_is_given(sim):
            desk = sim("support.pipeline.yaml", seed=3)
            desk.say("Hello", replies={"triage": "Hi."})
            assert desk.trace.events[0].seed == 11
        """
    )

    result = pytester.runpytest_subprocess("--simkit-seed=11")

    result.assert_outcomes(xfailed=1, passed=1)


@pytest.mark.slow
@pytest.mark.usefixtures("_alone")
def test_a_run_that_cannot_be_made_fails_the_test_with_one_message(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        test_it="""
        LINE = {"triage": {"function": "nowhere:answer"}}

        def test_nobody_looked(sim):
            sim("support.pipeline.yaml").say("Hello", replies=LINE)

        def test_somebody_looked(sim):
            run = sim("support.pipeline.yaml").say("Hello", replies=LINE)
            assert run.reply == "Hi."
        """
    )

    result = pytester.runpytest_subprocess("--tb=short")

    text = (
        "function `nowhere:answer`: there is no module 'nowhere'. It is looked for in the working "
        "directory and on sys.path."
    )
    result.assert_outcomes(failed=2)
    assert [line for line in result.outlines if text in line and "FAILED" not in line] == [
        f"test_it.py:4:5: {text}",
        f"E   simkit.SourceError: test_it.py:7:11: {text}",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("_alone")
def test_a_run_without_simulations_loads_nothing_of_them(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_light():
            own = [name for name in sys.modules if name.startswith("simkit")]
            assert own == ["simkit", "simkit.pytest_plugin"]
        """
    )

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["reply", "context", "state"])
def test_what_only_a_turn_has_is_named_with_the_way_to_it(name: str) -> None:
    simulation = Simulation.__new__(Simulation)

    with pytest.raises(AttributeError, match=rf'`sim\(…\)\.say\("Hello"\)\.{name}`'):
        getattr(simulation, name)
    with pytest.raises(AttributeError, match="has no attribute 'saay'; did you mean `say`"):
        simulation.saay  # noqa: B018


def turn_of(chat: Simulation) -> Any:
    return TurnOutcome(chat, 1)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda chat: chat.say(), "`say(user, **turn)`: missing a required argument: 'user'"),
        (lambda chat: chat.say("Hi", {}), "`say(user, **turn)`: too many positional arguments"),
        (lambda chat: turn_of(chat).context(), "`context(agent, call)`: missing a required"),
        (lambda chat: turn_of(chat).judge("?", oneof=()), "did you mean `one_of`?"),
    ],
    ids=["nothing", "two", "no agent", "misspelt"],
)
def test_a_wrong_call_is_an_error_at_its_line(wrong: Any, text: str) -> None:
    simulation = Simulation.__new__(Simulation)

    with pytest.raises(SourceError) as caught:
        wrong(simulation)

    assert text in str(caught.value)
    assert Path(caught.value.where.split(":")[0]).name == Path(__file__).name


def test_an_error_within_a_call_stays_itself() -> None:
    @place_wrong_calls
    class Desk:
        def add(self, number: Any) -> Any:
            return number + 1

        @property
        def total(self) -> Any:
            return object().nothing  # type: ignore[attr-defined]

    with pytest.raises(TypeError, match="can only concatenate str"):
        Desk().add("one")
    with pytest.raises(AttributeError, match="'nothing'"):
        Desk().total  # noqa: B018


@pytest.mark.slow
@pytest.mark.usefixtures("_alone")
def test_a_failure_shows_no_line_of_simkit(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from simkit import Simulation

        def test_it():
            Simulation.__new__(Simulation).saay
        """
    )

    result = pytester.runpytest_subprocess()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*did you mean `say`*"])
    assert [line for line in result.outlines if "asking.py" in line] == []
