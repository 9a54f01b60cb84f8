"""Results as one JSON object, for programs.

::

    {"simkit": "0.1.0",              the version that ran
     "libraries": {NAME: VERSION},   the frameworks and providers' clients that are installed
     "scenarios": [                  in the order of files and documents
       {"id", "file", "line", "name",
        "outcome",                   held, failed, broken, skipped or xfailed
        "seed", "digest",            null and "" where it did not run
        "pipeline", "turns", "model_calls", "tokens", "virtual_ms",
        "findings", "warnings", "noted",
        "passed_over",               claims that were not looked at, as findings
        "lints_off": [{"id", "at", "reason"}],  `at`: the place where alone; "" if everywhere
        "error", "reason",           why it is broken; why it is skipped or expected to fail
        "trace",                     the file that holds the trace; "" if none was kept
        "reproduce"}],               the command that runs it again
     "lints_off": [{"id", "at", "reason", "scenarios"}],
     "summary": {"scenarios", "held", "failed", "broken", "skipped", "xfailed", "warnings",
                 "exit_code", "passed_over"}}

A finding is ``{"id", "severity", "what", "where", "path", "turn", "agent", "call", "differences",
"context", "excerpt", "fix", "breaks", "following"}``: ``following`` contains the findings that this
one causes, such as claims that were not reached; ``turn`` counts from 1 (0: the whole run),
``call`` from 0 (null: no single call), a difference is ``{"at", "wanted", "found", "note"}``. All
keys are always there. Keys may be added; none changes its meaning within one version of the trace
format. It does not depend on the clock: equal runs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit.checks.findings import Finding
from simkit.report.results import Group, Result, grouped, lints_off, summary_of


def json_text(results: Sequence[Result], version: str, libraries: Mapping[str, str]) -> str:
    """Return the JSON object, indented."""
    whole = {
        "simkit": version,
        "libraries": dict(libraries),
        "scenarios": [scenario_object(result) for result in results],
        "lints_off": [
            {**_off(lint, reason), "scenarios": count} for lint, reason, count in lints_off(results)
        ],
        "summary": msgspec.to_builtins(summary_of(results)),
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def scenario_object(result: Result) -> dict[str, Any]:
    """Return the object of one scenario."""
    fields: dict[str, Any] = msgspec.to_builtins(result)
    for name in ("findings", "warnings", "noted", "passed_over"):
        fields[name] = [_group_object(group) for group in grouped(getattr(result, name))]
    fields["lints_off"] = [_off(lint, reason) for lint, reason in result.lints_off]
    fields["reproduce"] = result.reproduce
    del fields["on"], fields["strict"]  # The command shows both.
    return fields


def _off(lint: str, reason: str) -> dict[str, Any]:
    code, _, at = lint.partition(" at ")
    return {"id": code, "at": at, "reason": reason}


def _group_object(group: Group) -> dict[str, Any]:
    return {
        **_finding_object(group.cause),
        "following": [{**_finding_object(finding), "following": []} for finding in group.following],
    }


def _finding_object(finding: Finding) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(finding)
    del fields["follows"], fields["event"]  # Its place shows the one; pages show the other.
    return fields
