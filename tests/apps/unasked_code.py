"""Faults of public reports, each as the smallest application that has it, and its mended twin."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openai import OpenAI, OpenAIError

client = OpenAI()
Messages = list[dict[str, Any]]


def tool(name: str, *parameters: str) -> dict[str, Any]:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    schema = {"type": "object", "properties": properties, "required": [*parameters]}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def ask(system: str, messages: Messages, *tools: dict[str, Any]) -> Any:
    options = {"tools": [*tools]} if tools else {}
    whole: Any = [{"role": "system", "content": system}, *messages]
    reply = client.chat.completions.create(model="gpt-5-mini", messages=whole, **options)  # type: ignore[call-overload]
    return reply.choices[0].message


def user_message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call_of(message: Any) -> dict[str, Any]:
    called: dict[str, Any] = message.model_dump(exclude_none=True)
    return called


def result_of(call: Any, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": text}


class Case:
    """A fault of a report, and its mended twin."""

    is_mended = False


class Plan(Case):
    """ag2#1618: the first agent is not sent what the user line."""

    def chat(self, text: str) -> str:
        plan = ask("You plan.", [user_message(text if self.is_mended else "Begin.")]).content
        poem: str = ask("You write.", [user_message(f"Plan: {plan}\nTask: {text}")]).content
        return poem


class Swarm(Case):
    """autogen#5045: the result of a tool does not reach the target of a handoff."""

    def chat(self, text: str) -> Any:
        messages = [user_message(text)]
        while (
            a := ask("You tell time.", messages, tool("now"), tool("transfer_to_day"))
        ).tool_calls:
            messages.append(call_of(a))
            for call in a.tool_calls:
                if call.function.name == "now":
                    messages.append(result_of(call, "12:34"))
                    continue
                messages.append(result_of(call, "ok"))
                messages_sent = [
                    each for each in messages if self.is_mended or each["role"] == "user"
                ]
                return ask("You tell days.", messages_sent).content
        return a.content


class Thought(Case):
    """autogen#6295: the text beside the call of a handoff does not reach its target."""

    def chat(self, text: str) -> Any:
        a = ask("You greet.", [user_message(text)], tool("transfer_to_desk"))
        if not a.tool_calls:
            return a.content
        call = call_of(a) | ({} if self.is_mended else {"content": None})
        answered = [result_of(each, "ok") for each in a.tool_calls]
        return ask("You are the desk.", [user_message(text), call, *answered]).content


class Home(Case):
    """home-generative-agent#588: of a turn that used a tool, the history has the text alone."""

    def __init__(self) -> None:
        self.history: Messages = []

    def chat(self, text: str) -> Any:
        messages = [*self.history, user_message(text)]
        while (a := ask("You run a house.", messages, tool("turn_on", "what"))).tool_calls:
            messages += [call_of(a), *(result_of(call, "on") for call in a.tool_calls)]
        whole = messages if self.is_mended else [*self.history, user_message(text)]
        self.history = [*whole, {"role": "assistant", "content": a.content}]
        return a.content


class Careful:
    """Leaves a turn whose model failed out of the conversation, on purpose."""

    def __init__(self) -> None:
        self.history: Messages = []

    def chat(self, text: str) -> Any:
        messages = [*self.history, user_message(text)]
        try:
            answer = ask("You are careful.", messages)
        except OpenAIError:
            return "Please ask again."
        self.history = [*messages, call_of(answer)]
        return answer.content


class Stored(Case):
    """pydantic-ai#2888, unsloth#10009: a turn that went another way is not stored."""

    def __init__(self) -> None:
        self.history: Messages = []

    def chat(self, text: str) -> Any:
        messages, has_looked = [*self.history, user_message(text)], False
        while (a := ask("You look.", messages, tool("look", "what"))).tool_calls:
            messages += [call_of(a), *(result_of(call, "seen") for call in a.tool_calls)]
            has_looked = True
        if self.is_mended or not has_looked:
            self.history = [*messages, {"role": "assistant", "content": a.content}]
        return a.content


class Forks(Case):
    """claude-code#89849: agents that work side by side get each other's answers."""

    def chat(self, text: str) -> Any:
        messages = [user_message(text)]
        tools = tool("ask_memory", "task"), tool("ask_channel", "task")
        while (a := ask("You lead.", messages, *tools)).tool_calls:
            with ThreadPoolExecutor() as pool:
                answers = [*pool.map(self._answer, a.tool_calls)]
            if not self.is_mended:
                answers.reverse()
            pairs = zip(a.tool_calls, answers, strict=True)
            messages += [call_of(a), *(result_of(call, answer) for call, answer in pairs)]
        return a.content

    def _answer(self, call: Any) -> str:
        task = json.loads(call.function.arguments)["task"]
        answer: str = ask(f"You know {call.function.name[4:]}.", [user_message(task)]).content
        return answer


