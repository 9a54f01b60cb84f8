"""A broken pipeline turns a feature red, at the line that a product owner would point at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from simkit.core.errors import SourceError
from tests.bdd.telling import (
    StoryFile,
    changed,
    feature_of,
    recorded_features,
    run_stories,
    write_stories,
)
from tests.conftest import sample_by_day
from tests.mutations import Mutation, mutations, pipeline_document

BY_NAME = {mutation.id: mutation for mutation in mutations()}
FOLDERS = sorted({mutation.folder for mutation in mutations()})
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
    ("cu-refunds-reads-along",
     "Refunds is handed the order and the address, and nothing that was looked up",
     "And the context of refunds excludes tool messages"),
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
    ("ae-72-state", "The next task begins anew", "Then start received:"),
    ("ae-100", "Two searches are on record, and the next node reads both", "And read received:"),
    ("ae-107", "The search is told of past tasks, and of what the project knows",
     "And the instructions of search_files are:"),
    ("ae-129", "Data goes to the next node, and no further",
     'And the context of read excludes "find the login"'),
    ("ae-134", "What is written at the same time is kept apart",
     'Then the state\'s task summary is "By RS256."'),
    ("fc-07", "A decision says who, how difficult, when, and what else",
     "Then the workout coach received:"),
    ("fc-12-name", "Whose it is, what was looked up, and how long it took", "And the state has:"),
    ("fc-25", "Prompt, notes, memories, other answers, history, message",
     "And the context of the workout coach is exactly:"),
    ("fc-47-one", "One coach reads the last round, whoever spoke in it",
     "Then the history of the one round coach is:"),
    ("fc-69", "One coach reads what is near to the question",
     'And the context of the relevance coach excludes "salmon"'),
    ("hp-21", "Without a handoff nothing is made up", "And the state's shared memory is empty"),
    ("hp-32", "Research is sent the document, the analysis so far, and its limits",
     'Then the handoff section of the research agent contains "Greenhouse of 12 square metres.", '
     '"power budget" and "datasheets"'),
    ("hp-50", "Research knows what was talked about, answers, and stays",
     'And the state has primary_agent_selected "research_agent" and last_agent "research_agent"'),
    ("hp-55", "What must travel is known before anybody speaks",
     "Then a handoff from the chat agent to the research agent as quick lookup must carry "
     "conversation_context"),
    ("hp-64", "Whoever answers in another's place must hurry, or the turn is over",
     "Then the turn ends with the error HandoffTimeout"),
    ("hp-67", "The third level is too deep",
     "Then the handoff from the research agent to the content analysis agent was rejected because "
     'its reason contains "depth 3 exceeds depth_max 2"'),
    ("hp-70", "Nobody agreed on this handoff", "Then the lint HND-11 is found"),
    ("ra-180-next", "An agent gives back what is new, and leaves what it was given",
     "Then execute wrote:"),
    ("ra-182-last", "Clarification speaks, and waits", "And the orchestrator received:"),
    ("ra-187-tools", "Research leaves its findings, and how it came by them",
     "And research wrote:"),
    ("ra-212", "A new conversation starts clean beside an old one",
     "Then the orchestrator received:"),
    ("sc-150", "All goals are worked off, one after the other",
     "And the context of the announcing agent is exactly:"),
    ("sc-161", "Good data is handed over", "And these handoffs were requested:"),
    ("sc-168", "A thought is kept as a thought",
     'And the state\'s agent results have acting_agent_output "Let me think about this."'),
    ("sc-174-persist", "Another day finds what was kept, another project does not",
     'And the context of the restored reporting agent includes "Shop closed for a week"'),
]  # fmt: skip
"""A mutation, and the scenario and the line of a feature that it turns red."""


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_mutation_turns_a_feature_of_its_system_red(folder: str) -> None:
    stories = sorted(write_stories(folder), key=lambda story: story.effort)
    # A feature tells a rule once. Scenarios hold its other branches, turns and agents.
    own = (fault for fault in mutations() if fault.folder == folder and not is_branch(fault))
    faults = sample_by_day(own, 12)

    assert {fault.id: _redness(fault, stories) for fault in faults} == {
        fault.id: "a Then does not hold" for fault in faults
    }


def is_branch(fault: Mutation) -> bool:
    """Return whether a mutation breaks a rule in another place than its first one does."""
    return "-branch" in fault.id


def _redness(fault: Mutation, stories: Sequence[StoryFile]) -> str:
    """What a broken pipeline does to the features that are about it; the first Then is enough."""
    document = pipeline_document(fault.folder, fault.scenario)
    library = changed(document, fault.edit)
    text = "nothing"
    for story in stories:
        if not story.is_about(document):
            continue
        try:
            findings = story.findings(library)
        except SourceError as problem:
            at_home = story.document.file in problem.where
            text = "a Given or When is refused" if at_home else str(problem)
            continue
        if any(finding.id == "claim" for finding in findings):
            return "a Then does not hold"
    return text


@pytest.mark.slow
def test_a_mutation_without_its_edit_turns_no_feature_red() -> None:
    stories = list(write_stories("supervisor_context"))

    assert _redness(replace(BY_NAME["sc-138"], edit=()), stories) == "nothing"


@pytest.mark.slow
@pytest.mark.parametrize("row", sample_by_day(RED, 3), ids=lambda row: row[0])
def test_a_mutation_turns_a_line_of_a_feature_red(row: tuple[str, str, str]) -> None:
    identity, scenario, line = row
    fault = BY_NAME[identity]
    document = pipeline_document(fault.folder, fault.scenario)

    sound = [item.red for item in run_stories(changed(document, ()), scenario)]
    broken = [item.red for item in run_stories(changed(document, fault.edit), scenario)]

    assert {red for red in sound if red} == set()
    assert line in {result for red in broken for result in red}


def test_every_reference_system_and_every_feature_has_a_mutation_that_turns_it_red() -> None:
    features = feature_of()
    # No recording answers a changed pipeline: tests/capture/cassettes holds the words for that.
    scripted = set(features.values()) - recorded_features()

    assert {BY_NAME[identity].folder for identity, _, _ in RED} == set(FOLDERS)
    assert {features[scenario] for _, scenario, _ in RED} == scripted
