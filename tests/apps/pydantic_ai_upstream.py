"""Plays PydanticAI's own examples, unchanged: what the user says answers prompts, by lines."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import logfire_api
import pydantic_ai  # noqa: F401 - what runpy runs is not known before.
from rich.prompt import Prompt

# Several examples set logfire up; what stands for it where it is not installed does nothing.
sys.modules.setdefault("logfire", logfire_api)
HOME = Path(__file__).parent / "upstream" / "pydantic_ai"
Play = Callable[[str], Any]


@contextmanager
def _typed(text: str) -> Iterator[None]:
    with mock.patch.object(Prompt, "ask", side_effect=text.splitlines()):
        yield


def _script(name: str) -> Play:
    """Returns what runs a file as ``python file`` does."""

    def play(text: str) -> str:
        with _typed(text):
            runpy.run_path(str(HOME / name), run_name="__main__")
        return "played"

    return play


def _main(name: str) -> Play:
    """Returns what runs the function ``main`` of a module."""

    async def play(text: str) -> str:
        main: Any = import_module(name).main
        with _typed(text):
            await main()
        return "played"

    return play


bank_support = _script("examples/pydantic_ai_examples/bank_support.py")
flight_booking = _main("pydantic_ai_examples.flight_booking")
weather_agent = _main("pydantic_ai_examples.weather_agent")


async def triage(complaint: str) -> Any:
    """Asks the triage of the medical example."""
    medical: Any = import_module("pydantic_ai_examples.medical_agent_delegation")
    patient = medical.PatientInfo("P001", 64, ["hypertension"])
    return await medical.MedicalTriageSystem().handle_patient(complaint, patient)
