"""Values cut to a budget: they stay valid JSON, and what was cut is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simkit.core.messages import ABSENT
from simkit.runtime.context.rendering import Loss, fitted, json_text


def cut_to(most: int, value: Any) -> tuple[Any, list[Loss]]:
    """The value cut to so many characters of JSON."""
    return fitted(value, lambda item: len(json_text(item)) <= most)


def items(path: str, cut: int) -> Loss:
    return Loss(path, "tokens", items=cut)


def characters(path: str, cut: int) -> Loss:
    return Loss(path, "tokens", characters=cut)


@pytest.mark.parametrize(
    ("most", "value", "output", "losses"),
    [
        (99, {"a": [1, 2]}, {"a": [1, 2]}, []),
        (9, {"a": [1, 2]}, {"a": [1]}, [items("a", 1)]),
        (9, [1, 2, 3, 4, 5], [1, 2, 3, 4], [items("", 1)]),
        # Every list keeps as many items as every other, and a text 16 characters for each of them.
        (17, {"a": [1, 2, 3], "b": [4]}, {"a": [1], "b": [4]}, [items("a", 2)]),
        (30, {"a": [[1, 2, 3], [4], [5]]}, {"a": [[1, 2, 3], [4], [5]]}, []),
        (20, {"a": [[1, 2, 3], [4], [5]]}, {"a": [[1, 2], [4]]}, [items("a", 1), items("a[0]", 1)]),
        (25, {"a": "x" * 40}, {"a": "x" * 16}, [characters("a", 24)]),
        (45, {"a": "x" * 40}, {"a": "x" * 32}, [characters("a", 8)]),
        (20, "x" * 40, "x" * 16, [characters("", 24)]),
        (40, {"a b": ["x" * 40]}, {"a b": ["x" * 16]}, [characters('"a b"[0]', 24)]),
        # Keys are never cut.
        (10, {"a": 1, "b": 2, "c": 3}, ABSENT, [characters("", 19)]),
        (3, {"a": [1]}, ABSENT, [characters("", 9)]),
    ],
)
def test_lists_and_texts_are_cut_at_their_ends_until_it_fits(
    most: int, value: Any, output: Any, losses: list[Loss]
) -> None:
    assert cut_to(most, value) == (output, losses)


def test_as_much_as_fits_is_shown_at_every_budget() -> None:
    value = {"rows": [{"name": "n" * 20, "tags": list(range(n))} for n in range(30)], "total": 30}
    sizes = []
    for most in range(0, len(json_text(value)) + 1, 10):
        output, losses = cut_to(most, value)
        text = "" if output is ABSENT else json_text(output)
        assert len(text) <= most
        assert bool(losses) == (output != value)
        assert not text or json.loads(text)["total"] == 30
        sizes.append(len(text))

    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 10
