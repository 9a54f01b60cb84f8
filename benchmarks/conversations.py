"""Generated conversations with unlimited histories.

A router and two agents, with claims in every turn; or a desk that calls a tool and passes on.
"""

from __future__ import annotations

from functools import cache, lru_cache

from benchmarks.graph import TEXT
from simkit.language.yaml import Document, load_text
from simkit.spec.loading import validated
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.files import Prepared, ScenarioCase
from simkit.spec.scenario.model import Scenario

PIPELINE = """
version: 1
pipeline: support
channels:
  messages: {reducer: append, scope: session}
  decision: {scope: turn}
  outputs: {reducer: merge, scope: turn}
defaults:
  context: [instructions, history, current_message]
  writes: {messages: ["${run.final_message}"], outputs: {"${agent}": "${run.reply}"}}
agents:
  triage: {instructions: Choose., writes: {decision: "${run.output}"}}
  billing:
    instructions: Answer about bills.
    context:
      - instructions
      - history: {from: log, filters: [tool_messages, tool_calls, intermediate_ai]}
      - current_message
  writer: {instructions: Write it up.}
flow: {router: {decide: triage, to: "${run.output.to}"}}
limits: {turns: 1000000}
"""

TURN = """  - user: "{place} {text}"
    replies:
      triage: {{json: {{to: [billing, writer]}}}}
      billing: "billing {place} {text}"
      writer: "writer {place} {text}"
"""

DESK = """
version: 1
pipeline: desk
agents:
  desk: {instructions: Help., tools: [find_order], handoffs: [billing]}
  billing: {instructions: Answer about bills.}
contracts:
  - from: desk
    to: billing
    payload: {type: object, properties: {order: {type: integer}}, required: [order]}
tools:
  find_order: {args: {type: object, properties: {id: {type: integer}}, required: [id]}}
flow: {handoffs: {start: desk}}
limits: {turns: 1000000}
"""

PASSED_ON = """  - user: "{place} {text}"
    replies:
      desk:
        - calls: {{find_order: {{id: {place}}}}}
        - handoff: {{to: billing, query: "{place}", payload: {{order: {place}}}}}
      billing: "billing {place} {text}"
    tool_results: {{find_order: {{total: {place}}}}}
"""

CLAIMS = """    expect:
      agents: [triage, billing, writer]
      context:
        writer: {{includes: [{{$contains: "billing {place} "}}], excludes: [{{agent: triage}}]}}
      state: {{messages: {{$len: {messages}}}}}
"""


def scenario_text(turns: int, claims: bool, word: str = "") -> str:
    """Returns the YAML of a scenario of so many turns; ``word`` makes it differ from others."""
    text = f"{word} {TEXT}" if word else TEXT
    parts = ["version: 1\nscenario: generated\npipeline: support\nturns:\n"]
    for place in range(turns):
        parts.append(TURN.format(place=place, text=text))
        if claims:
            parts.append(CLAIMS.format(place=place, messages=3 * (place + 1)))
    return "".join(parts)


def prepared_from(text: str, pipeline: str = PIPELINE) -> Prepared:
    """Returns a scenario's text, ready to run; all share the pipeline."""
    (document,) = load_text(text, "generated.scenario.yaml")
    return Prepared(
        ScenarioCase("generated.scenario.yaml", "generated", 0, 1),
        validated(Scenario, document),
        document,
        *_pipeline(pipeline),
        (),
    )


@cache
def _pipeline(text: str) -> tuple[Pipeline, Document]:
    (document,) = load_text(text, "generated.pipeline.yaml")
    return validated(Pipeline, document), document


@lru_cache(maxsize=8)
def conversation(turns: int, claims: bool = True) -> Prepared:
    """Returns a scenario of so many turns, ready to run."""
    return prepared_from(scenario_text(turns, claims))


@lru_cache(maxsize=8)
def desk(turns: int) -> Prepared:
    """Returns a scenario of so many turns with a tool and a handoff, ready to run."""
    parts = ["version: 1\nscenario: generated\npipeline: desk\nturns:\n"]
    parts += [PASSED_ON.format(place=place, text=TEXT) for place in range(turns)]
    return prepared_from("".join(parts), DESK)
