"""Names in fields: found where the file gives them, by what the fields' types say."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from simkit.spec.fields import OrText, TextValue, YamlModel
from simkit.spec.refers_to import AgentName, RefersTo, name_references


class Step(YamlModel):
    agent: AgentName | None = None
    task: str = ""


class Plan(YamlModel):
    first: Annotated[Step, BeforeValidator(lambda v: {"agent": v} if isinstance(v, str) else v)]
    steps: tuple[Step, ...] = ()
    sources: Annotated[
        tuple[Annotated[str, RefersTo("agent", also=("*",))], ...],
        BeforeValidator(lambda v: (v,) if isinstance(v, str) else v),
    ] = Field(default=(), alias="from")
    by_agent: dict[AgentName, tuple[Step, ...] | Step] = Field(default_factory=dict)
    title: Annotated[TextValue | None, OrText] = None


def references_in(data: dict[str, Any]) -> list[tuple[Any, ...]]:
    references = name_references(Plan.model_validate(data), data)
    return [(each.path, each.word, each.is_key) for each in references]


def test_names_are_found_in_models_lists_and_keys() -> None:
    data = {
        "first": {"agent": "a"},
        "steps": [{"task": "b"}, {"agent": "c"}],
        "by_agent": {"d": {"agent": "e"}, "f": [{"agent": "g"}]},
    }

    assert references_in(data) == [
        (("first", "agent"), "a", False),
        (("steps", 1, "agent"), "c", False),
        (("by_agent", "d"), "d", True),
        (("by_agent", "d", "agent"), "e", False),
        (("by_agent", "f"), "f", True),
        (("by_agent", "f", 0, "agent"), "g", False),
    ]


def test_single_item_stands_at_the_path_of_its_list() -> None:
    step: dict[str, Any] = {"first": {}}

    assert references_in({**step, "from": "a"}) == [(("from",), "a", False)]
    assert references_in({**step, "from": ["a", "b"]})[1] == (("from", 1), "b", False)


def test_word_for_all_and_reference_are_no_names() -> None:
    assert references_in({"first": {"agent": "${state.next}"}, "from": ["*"]}) == []
