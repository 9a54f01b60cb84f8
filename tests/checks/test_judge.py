"""The judge as a whole: its order, its cost, and the user's own predicates."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simkit.checks import claims as claims_module
from simkit.checks.findings import Finding
from simkit.checks.judge import judge
from simkit.core.errors import MatcherError, SourceError
from simkit.core.messages import Message
from simkit.language.matching import Matcher, check
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.trace.store import Trace
from simkit.trace.views import View
from tests.building import prepared
from tests.checks.judging import MEALS, PIPELINE, describe_findings, judged, text, with_claims

ROOT = Path(__file__).resolve().parent.parent.parent
TALK = """
turns:
  - user: {json: {text: Everybody!, number: 7}}
    replies:
      router: {json: {to: {parallel: [nutrition, greeter]}}}
      nutrition:
        - calls: [log_meal: {food: pizza}]
        - Logged your pizza.
      greeter: Hello.
    tool_results: {log_meal: {kcal: 800}}
  - user: And my run?
    replies:
      router: {json: {to: [counter, coach]}}
      coach:
        - handoff: {to: analyst, payload: {}}
        - handoff: {to: archivist, query: Where?}
        - handoff: {to: analyst, payload: {km: 8}}
      archivist: Here.
      analyst: {json: {faster: 12}}
    expect:
"""
INTERNALS = re.compile(
    r"\b(Message|Messages|Appended|ToolCall|Dropped|Said|Phrase|Absent|[A-Z]\w*View|\w+Part|"
    r"Piece|Omission|ErrorFacts|Miss|Mismatch|Difference|Hit|mappingproxy|frozenset|dict_\w+|"
    r"PosixPath|object)\(|<[a-z_]+[. ]|0x[0-9a-f]{6}|\bNone\b|\bTrue\b|\bFalse\b|\\x"
)

scalars = st.sampled_from(
    [None, True, 1, 0.5, "", "x", "pizza", "coach", "And my run?", 'a"b\\c', "é\n" * 90]
)
operators = st.one_of(
    st.builds(lambda n: {"$len": n}, st.integers(0, 3)),
    st.sampled_from(
        [{"$absent": True}, {"$any": True}, {"$type": "text"}, {"$gt": 3}, {"$regex": "^x.$"},
         {"$keys": ["a"]}, {"$exact": {}},
         {"$starts": "q"}, {"$approx": 3}]
    ),
)  # fmt: skip
keys = st.sampled_from(
    ["user", "assistant", "tool", "content", "calls", "args", "agent", "to", "payload", "km", "x",
     "messages[0]", "a.b", "$$set", "data", "id", "turn", "role"]
)  # fmt: skip
MATCHERS = st.recursive(
    st.one_of(scalars, operators),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(keys, inner, min_size=1, max_size=3),
        st.builds(
            lambda name, operand: {name: operand},
            st.sampled_from(["$not", "$each", "$has", "$eq", "$ne"]), inner,
        ),
        st.builds(
            lambda name, operands: {name: operands},
            st.sampled_from(["$all", "$either", "$in", "$in_order", "$unordered"]),
            st.lists(inner, min_size=1, max_size=2),
        ),
    ),
    max_leaves=6,
)  # fmt: skip
PLACES = (
    ("agents",), ("reply",), ("handoffs",), ("tool_calls",), ("events",), ("error",),
    ("interrupt",), ("state", "messages"), ("state", "total"), ("state", "decision"),
    *(("runs", "*", name) for name in ("received", "input", "output", "update", "reply",
                                      "messages")),
    *(("context", "*", name) for name in ("messages", "sections", "tools", "tokens", "share",
                                         "prefix", "settings", "dropped", "history", "run")),
    ("context", "*", "includes", 0), ("context", "*", "excludes", 0),
    ("context", "coach", "plan"), ("findings", 0),
)  # fmt: skip


@cache
def trace() -> Trace:
    """The trace of the conversation, with all kinds of values in it."""
    return run(prepared(PIPELINE, TALK.rstrip().removesuffix("expect:")))


def placed(place: tuple[str | int, ...], matcher: Any) -> Any:
    """Returns claims in which a matcher stands at a place."""
    if not place:
        return matcher
    first, *rest = place
    inner = placed(tuple(rest), matcher)
    return [inner] if isinstance(first, int) else {first: inner}


def words_of(finding: Finding) -> Iterator[str]:
    """Everything that a finding says, but for the scenario's own lines."""
    yield from (finding.what, finding.fix, *finding.context)
    for difference in finding.differences:
        yield from (difference.at, difference.expected, difference.actual, difference.note)


