"""An option of `app:` that what runs the pipeline does not read is refused: it would do nothing."""

from __future__ import annotations

import pytest

from simkit.adapters.framework_driver import DRIVER_OPTIONS
from simkit.core.errors import SourceError
from tests.adapters.running import run_app

VALUES = {
    "call": "run",
    "config": "{recursion_limit: 3}",
    "input": '{text: "${user}"}',
    "output": "text",
    "run_options": "{context: 1}",
    "store": "{notes: [notes]}",
}
READ = {
    "healthy:chain": ("openai", {"call", "input"}),
    "agents_desk:triage": ("agents", {"call", "run_options"}),
    "pydantic_ai_desk:router": ("pydantic_ai", {"call", "run_options"}),
    "langgraph_ships_crew:app": ("langgraph_swarm", {"call", "config", "input", "output", "store"}),
}


@pytest.mark.parametrize("option", DRIVER_OPTIONS)
@pytest.mark.parametrize("pipeline", READ)
def test_an_option_that_nothing_reads_is_refused(pipeline: str, option: str) -> None:
    framework, read = READ[pipeline]
    pytest.importorskip(framework)
    scenario = f"""
        app: {{path: [.], {option}: {VALUES[option]}}}
        turns: [{{user: Hi, replies: {{desk: Hello.}}}}]
    """

    refusal = ""
    try:
        run_app(pipeline, scenario, fits=False)
    except SourceError as problem:
        refusal = str(problem)

    assert (f": `{option}` does nothing here" in refusal) == (option not in read)
