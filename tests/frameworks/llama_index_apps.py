"""What the conformance suite wants of LlamaIndex, as its users would write it, and a team."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI

from tests.testing.cancelling import cancelled_while

Answers = Callable[[str], Coroutine[Any, Any, Any]]


def agent(name: str, *tools: Any, kind: type = FunctionAgent, prompt: str = "", **more: Any) -> Any:
    prompt = prompt or f"You are {name}."
    model = OpenAI(model="gpt-4o", api_key="none")
    return kind(
        name=name, description=name, system_prompt=prompt, tools=[*tools], llm=model, **more
    )


def answers(workflow: Any, **options: Any) -> Answers:
    async def answer(text: str) -> Any:
        return await workflow.run(user_msg=text, **options)

    return answer


def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


solo = retry = answers(agent("writer"))
tools = answers(agent("clerk", look_up))


def sessions() -> Answers:
    return answers(agent("clerk"), memory=ChatMemoryBuffer.from_defaults())


async def chain(text: str) -> Any:
    return await solo_of("second")(str(await solo_of("first")(text)))


def solo_of(name: str, prompt: str = "") -> Answers:
    return answers(agent(name, prompt=prompt))


async def parallel(text: str) -> str:
    both = [solo_of(name, "You review.")(text) for name in ("left", "right")]
    return " / ".join(map(str, await asyncio.gather(*both)))


async def ask_helper(input: str) -> str:
    """Asks the helper."""
    return str(await solo_of("helper")(input))


nested = answers(agent("boss", ask_helper))


async def stream(text: str) -> str:
    events = agent("writer").run(user_msg=text).stream_events()
    return "".join([event.delta async for event in events if isinstance(event, AgentStream)])


class Losing(FunctionAgent):  # type: ignore[misc]
    async def finalize(self, ctx: Any, output: Any, memory: Any) -> Any:
        raise LookupError("lost")


broken = answers(agent("clerk", kind=Losing))


async def pass_on(ctx: Context, topic: str) -> str:
    """Passes control to the expert."""
    await ctx.store.set("next_agent", "expert")
    return topic


handoff = answers(
    AgentWorkflow(agents=[agent("front", pass_on), agent("expert")], root_agent="front")
)


class Noting(FunctionAgent):  # type: ignore[misc]
    async def finalize(self, ctx: Any, output: Any, memory: Any) -> Any:
        async with ctx.store.edit_state() as stored:
            stored["state"]["notes"].append(output.response.content)
        return await super().finalize(ctx, output, memory)


async def state(text: str) -> Any:
    first, second = (
        agent(name, kind=Noting, initial_state={"notes": []}) for name in ("first", "second")
    )
    shared = Context(first)
    await first.run(user_msg=text, ctx=shared)
    return await second.run(user_msg=text, ctx=shared)


async def cancel(text: str) -> str:
    waits = asyncio.Event()

    async def wait() -> str:
        """Waits."""
        waits.set()
        return str(await asyncio.Event().wait())

    return await cancelled_while(waits, answers(agent("slow", wait))(text))


async def lookup_invoice(ctx: Context, invoice_id: str) -> str:
    """Looks up an invoice."""
    async with ctx.store.edit_state() as stored:
        stored["state"]["invoice"] = invoice_id
    return f"{invoice_id}: 42 EUR due"


support = answers(
    AgentWorkflow(
        agents=[agent("triage"), agent("billing", lookup_invoice)],
        root_agent="triage",
        initial_state={"invoice": None},
    )
)
