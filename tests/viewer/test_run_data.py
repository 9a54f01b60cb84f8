"""The data of a page against what the views of a trace say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simkit.trace.store import canonical
from simkit.trace.views import View
from simkit.viewer import run_data
from simkit.viewer.document import CallData, PartData, RunData
from tests.cli.projects import run_simkit
from tests.viewer.browser import pages_of, views_of
from tests.viewer.scenes import LATE, SHOP

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
FILES = (
    "agent_engine/memory", "agent_engine/patterns", "fitness_coach/example",
    "fitness_coach/history_filter", "handoff_pattern/example", "research_assistant/interrupts",
    "research_assistant/checkpoints", "supervisor_context/context_flow",
)  # fmt: skip


def views() -> list[View]:
    """The views of the reference systems' runs."""
    files = [SCENARIOS / f"{name}.scenario.yaml" for name in FILES]
    return [view for file in files for view in views_of(file)]


def changed(old: Any, change: Sequence[Any]) -> Any:
    """Return a value after a change, as the page computes it."""
    match change:
        case ["=", value]:
            return value
        case ["+", items, cut]:
            return [*(old or [])[cut:], *items]
        case ["~", parts]:
            return {**old, **{name: changed(old.get(name), part) for name, part in parts.items()}}
    raise AssertionError(change)


def applied(state: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**state, **{name: changed(state.get(name), change) for name, change in changes.items()}}


def messages_of(data: RunData, call: CallData) -> list[tuple[str, str, str]]:
    """What a call was sent: section, role and text of each message."""
    first = call
    while first.base >= 0:
        first = data.calls[first.base]
    rows: list[tuple[str, int]] = []
    for part in first.parts:
        rows += part_messages(data, part)
    rows += [("run", place) for place in call.own]
    sections = [section for section, count in call.named for _ in range(count)]
    if sections:
        rows = [(section, place) for section, (_, place) in zip(sections, rows, strict=True)]
    return [
        (section, data.messages[place].role, text_at(data, data.messages[place].text))
        for section, place in rows
    ]


def part_messages(data: RunData, part: PartData) -> list[tuple[str, int]]:
    if part.message >= 0:
        return [(part.section, part.message)]
    if part.rendered >= 0:
        return [(part.section, part.rendered)]
    places = [*data.streams[part.stream].entries[: part.hi], *part.tail][part.lo :]
    summary = [part.summary] if part.summary >= 0 else []
    return [(part.section, place) for place in [*summary, *places]]


def text_at(data: RunData, place: int) -> str:
    return data.texts[place] if place >= 0 else ""


def check_calls(view: View) -> None:
    """Assert that the page has what each call of a run was sent."""
    data = run_data(view, None)
    for call, call_data in zip(view.calls.values(), data.calls, strict=True):
        expected = [(m.section, m.role, m.content) for m in call.context.sectioned()]
        texts = [(role, text) for _, role, text in messages_of(data, call_data)]
        assert texts == [(role, text) for _, role, text in expected]
        assert call_data.tokens == call.context.tokens
        offered = data.toolsets[call_data.tools] if call_data.tools >= 0 else []
        assert [data.offers[offer].name for offer in offered] == [*(call.context.tools or ())]


@pytest.mark.slow
def test_every_call_has_the_messages_and_tools_of_its_context() -> None:
    for view in views():
        check_calls(view)


@pytest.mark.slow
def test_every_call_of_a_shop_has_the_messages_and_tools_of_its_context(tmp_path: Path) -> None:
    file = tmp_path / "shop.scenario.yaml"
    file.write_text(SHOP, encoding="utf-8")

    for view in views_of(file):
        check_calls(view)


def test_messages_that_no_agent_was_sent_are_there() -> None:
    for view in views_of(SCENARIOS / "research_assistant/history.scenario.yaml"):
        ids = {message.id for message in run_data(view, None).messages}
        assert ids.issuperset(f"m{number}" for number in view.messages)


@pytest.mark.slow
def test_the_state_of_every_turn_comes_from_the_changes() -> None:
    for view in views():
        data = run_data(view, None)
        states: dict[str, dict[str, Any]] = {}
        for turn, turn_data in zip(view.turns, data.turns, strict=True):
            plain = json.loads(msgspec.json.encode(turn_data))
            before = applied(states.get(turn.session, {}), plain.get("before", {}))
            after = applied(before, plain.get("after", {}))
            states[turn.session] = after
            assert before == {name: canonical(v) for name, v in turn.state_before.items()}
            assert after == {name: canonical(v) for name, v in turn.state.items()}


IDLE = """\
{version: 1, pipeline: p, agents: {a: {instructions: A., writes: {notes: null, last: null}}},
 channels: {notes: {reducer: append}, last: {reducer: replace}}, flow: {handoffs: {start: a}}}
---
{version: 1, scenario: s, pipeline: p, turns: [{user: Hi, replies: {a: Yes.}}]}
"""


def test_an_update_that_its_reducer_passes_over_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "it.scenario.yaml").write_text(IDLE)
    (view,) = views_of(tmp_path / "it.scenario.yaml")
    assert run_data(view, None).writes[-1].idle == ("notes",)


@pytest.mark.slow
def test_a_finding_is_pinned_to_its_call(tmp_path: Path) -> None:
    file = tmp_path / "shop.scenario.yaml"
    file.write_text(SHOP, encoding="utf-8")

    page = pages_of(file)[0]

    assert page.scenario.outcome == "failed"
    assert page.scenario.findings == ("claim: context.refunds.includes matches no message",)
    assert page.graph is not None
    assert {node.name: node.findings for node in page.graph.nodes} == {"triage": 0, "refunds": 1}


def test_a_run_inside_a_branch_is_of_its_group_and_follows_the_route(tmp_path: Path) -> None:
    file = tmp_path / "late.scenario.yaml"
    file.write_text(LATE, encoding="utf-8")
    (view,) = views_of(file)

    runs = {run.agent: run for run in reversed(run_data(view, None).runs)}

    groups = {runs[agent].group for agent in ("left", "right", "clerk")}
    assert len(groups) == 1
    assert groups != {""}
    assert runs["desk"].group == ""
    assert runs["left"].after == runs["right"].after == (runs["desk"].id,)
    assert runs["clerk"].after == ()


@pytest.mark.slow
def test_equal_runs_give_equal_pages(tmp_path: Path) -> None:
    file = tmp_path / "shop.scenario.yaml"
    file.write_text(SHOP, encoding="utf-8")

    assert pages_of(file) == pages_of(file)


@pytest.mark.slow
def test_a_secret_of_the_environment_is_nowhere(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import base64
    import zlib

    file = cwd / "shop.scenario.yaml"
    file.write_text(SHOP.replace("A-1042", "hunter22-secret"), encoding="utf-8")
    monkeypatch.setenv("SHOP_PASSWORD", "hunter22-secret")

    run_simkit("replay", "-q", file.name, "--html", "r.html")

    html = Path("r.html").read_text(encoding="utf-8")
    part = html.partition('id="data">')[2].partition("</script>")[0]
    packed = json.loads(part)
    texts = [
        zlib.decompress(base64.b64decode(chunk)).decode()
        for chunk in [packed["index"], *packed["runs"]]
    ]
    assert len(texts) == 3
    assert "hunter22" not in html + "".join(texts)
    assert "[redacted" in texts[1]
