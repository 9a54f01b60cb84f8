from __future__ import annotations

from pathlib import Path

import pytest

from simkit.checks.findings import Difference, Finding
from simkit.report.results import Result, json_text
from tests.golden import assert_file_is

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.golden
def test_results_are_one_object_with_every_key() -> None:
    finding = Finding(
        "claim", "E", "reply does not match", "f:3:4", ("turns", 0), 1, "coach", 0,
        (Difference("", "1", "2"),), ("why",), "reply: 1",
    )  # fmt: skip
    result = Result(
        "f::n", "f", 2, "n", "failed", 7, "d1g357", "p", 1, 2, 40, 3, (finding,),
        lints_off=(("CTX-07", "meant"),), trace=".simkit/traces/f.jsonl",
    )  # fmt: skip

    assert_file_is(
        GOLDEN / "results-are-one-object-with-every.txt",
        json_text([result], "1.2.3", {"langgraph": "1.2.22"}) + "\n",
    )
