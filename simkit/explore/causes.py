"""Causes of findings: what makes two conversations fail in the same way.

Code that needs the network, which simkit refuses, is a part that was not explored, and no bug.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simkit.checks.findings import CLAIM, Finding
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.items import SIMULATION_SUFFIX
from simkit.spec.scenario.writing import block
from simkit.trace.events import ErrorFacts

if TYPE_CHECKING:
    from simkit.explore.search import Campaign, Discovery
    from simkit.explore.subjects import Subject


NETWORK: Final = "network: "
"""How the detail of a cause begins that needs the network; the place in the user's code follows, or
the host."""
_REFUSED: Final = re.compile(r"ended with error NetworkRefused: ")
_REACHED: Final = re.compile(r"reached network\b")
_PLACE: Final = re.compile(r"\bat (\S+:\d+ in [\w<][\w.<>]*[\w>])")
_HOST: Final = re.compile(r"reached for the network, ([^\s,]+)")
_OF_NO_TOOL: Final = (
    "Put a fake in place of what needs it, in a function that is called first:\n"
    "  app: {setup: MODULE:FUNCTION}"
)
_SETUP: Final = ("pipeline", "app", "agents", "given", "needs")
"""Keys that say how a pipeline is run."""


def network_detail(finding: Finding) -> str:
    """Return the detail of a cause that needs the network; empty for all others."""
    pattern = {CLAIM: _REFUSED, "RUN-02": _REACHED}.get(finding.id)
    if pattern is None or pattern.search(finding.what) is None:
        return ""
    match = _PLACE.search(finding.what) or _HOST.search(finding.what)
    return f"{NETWORK}{match[1] if match else 'no place of the code'}"


def network_text(detail: str, turns: Sequence[Mapping[str, Any]]) -> str:
    """Return which part needs the network, and where, in one line.

    ``detail`` is that of the cause, and ``turns`` are those of its smallest conversation.
    """
    tool = _tool_of(turns)
    part = f"tool {tool!r}" if tool else "the pipeline"
    return f"{part} needs the network, which is refused: {detail.removeprefix(NETWORK)}"


def lines_to_add(subject: Subject, refused: Sequence[Discovery]) -> Iterator[str]:
    """Yield the lines that let a simulation answer in place of what needs the network."""
    prepared = subject.prepared
    conversations = [each.record.turns for each in refused]
    tools = [*dict.fromkeys(filter(None, map(_tool_of, conversations)))]
    for each, turns in zip(refused, conversations, strict=True):
        if not _tool_of(turns):
            # The refusal says what to do in a scenario, whose results of tools are a key of turns.
            advice = each.record.causes[each.cause].what.partition("\n")[2]
            yield from (advice or _OF_NO_TOOL).replace("tool_results", "tools").splitlines()
    if not tools:
        return
    data = prepared.document.data
    own = data.get("tools", {})  # A simulation's; a scenario has no such key.
    tree: dict[str, Any] = {"tools": {**own, **{tool: {"returns": "Found."} for tool in tools}}}
    functions = {tool: name for tool in tools if (name := _function_of(prepared.pipeline, tool))}
    if functions:
        app = data.get("app", {})
        tree = {"app": {**app, "tools": {**app.get("tools", {}), **functions}}, **tree}
    place = "its place" if len(tools) == 1 else "their place"
    if prepared.document.file.endswith(SIMULATION_SUFFIX):
        yield f"Let the simulation answer in {place}, in {prepared.document.file}:"
    else:
        yield f"Explore a simulation that answers in {place}, *{SIMULATION_SUFFIX}:"
        setup = {key: data[key] for key in _SETUP if key in data}
        tree = {"simulation": "tools answer", **setup, **tree}
    yield from (f"  {line}" for line in block(tree, 0))


def network_tools(subject: Subject, campaign: Campaign) -> tuple[str, ...]:
    """Return the tools that need the network, in whose place simkit can answer without a file."""
    if not isinstance(subject.prepared.pipeline, App) or not subject.is_made_up:
        return ()
    tools = dict.fromkeys(_tool_of(each.record.turns) for each in campaign.refused)
    return tuple(tool for tool in tools if tool and tool not in subject.simulation.tools)


def refused_lines(subject: Subject, campaign: Campaign) -> Iterator[str]:
    """Yield the parts of a campaign that need the network, and what answers in their place."""
    for each in campaign.refused:
        yield f"not explored: {network_text(each.cause.detail, each.record.turns)}"
    yield from lines_to_add(subject, campaign.refused)


def part_that_needs_it(detail: str, turns: Sequence[Mapping[str, Any]]) -> str:
    """Return what is equal for causes of one part: its tool, or the place where it is none."""
    return _tool_of(turns) or detail


def _tool_of(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return the tool that models call in a conversation; empty if they call none, or several."""
    names: set[str] = set()
    for turn in turns[-1:]:
        for given in turn.get("replies", {}).values():
            for line in given if isinstance(given, list) else [given]:
                calls = line.get("calls", ()) if isinstance(line, Mapping) else ()
                for c in calls:
                    names.add(str(c if isinstance(c, str) else c.get("tool", next(iter(c)))))
    return names.pop() if len(names) == 1 else ""


