"""LangGraph's graphs, unchanged: who works, what each is sent and writes, who hands over."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from textwrap import dedent
from typing import Any

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from simkit.adapters.langgraph import messages, stream_observers
from simkit.core.errors import SourceError
from simkit.trace import events as e
from tests.adapters import running
from tests.adapters.running import digests_of, prepared, run_app
from tests.building import Ran

TWO = dedent("""
    turns:
      - user: Hello
        replies: {first: One., second: Two.}
        expect:
          reply: Two.
          agents: [first, second]
          context:
            first: {messages: [{system: You are first.}, {user: Hello}]}
            second:
              messages: [{system: You are second.}, {user: Hello}, {assistant: One., agent: first}]
""")
STATE = "      state: {messages: [{user: Hello}, {assistant: One.}, {assistant: Two.}]}\n"


def run(name: str, scenario: str) -> Ran:
    return run_app(f"langgraph_cases:{name}", scenario)


def check_app(name: str, scenario: str) -> Ran:
    """Runs a scenario that must hold."""
    return running.check_app(f"langgraph_cases:{name}", scenario)


@pytest.mark.parametrize(
    "name", ["compiled", "builder", "factory", "async_factory", "remembering", "asynchronous"]
)
def test_a_graph_is_seen_in_whatever_form_it_is_named(name: str) -> None:
    check_app(name, TWO + STATE)


@pytest.mark.parametrize("call", ["invoke", "ainvoke", "stream", "astream"])
def test_a_graph_is_seen_whichever_way_it_is_called(call: str) -> None:
    check_app("compiled", f"app: {{path: [.], call: {call}}}\n" + TWO + STATE)


@pytest.mark.parametrize(
    "name", ["wrapped", "wrapped_state", "wrapped_stream_v2", "wrapped_messages", "wrapped_async"]
)
def test_a_graph_is_seen_that_the_users_code_calls(name: str) -> None:
    check_app(name, TWO + STATE)


def test_a_factory_is_given_the_configuration() -> None:
    check_app("configured", "app: {path: [.], config: {configurable: {size: 2}}}\n" + TWO + STATE)


def test_nothing_is_left_in_the_framework_after_a_run() -> None:
    check_app("compiled", TWO)

    assert stream_observers.installation.replaced == []
    assert messages.listeners.current() is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compiled", "asynchronous", "counters", "both_fail", "clashing"])
def test_many_runs_are_one(name: str) -> None:
    two = name in ("compiled", "asynchronous")
    scenario = prepared(
        f"langgraph_cases:{name}",
        TWO if two else "app: {path: [.], input: {text: '${user}'}}\nturns: [{user: Hello}]",
    )

    assert len(digests_of(scenario)) == 1


@pytest.mark.parametrize("name", ["undeterred", "undeterred_async"])
def test_a_limit_ends_the_run_of_code_that_goes_on_after_any_exception(
    name: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    check_app(
        name,
        """
        limits: {agent_runs_per_turn: 1}
        turns:
          - user: Hello
            replies: {first: One.}
            expect: {agents: [first], error: {type: LimitExceeded}}
        """,
    )

    assert (capsys.readouterr().err, caplog.text) == ("", "")


# Who works


@pytest.mark.parametrize("name", ["outer", "subgraphs_streamed"])
def test_a_node_that_is_a_graph_works_by_its_own_nodes(name: str) -> None:
    check_app(
        name,
        """
        turns:
          - user: Hello
            replies: {critic: Fine., end: Bye.}
            expect: {agents: [review, critic, end], state: {messages: {$len: 3}}}
        """,
    )


def test_a_node_may_be_given_another_name() -> None:
    check_app(
        "compiled",
        "agents: {greeter: {node: first}}\n" + TWO.replace("first:", "greeter:").replace(
            "[first,", "[greeter,"
        ).replace("agent: first", "agent: greeter"),
    )  # fmt: skip


def test_a_node_has_the_name_that_the_scenario_gives_it_where_code_calls_the_graph() -> None:
    ran = check_app(
        "wrapped", "agents: {greeter: {node: first}}\n" + TWO.replace("first", "greeter")
               .replace("You are greeter", "You are first"))  # fmt: skip

    assert [run.agent for run in ran.view.turns[0].runs] == ["greeter", "second"]


@pytest.mark.parametrize("name", ["compiled", "wrapped"])
def test_a_node_that_is_not_there_is_an_error_though_its_agent_has_no_reply(name: str) -> None:
    scenario = "agents: {greeter: {node: frist}}\nturns: [{user: Hi, replies: {greeter: One.}}]"

    with pytest.raises(SourceError, match=r"no node 'frist' worked.* Did you mean `first`\?"):
        run(name, scenario)


def test_a_task_that_only_running_shows_is_a_node_that_is_there() -> None:
    turns = "turns: [{user: cats, replies: {writer: Purr.}}]"

    check_app("workflow", f"agents: {{writer: {{node: note}}}}\n{turns}")


def test_an_agent_that_is_nearly_called_like_a_node_is_an_error() -> None:
    with pytest.raises(SourceError, match=r"no agent 'frist' worked.* Did you mean `first`\?"):
        run("compiled", "agents: {frist: {sections: {}}}\n" + TWO)


# State


def test_what_parallel_nodes_write_is_told_with_its_reducer() -> None:
    ran = check_app(
        "counters",
        """
        app: {path: [.], input: {text: "${user}"}, output: log}
        turns:
          - user: go
            expect:
              agents: [[a, b]]
              reply: [a, b]
              runs: {b: {update: {log: [b], count: 2}}}
              state: {text: go, log: [a, b], count: 4, seen: {a: 1, b: 1}, loud: {a: A, b: B}}
        """,
    )

    assert ran.view.pipeline.channels == {
        "text": e.ChannelFacts("replace", "turn"),
        "log": e.ChannelFacts("append", "turn"),
        "count": e.ChannelFacts("add", "turn"),
        "seen": e.ChannelFacts("merge", "turn"),
        "loud": e.ChannelFacts("langgraph_cases:merged", "turn", {}),
        "last": e.ChannelFacts("replace", "turn"),
    }


def updates_of(ran: Ran) -> list[tuple[str, Any]]:
    """Returns who wrote what; the empty name is the user's."""
    return [
        (event.agent, event.update)
        for event in ran.trace.events
        if isinstance(event, e.StateUpdated)
    ]


