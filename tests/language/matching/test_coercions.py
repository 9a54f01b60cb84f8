"""A claim about a value of one type does not hold for a value of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkit.core.messages import ABSENT, UNMADE, Dropped, KeptMessage, Message, NoShare, ToolCall
from simkit.language.matching import holds
from tests.golden import assert_says, cases

VALUES: Final[Mapping[str, Any]] = {
    "text": "x",
    # Where the reader writes of messages, a text is a message's content; of calls, the tool's name.
    "shown": Message("assistant", "x"),
    "call": ToolCall("c1", "x", {}),
    # As a value of the state, a message is no text.
    "kept": KeptMessage("assistant", "x"),
    "kept_one": KeptMessage("assistant", "1"),
    "kept_json": KeptMessage("assistant", '{"a": 1}'),
    "kept_empty": KeptMessage("assistant", ""),
    "dropped": Dropped(Message("tool", "x"), "message", "window"),
    "list": ["x"],
    "list_of_kept": [KeptMessage("assistant", "x")],
    "content": {"content": "x"},
    "role_content": {"role": "assistant", "content": "x"},
    "mapping": {"a": 1},
    "one": 1,
    "one_point": 1.0,
    "true": True,
    "one_text": "1",
    "true_text": "true",
    "json": '{"a": 1}',
    "zero": 0,
    "false": False,
    "null_": None,
    "empty": "",
    "no_list": [],
    "no_mapping": {},
    "bytes_": {"$bytes": 1},
    "share": NoShare(0),
    "none": UNMADE,
    "absent": ABSENT,
}


@cases(__file__, "table")
def test_a_matcher_holds_of_these_values_alone(matcher: Any, says: str) -> None:
    assert_says(" ".join(name for name, value in VALUES.items() if holds(matcher, value)), says)
