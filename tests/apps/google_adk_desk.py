"""A desk on the ADK: agents that pass control, state of every scope, tools that ask and wait."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models import BaseLlm, Gemini, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.runners import InMemoryRunner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import BaseTool, FunctionTool, LongRunningFunctionTool, ToolContext
from google.genai import types
from pydantic import BaseModel

MODEL = "gemini-2.5-flash"


def find_order(customer: str, tool_context: ToolContext) -> dict[str, Any]:
    """Finds a customer's order."""
    state = tool_context.state
    state["order_id"] = "A-1042"
    state["user:customer"] = customer
    state["app:found"] = state.get("app:found", 0) + 1
    state["temp:by"] = "name"
    return {"order_id": "A-1042", "email": "ada@example.com"}


def pay_back(order_id: str) -> str:
    """Pays an order back."""
    if order_id == "A-0":
        raise LookupError(f"no order {order_id}")
    return f"paid back {order_id}"


def ask_boss(order_id: str) -> None:
    """Asks the boss, who takes his time."""


def give_away(order_id: str) -> str:
    """Gives something away, if somebody agrees."""
    return f"gave {order_id} away"


def no_emails(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    """Takes out whatever tells an address."""
    llm_request.contents = [
        content for content in llm_request.contents if "@" not in content.model_dump_json()
    ]


def count_refunds(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
    """Is called before each tool."""
    tool_context.state["refunds"] = tool_context.state.get("refunds", 0) + 1


refunds = LlmAgent(
    name="refunds",
    model=MODEL,
    description="Pays orders back",
    instruction="You are the refund agent. The order is {order_id?}.",
    tools=[
        pay_back,
        LongRunningFunctionTool(ask_boss),
        FunctionTool(give_away, require_confirmation=True),
    ],
    before_model_callback=no_emails,
    before_tool_callback=count_refunds,
    output_key="answer",
)
root_agent = LlmAgent(
    name="triage",
    model=MODEL,
    instruction="You are the triage agent.",
    tools=[find_order],
    sub_agents=[refunds],
)


class Verdict(BaseModel):
    """What a judge says."""

    is_fair: bool
    reason: str


judge = LlmAgent(
    name="judge",
    model=MODEL,
    instruction="You judge what was said last.",
    include_contents="none",
    output_schema=Verdict,
    output_key="verdict",
)


expert = LlmAgent(
    name="expert",
    model=MODEL,
    instruction="You judge by the books.",
    tools=[find_order],
    output_schema=Verdict,
    output_key="verdict",
)


class Greeter(BasePlugin):
    """Answers greetings itself: no model is asked."""

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Answers for the model."""
        parts = llm_request.contents[-1].parts or []
        if parts and parts[-1].text == "Hello":
            content = types.Content(role="model", parts=[types.Part(text="Hello yourself")])
            return LlmResponse(content=content)
        return None


class Parrot(BaseLlm):
    """Says what it is told, and sends nothing."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answers."""
        parts = llm_request.contents[-1].parts
        yield LlmResponse(content=types.Content(role="model", parts=parts))


parrot = LlmAgent(name="parrot", model=Parrot(model="parrot"), output_key="said")
patient = LlmAgent(
    name="patient",
    model=Gemini(
        model=MODEL,
        retry_options=types.HttpRetryOptions(attempts=2, initial_delay=0, jitter=0, max_delay=0),
    ),
)
clerk = LlmAgent(name="clerk", model=MODEL, instruction="You are a clerk.", tools=[pay_back])
short_app = App(
    name="short",
    root_agent=clerk,
    plugins=[Greeter(name="greeter"), ContextFilterPlugin(num_invocations_to_keep=1)],
)


def streaming() -> dict[str, Any]:
    """Answers come in pieces."""
    return {"run_config": RunConfig(streaming_mode=StreamingMode.SSE)}


def sparing() -> dict[str, Any]:
    """One model call is enough, and somebody has a name."""
    return {"run_config": RunConfig(max_llm_calls=1), "user_id": "ada", "state": {"tier": "gold"}}


def drawer() -> Iterator[None]:
    """Makes a place for sessions that outlive a process."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DRAWER"] = f"{folder}/sessions.db"
        yield
    del os.environ["DRAWER"]


def session_options() -> dict[str, Any]:
    """Sessions are kept in a file."""
    return {"session_service": SqliteSessionService(os.environ["DRAWER"])}


lonely = LlmAgent(name="lonely", model=MODEL, instruction="You are alone.", tools=[pay_back])
runner = InMemoryRunner(agent=lonely)


class Asking:
    """Runs an agent as an application does, by a runner that is there from the beginning."""

    def __init__(self) -> None:
        self.session = ""

    async def ask(self, text: str) -> list[Event]:
        """Begins a session, whose id the ADK draws, with the first message."""
        if not self.session:
            session = await runner.session_service.create_session(
                app_name=runner.app_name, user_id="u", state={"tier": "gold"}
            )
            self.session = session.id
        content = types.Content(role="user", parts=[types.Part(text=text)])
        events = runner.run_async(user_id="u", session_id=self.session, new_message=content)
        return [event async for event in events]


async def ask_quietly(text: str) -> str:
    """Reads an answer, and leaves."""
    own = InMemoryRunner(agent=lonely)
    session = await own.session_service.create_session(app_name=own.app_name, user_id="u")
    content = types.Content(role="user", parts=[types.Part(text=text)])
    async for event in own.run_async(user_id="u", session_id=session.id, new_message=content):
        if event.is_final_response() and event.content and event.content.parts:
            return event.content.parts[0].text or ""
    return ""


def ask_in_sync(text: str) -> list[Event]:
    """Runs an agent from code that is not asynchronous."""
    own = InMemoryRunner(agent=lonely)
    session = asyncio.run(own.session_service.create_session(app_name=own.app_name, user_id="u"))
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return list(own.run(user_id="u", session_id=session.id, new_message=content))


async def ask_in_a_hurry(text: str) -> str:
    """Gives up as soon as a tool takes its time."""
    waits = asyncio.Event()

    async def wait_for_ever() -> str:
        """Waits."""
        waits.set()
        await asyncio.Event().wait()
        return "never"

    own = InMemoryRunner(
        agent=LlmAgent(name="slow", model=MODEL, instruction="You wait.", tools=[wait_for_ever])
    )
    work = asyncio.create_task(own.run_debug(text, quiet=True))
    await waits.wait()
    work.cancel()
    await asyncio.wait([work])
    return "too slow"
