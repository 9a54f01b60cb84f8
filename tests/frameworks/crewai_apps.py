"""What the conformance suite wants of CrewAI, as its users would write it, and a crew."""

import asyncio
from collections.abc import Callable
from typing import Any

from crewai import LLM, Agent, Crew, Process, Task
from crewai.flow.flow import Flow, listen, start
from crewai.tools import tool
from pydantic import BaseModel


def agent(role: str, *tools: Any, prompt: str = "None.", **more: Any) -> Agent:
    more = {"llm": "gpt-4o", **more}
    return Agent(role=role, goal="To answer.", backstory=prompt, tools=[*tools], **more)


def answers(role: str, *tools: Any, **more: Any) -> Callable[[Any], Any]:
    return lambda text: agent(role, *tools, **more).kickoff(text)


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} is known."


@tool
def ask_helper(input: str) -> str:
    """Asks the helper."""
    return str(answers("helper")(input).raw)


def lose(output: Any) -> tuple[bool, Any]:
    raise LookupError("lost")


solo = retry = answers("writer")
tools, nested = answers("clerk", look_up), answers("boss", ask_helper)
stream = answers("writer", llm=LLM("gpt-4o", stream=True))

broken = answers("clerk", guardrail=lose)


def chain(text: str) -> str:
    first, second = agent("first"), agent("second")
    look = Task(description=text, expected_output="One", agent=first)
    then = Task(description="Go on", expected_output="Two", agent=second, context=[look])
    return str(Crew(agents=[first, second], tasks=[look, then]).kickoff().raw)


async def parallel(text: str) -> str:
    reviewers = [agent(role, prompt="You review.") for role in ("left", "right")]
    outputs = await asyncio.gather(*(each.kickoff_async(text) for each in reviewers))
    return " / ".join(output.raw for output in outputs)


def sessions() -> Callable[[str], str]:
    clerk, messages = agent("clerk"), list[Any]()

    def answer(text: str) -> str:
        messages.append({"role": "user", "content": text})
        reply = str(clerk.kickoff([*messages]).raw)
        messages.append({"role": "assistant", "content": reply})
        return reply

    return answer


class Notes(BaseModel):
    notes: list[str] = []


class Noting(Flow[Notes]):  # type: ignore[misc]
    @start()
    def first(self) -> None:
        self.state.notes.append(answers("first")("Hello").raw)

    @listen(first)
    def second(self) -> None:
        self.state.notes.append(answers("second")("Hello").raw)


def state(text: str) -> None:
    Noting().kickoff()


def managed(text: str) -> Any:
    task = Task(description=text, expected_output="An amount")
    return Crew(
        agents=[agent("clerk", look_up)],
        tasks=[task],
        process=Process.hierarchical,
        manager_llm="gpt-4o",
    ).kickoff()
