"""The adapter for the OpenAI Agents SDK keeps the rules of docs/how-to/adapters.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from simkit.testing import AdapterConformance


@pytest.mark.slow
class TestOpenAIAgents(AdapterConformance):
    adapter = "agents.run_context"
    applications = "tests.testing.openai_agents_apps"
    not_supported: ClassVar[Mapping[str, str]] = {
        "reducer": "a context object has no reducers: values are replaced",
        "output": "models give structured output as text",
    }
