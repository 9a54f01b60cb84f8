"""``simkit bdd steps``: what a feature may say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simkit.bdd.vocabulary import VOCABULARIES, condition_phrases, sections

ROOT = Path(__file__).resolve().parent.parent.parent


def simkit(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simkit", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip


@pytest.mark.slow
def test_all_steps_are_listed_once_each_with_an_example() -> None:
    phrases = {phrase.text for vocabulary in VOCABULARIES for _, phrase in vocabulary.phrases}
    phrases |= {words.text for words, _ in condition_phrases()}

    done = simkit("bdd", "steps")
    lines = done.stdout.splitlines()
    places = [place for place, line in enumerate(lines) if line[:2] == "  " and line[2] != " "]
    listed = [lines[place].strip() for place in places]
    examples = [lines[place + 1] for place in places]

    assert (done.returncode, done.stderr) == (0, "")
    assert set(listed) == phrases
    assert len(listed) == sum(len(rows) for _, rows in sections())
    assert all(line.startswith("      ") for line in examples)


@pytest.mark.slow
def test_a_word_selects_steps_whatever_its_case() -> None:
    done = simkit("bdd", "steps", "RESTART")
    other = simkit("bdd", "steps", "Replaced")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no step has the word `RESTART`\n"
    assert (other.returncode, other.stdout) == (
        0,
        "Then\n"
        "  {target:agent} replaced {agent}\n"
        "      the workout analyst replaced the workout coach\n",
    )
