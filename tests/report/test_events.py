# ruff: noqa: E501 -- whole texts are as wide as they are printed
from __future__ import annotations

from collections.abc import Callable

from simkit.report.events import event_line, event_lines
from simkit.trace import events as e
from simkit.trace.views import View


def test_the_events_of_a_turn_are_one_a_line(view_of_run: Callable[..., View]) -> None:
    lines = list(event_lines(view_of_run().events, turn=1))

    assert (
        "\n".join(lines)
        == """\
    4      0 ms  turn 1   TurnStarted         message m1
    5      0 ms  turn 1   MessageAdded        m1 user: I ran 8 km
    6      0 ms  turn 1   StateUpdated        user: {"messages": [{"$message": 1}]}
    7      0 ms  turn 1   AgentStarted        router r1: input I ran 8 km
    8      0 ms  turn 1   ContextBuilt        router r1: c1 from instructions, current_message, 5 tokens
    9      0 ms  turn 1   ModelCalled         router r1: call c1
   10      0 ms  turn 1   MessageAdded        router r1: m2 assistant router: {"agent":"coach"}
   11      0 ms  turn 1   ModelReplied        router r1: call c1, message m2, reply json
   12      0 ms  turn 1   StateUpdated        router r1: writes: {"decision": {"agent": "coach"}}
   13      0 ms  turn 1   AgentFinished       router r1: status done, output {"agent": "coach"}, message m2
   14      0 ms  turn 1   RouteChosen         router r1: targets ["coach"]
   15      0 ms  turn 1   AgentStarted        coach r2: input I ran 8 km
   16      0 ms  turn 1   ContextBuilt        coach r2: c2 from instructions, history, current_message, 10 tokens
   17      0 ms  turn 1   ModelCalled         coach r2: call c2
   18      0 ms  turn 1   MessageAdded        coach r2: m3 assistant coach: log_run(km: 8)
   19      0 ms  turn 1   ModelReplied        coach r2: call c2, message m3, reply calls
   20      0 ms  turn 1   ToolCalled          coach r2: call_id call1, tool log_run, args {"km": 8}
   21   1500 ms  turn 1   ToolReturned        coach r2: call_id call1, tool log_run, result {"ok": true}
   22   1500 ms  turn 1   MessageAdded        coach r2: m4 tool coach: {"ok":true}
   23   1500 ms  turn 1   ContextBuilt        coach r2: c3 on c2, said m3, m4, 17 tokens
   24   1500 ms  turn 1   ModelCalled         coach r2: call c3
   25   1500 ms  turn 1   MessageAdded        coach r2: m5 assistant coach: Well done.
   26   1500 ms  turn 1   ModelReplied        coach r2: call c3, message m5, reply text
   27   1500 ms  turn 1   StateUpdated        coach r2: writes: {"messages": [{"$message": 5}]}
   28   1500 ms  turn 1   AgentFinished       coach r2: status done, output Well done., message m5
   29   1500 ms  turn 1   TurnFinished        reply Well done."""
    )


def test_handoffs_say_who_passes_control_to_whom_and_why_not(
    view_of_run: Callable[..., View],
) -> None:
    lines = list(event_lines(view_of_run().events, turn=2, agent="coach"))

    assert [line for line in lines if "Handoff" in line.split("coach")[0]] == [
        "   46   1500 ms  turn 2   HandoffRequested    coach r4: h1 coach → analyst, "
        "transfer of type analysis: {}",
        "   47   1500 ms  turn 2   HandoffRejected     coach r4: h1 coach → analyst, "
        "transfer of type analysis: payload: 'km' is a required property",
        "   53   1500 ms  turn 2   HandoffRequested    coach r4: h2 coach → analyst, "
        'transfer of type analysis: {"km": 8}',
        "   54   1500 ms  turn 2   HandoffMade         coach r4: h2 coach → analyst, "
        'transfer of type analysis: {"km": 8}',
    ]


def test_events_are_counted_from_one(view_of_run: Callable[..., View]) -> None:
    first, *_, last = event_lines(view_of_run().events)

    assert first == (
        "    1      0 ms           RunStarted          'two turns', pipeline coach, seed 0"
    )
    assert last == "   65   1500 ms           RunFinished"


def test_a_long_event_is_cut_and_structured_fields_are_read() -> None:
    error = e.ErrorFacts("NoRoute", "no label fits " * 20)
    event = e.TurnFinished(0, "s1", 1, error=error, unused=(e.UnusedLines("a", (1,), 2),))

    line = event_line(9, event)

    assert len(line) <= 160
    assert line.startswith(
        '    9      0 ms  turn 1   TurnFinished        error {"type": "NoRoute", "message": "no label'
    )
