"""Models of three clerks who share a total: each reads it in one answer, and writes it in the next.

So an update is lost if one reads between the answers of another one.
"""

from __future__ import annotations

from typing import Any

TOTAL = {"sum": 0}
_totals: dict[str, int] = {}


def opened(messages: list[dict[str, str]]) -> Any:
    """Lets the clerks begin in parallel."""
    TOTAL["sum"] = 0
    return {"json": {"to": {"parallel": ["a", "b", "c"]}}}


def clerk(messages: list[dict[str, str]]) -> Any:
    """Answers for one of the clerks."""
    name = messages[0]["content"]
    if messages[-1]["role"] == "user":
        _totals[name] = TOTAL["sum"]
        return {"calls": [{"look": {}}]}
    TOTAL["sum"] = _totals[name] + 1
    return str(TOTAL["sum"])
