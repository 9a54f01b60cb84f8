"""Then: every claim of the registry in words.

Each step names the claims that it makes, so that a claim without a phrase is noticed.
"""

from __future__ import annotations

from typing import Any, Final

from simkit.bdd.cells import TableInvalid, with_nested
from simkit.bdd.claiming import WHOLE, claims_in
from simkit.bdd.conditions import pairs_below, records_below
from simkit.bdd.contexts import CONTEXTS
from simkit.bdd.given_when_steps import yaml_below
from simkit.bdd.story import Step, StepValues, Story
from simkit.bdd.subjects import SUBJECTS, by_channel, path_of
from simkit.checks.judge import Judgement
from simkit.spec.scenario.claim_names import HANDOFF_KEYS, TOOL_KEYS

_TABLE: Final = ("table",)
_TEXT: Final = ("text",)
_IN_ORDER: Final = "$in_order"

# Agents


def _ran(story: Story, values: StepValues) -> Judgement:
    names = [
        [story.agent(name) for name in agent] if isinstance(agent, list) else story.agent(agent)
        for agent in values["agents"]
    ]
    return story.claim(("agents",), names)


def _ran_below(story: Story, _: StepValues) -> Judgement:
    rows = [[story.agent(cell) for cell in row if cell] for row in story.table or ()]
    return story.claim(("agents",), [row if len(row) > 1 else row[0] for row in rows])


def _ran_before(story: Story, values: StepValues) -> Judgement:
    pair = [story.agent(values["agent"]), story.agent(values["other"])]
    return story.claim(("agents",), {_IN_ORDER: pair})


def _asked_times(story: Story, values: StepValues, times: int) -> Judgement:
    return story.claim(("model_calls", story.agent(values["agent"])), times)


AGENTS: Final = (
    Step("these agents ran in order: {agents}", _ran, (), ("agents",)),
    Step("these agents ran in order:", _ran_below, _TABLE, ("agents",)),
    Step(
        "{agent} ran",
        lambda s, x: s.claim(("agents",), {"$has": [s.agent(x["agent"])]}),
        (),
        ("agents",),
    ),
    Step("{agent} ran before {other:agent}", _ran_before, (), ("agents",)),
    Step(
        "{agent} did not run",
        lambda s, x: s.claim(("agents",), {"$not": {"$has": [s.agent(x["agent"])]}}),
        (),
        ("agents",),
    ),
    Step(
        "{amount} (agents|agent) started",
        lambda s, x: s.claim(("agents",), {"$len": x["amount"]}),
        (),
        ("agents",),
    ),
    Step("{agent} was not asked", lambda s, x: _asked_times(s, x, 0), (), ("model_calls",)),
    Step("{agent} was asked once", lambda s, x: _asked_times(s, x, 1), (), ("model_calls",)),
    Step(
        "{agent} was asked {count} times",
        lambda s, x: _asked_times(s, x, x["count"]),
        (),
        ("model_calls",),
    ),
)


# Runs and state


def _run(story: Story, values: StepValues, name: str, matcher: Any) -> Judgement:
    return story.claim(
        path_of(story, values, f"runs.{name}"), {story.channel(values["channel"]): matcher}
    )


def _run_below(story: Story, values: StepValues, name: str, is_all: bool = False) -> Judgement:
    """Channels and what they hold, one a row; ``is_all`` says that there are no others."""
    matcher = by_channel(story, pairs_below(story.below))
    return story.claim(
        path_of(story, values, f"runs.{name}"), {"$exact": matcher} if is_all else matcher
    )


def _state(story: Story, values: StepValues, matcher: Any) -> Judgement:
    return story.claim(("state",), {story.channel(values["channel"]): matcher})


RUNS: Final = (
    Step(
        "{run} received the {channel} {value}",
        lambda s, x: _run(s, x, "received", x["value"]), (), ("runs.received",),
    ),
    Step(
        "{run} received no {channel}",
        lambda s, x: _run(s, x, "received", {"$absent": True}), (), ("runs.received",),
    ),
    Step(
        "{run} received:", lambda s, x: _run_below(s, x, "received"), _TABLE, ("runs.received",),
    ),
    Step(
        "{run} received exactly:", lambda s, x: _run_below(s, x, "received", is_all=True), _TABLE,
        ("runs.received",),
    ),
    Step(
        "{run} wrote the {channel} {value}",
        lambda s, x: _run(s, x, "update", x["value"]), (), ("runs.update",),
    ),
    Step(
        "{run} wrote no {channel}",
        lambda s, x: _run(s, x, "update", {"$absent": True}), (), ("runs.update",),
    ),
    Step("{run} wrote:", lambda s, x: _run_below(s, x, "update"), _TABLE, ("runs.update",)),
    Step(
        "{run} wrote exactly:", lambda s, x: _run_below(s, x, "update", is_all=True), _TABLE,
        ("runs.update",),
    ),
)  # fmt: skip

