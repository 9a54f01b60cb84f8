"""CTX-18: what a tool returned is sent under the call that it answers."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, Final
from zlib import crc32

import pytest

from simkit.core.messages import ToolCall
from simkit.trace import events as e
from tests.adapters.running import run_app
from tests.building import Ran
from tests.checks.traces import Story, hits_of

DESK: Final = """
import json

import openai

client = openai.OpenAI()


def tool(name):
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("weather"), tool("time"), tool("sights")]


def weather(city=""): ...
def time(city=""): ...
def sights(city=""): ...


def carried_out(call):
    return globals()[call.function.name](**json.loads(call.function.arguments))


def answers(calls):
    if len(calls) == 1:
        return [(calls[0], carried_out(calls[0]))]
    BODY


def chat(text):
    messages = [{"role": "user", "content": text}]
    while True:
        said = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
        message = said.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for call, text in answers(message.tool_calls):
            shown = text if isinstance(text, str) else json.dumps(text)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": shown})
"""
BOTH: Final = "[{weather: {city: Rome}}, {time: {city: Rome}}]"
RESULTS: Final = "{weather: Sunny and warm., time: Half past nine.}"


def ran(folder: Path, body: str, calls: str = BOTH, results: str = RESULTS) -> Ran:
    name = f"swapped_{crc32(repr((body, calls, results)).encode())}"
    code = DESK.replace("    BODY", indent(dedent(body).strip(), "    "))
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    tools = ", ".join(f"{tool}: {name}:{tool}" for tool in ("weather", "time", "sights"))
    scenario = f"""
app: {{path: [.], tools: {{{tools}}}}}
agents: {{desk: {{model: m}}}}
turns:
  - user: Rome?
    replies: {{desk: [{{calls: {calls}}}, {{calls: [{{sights: {{}}}}]}}, Done.]}}
    tool_results: {{{results[1:-1]}, sights: The forum.}}
"""
    return run_app(f"{name}:chat", scenario, folder)


def swapped(outcome: Ran) -> list[tuple[str, str]]:
    """What the lint says, and how bad it is; nothing else is said."""
    hits = hits_of("CTX-18", outcome.trace)
    findings = [*outcome.judgement.findings, *outcome.judgement.warnings]
    assert {finding.id for finding in findings} <= {"CTX-18"}
    assert [finding.what for finding in findings] == [hit.what for hit in hits]
    return [(finding.severity, finding.what) for finding in findings]


SWAPPED: Final = {
    "results in the order in which they ended": """
        first, second = calls
        late, early = carried_out(first), carried_out(second)
        return [(first, early), (second, late)]
        """,
    "as JSON": """
        first, second = calls
        late, early = carried_out(first), carried_out(second)
        return [(first, {"output": early}), (second, json.dumps(late))]
        """,
    "sent in another order": """
        first, second = calls
        late, early = carried_out(first), carried_out(second)
        return [(second, late), (first, early)]
        """,
}


@pytest.mark.parametrize("body", SWAPPED.values(), ids=list(SWAPPED))
def test_results_under_each_others_calls_are_found_once(tmp_path: Path, body: str) -> None:
    assert swapped(ran(tmp_path, body)) == [(
        "E",
        "agent 'desk' is sent in turn 1 tool results under each other's calls: call1 (weather) has "
        "what call2 returned, call2 (time) has what call1 returned",
    )]  # fmt: skip


def test_a_ring_of_three_is_found_and_what_stands_beside_it_need_not_be_right(
    tmp_path: Path,
) -> None:
    calls = "[{weather: {city: Rome}}, {weather: {city: Oslo}}, {time: {}}, {sights: {}}]"
    results = "{weather: [{temperature: 30}, {temperature: 8}], time: Half past nine.}"
    body = """
        a, b, c, d = [carried_out(call) for call in calls]
        return list(zip(calls, [b, c, a, d + " (cut)"]))
        """

    ((severity, subject),) = swapped(ran(tmp_path, body, calls, results))

    assert severity == "E"
    assert subject.endswith(
        "call1 (weather) has what call2 returned, call2 (weather) has what call3 returned, "
        "call3 (time) has what call1 returned"
    )


@pytest.mark.parametrize("results", ["{weather: true, time: false}", "{weather: 1, time: 2}"])
def test_yes_and_no_may_be_exchanged_on_purpose(tmp_path: Path, results: str) -> None:
    body = SWAPPED["results in the order in which they ended"]

    assert [severity for severity, _ in swapped(ran(tmp_path, body, BOTH, results))] == ["W"]


RIGHT: Final[dict[str, tuple[str, str, str]]] = {
    "each under its own call, in whatever order they ended": (
        """
        first, second = calls
        early, late = carried_out(second), carried_out(first)
        return [(second, early), (first, late)]
        """, BOTH, RESULTS,
    ),
    "cut": (
        "return [(call, str(carried_out(call))[:5] + '…') for call in calls]", BOTH, RESULTS,
    ),
    "rendered": (
        "return [(call, repr(carried_out(call))) for call in calls]",
        BOTH, "{weather: {t: 1, ok: true, by: null}, time: {h: 9}}",
    ),
    "equal": (
        SWAPPED["results in the order in which they ended"], BOTH, "{weather: Gone., time: Gone.}",
    ),
    "one for both": (
        """
        results = [carried_out(call) for call in calls]
        return [(call, results[0]) for call in calls]
        """, BOTH, RESULTS,
    ),
    "another's words in a longer text": (
        """
        first, second = [carried_out(call) for call in calls]
        return [(calls[0], first + " " + second), (calls[1], second + " " + first)]
        """, BOTH, RESULTS,
    ),
    "one exchanged, one cut": (
        """
        first, second = [carried_out(call) for call in calls]
        return [(calls[0], second), (calls[1], first[:5])]
        """, BOTH, RESULTS,
    ),
    "equal calls, carried out in another order": (
        """
        early = carried_out(calls[1])
        return [(calls[0], carried_out(calls[0])), (calls[1], early)]
        """, "[{weather: {city: Rome}}, {weather: {city: Rome}}]",
        "{weather: [Sunny and warm., Rain and wind.]}",
    ),
    "calls with arguments that code changes, carried out in another order": (
        """
        early = weather("Oslo, Norway")
        return [(calls[0], weather("Rome, Italy")), (calls[1], early)]
        """, "[{weather: {city: Rome}}, {weather: {city: Oslo}}]",
        "{weather: [{returns: Rain and wind., when: {city: 'Oslo, Norway'}},"
        " {returns: Sunny and warm., when: {city: 'Rome, Italy'}}]}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "calls", "results"), RIGHT.values(), ids=list(RIGHT))
def test_what_is_right_or_may_be_passes(
    tmp_path: Path, body: str, calls: str, results: str
) -> None:
    outcome = ran(tmp_path, body, calls, results)

    assert hits_of("CTX-18", outcome.trace) == []
    assert [finding.what for finding in outcome.judgement.findings] == []


def test_what_only_a_state_holds_and_no_context_shows_passes(tmp_path: Path) -> None:
    graph = """
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_openai import ChatOpenAI