def test_graphs_that_run_beside_each_other_have_a_state_each() -> None:
    ran = check_app(
        "side_by_side",
        """
        turns:
          - user: go
            replies: {count_purrs: Purr., count_barks: Woof!}
            expect:
              reply: "{'text': 'a cat', 'purrs': ['Prr.', 'Purr.']} {'text': 'a dog', 'barks': 5}"
        """,
    )

    assert updates_of(ran) == [
        ("", {"text": "a cat", "purrs": ["Prr."]}),
        ("", {"text": "a dog", "barks": {"$set": 0}}),
        ("count_purrs", {"purrs": ["Purr."]}),
        ("count_barks", {"barks": 5}),
    ]


def test_one_graph_that_is_called_twice_at_a_time_has_two_states() -> None:
    ran = check_app(
        "same_side_by_side",
        """
        turns:
          - user: go
            replies: {count_purrs: [Purr., Roar.]}
            expect:
              reply: "['Purr.'] ['Rrr.', 'Roar.']"
        """,
    )

    assert updates_of(ran) == [
        ("", {"text": "a cat"}),
        ("", {"text": "a lion", "purrs": ["Rrr."]}),
        ("count_purrs", {"purrs": ["Purr."]}),
        ("count_purrs", {"purrs": ["Roar."]}),
    ]


