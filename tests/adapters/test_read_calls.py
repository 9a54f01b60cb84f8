"""Code may read a call and answer none: no lint takes that for work that was left undone."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.adapters.running import run_app

AGENTS = {
    "writer": "You write.",
    "router": "You route.",
    "sales": "You are sales.",
    "finder": "You find.",
    "board": "You answer.",
}
LINES = {
    "ends_on_a_tool": "writer: {calls: [done: {summary: It is done.}]}",
    "routes_by_a_tool": "{router: {calls: [route: {to: sales}]}, sales: It is done.}",
    "tells_results_as_text": "finder: [{calls: [look_up: {topic: tea}]}, It is done.]",
    "answers_by_the_last_tool": (
        "board: [{calls: [look_up: {topic: tea}]}, {calls: [answer: {text: It is done.}]}]"
    ),
}
MODULES = ["read_calls", pytest.param("langgraph_read_calls", marks=pytest.mark.skipif(
    find_spec("langgraph") is None, reason="langgraph is not installed"
))]  # fmt: skip


def scenario(lines: str, output: str = "") -> str:
    """A turn with reply lines, and the rules by which the plain client's calls are told apart."""
    rules = ", ".join(f"{name}: {reply}" for name, reply in AGENTS.items())
    lines = lines if lines.startswith("{") else f"{{{lines}}}"
    app = f"path: [.], output: {output}" if output else "path: [.]"
    return f"app: {{{app}}}\nagents: {{{rules}}}\nturns: [{{user: Tea, replies: {lines}}}]\n"


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("name", LINES)
def test_a_call_that_code_reads_leaves_no_work_open(module: str, name: str) -> None:
    is_graph = module != "read_calls"
    output = "answer" if is_graph and name == "answers_by_the_last_tool" else ""

    ran = run_app(f"{module}:{name}", scenario(LINES[name], output))

    assert (ran.judgement.findings, ran.judgement.warnings) == ((), ())
    assert ran.view.turns[0].reply == "It is done."


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("words", ["", "Let me look. "])
def test_a_call_that_code_forgets_is_told(module: str, words: str) -> None:
    text = f"text: {words}, " if words else ""
    lines = f"finder: {{{text}calls: [look_up: {{topic: tea}}]}}"

    ran = run_app(f"{module}:forgets_the_tool", scenario(lines))

    pairs = [
        (item.id, item.severity) for item in (*ran.judgement.findings, *ran.judgement.warnings)
    ]
    is_known = module != "read_calls" and not words
    assert pairs == [("FLW-07", "E" if is_known else "W")]
