"""Coverage as text: what is missing, once, with a way to cover it."""

from __future__ import annotations

from simkit.checks.coverage import CoverageReport, PlacedItem
from simkit.report.scores import coverage_lines

LINES = """\
kind      covered    of     %
------  ---------  ----  ----
agents          1     2  50.0
tools           0     2   0.0
total           1     4  25.0

file      covered    of     %
------  ---------  ----  ----
p.yaml          1     3  33.3
q.yaml          0     1   0.0
total           1     4  25.0

p.yaml:4  agents: b (and so 1 item of it)
    cover it with a handoff

q.yaml:8  tools: u (m:f)"""


def test_what_is_missing_is_listed_by_file_and_items_of_idle_agents_are_counted() -> None:
    report = CoverageReport(
        (
            PlacedItem("p", "agents", "a", "p.yaml", 3, hits=2),
            PlacedItem("p", "agents", "b", "p.yaml", 4, hint="a handoff"),
            PlacedItem("p", "tools", "t", "p.yaml", 7, agent="b"),
            PlacedItem("p", "tools", "u", "q.yaml", 8, code="m:f"),
        )
    )

    assert "\n".join(coverage_lines(report)) == LINES