def test_messages_that_are_removed_are_a_declared_reset() -> None:
    ran = check_app(
        "trimming",
        """
        turns:
          - user: Hello
            replies: {first: One.}
            expect: {state: {messages: [{assistant: One.}]}}
          - user: Again
            replies: {first: Two.}
            expect: {state: {messages: [{assistant: Two.}]}}
        """,
    )

    assert ran.events(e.StateUpdated)[-1].update == {"messages": {"$set": [{"$message": 4}]}}


def test_all_channels_are_told_of_a_graph_that_puts_out_one() -> None:
    ran = check_app(
        "narrowed",
        """
        turns:
          - user: Open?
            expect:
              reply: Yes.
              runs: {reply: {update: {answer: Yes., loud: {a: b}}}}
              state:
                question: Open?
                answer: Yes.
                loud: {a: B, c: D}
                messages: [{assistant: Yes.}]
        """,
    )

    events = [event for event in ran.trace.events if isinstance(event, e.StateUpdated)]
    assert [(event.agent, event.cause, sorted(event.update)) for event in events] == [
        ("", "user", ["question"]),
        ("reply", "writes", ["answer", "loud", "messages"]),
        ("forget", "writes", ["loud", "messages"]),
    ]


@pytest.mark.slow
def test_each_session_is_a_thread_and_each_run_has_threads_of_its_own() -> None:
    scenario = """
        turns:
          - {user: Hello, replies: {first: One., second: Two.}}
          - user: Good day
            session: other
            replies: {first: Un., second: Deux.}
            expect: {state: {messages: {$len: 3}}}
          - user: Again
            replies: {first: Three., second: Four.}
            expect:
              state: {messages: {$len: 6}}
              context: {first: {excludes: [{$contains: Deux}]}}
        """

    check_app("remembering", scenario)
    check_app("remembering", scenario)


# What a graph is given


@pytest.mark.parametrize(
    "expected", ['{question: "${user}", language: German}', "langgraph_cases:in_german"]
)
def test_a_scenario_says_how_the_message_becomes_a_graphs_input(expected: str) -> None:
    check_app(
        "two_texts",
        f"app: {{path: [.], output: answer, input: {expected}}}\n"
        "turns: [{user: Why, expect: {reply: Why in German}}]",
    )


def test_a_graph_that_takes_several_texts_must_be_told_which() -> None:
    with pytest.raises(SourceError) as caught:
        run("two_texts", "turns: [{user: Why}]")

    assert str(caught.value).partition(": ")[2] == (
        "`langgraph_cases:two_texts` takes `question`, `language`, `answer`, and no `messages`: "
        "which is the user's message?\n"
        'Say it: `app: {input: {question: "${user}"}}`, or name a function of the message that '
        "returns the graph's input: `app: {input: module:function}`."
    )


# Handoffs, interrupts, failures


def routes_of(ran: Ran) -> list[tuple[str, tuple[str, ...], bool]]:
    chosen = [event for event in ran.trace.events if isinstance(event, e.RouteChosen)]
    return [(item.agent, item.targets, item.parallel) for item in chosen]


def test_a_command_that_sends_several_to_one_node_is_one_route_to_a_parallel_group() -> None:
    ran = check_app(
        "spreading",
        """
        app: {path: [.], input: {text: "${user}"}, output: log}
        turns:
          - user: go
            expect:
              agents: [spread, [piece, piece]]
              handoffs: []
              reply: [left, right]
        """,
    )

    assert routes_of(ran) == [("spread", ("piece", "piece"), True)]


def test_a_command_that_goes_to_another_node_of_the_conversation_is_a_route() -> None:
    ran = check_app(
        "routed",
        """
        turns:
          - user: My bill is wrong
            replies: {triage: billing, desk: Sorry about the billing.}
            expect:
              agents: [triage, desk]
              handoffs: []
              state: {topic: billing}
        """,
    )

    assert routes_of(ran) == [("triage", ("desk",), False)]