@pytest.mark.slow
@given(st.sampled_from(PLACES), MATCHERS)
def test_no_finding_shows_how_values_are_kept(place: tuple[str | int, ...], matcher: Any) -> None:
    if place[0] == "findings":
        matcher = {"id": "CTX-07", "what": matcher}
    claims = placed(place, matcher)
    try:
        check(matcher)
        ready = prepared(PIPELINE, with_claims(TALK, json.dumps(claims)))
    except (MatcherError, SourceError):
        assume(False)

    judgement = judge(ready.scenario, ready.document, trace(), function_named).judgement

    results = [
        word for finding in (*judgement.findings, *judgement.warnings) for word in words_of(finding)
    ]
    assert [word for word in results if INTERNALS.search(word)] == []
    assert [word for word in results if len(word) > 2_000] == []


CLAIMS = """
agents: [coach]
reply: x
runs:
  coach: {messages: [], reply: x, update: {total: 9}, output: x, received: {total: 9}, input: x}
context: {coach: {history: [x], excludes: [{$contains: coach}], sections: []}}
state: {total: 9}
"""


@pytest.mark.slow
def test_findings_come_in_one_order_whatever_the_hash_seed() -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.checks import judging, test_judge as t\n"
        "_, found = judging.judged(judging.with_claims(t.TALK, t.CLAIMS))\n"
        "print([f.what for f in found.findings])\n"
    )

    stdouts = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in ("0", "1", "2")
    }  # fmt: skip

    assert len(stdouts) == 1


def test_findings_are_in_the_order_in_which_the_run_went_wrong() -> None:
    talk = with_claims(TALK, CLAIMS) + "\nexpect: {reply: z}"
    talk = talk.replace("log_meal: {kcal: 800}}", "log_meal: {kcal: 800}}\n    expect: {reply: y}")

    _, judgement = judged(talk)

    assert [(finding.turn, finding.what) for finding in judgement.findings] == [
        (1, "reply does not match"),
        (2, "agents does not match"),
        (2, "runs.coach.received does not match"),
        (2, "runs.coach.update does not match"),
        (2, "state does not match"),
        (2, "runs.coach.input does not match"),
        (2, "context.coach.sections does not match"),
        (2, "context.coach.excludes matches a message"),
        (2, "context.coach.history does not match"),
        (2, "runs.coach.output does not match"),
        (2, "runs.coach.reply does not match"),
        (2, "runs.coach.messages does not match"),
        (2, "reply does not match"),
        (0, "reply does not match"),
    ]


def matches_made(turns: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the judge of a conversation asks a matcher."""
    claims = (
        "    expect:\n"
        "      agents: [router, nutrition]\n"
        "      reply: {$contains: Answer}\n"
        "      context:\n"
        "        nutrition[0]: {excludes: [{role: tool}, {$contains: kc}], includes: [Go]}\n"
    )
    text = (
        "  - user: Go\n"
        "    replies:\n"
        "      router: {json: {to: nutrition}}\n"
        "      nutrition: [{calls: {log_meal: {}}}, Answer]\n"
        "    tool_results: {log_meal: {kcal: 8}}\n"
    )
    ready = prepared(PIPELINE, f"turns:\n{(text + claims) * turns}")
    done = run(ready)
    request = 0

    class Counted:
        def __init__(self, source: Any) -> None:
            self._matcher = Matcher(source)
            self.source, self.mismatches = source, self._matcher.mismatches

        def holds(self, value: Any) -> bool:
            nonlocal request
            request += 1
            return self._matcher.holds(value)

    monkeypatch.setattr(claims_module, "compile_matcher", Counted)
    assert judge(ready.scenario, ready.document, done, function_named).judgement.findings == ()
    return request


@pytest.mark.slow
def test_judging_is_linear_in_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (matches_made(turns, monkeypatch) for turns in (20, 200))

    assert long < 12 * short


def two_turns(view: View) -> bool:
    """A predicate that holds."""
    return len(view.turns) == 2


def says_what_is_wrong(view: View) -> str:
    """A predicate that says what does not hold."""
    return f"there are {len(view.turns)} turns, which is not odd"


def says_nothing(_view: View) -> None:
    """A predicate that forgets to answer."""


def shows_a_message(_view: View) -> Message:
    """A predicate that answers with something else."""
    return Message("user", "Hi")


def raises(view: View) -> bool:
    """A predicate with a fault."""
    return bool(view.turns[7])


def test_a_predicate_that_raises_says_where() -> None:
    line = raises.__code__.co_firstlineno + 2

    result = describe_findings(MEALS, "satisfies: tests.checks.test_judge:raises")

    assert result == text(f"""
        claim E [turn 2]
        `tests.checks.test_judge:raises` does not hold: it raised IndexError: list index out of range
        at `tests.checks.test_judge:raises`
        | raised at test_judge.py:{line} in raises
    """)
