"""An airline's desk on the OpenAI Agents SDK: two handoffs, tools, a context object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agents import (
    Agent,
    HandoffInputData,
    RunConfig,
    RunContextWrapper,
    Runner,
    SQLiteSession,
    function_tool,
    handoff,
)
from agents.extensions import handoff_filters
from agents.run import CallModelData, ModelInputData
from pydantic import BaseModel


@dataclass
class Passenger:
    """What is known of whoever asks."""

    name: str = "Ann"
    seat: str | None = None
    flight: str | None = None
    notes: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=object)


class Escalation(BaseModel):
    """Why somebody else should look at it."""

    reason: str


@function_tool
def look_up(question: str) -> str:
    """Looks a question up in the airline's system."""
    raise ConnectionError("the airline's system is not reachable from here")


@function_tool
async def book_seat(context: RunContextWrapper[Passenger], seat: str) -> str:
    """Books a seat."""
    context.context.seat = seat
    return f"booked {seat}"


async def on_booking(context: RunContextWrapper[Passenger]) -> None:
    """Finds the passenger's flight."""
    context.context.flight = "FLT-7"


async def on_escalation(context: RunContextWrapper[Passenger], why: Escalation) -> None:
    """Keeps the reason."""
    context.context.notes.append(why.reason)


def without_tools(data: HandoffInputData) -> HandoffInputData:
    """Leaves tool calls behind."""
    return handoff_filters.remove_all_tools(data)


faq = Agent[Passenger](name="FAQ", instructions="You answer questions.", tools=[look_up])
seats = Agent[Passenger](name="Seat Booking", instructions="You book seats.", tools=[book_seat])
human = Agent[Passenger](name="Human", instructions="You are a person.")
triage = Agent[Passenger](
    name="Triage",
    instructions="You pass people on.",
    tools=[look_up],
    handoffs=[
        handoff(faq, tool_name_override="ask_the_faq", input_filter=without_tools),
        handoff(seats, on_handoff=on_booking),
        handoff(human, on_handoff=on_escalation, input_type=Escalation),
    ],
)
seats.handoffs.append(triage)


def passenger() -> dict[str, Any]:
    """What a session runs with."""
    return {"context": Passenger()}


def remembering(session: str) -> dict[str, Any]:
    """What a session runs with that the SDK itself remembers."""
    return {"session": SQLiteSession(session), "context": Passenger(name="Bea")}


async def ask(text: str) -> Any:
    """Answers one question, without any memory."""
    result = await Runner.run(triage, text, context=Passenger())
    return result.final_output


def ask_in_sync(text: str) -> Any:
    """The same for code that is not asynchronous."""
    return Runner.run_sync(triage, text, context=Passenger()).final_output


async def ask_streamed(text: str) -> Any:
    """The same, streamed."""
    result = Runner.run_streamed(triage, text, context=Passenger())
    async for _ in result.stream_events():
        pass
    return result.final_output


async def ask_nested(text: str) -> Any:
    """The same; whoever takes over reads what was said in one message."""
    config = RunConfig(nest_handoff_history=True)
    return (await Runner.run(triage, text, context=Passenger(), run_config=config)).final_output


def latest(data: CallModelData[Any]) -> ModelInputData:
    """Shows a model the latest of what was said."""
    return ModelInputData(input=data.model_data.input[-1:], instructions="Be brief.")


async def two_filters(text: str) -> Any:
    """Answers; what is handed over, and what models are sent, the run's configuration filters."""
    config = RunConfig(handoff_input_filter=awaited, call_model_input_filter=latest)
    history: Any = [{"role": "user", "content": "Hello"}, {"role": "user", "content": text}]
    return (await Runner.run(seats, history, context=Passenger(), run_config=config)).final_output


async def awaited(data: HandoffInputData) -> HandoffInputData:
    """Leaves tool calls behind, in its own time."""
    return handoff_filters.remove_all_tools(data)


@function_tool
async def seat_beside(context: RunContextWrapper[Passenger], seat: str) -> str:
    """Keeps a seat, and asks who has the one beside it."""
    context.context.seat = seat
    result = await Runner.run(faq, f"Who sits beside {seat}?", context=context.context)
    return str(result.final_output)


companions = Agent[Passenger](
    name="Companions", instructions="You seat people together.", tools=[seat_beside]
)


async def ask_together(text: str) -> Any:
    """Answers."""
    return (await Runner.run(companions, text, context=Passenger())).final_output
