"""What a value is called in the error that refuses it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.language.yaml import load_text
from simkit.spec.loading import validated
from simkit.spec.scenario.model import XFail


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([], "a list"),
        ({}, "a mapping"),
        (None, "nothing\n  at reason\n  Write a value behind the colon, or leave the key out."),
        (Decimal(1), "a Python object (Decimal)"),
    ],
)
def test_a_value_is_called_by_its_kind(value: Any, kind: str) -> None:
    (document,) = load_text("reason: x\n", "t.yaml")

    with pytest.raises(SourceError) as refused:
        validated(XFail, document.with_data({"reason": value}))

    text = f"t.yaml:1:9: must be a text, not {kind}"
    assert str(refused.value) == (text if value is None else f"{text}\n  at reason")
