"""Many channels, and many agents side by side, cost what they are: each twice as many, twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from simkit.language.yaml import Document, load_text
from simkit.session.simulate import run
from simkit.spec.fields import require
from simkit.spec.scenario.files import Library, Prepared, ScenarioCase
from tests.test_linear import counted

FILE = "wide.scenario.yaml"
SIZES = (100, 400)
GROWTH_MAX = 1.15
"""What one channel or agent may cost more among four times as many."""


def channels(count: int) -> str:
    names = range(count)
    declared = "\n".join(f"  c{name}: {{reducer: append}}" for name in names)
    writes = "\n".join(f'      c{name}: ["${{state.c{name}}}"]' for name in names)
    return f"""version: 1
pipeline: p
channels:
{declared}
agents:
  a:
    instructions: A
    writes:
{writes}
flow: {{handoffs: {{start: a}}}}
---
version: 1
scenario: s
pipeline: p
turns: [{{user: Hi, replies: {{a: Hello}}}}]
"""


def side_by_side(count: int) -> str:
    names = [f"w{number}" for number in range(count)]
    workers = "\n".join(
        f"  {name}: {{instructions: W, context: [current_message]}}" for name in names
    )
    replies = "\n".join(f"      {name}: Done" for name in names)
    return f"""version: 1
pipeline: p
channels: {{messages: {{reducer: append}}}}
limits: {{agent_runs_per_turn: 100000}}
agents:
  r: {{instructions: R, output: {{type: object}}, context: [current_message]}}
{workers}
flow: {{router: {{decide: r, to: "${{run.output.to}}"}}}}
---
version: 1
scenario: s
pipeline: p
turns:
  - user: Hi
    replies:
      r: {{json: {{to: {{parallel: [{", ".join(names)}]}}}}}}
{replies}
"""


def loaded(text: str) -> Prepared:
    library = Library()
    library._changed[FILE] = load_text(text, FILE)
    return library.prepared(ScenarioCase(FILE, "s", 1, 1))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [channels, side_by_side])
def test_one_more_costs_the_same_however_many_there_are(kind: Callable[[int], str]) -> None:
    costs: list[tuple[float, float]] = []
    for size in SIZES:
        text = kind(size)
        prepared, load = counted(partial(loaded, text))
        _, ran = counted(partial(run, prepared))
        costs.append((load / size, ran / size))

    (first_load, first_run), (more_load, more_ran) = costs
    assert more_load <= GROWTH_MAX * first_load
    assert more_ran <= GROWTH_MAX * first_run


class Names(tuple[str, ...]):
    """Names that count how often all of them are gone through."""

    passes = 0

    def __iter__(self):
        type(self).passes += 1
        return super().__iter__()


def test_a_name_that_is_known_is_found_without_a_copy_of_all_names() -> None:
    document: Document = load_text("a: 1", FILE)[0]
    known = Names(("a", "b"))

    require(document, ("a",), "channel", "b", known)

    assert Names.passes == 0
