"""Then: every claim of the format in words.

Each step names the claim that it makes, so that a claim without a phrase is noticed.
"""

from __future__ import annotations

from typing import Any, Final

from simkit.bdd.assembling import WHOLE, claims_in
from simkit.bdd.conditions import FORMS, forms_taken
from simkit.bdd.story import Step, StepValues, Story
from simkit.checks.judge import Judgement
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, RUN_CLAIMS, TURN_CLAIMS


def _then(text: str, claim: str, matcher: Any, example: str = "", turn: int | None = None) -> Step:
    """Return the step that makes one claim.

    ``turn`` is the only turn that the claim can be about, if there is one.
    """
    path = _path_of(claim)

    def tell(story: Story, values: StepValues) -> Judgement:
        story.last_turn = story.last_turn if turn is None else turn
        return story.claim(story.filled(path, values), story.filled(matcher, values))

    return Step(text, tell, forms_taken(matcher), (claim,), example)


def _path_of(claim: str) -> list[Any]:
    """Return the template of a claim's path below `expect`."""
    family, _, name = claim.partition(".")
    if family == "context":
        return [family, ("{context}", "{agent}"), "{section}" if name == "section" else name]
    if family == "runs":
        return [family, "{run}", name]
    if family == "judge":
        return [family, "{question}"]
    return [family, "{agent}"] if family == "model_calls" else [family]


AGENTS: Final = (
    _then("these agents ran in order: {agents}", "agents", "{agents}",
          "these agents ran in order: router, nutrition beside workout coach and workout analyst"),
    _then("these agents ran in order:", "agents", "{:agents}",
          "these agents ran in order:"
          "\n  | router    |               |\n  | nutrition | workout coach |"),
    _then("{agent} ran", "agents", {"$has": ["{agent}"]}),
    _then("{agent} ran before {other:agent}", "agents", {"$in_order": ["{agent}", "{other}"]},
          "the router ran before nutrition"),
    _then("{agent} did not run", "agents", {"$not": {"$has": ["{agent}"]}}),
    _then("{amount} (agents|agent) started", "agents", {"$len": "{amount}"}, "two agents started"),
    _then("{agent} was not asked", "model_calls", 0),
    _then("{agent} was asked once", "model_calls", 1),
    _then("{agent} was asked {count} times", "model_calls", "{count}"),
)  # fmt: skip


STATE: Final = (
    _then("the state has {amount} {channel}", "state", {"{channel}": {"$len": "{amount}"}},
          "the state has at most 5 notes"),
    _then("the state has these {channel}:", "state", {"{channel}": "{:records}"},
          "the state has these notes:"
          "\n  | agent     | text                 |\n  | nutrition | Prefers metric units |"),
    _then("the state's {channel} {condition}", "state", {"{channel}": "{condition}"},
          'the state\'s user timezone is "Europe/Berlin"'),
)  # fmt: skip


SUBJECTS: Final = tuple(
    _then(
        f"{row.phrase} {{condition}}",
        claim,
        "{condition:channels}" if row.refers_to == "channel" else "{condition}",
        row.example,
    )
    for family, rows in (("", TURN_CLAIMS), ("context.", CONTEXT_CLAIMS), ("runs.", RUN_CLAIMS))
    for claim, row in ((f"{family}{name}", row) for name, row in rows.items())
    if row.phrase
)
"""Claims that any condition may follow."""


def _each_included(story: Story, values: StepValues) -> Judgement | None:
    path, judgement = story.filled(_path_of("context.includes"), values), None
    for message in FORMS["messages"].read(story.below):
        judgement = story.claim(path, message)
    return judgement


_TALK: Final = "\n  | user      | I had pizza       |\n  | assistant | Logged your pizza. |"
_HAS_TEXT: Final = {"$contains": "{text}"}

