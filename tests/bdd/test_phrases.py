"""What may stand in a hole."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.bdd.conditions import CLAIM_KINDS
from simkit.bdd.phrases import Chosen, Phrase


def read(kind: str, reply: str) -> Any:
    holes = Phrase(f"{{{kind}}}", CLAIM_KINDS).holes_in(reply)
    return None if holes is None else holes[kind]


@pytest.mark.parametrize(
    ("kind", "reply", "value"),
    [
        ("agent", "the workout coach", "workout coach"),
        ("agent", "The node-1", "node-1"),
        ("agent", "the トリアージ係", "トリアージ係"),
        ("agents", "router, the a beside the b and c", ["router", ["a", "b"], "c"]),
        ("amount", "no", 0),
        ("amount", "at least two", {"$gte": 2}),
        ("amount", "fewer than 10", {"$lt": 10}),
        ("context", "the context of the clerk", Chosen("clerk", "")),
        ("context", "the second context of clerk", Chosen("clerk", "1")),
        ("context", "the 11th context of clerk", Chosen("clerk", "10")),
        ("context", "the last context of clerk", Chosen("clerk", "-1")),
        ("context", "every context of clerk", Chosen("clerk", "*")),
        ("context", "every context", Chosen("*", "")),
        ("context", "the context of every agent", Chosen("*", "")),
        ("run", "the clerk", Chosen("clerk", "")),
        ("run", "the last run of the clerk", Chosen("clerk", "-1")),
        ("limit", "model calls per run", "model_calls_per_run"),
        ("list", '"a, and b", 1 or null', ["a, and b", 1, None]),
        ("names", "a b, c and d", ["a b", "c", "d"]),
        ("names", "größe and 名前", ["größe", "名前"]),
        ("pattern", r"/a\/b/", "a/b"),
        ("percent", "5 %", 0.05),
        ("share", "nothing", 0),
        ("share", "at most 12.5%", {"$lte": 0.125}),
        ("texts", '"a" and "b"', ["a", "b"]),
        ("time", "2026-01-05 09:00", "2026-01-05T09:00"),
        ("value", "-2.5", -2.5),
        ("values", 'a 1, b "x and y 3" and c true', {"a": 1, "b": "x and y 3", "c": True}),
        ("values", "a 1 and a 2", None),
        ("section", "input of the clerk", None),
        ("text", "pizza", None),
    ],
)  # fmt: skip
def test_a_hole_is_read(kind: str, reply: str, value: Any) -> None:
    assert read(kind, reply) == value


@pytest.mark.parametrize(
    ("phrase", "reply", "holes"),
    [
        ("{agent} replies {text}", 'the night clerk replies "No \\"if\\"."',
         {"agent": "night clerk", "text": 'No "if".'}),
        ("{agent} replies {text}[ after {count} ms]", 'a replies "b" after 5 ms',
         {"agent": "a", "text": "b", "count": 5}),
        ("{agent} replies {text}[ after {count} ms]", 'a replies "b"', {"agent": "a", "text": "b"}),
        ("(the|a) {word} (is|are) {value}", "the town is null", {"word": "town", "value": None}),
        ("(the|a) {word} (is|are) {value}", "one town is null", None),
        ("{agent} replies {text}", "the clerk replies Good day.", None),
        ("{context} is empty", "the context of a in its ninth run is empty",
         {"context": Chosen("a in its ninth run", "", "")}),
        ("{context} is empty", "the context of a in its 9th run is empty",
         {"context": Chosen("a", "", "8")}),
        ("{agent} replies {text}", 'the clerk replies "Good day." softly', None),
        ("{a:value} + {b:value}", '1 + "2"', {"a": 1, "b": "2"}),
    ],
)  # fmt: skip
def test_a_phrase_reads_what_stands_in_its_holes(
    phrase: str, reply: str, holes: dict[str, Any] | None
) -> None:
    assert Phrase(phrase, CLAIM_KINDS).holes_in(reply) == holes
