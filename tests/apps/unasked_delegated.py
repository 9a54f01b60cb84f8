"""Faults of public reports on work that is passed on, and their mended twins."""

from __future__ import annotations

import json
from typing import Any

from unasked_code import Messages, ask, call_of, result_of, tool, user_message


class Unstored:
    """swarmclaw#8: a task is not stored in the history of which a request is made."""

    is_mended = False

    def chat(self, text: str) -> Any:
        messages = [user_message(text)]
        a = ask("You lead.", messages, tool("delegate", "request"))
        for call in a.tool_calls or ():
            request = json.loads(call.function.arguments).get("request", "")
            history: Messages = [user_message(request)] if self.is_mended else []
            answer = ask("You do what is asked.", history).content
            messages += [call_of(a), result_of(call, answer)]
            a = ask("You lead.", messages)
        return a.content


class Fallback:
    """hermes-agent#49307: a summary of code lists the latest request under each heading."""

    is_mended = False

    def __init__(self) -> None:
        self.messages: Messages = []

    def chat(self, text: str) -> Any:
        if len(self.messages) > 3:
            texts = [each["content"] for each in self.messages]
            headings = ["Task", "In progress", "Pending"][: 1 if self.is_mended else 3]
            lines = [f"# {heading}\nUser asked: {texts[-2]!r}" for heading in headings]
            self.messages = [user_message("\n".join([*lines, f"Answer: {texts[-1]!r}"]))]
        self.messages.append(user_message(text))
        a = ask("You help.", self.messages)
        self.messages.append(call_of(a))
        return a.content


class Merged:
    """adk-python#1153: of the states of agents called as tools, the last one's stays."""

    is_mended = False

    def chat(self, text: str) -> Any:
        state: dict[str, str] = {}
        a = ask("You plan.", [user_message(text)], tool("flights", "day"), tool("hotels", "day"))
        for call in a.tool_calls or ():
            day = json.loads(call.function.arguments).get("day", "")
            answer = ask(f"You find {call.function.name}.", [user_message(day)]).content
            state = {**(state if self.is_mended else {}), call.id: answer}
        return ask("You write.", [user_message(f"{text}\nFound: {json.dumps(state)}")]).content


class Tail:
    """Maple#940: of an agent's answer the end alone is passed on, and nothing says so."""

    is_mended = False

    def chat(self, text: str) -> Any:
        messages = [user_message(text)]
        while (a := ask("You lead.", messages, tool("delegate", "request"))).tool_calls:
            messages.append(call_of(a))
            for call in a.tool_calls:
                answer = ask("You inspect.", [user_message(call.function.arguments)]).content
                messages.append(result_of(call, answer if self.is_mended else answer[-40:]))
        return a.content


class Observed:
    """mastra#15103: a sub-agent's conversation is written into the thread of the agent above it."""

    is_mended = False

    def chat(self, text: str) -> Any:
        messages, thread = [user_message(text)], [f"user: {text}"]
        a = ask("You lead.", messages, tool("delegate", "request"))
        for call in a.tool_calls or ():
            request = json.loads(call.function.arguments).get("request", "")
            answer = ask("You find.", [user_message(request)]).content
            thread += [] if self.is_mended else [f"user: {request}", f"assistant: {answer}"]
            a = ask("You lead.", [*messages, call_of(a), result_of(call, answer)])
        ask("You note.", [user_message("\n".join([*thread, f"assistant: {a.content}"]))])
        return a.content


class Window:
    """coder#28645: a window over the work of a turn cuts the request that the work is for."""

    is_mended = False

    def chat(self, text: str) -> Any:
        request, work = user_message(text), []
        while (a := ask("You work.", [request, *work], tool("look", "at"))).tool_calls:
            work = [call_of(a), *(result_of(call, "Seen.") for call in a.tool_calls)]
            if not self.is_mended:
                request = user_message("Go on.")
        return a.content


for case in (Unstored, Fallback, Merged, Tail, Observed, Window):
    globals()[f"Mended{case.__name__}"] = type("Mended", (case,), {"is_mended": True})