def weather() -> str:
    "Weather."
    return "Sunny and warm."


def time() -> str:
    "Time."
    return "Half past nine."


class Turned(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        message = handler(request)
        other = {"weather": "Half past nine.", "time": "Sunny and warm."}
        return message.model_copy(update={"content": other[message.name]})

    def wrap_model_call(self, request, handler):
        own = {"weather": "Sunny and warm.", "time": "Half past nine."}
        shown = [
            m.model_copy(update={"content": own[m.name]}) if m.type == "tool" else m
            for m in request.messages
        ]
        return handler(request.override(messages=shown) if RIGHTED else request)


model = ChatOpenAI(model="gpt-5-mini", api_key="none")
RIGHTED = True
agent = create_agent(model, [weather, time], name="desk", middleware=[Turned()])
"""
    turn: dict[str, Any] = {
        "user": "Hi",
        "replies": {"desk": [{"calls": [{"weather": {}}, {"time": {}}]}, "Done."]},
    }
    (tmp_path / "righted.py").write_text(graph, encoding="utf-8")
    (tmp_path / "turned.py").write_text(graph.replace("= True", "= False"), encoding="utf-8")

    righted, turned = (
        run_app(f"{name}:agent", f"turns: {json.dumps([turn])}", tmp_path)
        for name in ("righted", "turned")
    )

    assert hits_of("CTX-18", righted.trace) == []
    assert [hit.data for hit in hits_of("CTX-18", turned.trace)] == [{"calls": ["call1", "call2"]}]


@pytest.mark.parametrize("is_corrected", [False, True])
def test_results_that_are_corrected_before_a_context_shows_them_pass(is_corrected: bool) -> None:
    results = {"c8": "Sunny and warm.", "c9": "Half past nine."}
    story = Story()
    story.turn(agent="a")
    call = story.call()
    numbers = [story.says("", *(ToolCall(call_id, f"tool {call_id}", {}) for call_id in results))]
    for call_id, result in results.items():
        story.emit(e.ToolCalled(*story.where(), call_id=call_id, tool=f"tool {call_id}", args={}))
        story.emit(
            e.ToolReturned(*story.where(), call_id=call_id, tool=f"tool {call_id}", result=result)
        )
    numbers += [story.hears("c8", results["c9"]), story.hears("c9", results["c8"])]
    if is_corrected:
        numbers += [story.hears(call_id, result) for call_id, result in results.items()]
    story.call(base=call, numbers=numbers)

    assert len(hits_of("CTX-18", story.trace)) == (0 if is_corrected else 1)
