"""How models are asked: what is offered to them, and what a reply is held to."""

from __future__ import annotations

from collections.abc import Mapping

from simkit.runtime.compiled import compile_pipeline
from simkit.runtime.speakers import Speaker, speakers_of
from simkit.spec.pipeline.model import Pipeline

ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
TREE = {"type": "object", "properties": {"under": {"$ref": "#"}}}


def speakers_with(**more: object) -> Mapping[str, Speaker]:
    pipeline = Pipeline.model_validate(
        {
            "version": 1,
            "pipeline": "desk",
            "models": {"default": {"model": "openai/m", "settings": {"temperature": 0}}},
            "agents": {"triage": {"handoffs": ["billing"]}, "billing": {}},
            "flow": {"handoffs": {"start": "triage"}},
            **more,
        }
    )
    return speakers_of(compile_pipeline(pipeline))


def handoff(**contract: object) -> object:
    """Returns the arguments of the tool that passes control under one contract."""
    contracts = [{"from": "triage", "to": "billing", "type": "refund", **contract}]
    (offer,) = speakers_with(contracts=contracts)["triage"].handoffs.values()
    return offer.schema


def test_each_agent_is_asked_with_its_own_model_and_settings() -> None:
    models = {"triage": "anthropic/c", "default": {"model": "openai-responses/m", "stream": True}}
    speakers = speakers_with(models=models)

    request, other = speakers["triage"].request, speakers["billing"].request
    assert (request.protocol, request.model, request.is_streamed) == ("anthropic", "c", False)
    assert (other.protocol, other.model, other.is_streamed) == ("openai-responses", "m", True)


def test_an_agent_of_which_nobody_names_the_model_is_not_asked() -> None:
    assert set(speakers_with(models={"billing": "gemini/g"})) == {"billing"}


def test_a_handoff_without_a_payload_takes_a_query() -> None:
    assert handoff(query={"max_chars": 9}) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What billing is asked.", "maxLength": 9}
        },
    }


def test_a_payload_that_refers_to_itself_stays_a_document_of_its_own() -> None:
    schema = handoff(payload=TREE)

    assert isinstance(schema, dict)
    assert schema["properties"]["payload"] == {"$ref": "#/$defs/refund_payload"}
    assert schema["$defs"] == {
        "refund_payload": {
            "type": "object", "properties": {"under": {"$ref": "#/$defs/refund_payload"}}
        }
    }  # fmt: skip


def test_of_several_contracts_a_model_says_the_type() -> None:
    contracts = [
        {"from": "triage", "to": "billing", "type": "refund", "payload": ORDER},
        {"from": "*", "to": "billing", "type": "question", "mode": "delegate"},
    ]

    speaker = speakers_with(contracts=contracts)["triage"]

    schema = speaker.handoffs["billing"].schema
    assert isinstance(schema, dict)
    assert schema["properties"]["type"] == {"type": "string", "enum": ["refund", "question"]}
    assert schema["properties"]["payload"] == ORDER
    assert schema["required"] == ["type"]


def test_a_colleague_that_is_asked_comes_back() -> None:
    contracts = [{"from": "triage", "to": "billing", "type": "question", "mode": "delegate"}]

    speaker = speakers_with(contracts=contracts)["triage"]

    assert speaker.handoffs["billing"].description == "Asks billing, and waits for the answer."


def test_names_that_providers_refuse_are_written_as_they_take_them() -> None:
    agents = {"triage": {"handoffs": ["billing desk"], "tools": ["find.order"]}, "billing desk": {}}

    speaker = speakers_with(agents=agents)["triage"]

    assert speaker.tools["find.order"].name == "find_order"
    assert speaker.handoffs["billing desk"].name == "transfer_to_billing_desk"


def test_only_objects_are_asked_for_by_schema() -> None:
    agents = {
        "triage": {"output": {"$ref": "Order"}},
        "billing": {"output": {"enum": ["yes", "no"]}},
        "clerk": {"output": ORDER, "parse": "text"},
    }

    speakers = speakers_with(agents=agents, schemas={"Order": ORDER})

    assert {name: item.request.output for name, item in speakers.items()} == {
        "triage": ORDER, "billing": None, "clerk": None
    }  # fmt: skip
