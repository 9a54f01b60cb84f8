"""Each condition of the proof that lints are silent is needed: without it a damaged trace passes.

The conditions are read from the source of the proof, so that a new one is in the test.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from simkit.checks.endings import Endings
from simkit.checks.lints import Watch, all_lints, exchanges, silence
from simkit.checks.lints.ruled_out import UNSET, Asking, Plain
from simkit.checks.lints.silence import Silence
from simkit.session.simulate import run
from simkit.trace import events as e
from tests.building import prepared
from tests.checks.lints.damages import changed
from tests.checks.lints.plain_conversations import Draw
from tests.checks.lints.test_screening import UNREADABLE, foretells, hits_of, thorough_lints
from tests.checks.lints.unlikely_traces import UNLIKELY
from tests.conversations import PASSED_ON, REGISTERED, ROUTED, ROUTER, conversation

DRAWN: Final = 250
"""Drawn conversations, of which the plain ones are damaged."""
COPIES: Final = 110
"""Damaged copies of each of these."""
COPIES_OF_KNOWN: Final = 1500
"""Damaged copies of each conversation that is written here."""
UNDAMAGED: Final = {
    "silence: not not facts.is_code": "FilteredComesBack reads all contexts of code, so that this "
    "is only asked if some lints are chosen",
}
"""Conditions without which no damaged trace passes, and why they are there."""


GREETED: Final = """
version: 1
pipeline: p
agents: {desk: {instructions: Answer., context: [instructions, input, history]}}
flow: {handoffs: {start: desk}}
"""
GREETINGS: Final = """
given: {state: {messages: [{user: Hello}, {assistant: Welcome}]}}
turns:
  - {user: Good morning, replies: {desk: Yes}}
  - {user: Good day, session: s2, project: p1, replies: {desk: No}}
  - {user: Good night, replies: {desk: Perhaps}}
