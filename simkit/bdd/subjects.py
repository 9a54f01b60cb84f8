"""Subjects: what any condition may follow, and where a claim on it stands."""

from __future__ import annotations

from typing import Any, Final

from simkit.bdd.kinds import Chosen
from simkit.bdd.story import Step, StepValues, Story
from simkit.checks.judge import Judgement

NOUNS: Final = {
    "reply": "the reply",
    "handoffs": "the handoffs",
    "tool_calls": "the tool calls",
    "logs": "the log records",
    "events": "the events",
    "error": "the error",
    "interrupt": "the question",
    "state": "the state",
    "agents": "the agents that ran",
    "context.sections": "the sections in {context}",
    "context.messages": "the messages in {context}",
    "context.dropped": "what was dropped from {context}",
    "context.left_out": "what was left out of {context}",
    "context.tools": "the tools in {context}",
    "context.handoffs": "the handoffs in {context}",
    "context.tokens": "the tokens in {context}",
    "context.share": "the shares in {context}",
    "context.settings": "the settings of {context}",
    "runs.received": "what {run} received",
    "runs.input": "the input of {run}",
    "runs.goal": "the goal of {run}",
    "runs.output": "the output of {run}",
    "runs.update": "what {run} wrote",
    "runs.reply": "the reply of {run}",
    "runs.messages": "the messages of {run}",
}
"""A claim that any condition may follow, and what it is called in a feature."""


def _key(story: Story, chosen: Chosen) -> str:
    agent = chosen.agent if chosen.agent == "*" else story.agent(chosen.agent)
    run = f"[run {chosen.run}]" if chosen.run else ""
    return f"{agent}{run}[{chosen.place}]" if chosen.place else f"{agent}{run}"


def path_of(story: Story, values: StepValues, claim: str) -> tuple[str, ...]:
    """Return where a claim stands below `expect`."""
    family, _, name = claim.partition(".")
    if not name:
        return (family,)
    return (family, _key(story, values["context" if family == "context" else "run"]), name)


def _noun_step(claim: str, noun: str) -> Step:
    def tell(story: Story, values: StepValues) -> Judgement:
        matcher = story.matcher_of(values["condition"])
        if claim in ("state", "runs.received", "runs.update"):
            matcher = by_channel(story, matcher)
        return story.claim(path_of(story, values, claim), matcher)

    return Step(f"{noun} {{condition}}", tell, (), (claim,))


def by_channel(story: Story, matcher: Any) -> Any:
    """Return a matcher of channels under their own names."""
    if not isinstance(matcher, dict):
        return matcher
    return {
        key if key.startswith("$") else story.channel(key): inner for key, inner in matcher.items()
    }


SUBJECTS: Final = tuple(_noun_step(claim, noun) for claim, noun in NOUNS.items())
