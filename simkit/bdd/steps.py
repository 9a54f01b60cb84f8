"""The steps: what a feature may say, and what each adds to the story.

Every function gets the story and what stood in the phrase's holes. Those of ``THEN`` return what
does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simkit.bdd.phrases import Table, pairs_of, records_of
from simkit.bdd.telling import Story
from simkit.expect.judge import Judgement


def _pipeline(story: Story, name: str) -> None:
    story.pipeline(name)


def _seed(story: Story, seed: int) -> None:
    story.seed(seed)


def _state(story: Story, channel: str, value: Any) -> None:
    story.state(channel, value)


def _state_items(story: Story, channel: str, datatable: Table = ()) -> None:
    story.state(channel, records_of(datatable))


def _says(story: Story, text: str) -> None:
    story.say(text)


def _says_at_length(story: Story, docstring: str = "") -> None:
    story.say(docstring)


Tell = Callable[..., None]


def _answers(coming: bool) -> Mapping[str, Tell]:
    """What models and tools answer: to what the user says next, or to what was just said."""

    def replies(story: Story, agent: str, text: str) -> None:
        story.reply(agent, text, coming=coming)

    def replies_at_length(story: Story, agent: str, docstring: str = "") -> None:
        story.reply(agent, docstring, coming=coming)

    def decides(story: Story, agent: str, values: dict[str, Any]) -> None:
        story.reply(agent, {"json": values}, coming=coming)

    def decides_table(story: Story, agent: str, datatable: Table = ()) -> None:
        decides(story, agent, pairs_of(datatable))

    def calls(story: Story, agent: str, tool: str) -> None:
        story.reply(agent, {"calls": [{tool: {}}]}, coming=coming)

    def calls_with(story: Story, agent: str, tool: str, values: dict[str, Any]) -> None:
        story.reply(agent, {"calls": [{tool: values}]}, coming=coming)

    def calls_table(story: Story, agent: str, tool: str, datatable: Table = ()) -> None:
        calls_with(story, agent, tool, pairs_of(datatable))

    def hands_off(story: Story, agent: str, target: str) -> None:
        story.reply(agent, {"handoff": {"to": story.agent(target)}}, coming=coming)

    def hands_off_with(story: Story, agent: str, target: str, values: dict[str, Any]) -> None:
        line = {"to": story.agent(target), "payload": values}
        story.reply(agent, {"handoff": line}, coming=coming)

    def hands_off_table(story: Story, agent: str, target: str, datatable: Table = ()) -> None:
        hands_off_with(story, agent, target, pairs_of(datatable))

    def returns(story: Story, tool: str, value: Any) -> None:
        story.result(tool, {"returns": value}, coming=coming)

    def returns_values(story: Story, tool: str, values: dict[str, Any]) -> None:
        story.result(tool, {"returns": values}, coming=coming)

    def returns_table(story: Story, tool: str, datatable: Table = ()) -> None:
        returns_values(story, tool, pairs_of(datatable))

    def fails(story: Story, tool: str, text: str) -> None:
        story.result(tool, {"error": text}, coming=coming)

    return {
        "{agent} replies {text}": replies,
        "{agent} replies:": replies_at_length,
        "{agent} decides {values}": decides,
        "{agent} decides:": decides_table,
        "{agent} calls {tool:word}": calls,
        "{agent} calls {tool:word} with {values}": calls_with,
        "{agent} calls {tool:word} with:": calls_table,
        "{agent} hands off to {target:agent}": hands_off,
        "{agent} hands off to {target:agent} with {values}": hands_off_with,
        "{agent} hands off to {target:agent} with:": hands_off_table,
        "{tool:word} returns {value}": returns,
        "{tool:word} returns {values}": returns_values,
        "{tool:word} returns:": returns_table,
        "{tool:word} fails with {text}": fails,
    }


def _ran(story: Story, agents: list[str]) -> Judgement:
    return story.claim(("agents",), [story.agent(agent) for agent in agents])


def _not_asked(story: Story, agent: str) -> Judgement:
    return story.claim(("model_calls", story.agent(agent)), 0)


def _reply_is(story: Story, text: str) -> Judgement:
    return story.claim(("reply",), text)


def _reply_contains(story: Story, text: str) -> Judgement:
    return story.claim(("reply",), {"$contains": text})


def _includes(story: Story, agent: str, text: str) -> Judgement:
    path = ("context", story.agent(agent), "includes")
    return story.claim_also(path, {"$contains": text})


def _excludes(story: Story, agent: str, text: str) -> Judgement:
    path = ("context", story.agent(agent), "excludes")
    return story.claim_also(path, {"$contains": text})


def _excludes_role(story: Story, agent: str, role: str) -> Judgement:
    return story.claim_also(("context", story.agent(agent), "excludes"), {"role": role})


def _sections(story: Story, agent: str, names: list[str]) -> Judgement:
    return story.claim(("context", story.agent(agent), "sections"), names)


def _section(story: Story, section: str, agent: str, datatable: Table = ()) -> Judgement:
    messages = [{str(role): str(content)} for role, content in datatable]
    return story.claim(("context", story.agent(agent), section), messages)


def _handed_off(story: Story, agent: str, target: str) -> Judgement:
    return _handed_off_with(story, agent, target, {})


def _handed_off_with(story: Story, agent: str, target: str, values: dict[str, Any]) -> Judgement:
    handoff = {"from": story.agent(agent), "to": story.agent(target), "outcome": "made"}
    payload = {"payload": values} if values else {}
    return story.claim_also(("handoffs",), {**handoff, **payload}, "$in_order")


def _handed_off_table(story: Story, agent: str, target: str, datatable: Table = ()) -> Judgement:
    return _handed_off_with(story, agent, target, pairs_of(datatable))


def _no_handoff(story: Story) -> Judgement:
    return story.claim(("handoffs",), [])


def _called(story: Story, agent: str, tool: str) -> Judgement:
    return _called_with(story, agent, tool, {})


def _called_with(story: Story, agent: str, tool: str, values: dict[str, Any]) -> Judgement:
    args = {"args": values} if values else {}
    call = {"agent": story.agent(agent), "tool": tool, **args}
    return story.claim_also(("tool_calls",), call, "$in_order")


def _state_is(story: Story, channel: str, value: Any) -> Judgement:
    return story.claim(("state", channel), value)


def _state_count(story: Story, count: int, channel: str) -> Judgement:
    return story.claim(("state", channel), {"$len": count})


def _state_is_items(story: Story, channel: str, datatable: Table = ()) -> Judgement:
    return story.claim(("state", channel), records_of(datatable))


GIVEN: Final[Mapping[str, Tell]] = {
    "the pipeline {name:text}": _pipeline,
    "the seed {seed:count}": _seed,
    "the state has {channel:word} {value}": _state,
    "the state has these {channel:word}:": _state_items,
    **_answers(coming=True),
}
"""What is so before, and what will be answered when the user speaks next."""

WHEN: Final[Mapping[str, Tell]] = {
    "the user says {text}": _says,
    "the user says:": _says_at_length,
    **_answers(coming=False),
}
"""What the user says, and what is answered."""

THEN: Final[Mapping[str, Callable[..., Judgement]]] = {
    "these agents ran in order: {agents}": _ran,
    "{agent} was not asked": _not_asked,
    "the reply is {text}": _reply_is,
    "the reply contains {text}": _reply_contains,
    "the context of {agent} includes {text}": _includes,
    "the context of {agent} excludes {text}": _excludes,
    "the context of {agent} excludes {role:word} messages": _excludes_role,
    "the context of {agent} has the sections {names}": _sections,
    "the {section:word} of {agent} is:": _section,
    "{agent} handed off to {target:agent}": _handed_off,
    "{agent} handed off to {target:agent} with {values}": _handed_off_with,
    "{agent} handed off to {target:agent} with:": _handed_off_table,
    "nobody handed off": _no_handoff,
    "{agent} called {tool:word}": _called,
    "{agent} called {tool:word} with {values}": _called_with,
    "the state has {channel:word} {value}": _state_is,
    "the state has {count} {channel:word}": _state_count,
    "the state has these {channel:word}:": _state_is_items,
}
"""What must be so of the turn of the user's last message."""
