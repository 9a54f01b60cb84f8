"""Bugs of frameworks are found by lints alone: nothing in the claims speaks of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, items_in

FOLDER = Path(__file__).parent.parent.parent / "scenarios" / "known_bugs"
FOUND_BY = {
    "langgraph_4007": {"STA-09"},
    "langgraph_7129": {"CTX-01"},
    "openai_agents_2258": {"CTX-17"},
    "supervisor_230": {"HND-06"},
    "swarm_26": {"CTX-02", "HND-06"},
}


def test_each_known_bug_is_in_this_table() -> None:
    assert {file.name.partition(".")[0] for file in FOLDER.glob("*.yaml")} == FOUND_BY.keys()


@pytest.mark.parametrize(("bug", "lints"), FOUND_BY.items(), ids=list(FOUND_BY))
def test_a_known_bug_is_found_by_lints(bug: str, lints: set[str]) -> None:
    pytest.importorskip("agents" if "agents" in bug else "langgraph")
    pytest.importorskip("langgraph_supervisor" if "supervisor" in bug else "pytest")
    pytest.importorskip("langgraph_swarm" if "swarm" in bug else "pytest")
    (item,) = items_in(str(FOLDER / f"{bug}.scenario.yaml"))

    outcome = simulate(Library().prepared(item))

    assert {finding.id for finding in outcome.judgement.findings} == lints
