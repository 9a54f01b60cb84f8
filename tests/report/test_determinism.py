from __future__ import annotations

from simkit.core.messages import Message
from simkit.report.diff_lines import first_difference
from simkit.report.text import findings_text
from simkit.trace import events as e
from simkit.trace.store import Trace


def lines(*events: e.AnyEvent) -> list[bytes]:
    trace = Trace()
    for event in events:
        trace.emit(event)
    return list(trace.lines())


STARTED = e.SessionStarted(0, "s1", project="p1")


def message_added(number: int, text: str) -> e.MessageAdded:
    message = Message("assistant", text, f"m{number}", "a", 1)
    return e.MessageAdded(5, "s1", 1, "a", "r1", message=message)


SAME = [message_added(number, "same") for number in range(1, 5)]


def test_the_first_event_that_differs_stands_under_the_three_before_it() -> None:
    long = "a long beginning that both runs share, word for word, "
    first = lines(STARTED, *SAME, message_added(5, long + "then this"), message_added(6, "x"))
    second = lines(STARTED, *SAME, message_added(5, long + "then that"), message_added(6, "y"))

    finding = first_difference(first, second, "f.scenario.yaml:3:1", "PYTHONHASHSEED=1")

    assert (
        findings_text([finding])
        == """\
f.scenario.yaml:3:1: not-deterministic: the second run (PYTHONHASHSEED=1) parts from the first at
  event 6 of 7
      3      5 ms  turn 1   MessageAdded        a r1: m2 assistant a: same
      4      5 ms  turn 1   MessageAdded        a r1: m3 assistant a: same
      5      5 ms  turn 1   MessageAdded        a r1: m4 assistant a: same
      6      5 ms  turn 1   MessageAdded        a r1: m5 assistant a: a long beginning that both …
  first:  …both runs share, word for word, then this","id":"m5","agent":"a","turn":1}}
  second: …both runs share, word for word, then that","id":"m5","agent":"a","turn":1}}
  → Look for a set that is iterated, an id or hash of an object, a clock, or chance that does not
    come from the seed, in the functions of the pipeline."""
    )


def test_a_run_that_stops_early_is_shown_with_what_the_other_has_more() -> None:
    first, second = lines(STARTED, SAME[0]), lines(STARTED)

    finding = first_difference(first, second, "f.scenario.yaml:3:1", "PYTHONHASHSEED=1")

    assert finding.what == (
        "the second run (PYTHONHASHSEED=1) parts from the first at event 2 of 2"
    )
    assert finding.context == (
        "    1      0 ms           SessionStarted      s1 in project p1",
        "    2      5 ms  turn 1   MessageAdded        a r1: m1 assistant a: same",
        "only the first run has this event",
    )


def test_an_event_that_only_the_second_run_has_is_shown() -> None:
    first, second = lines(STARTED), lines(STARTED, SAME[0])

    finding = first_difference(first, second, "f.scenario.yaml:3:1", "PYTHONHASHSEED=1")

    assert finding.context[-1] == "only the second run has this event"
