"""Names in claims on arguments, payloads and results are those of the declared schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from simkit.core.errors import SourceError
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import converse
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.explore.test_simulations import subject_of
from tests.refusals import refusal_of

PIPELINE: Final = """
version: 1
pipeline: desk
agents:
  desk: {instructions: You are the desk., tools: [refund, look, note, free]}
  billing: {instructions: You bill.}
  notary: {instructions: You write., handoffs: []}
schemas:
  Account: {type: object, properties: {iban: {type: string}, holder: {$ref: Person}}}
  Person:
    type: object
    properties: {name: {type: string}, friends: {type: array, items: {$ref: Person}}}
tools:
  refund:
    args:
      type: object
      properties: {amount: {type: integer}, to: {$ref: Account}, "order.id": {type: string}}
      allOf: [{properties: {reason: {type: string}}}, {required: [amount]}]
    returns: {type: object, properties: {state: {enum: [done, refused]}}}
  look:
    args: {anyOf: [{type: object, properties: {order: {type: string}}}, {type: "null"}]}
  note:
    args:
      type: object
      properties: {text: {type: object, properties: {body: {}}}}
      additionalProperties: true
  free: {args: {type: object}}
contracts:
  - from: desk
    to: billing
    payload: {type: object, properties: {order: {type: string}}, required: [order]}
flow: {handoffs: {start: desk}}
"""
SCENARIO: Final = """
---
version: 1
scenario: s
pipeline: desk
turns:
  - user: Hi
    replies:
      desk:
        - calls: [look: {order: A-1, since: monday}, note: {}, free: {}]
        - calls: [refund: {amount: 3, to: {iban: X, bank: Y}}]
        - handoff: {to: billing, payload: {order: A-1, note: {by: desk}}}
      billing: Billed.
    tool_results: {look: {a: 1}, note: {}, free: {}, refund: {state: done, at: noon}}
    expect: {<CLAIM>}