def test_a_command_to_the_graph_around_is_a_handoff_of_the_node_inside() -> None:
    ran = check_app(
        "escalating",
        """
        turns:
          - user: My bill is wrong
            replies: {clerk: Sorry., boss: Sorry indeed.}
            expect:
              agents: [front, clerk, boss]
              handoffs: [{from: clerk, to: boss, payload: {topic: anger}}]
              state: {topic: anger}
              reply: Sorry indeed.
        lints: {HND-12: the boss reads the conversation alone}
        """,
    )

    assert [item.status for item in ran.turn().runs] == ["done", "done", "done"]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("call: strem", "a graph is run by invoke, stream, ainvoke, astream: not by `strem`"),
        ("output: answr", "the graph's state has no `answr`. Did you mean `answer`?"),
        ("output: reply", "the graph's state has no `reply`. It has question, language, answer."),
    ],
)
def test_a_way_or_a_channel_that_there_is_not_is_refused_where_it_is_named(
    option: str, says: str
) -> None:
    with pytest.raises(SourceError) as caught:
        run("two_texts", f"app: {{path: [.], {option}}}\nturns: [{{user: Why}}]")

    where, _, subject = str(caught.value).partition(": ")
    column = len("app: {path: [.], ") + option.index(" ") + 2
    assert (where.endswith(f":4:{column}"), subject) == (True, says)


def test_an_answer_to_no_question_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        run("remembering", "turns: [{user: a, replies: {first: b, second: c}}, {resume: yes}]")

    assert str(caught.value).partition(": ")[2] == (
        "turn 2 answers an interrupt, but session 's1' of `langgraph_cases:remembering` waits for "
        "nothing."
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("remembering", "its InMemorySaver is in memory, and ends with its process"),
        ("compiled", "it has no checkpointer, so nothing outlives its process"),
    ],
)
def test_a_graph_that_keeps_nothing_is_not_restarted(name: str, why: str) -> None:
    again = "{user: d, restart: true, replies: {first: e, second: f}}"
    with pytest.raises(SourceError) as caught:
        run(name, f"turns: [{{user: a, replies: {{first: b, second: c}}}}, {again}]")

    assert str(caught.value).partition(": ")[2] == (
        f"`langgraph_cases:{name}` cannot be restarted: {why}.\n"
        "Compile it with a checkpointer that keeps its state in a file, such as SqliteSaver, or "
        "keep the checkpointer in a module that is not the pipeline's."
    )


def test_a_node_that_is_tried_again_is_one_activation() -> None:
    ran = check_app(
        "retried",
        """
        app: {path: [.], input: {text: "${user}"}, output: log}
        turns: [{user: go, expect: {agents: [flaky], reply: [at last]}}]
        """,
    )

    assert [item.status for item in ran.turn().runs] == ["done"]


def test_of_nodes_that_fail_together_the_first_is_told_and_nothing_holds_of_the_step() -> None:
    ran = check_app(
        "both_fail",
        """
        app: {path: [.], input: {text: "${user}"}}
        turns:
          - user: wine
            expect:
              error: {type: FunctionFailed, message: {$contains: no wine here}}
              state: {log: []}
        """,
    )

    assert {item.agent: item.status for item in ran.turn().runs}["one"] == "failed"


def test_what_the_framework_raises_keeps_its_name() -> None:
    ran = run("clashing", "app: {path: [.], input: {text: '${user}'}}\nturns: [{user: go}]")

    error = ran.error()
    assert error is not None
    assert error[0] == "InvalidUpdateError"


# Tools, stores, models


def test_what_goes_into_a_store_and_out_of_it_is_told() -> None:
    ran = check_app("storing", "turns: [{user: Ada, expect: {reply: Nice to meet you.}}]")

    assert [
        (type(event).__name__, event.agent, event.channel)
        for event in ran.trace.events
        if isinstance(event, (e.StoreRead, e.StoreWritten))
    ] == [
        ("StoreRead", "remember", "users/ada/name"),
        ("StoreWritten", "remember", "users/ada/name"),
    ]