def _function_of(pipeline: object, tool: str) -> str:
    """Return the function of a tool of code, ``module:function``, if its module holds it by name.

    Frameworks hold objects there, for which simkit needs no function.
    """
    if not isinstance(pipeline, App):
        return ""
    module = pipeline.entry.partition(":")[0]
    value = getattr(sys.modules.get(module), tool, None)
    return f"{module}:{tool}" if inspect.isfunction(value) else ""


CLAIM_KEYS: Final = ("always", "never", "finally")
"""The keys of a simulation that hold its claims."""
_ERROR: Final = re.compile(r"ended with error (\w+)")
_RAISED: Final = re.compile(r"raised (\w+)")
_PREDICATE: Final = re.compile(r"`[\w.]+:(\w+)` ")
_MISTAKES: Final = frozenset(
    (
        "AttributeError", "IndexError", "KeyError", "NameError", "NotImplementedError",
        "RecursionError", "TypeError", "UnboundLocalError", "UnicodeDecodeError", "ValueError",
        "ZeroDivisionError",
    )
)  # fmt: skip
"""Errors of Python itself that no client raises for a provider's failure."""
_GUARDRAIL: Final = re.compile(r"(Input|Output)GuardrailTripwireTriggered$")
"""Errors with which a guardrail ends a turn on purpose: the application catches them."""


_MODEL_BLAMED: Final = frozenset(("UnexpectedModelBehavior", "ModelBehaviorError"))
"""Errors by which PydanticAI and the OpenAI Agents SDK say that a model's answers are refused."""


class Cause(NamedTuple):
    """The kind of a finding, without what differs from run to run: one cause is one discovery."""

    id: str
    """The lint, or ``claim`` for a claim or an error that ended a turn."""
    agent: str
    detail: str
    """The claim's place, such as `always.state.balance` or `never.0`, or the type of the error;
    empty for lints, whose id says what is wrong. Of what needs the network, its place."""

    @property
    def needs_network(self) -> bool:
        """Return whether a part could not be explored, since it needs the network."""
        return self.detail.startswith(NETWORK)


def cause_of(finding: Finding) -> Cause:
    """Return the cause of a finding."""
    if detail := network_detail(finding):
        return Cause(finding.id, finding.agent, detail)
    if finding.id != CLAIM:
        return Cause(finding.id, finding.agent, "")
    error = _ERROR.search(finding.what)
    if error:
        return Cause(CLAIM, finding.agent, _kind_of(error[1], finding.what))
    inner = finding.path[2:] if finding.path[:1] == ("turns",) else finding.path
    head = "always" if finding.path[:1] == ("turns",) else "finally"
    names = [str(part) for part in inner[1:3] if isinstance(part, str)]
    predicate = _PREDICATE.match(finding.what)
    if names == ["satisfies"] and predicate is not None:
        names.append(predicate[1])
    return Cause(CLAIM, finding.agent, ".".join([head, *names]))


def is_of_provider(error: ErrorFacts) -> bool:
    """Return whether an error after a fault may be the client's word for it.

    A client raises errors of its own for a provider's failure. One of Python's own shows that the
    code did not expect the failure.
    """
    return _kind_of(error.type, error.message) not in _MISTAKES


def is_guardrail(error: ErrorFacts) -> bool:
    """Return whether a guardrail has ended a turn on purpose."""
    return _GUARDRAIL.search(_kind_of(error.type, error.message)) is not None


def line_refused(cause: Cause, turns: Sequence[Mapping[str, Any]]) -> tuple[str, Any]:
    """Return the agent and the last line of a model that keeps to its interface, and is blamed.

    No schema says what refuses it. The agent is empty if the application is to blame, or a model
    that has left its interface.
    """
    replies = turns[-1].get("replies", {}) if turns else {}
    if cause.detail not in _MODEL_BLAMED or not replies:
        return "", None
    agent, lines = [*replies.items()][-1]
    line = lines[-1] if isinstance(lines, list) else lines
    is_kept = isinstance(line, dict) and not {"unchecked", "error"} & {*line}
    return (agent, line) if is_kept else ("", None)


REFERENCE_LOST: Final = "CTX-22"
"""The lint that is a note where an application has no past at all."""
NO_PAST: Final = (
    f"{REFERENCE_LOST}: no agent is ever sent anything of an earlier turn, so a user who refers to "
    "one is not understood"
)


def is_of_application(warning: Finding) -> bool:
    """Return whether a warning is worth a conversation of its own.

    It says what the application does with what it knows, whatever models answer.
    """
    return warning.id in LINTS and LINTS[warning.id].of_application


def is_error(finding: Finding) -> bool:
    """Return whether a finding says that an error ended a turn."""
    return _ERROR.search(finding.what) is not None


def _kind_of(error_type: str, message: str) -> str:
    """Return the name of the exception, also of one that a user's function raised."""
    raised = _RAISED.search(message)
    return raised[1] if raised else error_type


def label_of(cause: Cause) -> str:
    """Return the word by which a cause is reported: a lint, `error`, or the claim's key."""
    if cause.id != CLAIM:
        return cause.id
    head = cause.detail.partition(".")[0]
    return head if head in CLAIM_KEYS else "error"