class Crew(Case):
    """crewAI#724, crewAI#1410: what one agent found does not reach the next."""

    def chat(self, text: str) -> Any:
        finding = ask("You research.", [user_message(text)]).content
        return ask(
            "You write.", [user_message(f"{text}\n{finding}" if self.is_mended else text)]
        ).content


class Memory(Case):
    """souprise#8: only the newest message reaches the model, and the user refers to an answer."""

    def __init__(self) -> None:
        self.history: Messages = []

    def chat(self, text: str) -> Any:
        self.history.append(user_message(text))
        a = ask("You help.", self.history if self.is_mended else self.history[-1:])
        self.history.append({"role": "assistant", "content": a.content})
        return a.content


class Front(Case):
    """beeai-framework#963: an agent is sent the open call of the one that asks it."""

    def chat(self, text: str) -> Any:
        messages = [user_message(text)]
        if not (a := ask("You greet.", messages, tool("transfer_to_desk", "task"))).tool_calls:
            return a.content
        messages.append(call_of(a))
        messages_sent = (
            [user_message(text), user_message(a.tool_calls[0].function.arguments)]
            if self.is_mended
            else messages
        )
        answer = ask("You are the desk.", messages_sent).content
        messages += [result_of(call, answer) for call in a.tool_calls]
        return ask("You greet.", messages, tool("transfer_to_desk", "task")).content


class Joined(Case):
    """inspect_ai#2290: two messages of the assistant are joined, and the calls of one are lost."""

    def chat(self, text: str) -> Any:
        messages = [user_message(text), {"role": "assistant", "content": "Let me see. "}]
        while (a := ask("You look.", messages, tool("look", "what"))).tool_calls:
            last = messages[-1]
            joined = call_of(a) if messages[-1]["role"] != "assistant" else last | call_of(a)
            if not self.is_mended:
                joined.pop("tool_calls")
                joined["content"] = joined.get("content") or "Let me see."
            messages[-1:] = [joined] if last["role"] == "assistant" else [last, joined]
            messages += [result_of(call, "seen") for call in a.tool_calls]
        return a.content


class Resent(Case):
    """agent-framework#7955: a session holds the conversation, and the caller sends it as well."""

    def __init__(self) -> None:
        self.history: Messages = []

    def chat(self, text: str) -> Any:
        session = [] if self.is_mended else self.history
        messages = [*session, *self.history, user_message(text)]
        a = ask("You help.", messages)
        self.history += [user_message(text), {"role": "assistant", "content": a.content}]
        return a.content


class Trip(Case):
    """rhesis#2463: only the text of an agent crosses a handoff, and it has called tools alone."""

    def chat(self, text: str) -> Any:
        messages = [user_message(text)]
        if not (a := ask("You plan trips.", messages, tool("transfer_to_scout"))).tool_calls:
            return a.content
        own, is_back = [*messages], False
        while not is_back:
            a = ask("You scout.", own, tool("find", "city"), tool("transfer_to_planner"))
            own += [call_of(a), *(result_of(call, "Old Town") for call in a.tool_calls or ())]
            names = [call.function.name for call in a.tool_calls or ()]
            is_back = not names or "transfer_to_planner" in names
        words = [{"role": "assistant", "content": a.content}] if a.content else []
        return ask("You plan trips.", own if self.is_mended else [*messages, *words]).content


class Appended(Case):
    """langgraph4j#288: a channel drops a message that it holds already."""

    def __init__(self) -> None:
        self.history: Messages = []

    def add(self, message: dict[str, Any]) -> None:
        if self.is_mended or message not in self.history:
            self.history.append(message)

    def chat(self, text: str) -> Any:
        self.add(user_message(text))
        a = ask("You help.", self.history)
        self.add({"role": "assistant", "content": a.content})
        return a.content


class Summed(Case):
    """openai-agents#3791: a summary is summed up with the messages that it lists already."""

    def chat(self, text: str) -> Any:
        lines, last = [f"user: {text}"], ""
        for name in "triage", "billing", "refunds":
            summary = [*lines, last] if last and not self.is_mended else lines
            listing = "\n".join(f"{place}. {line}" for place, line in enumerate(summary, 1))
            a = ask(f"You are {name}.", [user_message(f"So far:\n{listing}\n")])
            last = f"{name}: {a.content}"
            lines = [*lines, last]
        return a.content


