"""An airline's desk on PydanticAI: delegation, output functions, deps, history processors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    FunctionToolset,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    NativeOutput,
    PromptedOutput,
    RunContext,
    UsageLimits,
)
from pydantic_ai.capabilities import Hooks, ProcessHistory

CHAT, RESPONSES = "openai-chat:gpt-4o", "openai-responses:gpt-5"
CLAUDE = "anthropic:claude-haiku-4-5"


@dataclass
class Passenger:
    """What is known of whoever asks."""

    name: str = "Ann"
    seat: str | None = None
    notes: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=object)


# Delegation


seats = Agent(CLAUDE, name="seats", deps_type=Passenger, instructions="You book seats.")
meals = Agent(RESPONSES, name="meals", deps_type=Passenger, instructions="You order meals.")
triage = Agent(CHAT, deps_type=Passenger, instructions="You pass people on.")


@seats.tool
async def book_seat(ctx: RunContext[Passenger], seat: str) -> str:
    """Books a seat."""
    ctx.deps.seat = seat
    return f"booked {seat}"


@seats.tool_plain
def seat_map(row: int) -> list[str]:
    """Shows a row of seats."""
    raise ConnectionError("the airline's system is not reachable from here")


@triage.tool
async def ask_seats(ctx: RunContext[Passenger], question: str) -> str:
    """Asks who books seats."""
    result = await seats.run(question, deps=ctx.deps, usage=ctx.usage)
    return result.output


@triage.tool
async def ask_meals(ctx: RunContext[Passenger], question: str) -> str:
    """Asks who orders meals, once it has looked at the kitchen."""
    for _ in range(12):
        await asyncio.sleep(0)
    result = await meals.run(question, deps=ctx.deps, usage=ctx.usage)
    ctx.deps.notes.append(result.output)
    return result.output


def passenger() -> dict[str, Any]:
    """What a session runs with."""
    return {"deps": Passenger()}


async def ask(text: str) -> Any:
    """Answers one question, without any memory."""
    result = await triage.run(text, deps=Passenger())
    return result.output


def ask_in_sync(text: str) -> Any:
    """The same, for code that is not asynchronous."""
    return triage.run_sync(text, deps=Passenger())


async def ask_streamed(text: str) -> Any:
    """The same, streamed."""
    async with triage.run_stream(text, deps=Passenger()) as stream:
        async for piece in stream.stream_text(delta=True, debounce_by=None):
            yield piece


def ask_streamed_in_sync(text: str) -> Any:
    """The same, streamed by code that is not asynchronous."""
    with triage.run_stream_sync(text, deps=Passenger()) as stream:
        yield from stream.stream_text(delta=True, debounce_by=None)


async def ask_by_events(text: str) -> Any:
    """The same, by its events."""
    async with triage.run_stream_events(text, deps=Passenger()) as events:
        return [event async for event in events][-1]


async def ask_by_nodes(text: str) -> Any:
    """The same, node by node."""
    async with triage.iter(text, deps=Passenger()) as run:
        async for _ in run:
            pass
    return run.result


# Hand-off


class Answer(BaseModel):
    """What an expert says."""

    text: str
    grade: int = Field(ge=1, le=5)


class Unknown(BaseModel):
    """When nobody knows."""

    reason: str


expert = Agent(
    CLAUDE, name="expert", output_type=Answer | Unknown, instructions="You know it.", retries=2
)


async def hand_to_expert(ctx: RunContext[None], question: str) -> Answer | Unknown:
    """Hands a question to somebody who knows."""
    result = await expert.run(question)
    return result.output


router = Agent(CHAT, name="router", output_type=[hand_to_expert, Unknown])


@expert.output_validator
def no_guesses(output: Answer | Unknown) -> Answer | Unknown:
    """Refuses what sounds unsure."""
    if isinstance(output, Answer) and "maybe" in output.text:
        raise ModelRetry("Do not guess.")
    return output


async def passed_on(text: str) -> str:
    """Two agents of which the second one goes on with what was said to the first."""
    first = await triage.run(text, deps=Passenger())
    second = await seats.run(
        "Book it.", deps=Passenger(name="Bea"), message_history=first.new_messages()
    )
    return second.output


# Filters


async def last_three(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
    """Keeps the end of a history."""
    start = max(len(messages) - 3, 0)
    while not isinstance(messages[start], ModelRequest):
        start += 1
    return messages[start:]


hooks: Hooks[Any] = Hooks()


@hooks.on.prepare_model_request
async def redacted(ctx: RunContext[Any], request: Any) -> Any:
    """Shows a model no card numbers."""
    request.messages = [
        message
        for message in request.messages
        if not any("card" in str(getattr(part, "content", "")) for part in message.parts)
    ]
    return request


def shortened(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Shortens what a user says, where it stands."""
    for message in messages:
        for part in message.parts:
            if part.part_kind == "user-prompt" and len(part.content) > 12:
                part.content = f"{str(part.content)[:8]}…"
    return messages


