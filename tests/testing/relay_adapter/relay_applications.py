"""What the conformance suite wants of `relay`, as its users would write it."""

import asyncio

from relay import Agent, Talk, run, together


async def look_up(word):
    return f"{word} is known."


def without_tools(messages):
    return [item for item in messages if item["role"] != "tool" and not item.get("tool_calls")]


def lose(talk, text):
    raise LookupError("lost")


async def ask_helper(input):
    return await run(Agent("helper"), Talk(), input)


expert = Agent("expert")
solo = retry = Agent("writer")
sessions = Agent("clerk")
output = Agent("clerk", tools=[look_up], gives="give")
tools = Agent("clerk", tools=[look_up])
broken = Agent("clerk", then=lose)
nested = Agent("boss", tools=[ask_helper])
handoff = Agent("front", passes={"pass_on": expert})
unburdened = Agent("expert", narrowed=without_tools)
filter = Agent("front", tools=[look_up], passes={"pass_on": unburdened})


async def chain(text):
    return await run(Agent("second"), Talk(), await run(Agent("first"), Talk(), text))


async def parallel(text):
    agents = [Agent(name, prompt="You review.") for name in ("left", "right")]
    return " / ".join(await together(*(run(agent, Talk(), text) for agent in agents)))


async def state(text):
    talk = Talk()
    for name in ("first", "second"):
        text = await run(Agent(name, then=Talk.note), talk, text)
    return text


async def cancel(text):
    is_started = asyncio.Event()

    async def wait():
        is_started.set()
        await asyncio.Event().wait()

    work = asyncio.create_task(run(Agent("slow", tools=[wait]), Talk(), text))
    at_work = asyncio.create_task(is_started.wait())
    await asyncio.wait((work, at_work), return_when=asyncio.FIRST_COMPLETED)
    at_work.cancel()
    work.cancel()
    try:
        return await work
    except asyncio.CancelledError:
        return "Cancelled."
