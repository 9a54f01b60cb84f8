"""The adapters of frameworks with environments of their own keep docs/how-to/adapters.md."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, ClassVar

import pytest

from simkit.testing import AdapterConformance

pytestmark = pytest.mark.filterwarnings("default")
NO_OUTPUT = "another call, after the agent's last message, gives an object"


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


@needs("llama_index")
class TestLlamaIndex(AdapterConformance):
    adapter = "llama_index.core.agent.workflow"
    applications = "tests.frameworks.llama_index_apps"
    frameworks = ("llama_index", "workflows")
    not_supported: ClassVar[Mapping[str, str]] = {
        "filter": "no function filters the history at a handoff",
        "reducer": "the state of a workflow has no reducers: values are replaced",
        "interrupt": "a question is an event of the handler, which the application answers",
        "output": NO_OUTPUT,
    }
    # What a tool does with control is not known before it does.
    replies: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "handoff": {"front": {"calls": [{"pass_on": {"topic": "refunds"}}]}, "expert": "Done."}
    }


@needs("crewai")
class TestCrewAI(AdapterConformance):
    adapter = "crewai"
    applications = "tests.frameworks.crewai_apps"
    not_supported: ClassVar[Mapping[str, str]] = {
        "state": "the adapter does not see what a flow's methods write",
        "handoff": "agents delegate, which is a call of a tool: they do not pass control",
        "filter": "there are no handoffs, and no history filters",
        "interrupt": "a task that asks the user reads the terminal",
        "cancel": "tools run in synchronous code, which nothing cancels",
        "output": NO_OUTPUT,
        "at_once": "crews of one process wait for a lock on their files",
    }