CONTEXTS: Final = (
    _then("{context} includes {text}", "context.includes", _HAS_TEXT),
    _then("{context} includes a {role} message", "context.includes", {"role": "{role}"}),
    _then("{context} includes a {role} message that {condition}", "context.includes",
          {"role": "{role}", "content": "{condition}"},
          'the context of nutrition includes a user message that contains "pizza"'),
    _then("{context} includes a message that {condition}", "context.includes", "{condition}",
          "the last context of nutrition includes a message that matches /[0-9]+ kcal/"),
    _then("{context} includes a message from {agent}", "context.includes", {"agent": "{agent}"},
          "the context of nutrition includes a message from the workout coach"),
    Step("{context} includes these messages:", _each_included, ("table",), ("context.includes",),
         f"the context of nutrition includes these messages:{_TALK}"),
    _then("{context} excludes {text}", "context.excludes", _HAS_TEXT,
          'every context excludes "password"'),
    _then("{context} excludes {role} messages", "context.excludes", {"role": "{role}"},
          "the context of nutrition excludes tool messages"),
    _then("{context} excludes {role} messages that {condition}", "context.excludes",
          {"role": "{role}", "content": "{condition}"},
          'the context of nutrition excludes user messages that contain "run"'),
    _then("{context} excludes messages that {condition}", "context.excludes", "{condition}",
          'the context of nutrition excludes messages that contain "kcal"'),
    _then("{context} excludes messages from {agent}", "context.excludes", {"agent": "{agent}"},
          "the context of nutrition excludes messages from the router"),
    _then("{context} is exactly:", "context.messages", "{:messages}",
          f"the context of the router is exactly:{_TALK}"),
    _then("the {section:part}[ section] in {context} {condition}", "context.section",
          "{condition}"),
    _then("the {section}[ section] of {agent} {condition}", "context.section", "{condition}",
          f"the history of nutrition is:{_TALK}"),
    _then("{context} has the sections {names}", "context.sections", "{names:section}"),
    _then("{context} has a section {section:name}", "context.sections", {"$has": ["{section}"]},
          "the context of nutrition has a section handoff"),
    _then("{context} has no section {section:name}", "context.sections",
          {"$not": {"$has": ["{section}"]}},
          "the context of nutrition has no section previous agents"),
    _then("{context} has {amount} messages", "context.messages", {"$len": "{amount}"},
          "the second context of nutrition has 4 messages"),
    _then("{context} has {amount} tokens", "context.tokens", "{amount}"),
    _then("{context} offers the tools {names}", "context.tools", {"$unordered": "{names}"},
          "the context of nutrition offers the tools log_meal and lookup_food"),
    _then("{context} offers no tools", "context.tools", []),
    _then("{context} offers handoffs to {names}", "context.handoffs",
          {"$unordered": "{names:agent}"},
          "the context of the workout coach offers handoffs to the workout analyst"),
    _then("{context} offers no handoffs", "context.handoffs", []),
    _then("{context} has the settings {matching}", "context.settings", "{matching}",
          "the context of nutrition has the settings temperature 0 and no seed"),
    _then("{share} of {context} comes from {source:agent}", "context.share",
          {"{source:source}": "{share}"},
          "at most 20 % of the context of the workout coach comes from nutrition"),
    _then("nothing was dropped from {context}", "context.dropped", []),
    _then("{amount} messages were dropped from {context}", "context.dropped", {"$len": "{amount}"},
          "two messages were dropped from the context of nutrition"),
    _then("{text} was dropped from {context}[ by {by:word}]", "context.dropped",
          {"$has": [{"content": _HAS_TEXT, "by": "{by}"}]},
          '"800" was dropped from the context of the workout coach by tool_messages'),
    _then("these messages were dropped from {context}:", "context.dropped", "{:messages}",
          "these messages were dropped from the context of nutrition:"
          "\n  | agent  | what    | by              |\n  | router | message | intermediate_ai |"),
    _then("nothing was left out of {context}", "context.left_out", []),
    _then("{text} was left out of {context}[ by {by:word}]", "context.left_out",
          {"$has": [{"text": _HAS_TEXT, "by": "{by}"}]},
          '"Prefers metric units" was left out of the context of nutrition by since_days'),
    _then("these items were left out of {context}:", "context.left_out", "{:records}",
          "these items were left out of the context of nutrition:"
          "\n  | channel | by  |\n  | notes   | max |"),
)  # fmt: skip
"""The message that an agent's model got, and those that it did not get."""


_CHANNELS: Final = "\n  | current phase | responding |\n  | notes         | are empty  |"

