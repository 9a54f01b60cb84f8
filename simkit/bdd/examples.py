"""An example of each phrase that no filled hole would explain: as a feature would say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PAIRS: Final = "\n  | food | pizza |\n  | kcal | 800   |"
_ORDER: Final = "\n  | number | ${fake.bothify('A-####')} |"
_TIER: Final = "\n  | tier | ${fake.random_element(('gold', 'silver'))} |"
_NESTED: Final = "\n  | run | distance_km | 8     |\n  | run | unit        | miles |"
_NOTES: Final = "\n  | agent     | text                 |\n  | nutrition | Prefers metric units |"
_CHANNELS: Final = "\n  | current phase | responding |\n  | notes         | are empty  |"
_TALK: Final = "\n  | user      | I had pizza       |\n  | assistant | Logged your pizza. |"
_QUOTES: Final = '\n  """\n  {}\n  """'
_CALLS: Final = "\n  | tool        | food  |\n  | log_meal    | pizza |\n  | lookup_food | pizza |"
_TRANSFER: Final = "\n  | from          | to              | outcome | distance_km   |"
_ONE_TRANSFER: Final = "\n  | workout coach | workout analyst | made    | is at least 5 |"
_TO_ANALYST: Final = "the workout coach {} off to the workout analyst"

EXAMPLES: Final[Mapping[str, str]] = {
    "the pipeline {name:text}": 'the pipeline "fitness_coach"',
    "the seed {number}": "the seed 7",
    "the cassette {name:text}": 'the cassette "coach"',
    "what {text} says": 'what "berlin_runner.yaml" says',
    "{text} is installed": '"langgraph>=1.2" is installed',
    "a made-up {who:word}[ from {locale:word}]": "a made-up customer from de_DE",
    "a made-up {who:word}[ from {locale:word}] with:": (f"a made-up order with:{_ORDER}"),
    "{count} made-up {who:word}[ from {locale:word}]": "three made-up customers from de_DE",
    "{count} made-up {who:word}[ from {locale:word}] with:": (
        f"two made-up customers with:{_TIER}"
    ),
    "the state has {values}": 'the state has user_timezone "Europe/Berlin"',
    "the state has these {channel}:": f"the state has these notes:{_NOTES}",
    "the state has this {channel}:": f"the state has this last meal:{_PAIRS}",
    "the state has the {channel} {list}": 'the state has the errors "timeout" and "no answer"',
    "the lint {lint} is off[ at {place:text}] because {text}": (
        'the lint CTX-11 is off because "coaches chat"'
    ),
    "the user says {text}[ in session {session:text}][ in project {project:text}]": (
        'the user says "I had pizza" in session "phone" in project "Ada"'
    ),
    "the user says {text} {count} times[ in session {session:text}][ in project {project:text}]": (
        'the user says "And then?" three times'
    ),
    "the user says[ in session {session:text}][ in project {project:text}]:": (
        f"the user says:{_QUOTES.format('I had pizza.')}"
    ),
    "the user sends {values}[ in session {session:text}][ in project {project:text}]": (
        'the user sends food "pizza" and kcal 800 in session "phone" in project "Ada"'
    ),
    "the user sends[ in session {session:text}][ in project {project:text}]:": (
        f"the user sends:{_PAIRS}"
    ),
    "the user answers {value}": 'the user answers "The salami one"',
    "the user answers:": f"the user answers:{_QUOTES.format('The salami one.')}",
    "{agent} replies {text}[ after {delay:count} ms][ if it is shown {shown:text}]": (
        'nutrition replies "Logged your pizza."'
    ),
    "{agent} replies:": f"nutrition replies:{_QUOTES.format('Logged your pizza.')}",
    "{agent} decides {values}[ after {delay:count} ms][ if it is shown {shown:text}]": (
        'the router decides primary_agent "nutrition" if it is shown "pizza"'
    ),
    "{agent} decides:": "the router decides:\n  | primary_agent | nutrition |",
    "{agent} calls {tool:word}[ with {values}][ after {delay:count} ms][ if it is shown "
    "{shown:text}]": 'nutrition calls log_meal with food "pizza" after 500 ms',
    "{agent} says {text} and calls {tool:word}[ with {values}][ after {delay:count} ms]"
    "[ if it is shown {shown:text}]": (
        'nutrition says "Let me log that." and calls log_meal with food "pizza"'
    ),
    "{agent} calls {tool:word} with:": f"nutrition calls log_meal with:{_PAIRS}",
    "{agent} calls at the same time:": f"nutrition calls at the same time:{_CALLS}",
    "{agent} hands off to {target:agent}[ as {type:name}][ asking {query:text}][ with {values}]": (
        _TO_ANALYST.format("hands") + ' asking "Faster?" with distance_km 8'
    ),
    "{agent} hands off to {target:agent}[ as {type:name}][ asking {query:text}] with:": (
        f"{_TO_ANALYST.format('hands')} with:{_NESTED}"
    ),
    "{agent} asks the user {value}": 'nutrition asks the user "Which pizza?"',
    "{agent} asks the user:": "nutrition asks the user:\n  | question | Which pizza? |",
    "the model of {agent} fails with {failure} on its call {number:count}"
    "[ and may be asked again after {seconds:number} s]": (
        "the model of nutrition fails with rate_limit on its call 2 "
        "and may be asked again after 3 s"
    ),
    "the model of {agent} fails with status {status:count} and {text}": (
        'the model of nutrition fails with status 503 and "Overloaded"'
    ),
    "the function {text} answers for {agent}": (
        'the function "coaching.replies:calories" answers for nutrition'
    ),
    "{agent} answers with this line:": (
        "nutrition answers with this line:"
        + _QUOTES.format("{text: One moment., calls: [log_meal: {food: pizza}]}")
    ),
    "{tool:word} returns {value}[ for {args:values}][ after {delay:count} ms]": (
        'log_meal returns 800 for food "pizza"'
    ),
    "{tool:word} returns {values}[ for {args:values}][ after {delay:count} ms]": (
        "log_meal returns kcal 800 after 500 ms"
    ),
    "{tool:word} returns:": f"log_meal returns:{_PAIRS}",
    "{tool:word} returns these items:": (
        "lookup_food returns these items:\n  | food  | kcal |\n  | pizza | 800  |"
    ),
    "{tool:word} returns these items as {field:word}:": (
        "lookup_food returns these items as foods:\n  | food  | kcal |\n  | pizza | 800  |"
    ),
    "{tool:word} fails with {text}[ for {args:values}][ after {delay:count} ms]": (
        'log_meal fails with "no such food" for food "gravel"'
    ),
    "these agents ran in order: {agents}": (
        "these agents ran in order: router, nutrition beside workout coach and workout analyst"
    ),
    "these agents ran in order:": (
        "these agents ran in order:"
        "\n  | router    |               |\n  | nutrition | workout coach |"
    ),
    "{agent} ran before {other:agent}": "the router ran before nutrition",
    "{amount} (agents|agent) started": "two agents started",
    "the state has {amount} {channel}": "the state has at most 5 notes",
    "the state's {channel} {condition}": 'the state\'s user timezone is "Europe/Berlin"',
    "the handoffs {condition}": "the handoffs are empty",
    "the tool calls {condition}": 'the tool calls have an item with tool "log_meal"',
    "the events {condition}": 'the events have an item with kind "RouteChosen"',
    "the error {condition}": 'the error has type "NoRoute"',
    "the state {condition}": 'the state has user_timezone that starts with "Europe"',
    "the agents that ran {condition}": "the agents that ran have 2 items",
    "the sections in {context} {condition}": (
        'the sections in the context of nutrition have an item that is "history"'
    ),
    "the messages in {context} {condition}": "the messages in every context have at most 9 items",
    "what was dropped from {context} {condition}": (
        'what was dropped from the context of nutrition has only items with by "tool_messages"'
    ),
    "what was left out of {context} {condition}": (
        'what was left out of the context of nutrition has an item with by "max"'
    ),
    "the handoffs in {context} {condition}": (
        'the handoffs in the context of the workout coach have an item that is "workout_analyst"'
    ),
    "the tools in {context} {condition}": (
        'the tools in the context of nutrition have an item that is "log_meal"'
    ),
    "the tokens in {context} {condition}": "the tokens in the context of nutrition are at most 60",
    "the shares in {context} {condition}": (
        "the shares in the context of nutrition have router that is 0"
    ),
    "the settings of {context} {condition}": (
        "the settings of the context of nutrition have temperature 0"
    ),
    "what {run} received {condition}": "what nutrition received has notes that are empty",
    "the goal of {run} {condition}": 'the goal of the first run of nutrition is "plan"',
    "the input of {run} {condition}": 'the input of the second run of nutrition is "Go on"',
    "the output of {run} {condition}": "the output of the router fits the schema RouterDecision",
    "what {run} wrote {condition}": "what the router wrote has router_decision that is a mapping",
    "the messages of {run} {condition}": "the messages of nutrition have 3 items",
    "{context} includes a {role} message that {condition}": (
        'the context of nutrition includes a user message that contains "pizza"'
    ),
    "{context} includes a message that {condition}": (
        "the last context of nutrition includes a message that matches /[0-9]+ kcal/"
    ),
    "{context} includes a message from {agent}": (
        "the context of nutrition includes a message from the workout coach"
    ),
    "{context} includes these messages:": (
        f"the context of nutrition includes these messages:{_TALK}"
    ),
    "{context} excludes {text}": 'every context excludes "password"',
    "{context} excludes {role} messages": "the context of nutrition excludes tool messages",
    "{context} excludes {role} messages that {condition}": (
        'the context of nutrition excludes user messages that contain "run"'
    ),
    "{context} excludes messages that {condition}": (
        'the context of nutrition excludes messages that contain "kcal"'
    ),
    "{context} excludes messages from {agent}": (
        "the context of nutrition excludes messages from the router"
    ),
    "{context} is exactly:": f"the context of the router is exactly:{_TALK}",
    "the {section}[ section] of {agent} {condition}": f"the history of nutrition is:{_TALK}",
    "{context} has a section {section:name}": "the context of nutrition has a section handoff",
    "{context} has no section {section:name}": (
        "the context of nutrition has no section previous agents"
    ),
    "{context} has {amount} messages": "the second context of nutrition has 4 messages",
    "{context} offers the tools {names}": (
        "the context of nutrition offers the tools log_meal and lookup_food"
    ),
    "{context} offers handoffs to {names}": (
        "the context of the workout coach offers handoffs to the workout analyst"
    ),
    "{context} has the settings {matching}": (
        "the context of nutrition has the settings temperature 0 and no seed"
    ),
    "{share} of {context} comes from {source:agent}": (
        "at most 20 % of the context of the workout coach comes from nutrition"
    ),
    "{amount} messages were dropped from {context}": (
        "two messages were dropped from the context of nutrition"
    ),
    "{text} was dropped from {context}[ by {by:word}]": (
        '"800" was dropped from the context of the workout coach by tool_messages'
    ),
    "these messages were dropped from {context}:": (
        "these messages were dropped from the context of nutrition:"
        "\n  | agent  | what    | by              |\n  | router | message | intermediate_ai |"
    ),
    "{text} was left out of {context}[ by {by:word}]": (
        '"Prefers metric units" was left out of the context of nutrition by since_days'
    ),
    "these items were left out of {context}:": (
        "these items were left out of the context of nutrition:"
        "\n  | channel | by  |\n  | notes   | max |"
    ),
    "{run} received the {channel} {value}": 'nutrition received the user timezone "Europe/Berlin"',
    "{run} received:": f"nutrition received:{_CHANNELS}",
    "{run} received exactly:": f"nutrition received exactly:{_CHANNELS}",
    "{run} wrote:": f"nutrition wrote:{_CHANNELS}",
    "{run} wrote exactly:": f"nutrition wrote exactly:{_CHANNELS}",
    "a handoff from {agent} to {target:agent}[ as {type:name}] must carry {names}": (
        "a handoff from the workout coach to the workout analyst must carry distance_km"
    ),
    "{run} received no {channel}": "nutrition received no pending tool calls",
    "{run} wrote the {channel} {value}": 'nutrition wrote the current phase "responding"',
    "{agent} handed off to {target:agent}[ as {type:name}][ asking {query:text}]"
    "[ with {matching}]": _TO_ANALYST.format("handed") + " with distance_km that is at least 5",
    "{agent} handed off to {target:agent}[ as {type:name}][ asking {query:text}] with:": (
        f"{_TO_ANALYST.format('handed')} with:\n  | distance_km | is at least 5 |"
    ),
    "{agent} handed off to {target:agent}[ as {type:name}][ asking {query:text}] with exactly:": (
        f"{_TO_ANALYST.format('handed')} with exactly:\n  | distance_km | 8 |"
    ),
    "{agent} delegated to {target:agent}[ with {matching}]": (
        "the workout coach delegated to the workout analyst"
    ),
    "{target:agent} replaced {agent}": "the workout analyst replaced the workout coach",
    "the handoff from {agent} to {target:agent} was rejected": (
        "the handoff from the workout coach to the workout analyst was rejected"
    ),
    "the handoff from {agent} to {target:agent} was rejected because its reason {condition}": (
        "the handoff from the workout coach to the workout analyst was rejected because its "
        'reason contains "distance_km"'
    ),
    "these handoffs were requested:": (f"these handoffs were requested:{_TRANSFER}{_ONE_TRANSFER}"),
    "{agent} called {tool:word}[ with {matching}]": 'nutrition called log_meal with food "pizza"',
    "{agent} called {tool:word} with:": (
        'nutrition called log_meal with:\n  | food | starts with "p" |'
    ),
    "{agent} called {tool:word} with exactly:": (
        "nutrition called log_meal with exactly:\n  | food | pizza |"
    ),
    "{agent} called {tool:word} and got a result that {condition}": (
        "nutrition called log_meal and got a result that has kcal 800"
    ),
    "{agent} called {tool:word} and got the error {text}": (
        'nutrition called log_meal and got the error "no such food"'
    ),
    "these tools were called in order:": (
        "these tools were called in order:"
        "\n  | agent     | tool     | food  |\n  | nutrition | log_meal | pizza |"
    ),
    "the (turn|conversation) ends with the error {name:word}[ that says {text}]": (
        'the turn ends with the error NoRoute that says "create, update"'
    ),
    "the user is asked {value}": 'the user is asked "Which pizza?"',
    "the lint {lint} is found[ at {agent}][ with {matching}]": (
        "the lint CTX-02 is found at nutrition"
    ),
    "the event {kind:word} happened[ with {matching}]": (
        'the event RouteChosen happened with agent "router"'
    ),
    "the event {kind:word} did not happen": "the event LimitReached did not happen",
    "these events happened in order, among others:": (
        "these events happened in order, among others:"
        "\n  | kind         | agent     |\n  | RouteChosen  | router    |"
        "\n  | AgentStarted | nutrition |"
    ),
    "these log records were made in order:": (
        "these log records were made in order:"
        "\n  | level | logger      | message     |\n  | INFO  | coaching.api | logged pizza |"
    ),
    "the run satisfies {text}": 'the run satisfies "coaching.checks:is_polite"',
    "all of this holds:": (f"all of this holds:{_QUOTES.format('reply: {$contains: pizza}')}"),
    "(is|are):": f"is:{_QUOTES.format('Logged your pizza.')}",
    "(is|are) these items:": f"are these items:{_NOTES}",
    "(has|have):": f"has:{_PAIRS}",
    "(equals|equal):": f"equals:{_PAIRS}",
    "(is|are) one of {list}": 'is one of "simple" or "complex"',
    "(is|are) none of {list}": 'is none of "simple" or "complex"',
    "(does|do) not {condition}": 'does not contain "pizza"',
    "{condition} or {other:condition}": 'is "pizza" or starts with "pasta"',
    "{condition} and {other:condition}": 'contains "pizza" and ends with "."',
    "(fits|fit) the schema {word}": "fits the schema RouterDecision",
    "(is|are) between {low:number} and {high:number}": "is between 5 and 8",
    "(is|are) about {number}[ give or take {spread:number}]": "is about 8 give or take 0.5",
    "(is|are) within {percent} of {number}": "is within 5 % of 800",
    "(contains|contain):": f"contains:{_QUOTES.format('your pizza')}",
    "(has|have) only items that {condition}": 'have only items that contain "pizza"',
    "(has|have) only items with {matching}": 'have only items with role "user"',
    "(has|have) an item that {condition}": 'has an item that contains "pizza"',
    "(has|have) an item with {matching}": 'has an item with agent "nutrition"',
    "(has|have) among others:": f"have among others:{_NOTES}",
    "(has|have) in this order, among others:": f"have in this order, among others:{_NOTES}",
    "(has|have) {list} in this order, among others": (
        'have "router" and "nutrition" in this order, among others'
    ),
    "(has|have) in any order:": f"have in any order:{_NOTES}",
    "(has|have) {list} in any order": 'have "router" and "nutrition" in any order',
    "(has|have) exactly {matching}": 'has exactly food "pizza" and kcal 800',
    "(has|have) exactly:": f"has exactly:{_PAIRS}",
    "(has|have) the keys {names}": "has the keys food and kcal",
}
"""Phrase to the line that a feature may hold, with what stands below it."""