"""

REFUSED: Final = {
    "tool_calls: {$has: {tool: refund, args: {amuont: 3}}}": ("amuont", "amount"),
    "tool_calls: {$not: {$has: [{tool: refund, args: {amuont: 3}}]}}": ("amuont", "amount"),
    "tool_calls: {$not: {$has: [{tool: refund, asked: {amuont: 3}}]}}": ("amuont", "amount"),
    "tool_calls: {$not: {$has: [{tool: refund, args.amuont: 3}]}}": ("amuont", "amount"),
    "tool_calls: {$not: {$has: [{tool: refund, args: {to.ibn: X}}]}}": ("ibn", "iban"),
    "tool_calls: {$not: {$has: [{tool: refund, args: {to: {holder: {nam: X}}}}]}}": ("nam", "name"),
    "tool_calls: {$not: {$has: [{tool: refund, args: {to: {holder: {friends: [{nam: A}]}}}}]}}": (
        "nam", "name",
    ),
    "tool_calls: {$not: {$has: [{tool: refund, 'args.to.holder.friends[0].nam': X}]}}": (
        "nam", "name",
    ),
    "tool_calls: {$not: {$has: [{tool: refund, args: {$not: {raeson: late}}}]}}": (
        "raeson", "reason",
    ),
    "tool_calls: {$each: {$either: [{tool: look}, {tool: refund, args: {$keys: [amout]}}]}}": (
        "amout", "amount",
    ),
    "tool_calls: {$not: {$has: [{tool: refund, args: {$eq: {amuont: 3}}}]}}": ("amuont", "amount"),
    "tool_calls: {$not: {$has: [{tool: look, args: {amount: 3}}]}}": ("amount", ""),
    "tool_calls: {$not: {$has: [{tool: {$in: [look, refund]}, args: {amuont: 3}}]}}": (
        "amuont", "amount",
    ),
    "tool_calls: {$not: {$has: [{tool: refund, result: {stat: done}}]}}": ("stat", "state"),
    "tool_calls: {$unique: {of: {tool: refund}, by: args.amuont}}": ("amuont", "amount"),
    "tool_calls: {$not: {$has: [{tool: note, args: {text: {bdy: X}}}]}}": ("bdy", "body"),
    "events: {$not: {$has: [{kind: ToolCalled, tool: refund, args: {amuont: 3}}]}}": (
        "amuont", "amount",
    ),
    "events: {$not: {$has: [{kind: HandoffMade, from_agent: desk, to_agent: billing, "
    "payload: {ordre: A}}]}}": ("ordre", "order"),
    "handoffs: {$not: {$has: [{from: desk, to: billing, payload: {ordre: A}}]}}": (
        "ordre", "order",
    ),
    "handoffs: {$not: {$has: [{to: billing, payload: {ordre: A}}]}}": ("ordre", "order"),
    "handoffs: {$not: {$has: [{payload: {ordre: A}}]}}": ("ordre", "order"),
    "handoffs: {$not: {$has: [{from: desk, payload.ordre: A}]}}": ("ordre", "order"),
    "handoffs: {$not: {$has: [{from: {$in: [desk, notary]}, payload: {ordre: A}}]}}": (
        "ordre", "order",
    ),
    "events: {$not: {$has: [{kind: HandoffMade, payload: {ordre: A}}]}}": ("ordre", "order"),
    "context: {desk: {excludes: [{calls: [{tool: refund, args: {amuont: 3}}]}]}}": (
        "amuont", "amount",
    ),
}  # fmt: skip
ACCEPTED: Final = (
    "tool_calls: {$has: {tool: refund, args: {amount: 3, to: {iban: X}}}}",
    "tool_calls: {$not: {$has: [{tool: refund, args: {to.holder.friends: {$len: 3}}}]}}",
    "tool_calls: {$not: {$has: [{tool: refund, args: {order.id: A-1}}]}}",
    # Names that a line writes, which the schema does not forbid.
    "tool_calls: {$has: {tool: look, args: {since: monday}}}",
    "tool_calls: {$has: {tool: refund, args: {to: {bank: Y}}}}",
    "tool_calls: {$has: {tool: refund, result: {at: noon}}}",
    "handoffs: {$has: {from: desk, to: billing, payload: {note: {by: desk}}}}",
    # What is not there needs no name that is.
    "tool_calls: {$has: {tool: refund, args: {card: {$absent: true}}}}",
    # A schema that allows any names, or none.
    "tool_calls: {$not: {$has: [{tool: note, args: {author: X}}]}}",
    "tool_calls: {$not: {$has: [{tool: free, args: {author: X}}]}}",
    "tool_calls: {$not: {$has: [{args: {author: X}}]}}",
    # A pair without a contract has any payload.
    "handoffs: {$not: {$has: [{from: billing, to: notary, payload: {secret: X}}]}}",
    "handoffs: {$not: {$has: [{payload: {note: {by: desk}}}]}}",
)


@pytest.mark.parametrize("claim", ["{to: notary, ", "{from: billing, ", "{"])
def test_a_payload_without_a_contract_may_have_any_name(claim: str) -> None:
    free = PIPELINE.replace("{instructions: You bill.}", "{instructions: x, handoffs: [notary]}")
    Path("t.scenario.yaml").write_text(
        text_with(f"handoffs: {{$not: {{$has: [{claim}payload: {{ordre: A}}}}]}}}}", free),
        encoding="utf-8",
    )
    (item,) = items_in("t.scenario.yaml")

    # A name that no contract has is refused where the claim is prepared.
    assert Library().prepared(item).scenario.turns


pytestmark = pytest.mark.usefixtures("cwd")


def text_with(claim: str, pipeline: str = PIPELINE, scenario: str = SCENARIO) -> str:
    return pipeline + scenario.replace("<CLAIM>", claim)


@pytest.mark.parametrize("claim", REFUSED)
def test_name_that_no_value_has_is_refused(claim: str) -> None:
    name, near = REFUSED[claim]

    refusal = refusal_of(text_with(claim))

    assert f"no argument `{name}`, so" in refusal or f"no key `{name}`, so" in refusal
    assert f"did you mean `{near}`?" in refusal or not near


@pytest.mark.parametrize("claim", ACCEPTED)
def test_name_that_a_value_may_have_is_accepted(claim: str) -> None:
    assert refusal_of(text_with(claim)) == ""


def test_refusal_says_where_what_and_the_nearest() -> None:
    (claim, *_) = REFUSED

    assert refusal_of(text_with(claim)).partition(":")[2].split(": ", 1)[1] == (
        "tool `refund` has no argument `amuont`, so this could never match\n"
        "  at turns[0].expect.tool_calls.$has.args.amuont\n"
        "  did you mean `amount`?   known: amount, to, order.id, reason"
    )


def test_recordings_may_have_any_name() -> None:
    claim = "tool_calls: {$not: {$has: [{tool: refund, args: {card: 3}}]}}"
    recorded = SCENARIO.replace("scenario: s", "scenario: s\ncassette: c.yaml")
    pipeline = PIPELINE.replace("agents:", "models: {default: openai/gpt-5}\nagents:", 1)

    assert "no argument `card`" in refusal_of(text_with(claim, pipeline))
    assert refusal_of(text_with(claim, pipeline, recorded)) == ""


CODE: Final = """
import json
import openai

SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
TOOL = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}


def ask(text):
    client = openai.OpenAI(api_key="sk-test")
    messages = [{"role": "system", "content": "You are the desk."}]
    messages.append({"role": "user", "content": text})
    for _ in range(5):
        answer = client.chat.completions.create(
            model="gpt-5", messages=messages, tools=[TOOL]
        ).choices[0].message
        messages.append(answer.model_dump(exclude_none=True))
        if not answer.tool_calls:
            return answer.content
        for call in answer.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "sent"})
"""
OF_CODE: Final = """
version: 1
simulation: s
pipeline: MODULE:ask
app: {path: [.]}
agents: {desk: {system: You are the desk.}}
models: {desk: [{calls: [{look: {order: A-1}}]}, Done.]}
never: [{tool: look, asked: {<NAME>: B-7}}]
"""


@pytest.mark.parametrize(("name", "is_known"), [("order", True), ("ordr", False)])
def test_arguments_of_code_are_those_that_its_requests_show(
    name: str, is_known: bool, tmp_path: Path
) -> None:
    module = f"named_{name}"
    Path(f"{module}.py").write_text(CODE, encoding="utf-8")
    text = OF_CODE.replace("<NAME>", name).replace("MODULE", module)
    subject = subject_of(tmp_path, text, pipeline="")
    plan = Plan((TurnPlan(), TurnPlan()))

    if is_known:
        assert converse(subject, plan).model_calls
        return
    with pytest.raises(SourceError) as problem:
        converse(subject, plan)

    assert problem.value.what == ("tool `look` has no argument `ordr`, so this could never match")
    assert (problem.value.at, problem.value.near) == ("never[0].asked.ordr", "order")


ONE_TOOL: Final = """
pipeline: desk
agents: {desk: {instructions: You are the desk., tools: [look]}}
tools: {look: {args: {type: object, properties: {it: <SCHEMA>, else: {}}}}}
flow: {handoffs: {start: desk}}
---
scenario: s
pipeline: desk
turns:
  - user: Hi
    replies: {desk: Hello.}
    expect: {tool_calls: {$not: {$has: [{tool: look, args: {it: <IT>}}]}}}
"""
_NAMED: Final = "{type: object, properties: {a: {}}}"


@pytest.mark.parametrize(
    ("schema", "claim", "is_known"),
    [
        ("{properties: {a: {}}, anyOf: [{required: [b]}, {required: [c]}]}", "{c: 3}", True),
        ("{properties: {a: {}}, anyOf: [{required: [b]}, {required: [c]}]}", "{d: 3}", False),
        ("{properties: {a: {}}, dependentRequired: {a: [b]}}", "{b: 3}", True),
        (f"{{anyOf: [{_NAMED}, {{type: [object, 'null'], minProperties: 1}}]}}", "{b: 3}", True),
        (f"{{anyOf: [{_NAMED}, {{type: [string, 'null'], minLength: 1}}]}}", "{b: 3}", False),
        (f"{{prefixItems: [{_NAMED}]}}", "[{a: 3}, {b: 3}]", True),
        (f"{{prefixItems: [{_NAMED}], items: false}}", "[{b: 3}]", False),
        (f"{{anyOf: [{{type: array, items: {_NAMED}}}, {{type: array}}]}}", "[{b: 3}]", True),
        (f"{{type: array, items: {_NAMED}, maxItems: 3}}", "[{b: 3}]", False),
        ("{$ref: '#it', $defs: {it: {$anchor: it, properties: {a: {}}}}}", "{b: 3}", True),
        ("{type: object, patternProperties: {'^x': {}}, properties: {a: {}}}", "{xy: 3}", True),
    ],
)  # fmt: skip
def test_names_are_unknown_only_where_a_schema_lists_them_all(
    schema: str, claim: str, is_known: bool
) -> None:
    refusal = refusal_of(ONE_TOOL.replace("<SCHEMA>", schema).replace("<IT>", claim))

    assert ("" if is_known else "tool `look` has no argument") in refusal
    assert not is_known or refusal == ""


SUPERVISED: Final = """
pipeline: team
agents:
  maker: {instructions: Make it.<AGENT>}
  checker: {instructions: Check it.}
