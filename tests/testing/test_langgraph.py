"""The adapter for LangGraph keeps the rules of docs/how-to/adapters.md."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from simkit.testing import AdapterConformance


@pytest.mark.slow
class TestLangGraph(AdapterConformance):
    adapter = "langgraph"
    applications = "tests.testing.langgraph_apps"
    not_supported = {"output": "which of a model's tools give an output is not seen"}  # noqa: RUF012
    frameworks = ("langgraph", "langchain", "langchain_core", "langchain_openai")
