from __future__ import annotations

from simkit.checks.findings import Difference, Finding
from simkit.report.json import json_text
from simkit.report.results import Result


def test_results_are_one_object_with_every_key() -> None:
    finding = Finding(
        "claim", "E", "reply does not match", "f:3:4", ("turns", 0), 1, "coach", 0,
        (Difference("", "1", "2"),), ("why",), "reply: 1",
    )  # fmt: skip
    result = Result(
        "f::n", "f", 2, "n", "failed", 7, "d1g357", "p", 1, 2, 40, 3, (finding,),
        lints_off=(("CTX-07", "meant"),), trace=".simkit/traces/f.jsonl",
    )  # fmt: skip

    assert (
        json_text([result], "1.2.3", {"langgraph": "1.2.22"})
        == """\
{
  "simkit": "1.2.3",
  "libraries": {
    "langgraph": "1.2.22"
  },
  "scenarios": [
    {
      "id": "f::n",
      "file": "f",
      "line": 2,
      "name": "n",
      "outcome": "failed",
      "seed": 7,
      "digest": "d1g357",
      "pipeline": "p",
      "turns": 1,
      "model_calls": 2,
      "tokens": 40,
      "virtual_ms": 3,
      "findings": [
        {
          "id": "claim",
          "severity": "E",
          "what": "reply does not match",
          "where": "f:3:4",
          "path": [
            "turns",
            0
          ],
          "turn": 1,
          "agent": "coach",
          "call": 0,
          "differences": [
            {
              "at": "",
              "wanted": "1",
              "found": "2",
              "note": ""
            }
          ],
          "context": [
            "why"
          ],
          "excerpt": "reply: 1",
          "fix": "",
          "breaks": false,
          "following": []
        }
      ],
      "warnings": [],
      "noted": [],
      "lints_off": [
        {
          "id": "CTX-07",
          "at": "",
          "reason": "meant"
        }
      ],
      "passed_over": [],
      "error": "",
      "reason": "",
      "trace": ".simkit/traces/f.jsonl",
      "reproduce": "simkit replay f::n --seed 7"
    }
  ],
  "lints_off": [
    {
      "id": "CTX-07",
      "at": "",
      "reason": "meant",
      "scenarios": 1
    }
  ],
  "summary": {
    "scenarios": 1,
    "held": 0,
    "failed": 1,
    "broken": 0,
    "skipped": 0,
    "xfailed": 0,
    "warnings": 0,
    "exit_code": 1,
    "passed_over": 0
  }
}"""
    )
