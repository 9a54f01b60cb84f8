"""Real client libraries, unchanged, are answered from reply lines, and what they sent is seen.

The same matrix runs with today's libraries and, in `nox -s old_sdks`, with those before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from textwrap import dedent
from typing import Any

import pytest

from simkit.session.simulate import simulate
from tests.adapters.running import prepared
from tests.conftest import sample_by_day

RULE = "agents: {desk: {system: You know the weather.}}"
WAYS = ["sync", "sync_streamed", "asynchronous", "async_streamed"]
CLIENTS = {
    "matrix_openai_chat": ("openai", "{model: gpt-5-mini, temperature: 0.5}"),
    "matrix_openai_responses": ("openai", "{model: gpt-5-mini, temperature: 0.5}"),
    "matrix_anthropic": ("anthropic", "{model: claude-sonnet-5, max_tokens: 500}"),
    "matrix_litellm": ("litellm", "{model: gpt-4o-mini, temperature: 0.5}"),
    "matrix_gemini": ("google.genai", "{model: gemini-3-flash, temperature: 0.5}"),
}
BY_HAND = ["by_requests", "by_urllib", "by_aiohttp"]
TEXT = "[{system: You know the weather.}, {user: How is Zürich? ☀}"
CASES = {
    "text": """
        turns:
          - user: How is Zürich? ☀
            replies: {desk: Grüezi! It is grey. 🌫}
            expect:
              reply: Grüezi! It is grey. 🌫
              agents: [desk]
              model_calls: {desk: 1}
              tool_calls: []
              context: {desk: {messages: SEEN], tools: [weather, clock], settings: SETTINGS}}
    """,
    "tool call": """
        turns:
          - user: How is Zürich? ☀
            replies: {desk: [{calls: [weather: {city: Zürich}]}, It is clear.]}
            tool_results: {weather: {sky: clear}}
            expect:
              reply: It is clear.
              agents: [desk]
              tool_calls: [{agent: desk, tool: weather, args: {city: Zürich}, result: {sky: clear}}]
              context:
                desk: {messages: SEEN]}
                desk[-1]:
                  messages: SEEN, {calls: [{tool: weather, args: {city: Zürich}}]},
                    {role: tool, tool: weather, content: {$contains: clear}}]
                  settings: SETTINGS
    """,
    "parallel tool calls": """
        turns:
          - user: How is Zürich? ☀
            replies:
              desk:
                - text: One moment.
                  calls: [weather: {city: Zürich}, weather: {city: Bern}, clock: {city: Bern}]
                - It is noon.
            tool_results: {weather: [[{sky: clear}], [{sky: grey}]]}
            expect:
              reply: It is noon.
              tool_calls:
                - {agent: desk, tool: weather, args: {city: Zürich}, result: [{sky: clear}]}
                - {agent: desk, tool: weather, args: {city: Bern}, result: [{sky: grey}]}
                - {agent: desk, tool: clock, args: {city: Bern}, result: noon in Bern}
              context:
                desk[-1]:
                  messages: SEEN, {assistant: One moment., calls: {$len: 3}},
                    {role: tool, tool: weather, content: {$contains: clear}},
                    {role: tool, tool: weather, content: {$contains: grey}},
                    {role: tool, tool: clock, content: {$contains: noon in Bern}}]
    """,
    "structured": """
        turns:
          - user: "As data: how is Zürich?"
            replies: {desk: {json: {city: Zürich, degrees: 21}}}
            expect:
              reply: {city: Zürich, degrees: 21}
              model_calls: {desk: 1}
              context: {desk: {settings: FORCED}}
    """,
    "error": """
        turns:
          - user: How is Zürich? ☀
            replies: {desk: {error: rate_limit}}
            expect:
              reply: null
              model_calls: {desk: 1}
              error: {type: rate_limit, status: 429}
              context: {desk: {messages: SEEN]}}
    """,
}


def clients() -> Iterator[Any]:
    for module, (library, settings) in CLIENTS.items():
        for way in WAYS:
            for case in CASES:
                name = f"{module}-{way}-{case}"
                # LiteLLM takes a warning of pydantic's that is raised for a broken stream.
                marks = [pytest.mark.filterwarnings("ignore")] if library == "litellm" else []
                yield pytest.param(library, module, way, case, settings, id=name, marks=marks)
    for way in BY_HAND:
        for case in CASES:
            settings = "{model: gpt-5-mini, temperature: 0.5}"
            yield pytest.param(
                "requests", "matrix_by_hand", way, case, settings, id=f"{way}-{case}"
            )


def is_installed(library: str) -> bool:
    """Whether a library is here; one that is here and cannot be imported is."""
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:  # Of `google` itself there is nothing.
        return False


def scenario(module: str, case: str, settings: str) -> str:
    forced = (
        "{tool_choice: report}"
        if module == "matrix_anthropic"
        else "{output: {properties: {city: {type: string}, degrees: {type: integer}}}}"
    )
    filled = CASES[case].replace("FORCED", forced).replace("SETTINGS", settings)
    tools = "{weather: weather_desk:weather, clock: weather_desk:clock}"
    app = f"app: {{path: [.], tools: {tools}}}"
    head = f"{app}\n{RULE}\n"
    return head + dedent(filled.replace("SEEN", TEXT))


# google-genai 3.4.0 has a subclass of aiohttp's session, which aiohttp discourages.
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize(
    ("library", "module", "way", "case", "settings"), sample_by_day(clients(), 4)
)
def test_every_client_gets_what_the_scenario_says_and_is_seen_to_send_it(
    library: str, module: str, way: str, case: str, settings: str
) -> None:
    if not is_installed(library):
        pytest.skip(f"{library} is not installed")

    first = simulate(prepared(f"{module}:{way}", scenario(module, case, settings)))
    second = simulate(prepared(f"{module}:{way}", scenario(module, case, settings)))

    assert (first.judgement.findings, first.judgement.warnings) == ((), ())
    assert first.trace.digest() == second.trace.digest()