STATE: Final = (
    Step(
        "the state has {amount} {channel}",
        lambda s, x: _state(s, x, {"$len": x["amount"]}),
        (),
        ("state",),
    ),
    Step(
        "the state has these {channel}:",
        lambda s, x: _state(s, x, records_below(s.below)),
        _TABLE,
        ("state",),
    ),
    Step(
        "the state's {channel} {condition}",
        lambda s, x: _state(s, x, s.matcher_of(x["condition"])),
        (),
        ("state",),
    ),
)


# Handoffs, tools


def _handoff(story: Story, values: StepValues, **more: Any) -> Judgement:
    pair = {"from": story.agent(values["agent"]), "to": story.agent(values["target"])}
    handoff = {**pair, "outcome": "made", **more}
    if "type" in values:
        handoff["type"] = story.handoff_type(values["type"])
    if "query" in values:
        handoff["query"] = values["query"]
    if "matching" in values:
        handoff["payload"] = story.matcher_of(values["matching"])
    return story.claim(("handoffs",), {"$has": [handoff]})


def _handoffs_below(story: Story, _: StepValues) -> Judgement:
    records = [
        with_nested(record, HANDOFF_KEYS, "payload") for record in records_below(story.below)
    ]
    for record in records:
        for key in ("from", "to"):
            if isinstance(record.get(key), str):
                record[key] = story.agent(record[key])
    return story.claim(("handoffs",), records)


def _must_carry(story: Story, values: StepValues) -> Judgement:
    """Return what the pipeline says of its contracts stands in the first event, before any turn."""
    story.last_turn = WHOLE
    contract = {
        "from_agents": {"$has": [story.agent(values["agent"])]},
        "to_agent": story.agent(values["target"]),
        "payload": {"required": {"$unordered": values["names"]}},
    }
    if "type" in values:
        contract["type"] = story.handoff_type(values["type"])
    event = {"kind": "RunStarted", "pipeline": {"contracts": {"$has": [contract]}}}
    return story.claim(("events",), {"$has": [event]})


def _called(story: Story, values: StepValues, **more: Any) -> Judgement:
    call = {"agent": story.agent(values["agent"]), "tool": values["tool"], **more}
    if "matching" in values:
        call["args"] = story.matcher_of(values["matching"])
    return story.claim(("tool_calls",), {"$has": [call]})


def _calls_below(story: Story, _: StepValues) -> Judgement:
    records = [with_nested(record, TOOL_KEYS, "args") for record in records_below(story.below)]
    for record in records:
        if isinstance(record.get("agent"), str):
            record["agent"] = story.agent(record["agent"])
    return story.claim(("tool_calls",), records)


_HANDOFF: Final = "{agent} handed off to {target:agent}[ as {type:name}][ asking {query:text}]"

MOVES: Final = (
    Step(f"{_HANDOFF}[ with {{matching}}]", _handoff, (), ("handoffs",)),
    Step(
        f"{_HANDOFF} with:", lambda s, x: _handoff(s, x, payload=pairs_below(s.below)), _TABLE,
        ("handoffs",),
    ),
    Step(
        f"{_HANDOFF} with exactly:",
        lambda s, x: _handoff(s, x, payload={"$exact": pairs_below(s.below)}), _TABLE,
        ("handoffs",),
    ),
    Step(
        "{agent} delegated to {target:agent}[ with {matching}]",
        lambda s, x: _handoff(s, x, mode="delegate"), (), ("handoffs",),
    ),
    Step(
        "{target:agent} replaced {agent}", lambda s, x: _handoff(s, x, mode="replace"), (),
        ("handoffs",),
    ),
    Step(
        "the handoff from {agent} to {target:agent} was rejected",
        lambda s, x: _handoff(s, x, outcome="rejected"), (), ("handoffs",),
    ),
    Step(
        "the handoff from {agent} to {target:agent} was rejected because its reason {condition}",
        lambda s, x: _handoff(s, x, outcome="rejected", reason=s.matcher_of(x["condition"])), (),
        ("handoffs",),
    ),
    Step("these handoffs were requested:", _handoffs_below, _TABLE, ("handoffs",)),
    Step(
        "a handoff from {agent} to {target:agent}[ as {type:name}] must carry {names}",
        _must_carry, (), ("events",),
    ),
    Step("nobody handed off", lambda s, _: s.claim(("handoffs",), []), (), ("handoffs",)),
    Step("{agent} called {tool:word}[ with {matching}]", _called, (), ("tool_calls",)),
    Step(
        "{agent} called {tool:word} with:",
        lambda s, x: _called(s, x, args=pairs_below(s.below)), _TABLE, ("tool_calls",),
    ),
    Step(
        "{agent} called {tool:word} with exactly:",
        lambda s, x: _called(s, x, args={"$exact": pairs_below(s.below)}), _TABLE, ("tool_calls",),
    ),
    Step(
        "{agent} called {tool:word} and got a result that {condition}",
        lambda s, x: _called(s, x, result=s.matcher_of(x["condition"])), (), ("tool_calls",),
    ),
    Step(
        "{agent} called {tool:word} and got the error {text}",
        lambda s, x: _called(s, x, error={"$contains": x["text"]}), (), ("tool_calls",),
    ),
    Step("these tools were called in order:", _calls_below, _TABLE, ("tool_calls",)),
    Step(
        "{agent} called no tool",
        lambda s, x: s.claim(("tool_calls",), {"$not": {"$has": [{"agent": s.agent(x["agent"])}]}}),
        (), ("tool_calls",),
    ),
    Step("no tool was called", lambda s, _: s.claim(("tool_calls",), []), (), ("tool_calls",)),
)  # fmt: skip


