"""Pipelines of several agents on the plain OpenAI client, each in order, each built differently."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openai import OpenAI

import simkit

client = OpenAI()
LOOK = {"name": "look_up", "parameters": {"type": "object"}}
ASK_EXPERT = {"name": "ask_expert", "parameters": {"type": "object"}}


def look_up(topic: str = "") -> dict[str, Any]:
    """Looks something up."""
    return {"topic": topic, "found": True}


def _say(system: str, *messages: Any, tools: Any = (), **more: Any) -> Any:
    offered = {"tools": [{"type": "function", "function": tool} for tool in tools]} if tools else {}
    completion = client.chat.completions.create(
        model="gpt-5-mini", messages=[{"role": "system", "content": system}, *messages],
        **offered, **more,
    )  # fmt: skip
    return completion.choices[0].message


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _result(call: Any, value: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": json.dumps(value)}


class Supervisor:
    """Asks an expert as a tool, in a conversation of the expert's own, and answers itself."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def ask(self, text: str) -> str:
        """Answers the user."""
        self.messages.append(_user(text))
        while True:
            message = _say("You supervise.", *self.messages, tools=[ASK_EXPERT])
            self.messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return str(message.content)
            for call in message.tool_calls:
                question = json.loads(call.function.arguments)["question"]
                self.messages.append(_result(call, self.expert(question)))

    def expert(self, question: str) -> str:
        """Answers the supervisor, who alone is heard."""
        users = [_user(question)]
        while True:
            message = _say("You are the expert.", *users, tools=[LOOK])
            users.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return str(message.content)
            for call in message.tool_calls:
                users.append(_result(call, look_up(**json.loads(call.function.arguments))))


class Router:
    """Lets a router choose by structured output; every specialist sees the whole conversation."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def ask(self, text: str) -> str:
        """Answers the user."""
        self.messages.append(_user(text))
        chosen = json.loads(_say("You route.", _user(text)).content)["to"]
        answer = str(_say(f"You are {chosen}.", *self.messages[-6:]).content)
        self.messages.append({"role": "assistant", "content": answer})
        return answer


def chain(text: str) -> str:
    """A researcher, a writer and an editor: each hears only what the one before has made."""
    notes = str(_say("You research.", _user(text)).content)
    draft = str(_say("You write.", _user(f"Notes:\n{notes}")).content)
    for _ in range(2):
        verdict = str(_say("You edit.", _user(draft)).content)
        if verdict == "fine":
            break
        draft = str(_say("You write.", _user(f"Draft:\n{draft}\nEditor:\n{verdict}")).content)
    return draft


def together(text: str) -> str:
    """Two reviewers look at once, each on a thread; a third sums up what they say."""
    with ThreadPoolExecutor(2) as pool:
        views = list(pool.map(lambda agent: review(agent, text), ("law", "money")))
    with simkit.agent("chair"):
        return str(_say("You chair.", _user(text), _user("\n".join(views))).content)


def review(agent: str, text: str) -> str:
    """One reviewer's view."""
    with simkit.agent(agent):
        return str(_say(f"You review {agent}.", _user(text)).content)


class Handoffs:
    """Passes control by tools, as swarms do: one history, into which the handoffs are written."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.active = "front"

    def ask(self, text: str) -> str:
        """Answers the user."""
        self.messages.append(_user(text))
        other = {"front": "back", "back": "front"}
        while True:
            to = f"transfer_to_{other[self.active]}"
            tools = [LOOK, {"name": to, "parameters": {"type": "object"}}]
            message = _say(f"You are {self.active}.", *self.messages, tools=tools)
            self.messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return str(message.content)
            for call in message.tool_calls:
                if call.function.name == to:
                    self.active = other[self.active]
                    self.messages.append(_result(call, f"You are {self.active} now."))
                else:
                    self.messages.append(_result(call, look_up()))


class Debate:
    """Two agents talk to each other, and each hears the other as its user."""

    def ask(self, text: str) -> str:
        """Lets them talk."""
        texts = [text]
        for turn in range(4):
            agent = ("pro", "contra")[turn % 2]
            rows = [
                {"role": "assistant" if (turn - place) % 2 else "user", "content": words}
                for place, words in enumerate(texts[1:])
            ]
            texts.append(str(_say(f"You are {agent}.", _user(text), *rows).content))
        return texts[-1]


class Summarised:
    """Keeps a summary of what was said instead of all of it."""

    def __init__(self) -> None:
        self.summary = ""
        self.messages: list[Any] = []

    def ask(self, text: str) -> str:
        """Answers the user."""
        self.messages.append(_user(text))
        system = f"You help. So far: {self.summary}" if self.summary else "You help."
        answer = str(_say(system, *self.messages).content)
        self.messages.append({"role": "assistant", "content": answer})
        if len(self.messages) > 4:
            talk = "\n".join(item["content"] for item in self.messages[:-2])
            self.summary = str(_say("You summarise.", _user(talk)).content)
            self.messages = self.messages[-2:]
        return answer
