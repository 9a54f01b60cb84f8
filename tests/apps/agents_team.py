"""Teams on the OpenAI Agents SDK: agents as tools, side by side, behind guardrails, streamed."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    ToolGuardrailFunctionOutput,
    WebSearchTool,
    function_tool,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    trace,
)
from openai import AsyncOpenAI
from pydantic import BaseModel


class Verdict(BaseModel):
    """What the guard thinks."""

    is_homework: bool


@function_tool
def dictionary(word: str) -> str:
    """Looks a word up; a function that is not asynchronous runs in a thread."""
    return f"{word}!"


@function_tool
def broken(word: str) -> str:
    """Always fails."""
    raise ValueError(f"no {word} here")


spanish = Agent(name="Spanish", instructions="You speak Spanish.", tools=[dictionary])
french = Agent(name="French", instructions="You speak French.", tools=[dictionary])
translator = Agent(
    name="Translator",
    instructions="You let others translate.",
    tools=[
        spanish.as_tool("to_spanish", "Translates to Spanish."),
        french.as_tool("to_french", "Translates to French."),
    ],
)


async def instructed(context: RunContextWrapper[Any], agent: Agent[Any]) -> str:
    """Lets another agent say what this one has to know."""
    completed = await Runner.run(spanish, "What is new?")
    return f"You know this: {completed.final_output}"


informed = Agent(name="Informed", instructions=instructed)


@function_tool(needs_approval=True)
async def send_money(amount: int) -> str:
    """Sends money, once somebody has approved it."""
    return f"sent {amount}"


teller = Agent(name="Teller", instructions="You send money.", tools=[send_money])
hasty = Agent(
    name="Hasty", instructions="You look up.", tools=[dictionary],
    tool_use_behavior="stop_on_first_tool",
)  # fmt: skip
clumsy = Agent(name="Clumsy", instructions="You break things.", tools=[broken])


async def side_by_side(text: str) -> str:
    """Asks the same agent twice at once, and a third one afterwards."""
    first, second = await asyncio.gather(Runner.run(spanish, text), Runner.run(spanish, text))
    reply = f"{first.final_output} or {second.final_output}"
    return str((await Runner.run(french, reply)).final_output)


guard = Agent(name="Guard", instructions="You look for homework.", output_type=Verdict)


@input_guardrail
async def no_homework(
    context: RunContextWrapper[Any], agent: Agent[Any], reply: Any
) -> GuardrailFunctionOutput:
    """Stops homework."""
    output = (await Runner.run(guard, reply, context=context.context)).final_output
    return GuardrailFunctionOutput(output_info=output, tripwire_triggered=output.is_homework)


@output_guardrail
async def no_numbers(
    context: RunContextWrapper[Any], agent: Agent[Any], output: Any
) -> GuardrailFunctionOutput:
    """Stops replies with numbers."""
    has_number = any(item.isdigit() for item in str(output))
    return GuardrailFunctionOutput(output_info="a number", tripwire_triggered=has_number)


@tool_input_guardrail
def no_secrets(data: Any) -> ToolGuardrailFunctionOutput:
    """Refuses to look up secrets."""
    if "secret" in data.context.tool_arguments:
        return ToolGuardrailFunctionOutput.reject_content("that is nobody's business")
    return ToolGuardrailFunctionOutput(output_info="fine")


@function_tool(tool_input_guardrails=[no_secrets])
def archive(word: str) -> str:
    """Looks into the archive."""
    return f"about {word}"


tutor = Agent(
    name="Tutor", instructions="You teach.", tools=[archive],
    input_guardrails=[no_homework], output_guardrails=[no_numbers],
)  # fmt: skip


async def patient_tutor(text: str) -> str:
    """Says so where a guardrail stops it."""
    try:
        return str((await Runner.run(tutor, text)).final_output)
    except InputGuardrailTripwireTriggered:
        return "Do it yourself."


async def streaming_tutor(text: str) -> str:
    """The same, streamed: the guardrail may stop it while events are read."""
    result = Runner.run_streamed(tutor, text)
    try:
        async for _ in result.stream_events():
            pass
    except InputGuardrailTripwireTriggered:
        return "Do it yourself."
    return str(result.final_output)


chatty = Agent(
    name="Chatty", instructions="You chat.", tools=[dictionary],
    model=OpenAIChatCompletionsModel("gpt-5-mini", AsyncOpenAI(api_key="none")),
)  # fmt: skip
searcher = Agent(name="Searcher", instructions="You search.", tools=[WebSearchTool()])


async def impatient(text: str) -> str:
    """Leaves a streamed run with what its first tool says."""
    async for event in Runner.run_streamed(spanish, text).stream_events():
        if event.type == "run_item_stream_event" and event.name == "tool_output":
            break
    return "That will do."


class Counting(RunHooks[Any]):
    """Hooks of the application's own."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Counts."""
        self.notes.append(f"start {agent.name}")

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, items: Any) -> None:
        """Counts."""
        self.notes.append("asked")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Counts."""
        self.notes.append(f"{tool.name}: {result}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Counts."""
        self.notes.append(f"end {agent.name}")


async def counted(text: str) -> list[str]:
    """Runs an agent with hooks and a configuration of its own; returns what its hooks saw."""
    hooks = Counting()
    config = RunConfig(
        model="gpt-5-nano", model_settings=ModelSettings(temperature=0.5), workflow_name="counted"
    )
    with trace("a workflow"):
        await Runner.run(spanish, text, hooks=hooks, run_config=config, max_turns=2)
    return hooks.notes


twin = Agent(name="Assistant", instructions="You are the second assistant.")
assistant = Agent(name="Assistant", instructions="You are the first.", handoffs=[twin])


async def whole_result(text: str) -> Any:
    """Returns the result as it is."""
    return await Runner.run(guard, text)


class Desk:
    """A conversation that its object keeps."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    async def ask(self, text: str) -> str:
        """Answers."""
        result = await Runner.run(spanish, [*self.items, {"role": "user", "content": text}])
        self.items = result.to_input_list()
        return str(result.final_output)
