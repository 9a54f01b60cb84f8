"""YAML texts as values, or as what is said of them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from simkit.core.errors import SourceError
from simkit.language.yaml import load_text

QUOTE: Final = "quote the text, or write it in block style"
TAG: Final = "remove it; if it belongs to a text, quote that"


def read(text: str) -> Any:
    (document,) = load_text(text, "f.yaml")
    return document.data


def refusal(text: str) -> str:
    with pytest.raises(SourceError) as caught:
        load_text(text, "f.yaml")
    return str(caught.value)
