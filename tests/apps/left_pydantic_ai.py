"""Streams and iterations of PydanticAI that are left before their end."""

from __future__ import annotations

from pydantic_ai import Agent

clerk = Agent("openai:gpt-5", name="clerk", instructions="You are clerk.")


@clerk.tool_plain
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


async def left_at_work(text: str) -> str:
    """Its tool is about to be carried out."""
    async with clerk.iter(text) as run:
        async for node in run:
            if Agent.is_call_tools_node(node):
                break
    return "Left."


async def left_in_its_words(text: str) -> str:
    """It says a text, of which nobody reads the end."""
    async with clerk.run_stream(text) as result:
        async for _ in result.stream_text():
            break
    return "Left."


async def left_behind_the_answer(text: str) -> str:
    """All of its text was read."""
    async with clerk.run_stream(text) as result:
        await result.get_output()
    return "Left."