RUNS: Final = (
    _then("{run} received the {channel} {value}", "runs.received", {"{channel}": "{value}"},
          'nutrition received the user timezone "Europe/Berlin"'),
    _then("{run} received no {channel}", "runs.received", {"{channel}": {"$absent": True}},
          "nutrition received no pending tool calls"),
    _then("{run} received:", "runs.received", "{:channels}", f"nutrition received:{_CHANNELS}"),
    _then("{run} received exactly:", "runs.received", {"$exact": "{:channels}"},
          f"nutrition received exactly:{_CHANNELS}"),
    _then("{run} wrote the {channel} {value}", "runs.update", {"{channel}": "{value}"},
          'nutrition wrote the current phase "responding"'),
    _then("{run} wrote no {channel}", "runs.update", {"{channel}": {"$absent": True}}),
    _then("{run} wrote:", "runs.update", "{:channels}", f"nutrition wrote:{_CHANNELS}"),
    _then("{run} wrote exactly:", "runs.update", {"$exact": "{:channels}"},
          f"nutrition wrote exactly:{_CHANNELS}"),
)  # fmt: skip


def _handoff(text: str, more: dict[str, Any], example: str) -> Step:
    handoff = {
        "from": "{agent}", "to": "{target}", "outcome": "made", **more,
        "type": "{type:handoff_type}", "query": "{query}",
    }  # fmt: skip
    handoff.setdefault("payload", "{matching}")
    return _then(text, "handoffs", {"$has": [handoff]}, example)


def _call(text: str, more: dict[str, Any], example: str) -> Step:
    call = {"agent": "{agent}", "tool": "{tool}", **more}
    call.setdefault("args", "{matching}")
    return _then(text, "tool_calls", {"$has": [call]}, example)


_HANDOFF: Final = "{agent} handed off to {target:agent}[ as {type:name}][ asking {query:text}]"
_REJECTED: Final = "the handoff from {agent} to {target:agent} was rejected"
_FROM_COACH: Final = "the workout coach handed off to the workout analyst"
_CONTRACT: Final = {
    "from_agents": {"$has": ["{agent}"]},
    "to_agent": "{target}",
    "payload": {"required": {"$unordered": "{names}"}},
    "type": "{type:handoff_type}",
}
"""Claims about contracts are read from the first event, before any turn."""

MOVES: Final = (
    _handoff(f"{_HANDOFF}[ with {{matching}}]", {},
             f"{_FROM_COACH} with distance_km that is at least 5"),
    _handoff(f"{_HANDOFF} with:", {"payload": "{:pairs}"},
             f"{_FROM_COACH} with:\n  | distance_km | is at least 5 |"),
    _handoff(f"{_HANDOFF} with exactly:", {"payload": {"$exact": "{:pairs}"}},
             f"{_FROM_COACH} with exactly:\n  | distance_km | 8 |"),
    _handoff("{agent} delegated to {target:agent}[ with {matching}]", {"mode": "delegate"},
             "the workout coach delegated to the workout analyst"),
    _handoff("{target:agent} replaced {agent}", {"mode": "replace"},
             "the workout analyst replaced the workout coach"),
    _handoff(_REJECTED, {"outcome": "rejected"},
             "the handoff from the workout coach to the workout analyst was rejected"),
    _handoff(f"{_REJECTED} because its reason {{condition}}",
             {"outcome": "rejected", "reason": "{condition}"},
             "the handoff from the workout coach to the workout analyst was rejected because its "
             'reason contains "distance_km"'),
    _then("these handoffs were requested:", "handoffs", "{:handoffs}",
          "these handoffs were requested:"
          "\n  | from          | to              | outcome | distance_km   |"
          "\n  | workout coach | workout analyst | made    | is at least 5 |"),
    _then("a handoff from {agent} to {target:agent}[ as {type:name}] must carry {names}", "events",
          {"$has": [{"kind": "RunStarted", "pipeline": {"contracts": {"$has": [_CONTRACT]}}}]},
          "a handoff from the workout coach to the workout analyst must carry distance_km",
          turn=WHOLE),
    _then("nobody handed off", "handoffs", []),
    _call("{agent} called {tool:word}[ with {matching}]", {},
          'nutrition called log_meal with food "pizza"'),
    _call("{agent} called {tool:word} with:", {"args": "{:pairs}"},
          'nutrition called log_meal with:\n  | food | starts with "p" |'),
    _call("{agent} called {tool:word} with exactly:", {"args": {"$exact": "{:pairs}"}},
          "nutrition called log_meal with exactly:\n  | food | pizza |"),
    _call("{agent} called {tool:word} and got a result that {condition}",
          {"result": "{condition}"},
          "nutrition called log_meal and got a result that has kcal 800"),
    _call("{agent} called {tool:word} and got the error {text}", {"error": _HAS_TEXT},
          'nutrition called log_meal and got the error "no such food"'),
    _then("these tools were called in order:", "tool_calls", "{:tool_calls}",
          "these tools were called in order:"
          "\n  | agent     | tool     | food  |\n  | nutrition | log_meal | pizza |"),
    _then("{agent} called no tool", "tool_calls", {"$not": {"$has": [{"agent": "{agent}"}]}}),
    _then("the tool {tool:word} was not called twice with the same arguments", "tool_calls",
          {"$unique": {"of": {"tool": "{tool}"}, "by": "args"}},
          "the tool log_meal was not called twice with the same arguments"),
    _then("no tool was called", "tool_calls", []),
)  # fmt: skip


