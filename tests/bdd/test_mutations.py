"""A broken pipeline turns a feature red, at the line that a product owner would point at."""

from __future__ import annotations

import pytest

from simkit.scenario.files import Library
from tests.bdd.telling import changed, told
from tests.mutations import mutations, pipeline_document

BY_NAME = {one.id: one for one in mutations()}
GROWS = "What is known grows by one result a step"
CLEAR = "A clear question goes straight to research"
PROMPT = "The prompt says where the data is"
ACCOUNTED = "Every message that was left out is accounted for"
READS = "A coach reads what was said, not how it came about"
DOCUMENT = "Research is sent the document, and reports back"
DECISION = "The decision knows the task and the project"

RED = [
    ("fc-04", "What the user once told one coach reaches every coach",
     "And the state has 2 messages"),
    ("fc-30", "What the user once told one coach reaches every coach",
     'Then the context of the workout coach includes "Prefers metric units"'),
    ("fc-42", READS, "And the context of the workout coach excludes tool messages"),
    ("fc-43", ACCOUNTED, "Then these messages were dropped from the context of the workout coach:"),
    ("fc-44", READS, "Then the history of the workout coach is:"),
    ("ae-84", DECISION, 'Then the recall of decide contains "auth.py" and "password"'),
    ("ae-87", DECISION,
     'And "Hash what is secret." was left out of the context of decide by scopes'),
    ("ae-89", "What was learned for the project is still known, the last task is not",
     'And the context of decide excludes "auth.py"'),
    ("ae-91", "The search knows nothing but the request",
     "Then the context of search has the sections instructions and input"),
    ("ae-120", "The branch is the one that the decision names",
     'And the upstream of <node> contains "<decision>"'),
    ("sc-136", "Each agent is sent its own task, and the data of all others",
     "And the task of the analysis agent is:"),
    ("sc-138", GROWS,
     "And what the analysis agent received has agent_results that has the keys "
     "database_agent_output"),
    ("sc-141", PROMPT,
     "Then the context of the analysis agent includes a system message that contains "
     '"CONTEXT DATA (use this in your tool calls):"'),
    ("sc-157", "Each agent is sent its own task, and the data of all others",
     'And the shared section of the reporting agent contains "database_agent_output"'),
    ("ra-175-messages", "The answer comes after the restart",
     "And at the end, the state has 4 messages"),
    ("ra-181", "Old questions are forgotten, one message at a time",
     "Then these messages were dropped from the context of the orchestrator:"),
    ("ra-188", CLEAR, 'And the shared section of synthesis contains "Table 2 says 87.2 %."'),
    ("ra-192-answer", CLEAR, 'And the state\'s final answer is "87.2 %"'),
    ("hp-01", DOCUMENT,
     "And the context of the research agent includes a user message that contains "
     '"Delegated by: reference_agent" and "journal.md"'),
    ("hp-02", "Only the user's preferences come along",
     'Then the research agent received the user chat model "gpt-x"'),
    ("hp-04", "Research answers in the place of chat",
     "And the context of the research agent includes a user message that contains "
     '"winner of the 2025 race"'),
    ("hp-57", "Only the user's preferences come along",
     "And the research agent received no reference content"),
]  # fmt: skip
"""A mutation, and the scenario and the line of a feature that it turns red."""


@pytest.mark.parametrize(("identity", "scenario", "line"), RED, ids=[row[0] for row in RED])
def test_a_mutation_turns_a_line_of_a_feature_red(identity: str, scenario: str, line: str) -> None:
    fault = BY_NAME[identity]
    document = pipeline_document(fault.folder, fault.scenario)

    sound = [one.red for one in told(changed(document, ()), scenario)]
    broken = [one.red for one in told(changed(document, fault.edit), scenario)]

    assert {red for red in sound if red} == set()
    assert line in {found for red in broken for found in red}


def test_every_reference_system_and_every_feature_has_a_mutation_that_turns_it_red() -> None:
    folders = {BY_NAME[identity].folder for identity, _, _ in RED}
    features = {
        one.scenario: one.feature for _, scenario, _ in RED for one in told(Library(), scenario)
    }
    every = {one.feature for one in told(Library())}

    assert folders == {one.folder for one in mutations()}
    assert set(features.values()) == every
