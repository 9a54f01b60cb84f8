"""Then: what an agent's model was sent, and what it was spared."""

from __future__ import annotations

from typing import Any, Final

from simkit.bdd.conditions import messages_below, records_below
from simkit.bdd.story import Step, StepValues, Story
from simkit.bdd.subjects import path_of
from simkit.checks.judge import Judgement

_TABLE: Final = ("table",)


def _context(story: Story, values: StepValues, name: str, matcher: Any) -> Judgement:
    return story.claim(path_of(story, values, f"context.{name}"), matcher)


def _role_and(values: StepValues, matcher: Any) -> Any:
    return {"role": values["role"], "content": matcher}


def _share(story: Story, values: StepValues) -> Judgement:
    source = story.agent(values["source"])
    source = source if source != values["source"] else story.section(source)
    return _context(story, values, "share", {source: values["share"]})


def _cut(values: StepValues) -> Any:
    return {
        "content": {"$contains": values["text"]},
        **({"by": values["by"]} if "by" in values else {}),
    }


def _left_out(values: StepValues) -> Any:
    return {
        "text": {"$contains": values["text"]},
        **({"by": values["by"]} if "by" in values else {}),
    }


def _each_included(story: Story, values: StepValues) -> Judgement | None:
    judgement = None
    for message in messages_below(story.below):
        judgement = _context(story, values, "includes", message)
    return judgement


def _section_of(story: Story, values: StepValues) -> Judgement:
    agent = story.agent(values["agent"])
    path = ("context", agent, story.section(values["section"]))
    return story.claim(path, story.matcher_of(values["condition"]))


def _includes(text: str, matcher: Any) -> Step:
    return Step(
        f"{{context}} includes {text}",
        lambda s, x: _context(s, x, "includes", matcher(s, x)),
        (),
        ("context.includes",),
    )


def _excludes(text: str, matcher: Any) -> Step:
    return Step(
        f"{{context}} excludes {text}",
        lambda s, x: _context(s, x, "excludes", matcher(s, x)),
        (),
        ("context.excludes",),
    )


def _of_context(text: str, claim: str, matcher: Any) -> Step:
    return Step(text, lambda s, x: _context(s, x, claim, matcher(s, x)), (), (f"context.{claim}",))


CONTEXTS: Final = (
    _includes("{text}", lambda s, x: {"$contains": x["text"]}),
    _includes("a {role} message", lambda s, x: {"role": x["role"]}),
    _includes(
        "a {role} message that {condition}", lambda s, x: _role_and(x, s.matcher_of(x["condition"]))
    ),
    _includes("a message that {condition}", lambda s, x: s.matcher_of(x["condition"])),
    _includes("a message from {agent}", lambda s, x: {"agent": s.agent(x["agent"])}),
    Step("{context} includes these messages:", _each_included, _TABLE, ("context.includes",)),
    _excludes("{text}", lambda s, x: {"$contains": x["text"]}),
    _excludes("{role} messages", lambda s, x: {"role": x["role"]}),
    _excludes(
        "{role} messages that {condition}",
        lambda s, x: _role_and(x, s.matcher_of(x["condition"])),
    ),
    _excludes("messages that {condition}", lambda s, x: s.matcher_of(x["condition"])),
    _excludes("messages from {agent}", lambda s, x: {"agent": s.agent(x["agent"])}),
    Step(
        "{context} is exactly:",
        lambda s, x: _context(s, x, "messages", messages_below(s.below)), _TABLE,
        ("context.messages",),
    ),
    Step(
        "the {section:part}[ section] in {context} {condition}",
        lambda s, x: _context(s, x, s.section(x["section"]), s.matcher_of(x["condition"])), (),
        ("context.section",),
    ),
    Step("the {section}[ section] of {agent} {condition}", _section_of, (), ("context.section",)),
    _of_context(
        "{context} has the sections {names}", "sections", lambda s, x: [
            s.section(name) for name in x["names"]
        ],
    ),
    _of_context(
        "{context} has a section {section:name}", "sections",
        lambda s, x: {"$has": [s.section(x["section"])]},
    ),
    _of_context(
        "{context} has no section {section:name}", "sections",
        lambda s, x: {"$not": {"$has": [s.section(x["section"])]}},
    ),
    _of_context("{context} has {amount} messages", "messages", lambda s, x: {"$len": x["amount"]}),
    _of_context("{context} has {amount} tokens", "tokens", lambda s, x: x["amount"]),
    _of_context("{context} offers the tools {names}", "tools", lambda s, x: {
        "$unordered": x["names"]
    }),
    _of_context("{context} offers no tools", "tools", lambda s, x: []),
    _of_context("{context} offers handoffs to {names}", "handoffs", lambda s, x: {
        "$unordered": [s.agent(name) for name in x["names"]]
    }),
    _of_context("{context} offers no handoffs", "handoffs", lambda s, x: []),
    _of_context("{context} has the settings {matching}", "settings", lambda s, x: s.matcher_of(
        x["matching"]
    )),
    Step("{share} of {context} comes from {source:agent}", _share, (), ("context.share",)),
    _of_context("nothing was dropped from {context}", "dropped", lambda s, x: []),
    _of_context(
        "{amount} messages were dropped from {context}", "dropped",
        lambda s, x: {"$len": x["amount"]},
    ),
    Step(
        "{text} was dropped from {context}[ by {by:word}]",
        lambda s, x: _context(s, x, "dropped", {"$has": [_cut(x)]}), (), ("context.dropped",),
    ),
    Step(
        "these messages were dropped from {context}:",
        lambda s, x: _context(s, x, "dropped", messages_below(s.below)), _TABLE,
        ("context.dropped",),
    ),
    _of_context("nothing was left out of {context}", "left_out", lambda s, x: []),
    Step(
        "{text} was left out of {context}[ by {by:word}]",
        lambda s, x: _context(s, x, "left_out", {"$has": [_left_out(x)]}), (),
        ("context.left_out",),
    ),
    Step(
        "these items were left out of {context}:",
        lambda s, x: _context(s, x, "left_out", records_below(s.below)), _TABLE,
        ("context.left_out",),
    ),
)  # fmt: skip