"""


class Case(NamedTuple):
    """A trace that is not proven."""

    events: list[e.AnyEvent]
    plain: Plain


class Condition(NamedTuple):
    """A condition, and the proof without it."""

    name: str
    proof: Callable[[Plain], Any]


def conditions() -> Iterator[Condition]:
    """Yields each condition under which something is not plain."""
    for module in (exchanges, silence):
        name = module.__name__.rpartition(".")[2]
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        tree = ast.parse(source)
        for place, node in enumerate(ast.walk(tree)):
            for number, text in enumerate(_denied_by(node)):
                copy = deepcopy(tree)
                _drop(list(ast.walk(copy))[place], number)
                yield Condition(f"{name}: {text}", _proof_of(copy, module is exchanges))
    whole = ast.parse(Path(str(silence.__file__)).read_text(encoding="utf-8"))
    for kind, text in silence._TERMS.items():
        expression = ast.parse(text, mode="eval").body
        terms = expression.values if isinstance(expression, ast.BoolOp) else [expression]
        if isinstance(expression, ast.BoolOp) and isinstance(expression.op, ast.Or):
            terms = [expression]
        for term in terms:
            others = [
                f"(({ast.unparse(other)}), True)[1]" if other is term else f"({ast.unparse(other)})"
                for other in terms
            ]
            rest = " and ".join(others)
            name = f"{kind.__name__}: {ast.unparse(term)}"
            yield Condition(name, _proof_of(whole, False, {kind.__name__: rest}))
    for kind, fields in UNSET.items():
        for field in fields:
            yield Condition(f"{kind.__name__}: not {field}", _may_set(kind, field))


def _proof_of(
    tree: ast.Module, is_of_exchanges: bool, terms: dict[str, str] | None = None
) -> Callable[[Plain], Any]:
    """Returns the proof of a changed module, or with other expressions for events."""
    module = _executed(tree, exchanges if is_of_exchanges else silence)
    if is_of_exchanges:
        path = Path(str(silence.__file__))
        whole = _executed(ast.parse(path.read_text(encoding="utf-8")), silence)
        whole.Calls, whole.Handoffs = module.Calls, module.Handoffs  # type: ignore[attr-defined]
        module = whole
    for kind, text in (terms or {}).items():
        vars(module)["_TERMS"] = {**vars(module)["_TERMS"], getattr(e, kind): text}
    proof: Callable[[Plain], Any] = vars(module)["Silence"]
    return proof


def _executed(tree: ast.Module, original: ModuleType) -> ModuleType:
    module = ModuleType(original.__name__)
    vars(module).update(__package__=original.__package__)
    exec(compile(tree, "proof", "exec"), vars(module))
    return module


def _may_set(kind: type, field: str) -> Callable[[Plain], Any]:
    def proof(plain: Plain) -> Any:
        unset = tuple(name for name in plain[kind].unset if name != field)
        return Silence({**plain, kind: Asking(unset, plain[kind].alone)})

    return proof


def _denied_by(node: ast.AST) -> list[str]:
    """Returns the conditions of a statement: those of which one suffices to return False."""
    if isinstance(node, ast.If) and ast.unparse(node.body[-1]) == "return False":
        return [ast.unparse(term) for term in _terms(node.test, ast.Or)]
    if isinstance(node, ast.Return) and node.value is not None:
        value = node.value
        if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
            return [ast.unparse(term) for term in _terms(value.operand, ast.Or)]
        if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And):
            return [f"not {ast.unparse(term)}" for term in value.values]
        if isinstance(value, (ast.BoolOp, ast.Compare)):
            return [f"not {ast.unparse(value)}"]
    return []


def _terms(test: ast.expr, kind: type) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, kind) else [test]


def _drop(node: Any, number: int) -> None:
    """Lets a condition be asked, and takes its answer out of a statement."""
    if isinstance(node, ast.If):
        node.test = _without(node.test, ast.Or, number, False)
    elif isinstance(node.value, ast.UnaryOp):
        node.value.operand = _without(node.value.operand, ast.Or, number, False)
    else:
        node.value = _without(node.value, ast.And, number, True)
    ast.fix_missing_locations(node)


def _without(test: ast.expr, kind: type, number: int, neutral: bool) -> ast.expr:
    terms = _terms(test, kind)
    pair = ast.Tuple([terms[number], ast.Constant(neutral)], ast.Load())
    term = ast.Subscript(pair, ast.Constant(1), ast.Load())
    if len(terms) == 1:
        return term
    terms[number] = term
    return test


def cases() -> Iterator[Case]:
    """Yields damaged traces, and traces of conversations, that are not proven."""
    for _, make in UNLIKELY.values():
        yield from _case_of(make())
    for pipeline, turn in ((ROUTER, ROUTED), (REGISTERED, PASSED_ON)):
        yield from _damaged(run(conversation(pipeline, turn, 3)).events, COPIES_OF_KNOWN, 0)
    for text in (GREETINGS, GREETINGS.replace("Good day, session: s2, project: p1", "Hello")):
        yield from _damaged(run(prepared(GREETED, text)).events, COPIES_OF_KNOWN, 0)
    for seed in range(DRAWN):
        yield from _damaged(Draw(seed).events, COPIES, seed)


def _damaged(events: list[e.AnyEvent], copies: int, seed: int) -> Iterator[Case]:
    rng = Random(seed)
    (whole,) = _case_of(events)
    if not Silence(whole.plain).goes_on(events):
        yield whole
        copies //= 5
    for _ in range(copies):
        for case in _case_of(changed(events, rng)):
            try:
                is_case = not Silence(case.plain).goes_on(case.events)
            except UNREADABLE:
                continue
            if is_case and not foretells(case.events):
                yield case


def _case_of(events: list[e.AnyEvent]) -> Iterator[Case]:
    started = events[0]
    if isinstance(started, e.RunStarted):
        watch = Watch(all_lints())
        watch.view.begin(started)
        plain = watch._plain_events()
        if plain is not None:
            yield Case(events, plain)


def passes(case: Case, condition: Condition) -> bool:
    """Whether a proof without a condition is wrong about a trace, or cannot read it."""
    proof = condition.proof(case.plain)
    try:
        holds = proof.goes_on(case.events)
    except UNREADABLE:
        return True  # The whole proof ends before.
    if not holds:
        return False
    if proof.turns is not None and vars(Endings(case.events, proof.turns)) != vars(
        Endings(case.events)
    ):
        return True
    # Some lints are asked while the proof holds; what they find is no fault of it.
    hits = hits_of(thorough_lints(), case.events)
    alone = Watch(all_lints())
    alone.view.begin(case.events[0])  # type: ignore[arg-type]
    alone.view.events = list(case.events)
    alone._ask_alone(case.events, proof.alone)
    return hits is None or [replace(hit, event=None) for hit in hits] != [
        replace(hit, event=None) for hit in alone.hits
    ]


@pytest.mark.slow
def test_without_any_condition_a_damaged_trace_passes() -> None:
    traces = list(cases())
    useful: list[Case] = []
    needless = []
    for condition in conditions():
        case = next((case for case in (*useful, *traces) if passes(case, condition)), None)
        if case is None:
            needless.append(condition.name)
        elif not any(case is other for other in useful):
            useful.append(case)

    assert needless == [*UNDAMAGED]
    assert len(useful) > 20
