"""A tiny framework: its agents answer, use tools, pass control to each other, and make notes."""

import asyncio
import json

from openai import AsyncOpenAI

client = AsyncOpenAI()


class Agent:
    def __init__(self, name, prompt="", tools=(), passes=None, narrowed=None, then=None, gives=""):
        """``gives`` is the tool that the agent's model calls to give its output."""
        self.name, self.prompt = name, prompt or f"You are {name}."
        self.tools = {tool.__name__: tool for tool in tools}
        self.passes, self.narrowed, self.then, self.gives = passes or {}, narrowed, then, gives


class Talk:
    """The messages of one conversation, and what agents noted down."""

    def __init__(self):
        self.messages, self.notes = [], []

    def note(self, text):
        self.notes.append(text)


async def run(agent, talk, text):
    """Let agents work until one of them answers."""
    talk.messages.append({"role": "user", "content": text})
    while isinstance(agent, Agent):
        agent = await work(agent, talk)
    return agent


async def together(*runs):
    return await gather(runs)


async def gather(runs):
    return await asyncio.gather(*runs)


async def work(agent, talk):
    """Let one agent work; return its answer, or the agent that takes over."""
    while True:
        reply = await ask(agent, narrow(agent, talk.messages) if agent.narrowed else talk.messages)
        talk.messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            if agent.then:
                agent.then(talk, reply.content)
            return reply.content
        for tool_call in reply.tool_calls:
            name, args = tool_call.function.name, json.loads(tool_call.function.arguments)
            is_over = name in agent.passes or name == agent.gives
            result = "It is over." if is_over else await call(agent.tools[name], args)
            result = {"role": "tool", "tool_call_id": tool_call.id, "content": str(result)}
            talk.messages.append(result)
            if is_over:
                return agent.passes.get(name, args)


def narrow(agent, messages):
    """Return the messages that an agent is shown."""
    return agent.narrowed(messages)


async def call(tool, args):
    return await tool(**args)


async def ask(agent, messages):
    anything = {"type": "object", "properties": {}, "additionalProperties": True}
    tools = [
        {"type": "function", "function": {"name": name, "parameters": anything}}
        for name in (*agent.tools, *agent.passes, agent.gives)
        if name
    ]
    completion = await client.chat.completions.create(
        model="gpt-5-mini",
        messages=[{"role": "system", "content": agent.prompt}, *messages],
        **({"tools": tools} if tools else {}),
    )
    return completion.choices[0].message