def test_models_without_a_wire_are_seen() -> None:
    ran = run("stubbed", "turns: [{user: Bern?, tool_results: {weather: grey}}]")

    assert [(c.agent, [m.role for m in c.context.messages]) for c in ran.turn().calls] == [
        ("ask", ["user"]), ("tell", ["user", "assistant", "tool"]),
    ]  # fmt: skip


# Each hook, removed, turns a scenario red


def without(mode: str) -> Any:
    def remove(monkeypatch: pytest.MonkeyPatch) -> None:
        others = tuple(other for other in stream_observers.MODES if other != mode)
        monkeypatch.setattr(stream_observers, "MODES", others)

    return remove


def without_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_observers, "_tell_channels", lambda loop, is_first: None)


def without_callback(name: str) -> Any:
    def remove(monkeypatch: pytest.MonkeyPatch) -> None:
        from simkit.adapters.langgraph.listener import GraphListener

        monkeypatch.setattr(GraphListener, name, lambda self, *args, **kwargs: None)

    return remove


def without_rows(module: str) -> Any:
    def remove(monkeypatch: pytest.MonkeyPatch) -> None:
        from simkit.adapters.langgraph import listener as langgraph_listener

        monkeypatch.setattr(langgraph_listener, f"{module}_rows", lambda result: [])

    return remove


def without_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    from simkit.adapters.langgraph import listener as langgraph_listener

    monkeypatch.setattr(langgraph_listener, "namespace_now", lambda: "")


STUBBED = """
    turns:
      - user: And Bern?
        tool_results: {weather: grey}
        expect: {reply: Grey., tool_calls: [{tool: weather, result: grey}]}
"""
ROUTED = """
    turns:
      - user: My bill is wrong
        replies: {triage: billing, desk: Sorry.}
        expect: {events: {$has: [{kind: RouteChosen, agent: triage, targets: [desk]}]}}
"""
FAKED = """
    turns:
      - user: And Bern?
        tool_results: {weather: grey}
        expect: {model_calls: {ask: 1, tell: 1}}
"""
STORED = """
    turns:
      - user: Ada
        expect: {events: {$has: [{kind: StoreWritten, channel: users/ada/name}]}}
"""
SAVED = """
    turns:
      - user: Hello
        replies: {first: One., second: Two.}
        expect: {events: {$has: [{kind: CheckpointSaved, checkpoint: k3}]}}
"""


def hooks() -> Iterator[Any]:
    yield pytest.param(without("tasks"), "compiled", TWO, id="tasks")
    yield pytest.param(without_channels, "compiled", TWO + STATE, id="channels")
    yield pytest.param(without("checkpoints"), "remembering", SAVED, id="checkpoints")
    yield pytest.param(without_callback("on_chain_end"), "routed", ROUTED, id="a node's result")
    yield pytest.param(without_callback("on_llm_end"), "stubbed", FAKED, id="models")
    yield pytest.param(without_rows("tool"), "stubbed", STUBBED, id="tools")
    yield pytest.param(without_rows("store"), "storing", STORED, id="stores")
    yield pytest.param(without_namespace, "compiled", TWO, id="whose code it is")


@pytest.mark.parametrize(("remove", "name", "scenario"), list(hooks()))
def test_a_scenario_fails_without_what_it_looks_through(
    remove: Any, name: str, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(name, scenario).judgement.passed

    remove(monkeypatch)
    try:
        assert not run(name, scenario).judgement.passed
    except SourceError:
        return  # What cannot be told whose it is ends the run.


def test_a_key_that_the_graph_would_pass_over_is_an_error() -> None:
    scenario = 'app: {path: [.], input: {mesages: "${user}"}}\nturns: [{user: Hello}]'

    with pytest.raises(SourceError, match=r"takes no 'mesages'\. Did you mean `messages`\?"):
        run("compiled", scenario)
