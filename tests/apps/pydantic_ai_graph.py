"""A newsroom on pydantic-graph: steps that run agents, side by side too, and keep a state."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext, StepContext

reporter = Agent("openai-chat:gpt-4o", name="reporter", instructions="You write one line.")
editor = Agent("anthropic:claude-haiku-4-5", name="editor", instructions="You check a page.")
quiet = Agent(TestModel(custom_output_text="Nothing new."), name="quiet", instructions="Say it.")


@dataclass
class Page:
    """What is written so far."""

    lines: list[str] = field(default_factory=list)
    round: int = 0


@dataclass
class Check(BaseNode[Page, None, str]):
    """Has the page checked."""

    text: str

    async def run(self, ctx: GraphRunContext[Page, None]) -> Rewrite | End[str]:
        """Asks the editor."""
        ctx.state.round += 1
        result = await editor.run(self.text)
        return End(self.text) if result.output == "fine" else Rewrite(result.output)


@dataclass
class Rewrite(BaseNode[Page, None, str]):
    """Has the page written again."""

    why: str

    async def run(self, ctx: GraphRunContext[Page, None]) -> Check:
        """Asks the reporter."""
        result = await reporter.run(self.why)
        ctx.state.lines = [result.output]
        return Check(result.output)


g = GraphBuilder(state_type=Page, input_type=str, output_type=str)


@g.step
async def cut(ctx: StepContext[Page, None, str]) -> list[str]:
    """Takes the topics apart."""
    return ctx.inputs.split(", ")


@g.step
async def write(ctx: StepContext[Page, None, str]) -> str:
    """Has a line written on a topic."""
    result = await reporter.run(f"On {ctx.inputs}")
    ctx.state.lines.append(result.output)
    return result.output


def joined(page: list[str], line: str) -> list[str]:
    """Adds a line to a page."""
    return [*page, line]


page = g.join(joined, initial_factory=list[str])


@g.step
async def check(ctx: StepContext[Page, None, list[str]]) -> Check:
    """Goes on with all lines."""
    return Check(" ".join(ctx.inputs))


g.add(
    g.edge_from(g.start_node).to(cut),
    g.edge_from(cut).map().to(write),
    g.edge_from(write).to(page),
    g.edge_from(page).to(check),
    g.node(Check),
    g.node(Rewrite),
)
newsroom = g.build()


async def publish(text: str) -> str:
    """Makes a page of some topics."""
    return await newsroom.run(state=Page(), inputs=text)


async def still(text: str) -> str:
    """Asks a model that sends nothing, twice."""
    first = await quiet.run(text)
    return (await quiet.run("And?", message_history=first.all_messages())).output
