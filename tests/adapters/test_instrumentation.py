"""What instrumentations see is said of the pipelines that use their framework, and of no other."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from simkit.adapters import instrumentation
from tests.adapters.running import run_app

TURNS = "turns: [{user: Hi, replies: {Helper: Hello}, expect: {reply: Hello}}]"


def observed(module: str, text: str, folder: Path, turns: str) -> tuple[str, ...]:
    """Returns what the run of a module's `ask` is said to show."""
    (folder / f"{module}.py").write_text(dedent(text), encoding="utf-8")
    ran = run_app(f"{module}:ask", turns, folder)
    assert ran.judgement.passed, ran.judgement.findings
    return ran.view.pipeline.observes


def test_a_framework_that_somebody_else_imported_makes_no_difference(tmp_path: Path) -> None:
    import agents.run_context  # noqa: F401

    texts = observed(
        "alone", "def ask(text):\n    return text", tmp_path,
        "turns: [{user: Hi, expect: {reply: Hi}}]",
    )  # fmt: skip

    assert texts == ("runs", "handoffs")


def test_a_stub_that_stands_for_a_framework_makes_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "frame_of_stubs", ModuleType("frame_of_stubs"))
    monkeypatch.setattr(instrumentation, "known", lambda: iter(["frame_of_stubs.core"]))

    texts = observed(
        "stubbed", "def ask(text):\n    return text", tmp_path,
        "turns: [{user: Hi, expect: {reply: Hi}}]",
    )  # fmt: skip

    assert texts == ("runs", "handoffs")


class Closing:
    """A driver, or an adapter with its instrumentation, that fails to close with a problem."""

    name = "closing"

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.is_closed = False

    def instrumentation(self, adapter_context: object) -> Closing:
        return self

    def close(self) -> None:
        self.is_closed = True
        if self.problem:
            raise LookupError(self.problem)


def test_all_are_closed_though_one_fails_to(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, first, second = Closing("driver"), Closing("first"), Closing()
    monkeypatch.setattr(
        instrumentation, "loaded_adapters", lambda: iter([("first", first), ("second", second)])
    )
    aboard: Any = instrumentation.Instrumented
    flown = aboard(driver, None, "nobody", {})
    flown.stands_in()

    with pytest.raises(LookupError):
        flown.close()

    assert [item.is_closed for item in (driver, first, second)] == [True, True, True]


def test_what_a_module_uses_through_another_counts(tmp_path: Path) -> None:
    (tmp_path / "helping_team.py").write_text(
        'from agents import Agent\nhelper = Agent(name="Helper")\n', encoding="utf-8"
    )

    texts = observed(
        "helping_desk",
        """
        import helping_team

        async def ask(text):
            from agents import Runner
            return (await Runner.run(helping_team.helper, text)).final_output
        """,
        tmp_path, TURNS,
    )  # fmt: skip

    assert "filters" in texts


def test_a_framework_that_a_function_imports_is_imported_before_the_first_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "frame_of_theirs").mkdir()
    for name in ("__init__", "core", "other"):
        (tmp_path / "frame_of_theirs" / f"{name}.py").write_text("", encoding="utf-8")
    (tmp_path / "late_desk.py").write_text(
        "def ask(text):\n    from frame_of_theirs import other\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        instrumentation, "known", lambda: iter(["frame_of_theirs.core", "frame_of_nobody.core"])
    )
    importlib.import_module("late_desk")

    run_app("late_desk:ask", "turns: [{user: Hi}]", tmp_path)

    assert "frame_of_theirs.core" in sys.modules
    assert "frame_of_nobody.core" not in sys.modules


@pytest.mark.parametrize("answer", ["work()", "in_thread(work)"])
def test_a_framework_that_no_code_names_is_observed_in_each_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    pytest.importorskip("langgraph")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks" / "apps")
    hidden: Any = ModuleType("hidden_graphs")
    hidden.graph = importlib.import_module("graph_desk").forgetful()
    monkeypatch.setitem(sys.modules, "hidden_graphs", hidden)
    code = f"""
        import sys
        from concurrent.futures import ThreadPoolExecutor

        def in_thread(work):
            with ThreadPoolExecutor() as pool:
                return pool.submit(work).result()

        def ask(text):
            def work():
                graph = sys.modules["hidden_graphs"].graph
                return graph.invoke({{"messages": [("user", text)]}})["messages"][-1].content
            return {answer}
    """
    (tmp_path / "seeking_desk.py").write_text(dedent(code), encoding="utf-8")
    turn = "{user: Hi, expect: {agents: [triage, billing, writer]}}"

    ran = run_app("seeking_desk:ask", f"turns: [{turn}, {turn}, {turn}]", tmp_path)

    assert ran.judgement.passed, ran.judgement.findings