def _all_of_this(story: Story, _: StepValues) -> Judgement | None:
    """Make the claims of a text in the format of a scenario file."""
    judgement = None
    for path, matcher in claims_in(FORMS["claims"].read(story.below)):
        judgement = story.claim(path, matcher)
    return judgement


_EVENT: Final = {"$has": [{"kind": "{kind}", "**": "{matching}"}]}
_RECORD: Final = {"$has": [{"message": "{condition}", "level": "{level:upper}"}]}


def _nothing_breaks(story: Story, _: StepValues) -> None:
    story.explore_rules()


ENDINGS: Final = (
    Step("nothing breaks", _nothing_breaks),
    _then("there is no reply", "reply", None),
    _then("the (turn|conversation) ends with the error {name:word}[ that says {text}]", "error",
          {"type": "{name}", "message": _HAS_TEXT},
          'the turn ends with the error NoRoute that says "create, update"'),
    _then("there is no error", "error", None),
    _then("the user is asked {value}", "interrupt", "{value}",
          'the user is asked "Which pizza?"'),
    _then("the user is asked nothing", "interrupt", None),
    _then("the lint {lint} is found[ at {agent}][ with {matching}]", "findings",
          {"id": "{lint}", "agent": "{agent}", "**": "{matching}"},
          "the lint CTX-02 is found at nutrition"),
    _then("the event {kind:word} happened[ with {matching}]", "events", _EVENT,
          'the event RouteChosen happened with agent "router"'),
    _then("the event {kind:word} did not happen", "events", {"$not": _EVENT},
          "the event LimitReached did not happen"),
    _then("these events happened in order, among others:", "events", {"$in_order": "{:records}"},
          "these events happened in order, among others:"
          "\n  | kind         | agent     |\n  | RouteChosen  | router    |"
          "\n  | AgentStarted | nutrition |"),
    _then("the log has a[ {level:word}] record whose message {condition}", "logs", _RECORD),
    _then("the log has no[ {level:word}] record whose message {condition}", "logs",
          {"$not": _RECORD}),
    _then("these log records were made in order:", "logs", "{:records}",
          "these log records were made in order:"
          "\n  | level | logger      | message     |\n  | INFO  | coaching.api | logged pizza |"),
    _then("nothing was logged", "logs", []),
    _then("the judge answers {value} to {question:text}", "judge", "{value}",
          'the judge answers "no" to "Does the reply promise a refund?"'),
    _then("the judge's answer to {question:text} {condition}", "judge", "{condition}",
          'the judge\'s answer to "How polite is the reply, 1 to 5?" is at least 4'),
    _then("the run satisfies {text}", "satisfies", "{text}",
          'the run satisfies "coaching.checks:is_polite"'),
    Step("all of this holds:", _all_of_this, ("text",), (),
         'all of this holds:\n  """\n  reply: {$contains: pizza}\n  """'),
)  # fmt: skip

THEN: Final = (*AGENTS, *STATE, *SUBJECTS, *CONTEXTS, *RUNS, *MOVES, *ENDINGS)
"""Claims on the turn of the user's last message, or on the one that a line names first."""
