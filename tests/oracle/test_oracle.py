"""Simkit and a second, independent model of the documents agree on drawn pipelines."""

from __future__ import annotations

import os
from typing import Final

import pytest
import yaml

from tests.oracle.comparing import differences
from tests.oracle.generator import FLOWS, Draw

NIGHTLY: Final = os.environ.get("SIMKIT_NIGHTLY") == "1"
PARTS: Final = 10


def disagreements(draw: Draw) -> list[str]:
    """Returns where simkit and the oracle differ on what was drawn."""
    return differences(draw.pipeline, draw.scenario)


def describe_failure(draw: Draw, result: list[str]) -> str:
    """Returns the differences, and the two files that show them."""
    files = yaml.safe_dump_all([draw.pipeline, draw.scenario], sort_keys=False, width=100)
    return "\n".join([*result, "", files])


@pytest.mark.parametrize("flow", FLOWS)
def test_simkit_and_the_oracle_agree(flow: str) -> None:
    for seed in range(10):
        draw = Draw(seed, flow=flow)

        texts = disagreements(draw)

        assert texts == [], describe_failure(draw, texts)


@pytest.mark.slow
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("part", range(PARTS))
def test_simkit_and_the_oracle_agree_on_many(flow: str, part: int) -> None:
    size = (500 if NIGHTLY else 50) // PARTS
    for seed in range(1_000 + part * size, 1_000 + (part + 1) * size):
        draw = Draw(seed, flow=flow)

        texts = disagreements(draw)

        assert texts == [], describe_failure(draw, texts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(32 if NIGHTLY else 2))
def test_simkit_and_the_oracle_agree_when_processes_restart(seed: int) -> None:
    draw = Draw(seed, restarts=True)

    texts = disagreements(draw)

    assert texts == [], describe_failure(draw, texts)