# How it went


def _finding(story: Story, values: StepValues) -> Judgement:
    claim: dict[str, Any] = {"id": values["lint"]}
    if "agent" in values:
        claim["agent"] = story.agent(values["agent"])
    if "matching" in values:
        claim |= story.matcher_of(values["matching"])
    return story.claim(("findings",), claim)


def _event(story: Story, values: StepValues) -> Any:
    return {
        "kind": values["kind"],
        **(story.matcher_of(values["matching"]) if "matching" in values else {}),
    }


def _all_of_this(story: Story, _: StepValues) -> Judgement | None:
    """Claim that are written as in a scenario file."""
    document = yaml_below(story)
    if not isinstance(document, dict):
        raise TableInvalid("this text must be claims, a mapping in YAML")
    judgement = None
    for path, matcher in claims_in(document):
        judgement = story.claim(path, matcher)
    return judgement


def _logged(story: Story, values: StepValues) -> Any:
    record = {"message": story.matcher_of(values["condition"])}
    if "level" in values:
        record["level"] = str(values["level"]).upper()
    return record


ENDINGS: Final = (
    Step("there is no reply", lambda s, _: s.claim(("reply",), None), (), ("reply",)),
    Step(
        "the (turn|conversation) ends with the error {name:word}[ that says {text}]",
        lambda s, x: s.claim(("error",), {
            "type": x["name"], **({"message": {"$contains": x["text"]}} if "text" in x else {}),
        }), (), ("error",),
    ),
    Step("there is no error", lambda s, _: s.claim(("error",), None), (), ("error",)),
    Step(
        "the user is asked {value}", lambda s, x: s.claim(("interrupt",), x["value"]), (),
        ("interrupt",),
    ),
    Step(
        "the user is asked nothing", lambda s, _: s.claim(("interrupt",), None), (),
        ("interrupt",),
    ),
    Step("the lint {lint} is found[ at {agent}][ with {matching}]", _finding, (), ("findings",)),
    Step(
        "the event {kind:word} happened[ with {matching}]",
        lambda s, x: s.claim(("events",), {"$has": [_event(s, x)]}), (), ("events",),
    ),
    Step(
        "the event {kind:word} did not happen",
        lambda s, x: s.claim(("events",), {"$not": {"$has": [_event(s, x)]}}), (), ("events",),
    ),
    Step(
        "these events happened in order, among others:",
        lambda s, _: s.claim(("events",), {_IN_ORDER: records_below(s.below)}), _TABLE, ("events",),
    ),
    Step(
        "the log has a[ {level:word}] record whose message {condition}",
        lambda s, x: s.claim(("logs",), {"$has": [_logged(s, x)]}), (), ("logs",),
    ),
    Step(
        "the log has no[ {level:word}] record whose message {condition}",
        lambda s, x: s.claim(("logs",), {"$not": {"$has": [_logged(s, x)]}}), (), ("logs",),
    ),
    Step(
        "these log records were made in order:",
        lambda s, _: s.claim(("logs",), records_below(s.below)), _TABLE, ("logs",),
    ),
    Step("nothing was logged", lambda s, _: s.claim(("logs",), []), (), ("logs",)),
    Step(
        "the run satisfies {text}", lambda s, x: s.claim(("satisfies",), x["text"]), (),
        ("satisfies",),
    ),
    Step("all of this holds:", _all_of_this, _TEXT),
)  # fmt: skip

THEN: Final = (
    *AGENTS,
    *STATE,
    *SUBJECTS,
    *CONTEXTS,
    *RUNS,
    *MOVES,
    *ENDINGS,
)
"""What must be so of the turn of the user's last message, or of what a line's first words say."""
