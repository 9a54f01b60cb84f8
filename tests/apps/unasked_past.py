"""Faults of public reports on what is request of earlier turns, and their mended twins."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAIError
from unasked_code import Messages, ask, call_of, client, result_of, tool, user_message


class Conversation:
    """An agent that keeps what was said; what it is request of that is the fault."""

    is_mended = False
    system = "You help."

    def __init__(self) -> None:
        self.messages: Messages = []
        self.start = self.summed_to = 0
        self.summary = ""

    def chat(self, text: str) -> Any:
        self.messages.append(user_message(text))
        answer = ask(self.system, self.request()).content
        self.messages.append({"role": "assistant", "content": answer})
        return answer

    def request(self) -> Messages:
        return self.messages


class HeldBack(Conversation):
    """taOS#2512, agno#3849: each message of the user is held back until the next one."""

    def request(self) -> Messages:
        questions, answers = self.messages[::2], self.messages[1::2]
        pairs = [*zip(questions, answers, strict=False)]
        ordered = [each if self.is_mended else each[::-1] for each in pairs]
        return [*(message for pair in ordered for message in pair), questions[-1]]


class Oldest(Conversation):
    """securo#967, hermes-lcm#512: a limit leaves the oldest messages, and not the newest ones."""

    def request(self) -> Messages:
        return self.messages[-4:] if self.is_mended else self.messages[:4]


class Pruned(Conversation):
    """openclaw#2509: what is beyond a limit goes, and no summary holds it."""

    def request(self) -> Messages:
        return self.messages if self.is_mended else self.messages[-3:]


class Unsummed(Conversation):
    """odysseus#2160, smart-second-brain#435: a summary fails, and what it was made of is gone."""

    def request(self) -> Messages:
        older, recent = self.messages[:-2], self.messages[-2:]
        if len(older) < 3:
            return self.messages
        try:
            text = ask("You sum up.", [user_message(json.dumps(older))]).content
        except OpenAIError:
            return self.messages if self.is_mended else recent
        return [user_message(f"So far: {text}"), *recent]


class Leftover(Conversation):
    """pi#1585, letta#2601: what one summary left in the history is in no later one."""

    def request(self) -> Messages:
        if len(self.messages) - self.start > 4:
            first = self.start if self.is_mended else self.summed_to
            lines = "\n".join(str(each["content"]) for each in self.messages[first:-2])
            self.summary = ask("You sum up.", [user_message(f"{self.summary}\n{lines}")]).content
            self.start, self.summed_to = len(self.messages) - 2, len(self.messages)
        summary = [user_message(f"So far: {self.summary}")] if self.summary else []
        return [*summary, *self.messages[self.start :]]


class Copied(Conversation):
    """agent-framework#7744: of a summary only the loop's first request has a copy."""

    def chat(self, text: str) -> Any:
        self.messages.append(user_message(text))
        request = [*self.messages]
        if len(request) > 4:
            summary = ask("You sum up.", [user_message(json.dumps(request[:-1]))]).content
            request = [user_message(f"So far: {summary}"), request[-1]]
            self.messages = request if self.is_mended else request[1:]
        while (a := ask("You help.", request, tool("find", "what"))).tool_calls:
            self.messages += [call_of(a), *(result_of(call, "120 euros") for call in a.tool_calls)]
            request = self.messages
        self.messages.append({"role": "assistant", "content": a.content})
        return a.content


class Answered(Conversation):
    """langchain#36957: the report of an earlier turn ends the next one at its first tool."""

    report = ""

    def chat(self, text: str) -> Any:
        self.messages.append(user_message(text))
        self.report = "" if self.is_mended else self.report
        while (
            a := ask("You help.", self.messages, tool("look", "city"), tool("report", "text"))
        ).tool_calls:
            calls = [json.loads(call.function.arguments) for call in a.tool_calls]
            self.report = next((each["text"] for each in calls if "text" in each), self.report)
            self.messages += [call_of(a), *(result_of(call, "12") for call in a.tool_calls)]
            if self.report:
                return self.report
        return a.content


class Prompted(Conversation):
    """OpenManus#1272, inspect_swe#64: the instructions are put before themselves."""

    def chat(self, text: str) -> Any:
        prompt = "You write code.\nUse the tools."
        system: Messages = [{"role": "system", "content": prompt}]
        if not self.is_mended:
            system.append({"role": "system", "content": f"{prompt}\nThere is one tool: run."})
        messages: Any = [*system, user_message(text)]
        reply = client.chat.completions.create(model="gpt-5-mini", messages=messages)
        return reply.choices[0].message.content


class Again(Conversation):
    """ursa#331: a conversation that goes on is sent its instructions once more."""

    system = "You help people."

    def request(self) -> Messages:
        if len(self.messages) > 1 and not self.is_mended:
            self.messages.insert(-1, {"role": "system", "content": self.system})
        return self.messages


for case in Conversation.__subclasses__():
    globals()[f"Mended{case.__name__}"] = type("Mended", (case,), {"is_mended": True})
