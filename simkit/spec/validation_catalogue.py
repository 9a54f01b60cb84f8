"""Catalogue of ``simkit validate``: findings by code, with rule, severity and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simkit.spec.lint_catalogue import LintEntry

PREFIX: Final = "VAL-"

REFUSALS: Final[Mapping[str, LintEntry]] = {
    "VAL-01": LintEntry(
        "E", "unreadable", "a file is YAML, and each of its documents a pipeline or a scenario",
        "Correct the syntax at that place.",
        cause="Wrong indentation, a tab, a missing quote or bracket; or a document with neither "
              "`pipeline:` nor `scenario:`.",
    ),
    "VAL-02": LintEntry(
        "E", "unknown-shape", "every key and every value is valid at its place",
        "Write one of the known keys, or a value of the type that the message names.",
        cause="A misspelt key, a key one level too high or too low, or a text where a list is "
              "expected.",
    ),
    "VAL-03": LintEntry(
        "E", "unknown-name", "every name in a file exists",
        "Write a known name, or declare this one.",
        cause="A name is misspelt, or it was renamed in one place only.",
    ),
    "VAL-04": LintEntry(
        "E", "broken-graph",
        "a graph has one start, reaches every node, and has a way out of every node",
        "Add the edge, the label or `exit: true` that is missing.",
        cause="An edge is missing after a node was added or renamed.",
    ),
    "VAL-05": LintEntry(
        "E", "contradiction", "the parts of a file do not contradict each other, and this "
                              "version supports them",
        "Remove one of the two, as the message says.",
        cause="Two keys exclude each other, or a key needs another one that is not there.",
    ),
}  # fmt: skip
"""Errors that keep a file from running. They cannot be turned off."""

FINDINGS: Final[Mapping[str, LintEntry]] = {
    "VAL-10": LintEntry(
        "W", "unreachable-agent", "something can start each agent",
        "Name it in the flow, in `handoffs:` or in a contract of an agent that runs, or remove it.",
        cause="The agent was added, and no flow, handoff or edge leads to it.",
    ),
    "VAL-11": LintEntry(
        "W", "endless-loop", "every node of a graph has a path to an end",
        "Give a decision in the loop an edge to a node that ends the turn.",
        cause="A review loop has no way out: each of its edges leads back.",
    ),
    "VAL-12": LintEntry(
        "W", "ambiguous-label", "no two labels of a decision match the same words",
        "Choose labels that are not equal and do not contain each other, or route by `equals`.",
        cause='One label is contained in another: "create" and "recreate".',
    ),
    "VAL-13": LintEntry(
        "E", "private-read", "a channel that is `private` to an agent is read by no other agent",
        "Remove the section or reference, or remove the channel from `private`.",
        cause="The agent's recipe or instructions name another agent's private channel.",
    ),
    "VAL-14": LintEntry(
        "W", "unused", "every channel, tool, schema and contract can be used by something",
        "Remove it, or use it.",
        cause="A leftover of an earlier design, or the place that should use it has a typo.",
    ),
    "VAL-20": LintEntry(
        "E", "unusable-line", "the agent of a reply line can be started, and is a model",
        "Remove the lines, or let something start the agent.",
        cause="The lines stand under the name of a router or a function, or of an agent that "
              "nothing starts.",
    ),
    "VAL-21": LintEntry(
        "E", "refused-line",
        "a reply line satisfies the agent's `output` and the tools' `args`, and names a "
        "handoff's type if there are several",
        "Correct the line, or the schema; to send invalid JSON on purpose, write `error: "
        "malformed_json`.",
        cause="The schema changed and the scripted line did not.",
    ),
    "VAL-22": LintEntry(
        "W", "unregistered-handoff",
        "the pair of agents has a contract for the type that a handoff line names",
        "Add the contract, write a registered type, or claim the result (`outcome: rejected`, "
        "`findings: [HND-11]`).",
        cause="The contract was renamed, or the line should name another type.",
    ),
    "VAL-23": LintEntry(
        "W", "unusable-result", "a reply line of the turn calls each tool that has a result",
        "Remove the result, or move it to the turn whose lines call the tool.",
        cause="The call was moved to another turn, and its result stayed.",
    ),
    "VAL-24": LintEntry(
        "W", "cannot-fail", "every claim could fail",
        "Claim a value, or remove the claim.",
        cause="An empty matcher, `{}` or `includes: []`, or a claim that holds of every value.",
    ),
    "VAL-25": LintEntry(
        "W", "unused-fixture", "something reads every value that a scenario or a file under "
                               "`use` gives",
        "Remove it, or correct its name.",
        cause="The channel or fixture was renamed, or the scenario no longer needs it.",
    ),
    "VAL-26": LintEntry(
        "W", "missing-function",
        "every function that agents, tools, reducers, reply lines and `satisfies` name exists",
        "Write it, or correct the name: simkit searches the working directory and sys.path.",
        cause="The module is not on the path: add its folder under `app: {path: […]}`, or start "
              "simkit from the project's root.",
    ),
    "VAL-30": LintEntry(
        "W", "unused-file", "a scenario uses each file of fixtures in the folder",
        "Name it under `use:`, or remove it.",
        cause="The scenario that used the file was deleted or renamed.",
    ),
    "VAL-31": LintEntry(
        "W", "orphan-pipeline", "a scenario names each pipeline file in the folder",
        "Write a scenario for it, or remove it.",
        cause="The pipeline is new, or its scenarios name another file.",
    ),
    "VAL-32": LintEntry(
        "W", "misnamed-file", "a file with a scenario or a pipeline has a file name of that kind",
        "Name it `….scenario.yaml` or `….pipeline.yaml`: simkit never reads files with other "
        "names.",
        cause="The file is called `refund.yaml`, or ends with `.yml`.",
    ),
    "VAL-33": LintEntry(
        "W", "unused-waiver", "the finding occurs at each place under `lints`",
        "Remove the entry, or name the place as the finding does.",
        cause="The code that was excused has been mended or moved to another line.",
    ),
}  # fmt: skip
"""Flaws of files that could run. A file turns one off with a reason, under ``lints``."""

CODES: Final[Mapping[str, LintEntry]] = {**REFUSALS, **FINDINGS}