class Limited(Case):
    """hermes-agent#11351: a run that ends at its limit is stored with calls without results."""

    def __init__(self) -> None:
        self.history: Messages = []

    def chat(self, text: str) -> Any:
        self.history.append(user_message(text))
        for result in "ok", "":
            a = ask("You work.", self.history, tool("run", "command"))
            self.history.append(call_of(a))
            if not a.tool_calls:
                return a.content
            if result or self.is_mended:
                results = [result_of(call, result or "not run") for call in a.tool_calls]
                self.history += results
        return "I stopped."


class Store(Case):
    """voltagent#1026: a sub-agent stores its task in the conversation of the agent that asks it."""

    def __init__(self) -> None:
        self.history: Messages = []

    def chat(self, text: str) -> Any:
        messages = [*self.history, user_message(text)]
        self.history.append(user_message(text))
        while (a := ask("You lead.", messages, tool("delegate", "task"))).tool_calls:
            results = [result_of(call, self.work(call)) for call in a.tool_calls]
            messages += [call_of(a), *results]
        self.history.append({"role": "assistant", "content": a.content})
        return a.content

    def work(self, call: Any) -> str:
        task = user_message(json.loads(call.function.arguments)["task"])
        answer: str = ask("You work.", [task]).content
        if not self.is_mended:
            self.history += [task, {"role": "assistant", "content": answer}]
        return answer


class Nameless(Case):
    """llama_index#17721: with a history, the instructions are not sent."""

    def __init__(self) -> None:
        self.history: Messages = []

    def chat(self, text: str) -> Any:
        self.history.append(user_message(text))
        whole: Any = self.history
        if self.is_mended or len(self.history) == 1:
            whole = [{"role": "system", "content": "Your name is Steve."}, *self.history]
        a = client.chat.completions.create(model="gpt-5-mini", messages=whole).choices[0].message
        self.history.append({"role": "assistant", "content": a.content})
        return a.content


class Specialists(Case):
    """ai-sdk-tools#112: from one specialist to the next, no result of a tool is passed on."""

    def chat(self, text: str) -> Any:
        messages = [user_message(text)]
        if not (a := ask("You route.", messages, tool("transfer_to_reports"))).tool_calls:
            return a.content
        messages += [call_of(a), *(result_of(call, "ok") for call in a.tool_calls)]
        own = [*messages]
        tools = tool("revenue", "month"), tool("transfer_to_analytics")
        while (a := ask("You report.", own, *tools)).tool_calls:
            results = {"revenue": "Revenue 48,210 EUR"}
            own.append(call_of(a))
            own += [result_of(call, results.get(call.function.name, "ok")) for call in a.tool_calls]
            if any(call.function.name == "transfer_to_analytics" for call in a.tool_calls):
                return ask("You analyse.", own if self.is_mended else messages).content
        return a.content


class Swallowed(Case):
    """swarms#1963: what a tool raises is dropped, and the model is asked the same again."""

    def chat(self, text: str) -> Any:
        memory = [user_message(text)]
        for _ in range(3):
            a = ask("You read.", memory, tool("fetch", "page"))
            if not a.tool_calls:
                return a.content
            try:
                for call in a.tool_calls:
                    page = {"home": "Welcome."}[json.loads(call.function.arguments)["page"]]
                    memory.append(user_message(f"fetch returned {page}"))
            except KeyError as problem:
                if self.is_mended:
                    memory.append(user_message(f"fetch failed: {problem!r}"))
        return "I give up."


class Roles(Case):
    """autogen#3009: what the user says is stored with the role of the assistant."""

    def __init__(self) -> None:
        self.history: Messages = []

    def chat(self, text: str) -> Any:
        a = ask("You help.", [*self.history, user_message(text)])
        stored = user_message(text) if self.is_mended else {"role": "assistant", "content": text}
        self.history += [stored, {"role": "assistant", "content": a.content}]
        return a.content


class OneMemory(Case):
    """agno#1669: a new session of an agent begins with the messages of its others."""

    def __init__(self) -> None:
        self.sessions: dict[str, Messages] = {}

    def chat(self, text: str, session: str) -> Any:
        memory = self.sessions.setdefault(session if self.is_mended else "", [])
        a = ask("You help.", [*memory, user_message(text)])
        memory += [user_message(text), {"role": "assistant", "content": a.content}]
        return a.content


for case in Case.__subclasses__():
    globals()[f"Mended{case.__name__}"] = type("Mended", (case,), {"is_mended": True})
one_memory, memory_each = OneMemory(), globals()["MendedOneMemory"]()


def remember(text: str, session: str) -> Any:
    """Answers in all sessions with one object."""
    return one_memory.chat(text, session)


def remember_each(text: str, session: str) -> Any:
    """Keeps the sessions apart."""
    return memory_each.chat(text, session)