contracts:
  - from: maker
    to: checker
    payload: {type: object, properties: {data: {type: array}}, required: [data]}
    on_invalid: stop
flow:
  supervisor:
    goals: {make: {steps: [{maker: Make it}, {checker: Check it}]}}
---
scenario: s
pipeline: team
turns:
  - user: Make it
    replies: {maker: <LINE>}
    expect: {handoffs: {$has: [{from: maker, to: checker, payload: {<NAME>: 3}}]}}
"""
"""The payload is what the maker says, and the handoff is refused where it does not fit."""


@pytest.mark.parametrize(
    ("line", "agent", "is_known"),
    [
        ("{json: {rows: 3}}", "", True),
        ("'{\"rows\": 3}'", "", True),
        ("'Here it is: {\"rows\": 3}'", ", parse: json_in_text", True),
        ("{json: {data: []}}", ", output: {type: object, properties: {rows: {}}}", True),
        ("{json: {data: []}}", "", False),
    ],
)
def test_a_supervisor_hands_on_what_an_agent_says(
    line: str, agent: str, is_known: bool, tmp_path: Path
) -> None:
    text = SUPERVISED.replace("<LINE>", line).replace("<AGENT>", agent).replace("<NAME>", "rows")
    file = tmp_path / "team.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)

    if is_known:
        library.prepared(item)
        return
    with pytest.raises(SourceError, match="payload has no key `rows`"):
        library.prepared(item)


NODES: Final = """
pipeline: team
<DEFAULTS>
agents:
  maker: {instructions: Make it., <AGENT>}
  helper: {instructions: Help., handoffs: []}
  checker: {instructions: Check it.}
tools: {look: {args: {type: object}}}
contracts: [{from: first, to: checker, payload: {type: object, properties: {data: {}}}}]
flow:
  graph:
    nodes: {first: {agent: maker, start: true}, checker: {exit: true}}
    edges: [{from: first, to: checker}]
---
scenario: s
pipeline: team
turns:
  - user: Make it
    replies: {first: <LINE>, helper: {json: {rows: 3}}, checker: Good.}
    tool_results: {look: {rows: 3}}
    expect: {handoffs: {$has: [{from: first, to: checker, payload: {rows: 3}}]}}
"""


@pytest.mark.parametrize(
    ("agent", "defaults", "line"),
    [
        ("tools: [look], returns: tool_output", "", "{calls: {look: {}}}"),
        ("tools: [look]", "defaults: {returns: tool_output}", "{calls: {look: {}}}"),
        ("handoffs: [helper]", "", "{handoff: {to: helper}}"),
        ("output: {type: object, properties: {rows: {}}}", "", "{function: elsewhere:line}"),
    ],
    ids=["by a tool", "by the defaults", "by another agent", "by its schema"],
)
def test_a_node_hands_on_what_its_agent_may_return(agent: str, defaults: str, line: str) -> None:
    text = NODES.replace("<AGENT>", agent).replace("<DEFAULTS>", defaults).replace("<LINE>", line)

    assert refusal_of(text) == ""


WITH_SECTIONS: Final = """
version: 1
scenario: s
pipeline: bank:app
agents: {{clerk: {{sections: {{profile: {{system: {{$starts: Profile}}}}}}}}}}
turns: [{{user: Hi, expect: {{context: {{clerk: {{{key}: [{{system: Profile}}]}}}}}}}}]
"""


@pytest.mark.parametrize(("key", "claim"), [("exclude", "excludes"), ("mesages", "messages")])
def test_a_misspelt_claim_on_a_context_of_code_is_no_section(key: str, claim: str) -> None:
    assert f"did you mean `{claim}`?" in refusal_of(WITH_SECTIONS.format(key=key))


@pytest.mark.parametrize("key", ["profile", "history", "current_message", "instructions", "diary"])
def test_a_section_of_code_is_a_key_of_its_context(key: str) -> None:
    assert refusal_of(WITH_SECTIONS.format(key=key)) == ""
