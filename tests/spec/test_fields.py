"""What a value is called in the error that refuses it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.language.yaml import load_text
from simkit.spec.loading import validated
from simkit.spec.pipeline.model import Agent
from simkit.spec.scenario.model import XFail


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([], "a list"),
        ({}, "a mapping"),
        (None, "nothing"),
        (Decimal(1), "a Python object (Decimal)"),
    ],
)
def test_a_value_is_called_by_its_kind(value: Any, kind: str) -> None:
    (document,) = load_text("reason: x\n", "t.yaml")

    with pytest.raises(SourceError) as refused:
        validated(XFail, document.with_data({"reason": value}))

    assert str(refused.value) == f"t.yaml:1:9: must be a text, not {kind}\n  at reason"


def test_an_old_name_of_a_function_is_the_new_one_and_says_so() -> None:
    (document,) = load_text("function: simkit.nodes:same\n", "t.yaml")

    with pytest.warns(FutureWarning, match=r"`simkit.nodes:same` is called `simkit:same` now"):
        agent = validated(Agent, document)

    assert agent.function == "simkit:same"