brief = Agent(RESPONSES, name="brief", capabilities=[ProcessHistory(shortened)])
forgetful = Agent(
    CHAT, name="forgetful", instructions="You forget.", capabilities=[ProcessHistory(last_three)]
)
discreet = Agent(CLAUDE, name="discreet", instructions="You are discreet.", capabilities=[hooks])


# Tools


class Weather(BaseModel):
    """The weather somewhere."""

    city: str
    degrees: int


outside: FunctionToolset[Any] = FunctionToolset()


@outside.tool_plain
def weather(city: str) -> Weather:
    """Says how the weather is."""
    if city == "Atlantis":
        raise ModelRetry("There is no such city.")
    return Weather(city=city, degrees=20)


@outside.tool_plain(requires_approval=True)
def cancel_flight(number: int) -> str:
    """Cancels a flight."""
    return f"cancelled {number}"


clerk = Agent(
    CHAT,
    name="clerk",
    toolsets=[outside.prefixed("out")],
    output_type=[str, DeferredToolRequests],
    retries=2,
)


# Output


class Bill(BaseModel):
    """What is owed."""

    amount: int


native = Agent(RESPONSES, name="native", output_type=NativeOutput(Bill))
prompted = Agent(CLAUDE, name="prompted", output_type=PromptedOutput(Bill))
counting = Agent(CHAT, name="counting", output_type=list[int])


async def billed(text: str) -> Any:
    """Three ways to ask for structured output, one after another."""
    first = await native.run(text)
    second = await prompted.run(text)
    third = await counting.run(text)
    return [first.output.amount, second.output.amount, *third.output]


# Beside each other


translator = Agent(CHAT, name="translator", instructions="You translate.")


async def side_by_side(text: str) -> str:
    """Three agents with one prompt at once."""
    results = await asyncio.gather(
        translator.run(text), Agent(CLAUDE, name="translator").run(text), Agent(RESPONSES).run(text)
    )
    return " / ".join(result.output for result in results)


@dataclass
class Diary:
    """What somebody keeps of their talks."""

    messages: list[ModelMessage] = field(default_factory=list)
    begun: str = ""


writer = Agent(CHAT, name="writer", deps_type=Diary)


@writer.tool
async def look_back(ctx: RunContext[Diary]) -> str:
    """Looks into the diary."""
    ctx.deps.begun = str(ctx.run_id)
    return f"There are {len(ctx.deps.messages)} messages."


async def write(text: str) -> str:
    """Keeps what was said in the agent's own state, and shows it once more."""
    diary = Diary()
    for reply in (text, "Go on."):
        result = await writer.run(reply, deps=diary, message_history=diary.messages)
        diary.messages += result.new_messages()
    await writer.run("And now?", deps=diary)
    return result.output


sleepy = Agent(CHAT, name="sleepy", deps_type=asyncio.Event)


@sleepy.tool
async def sleep(ctx: RunContext[asyncio.Event]) -> None:
    """Sleeps."""
    ctx.deps.set()
    await asyncio.Event().wait()


DESKS: dict[str, Agent[None, str]] = {
    "refunds": Agent(CHAT, instructions="You refund."),
    "upgrades": Agent(CLAUDE, instructions="You upgrade."),
}


async def all_desks(text: str) -> str:
    """Asks agents that only a registry names, each in a task of its own."""
    tasks = [asyncio.create_task(value.run(text)) for value in DESKS.values()]
    return " / ".join(result.output for result in await asyncio.gather(*tasks))


async def patient(text: str) -> str:
    """Gives up on an agent that takes too long."""
    event = asyncio.Event()
    task = asyncio.create_task(sleepy.run(text, deps=event))
    await event.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return "too late"


def frugal() -> dict[str, Any]:
    """What a session runs with that may ask its model once a turn."""
    return {"deps": Passenger(), "usage_limits": UsageLimits(request_limit=1)}


companions = Agent(CHAT, deps_type=Passenger, instructions="You seat people together.")


@companions.tool
async def seat_beside(ctx: RunContext[Passenger], seat: str) -> str:
    """Keeps a seat, and asks who has the one beside it."""
    ctx.deps.seat = seat
    return (await seats.run(f"Who sits beside {seat}?", deps=ctx.deps)).output


async def ask_together(text: str) -> Any:
    """Answers."""
    return (await companions.run(text, deps=Passenger())).output
