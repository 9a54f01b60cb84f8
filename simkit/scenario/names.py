"""Names in a scenario file: each must be one of its pipeline's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from simkit.errors import SourceError
from simkit.lint_catalogue import LINTS
from simkit.paths import follow
from simkit.pipeline.cast import channels_of, members_of, sections_of, startable, tools_of
from simkit.pipeline.model import Pipeline
from simkit.pipeline.root_names import keys_in, leads_to
from simkit.scenario.claim_names import ClaimNames
from simkit.scenario.model import LATER, Scenario, Shared, Turn
from simkit.scenario.replies import ReplyLine, lines_of
from simkit.shape import require
from simkit.source import Document, SourcePath
from simkit.validation_catalogue import FINDINGS, PREFIX

CONTEXT_KEYS: Final = ("sections", "messages", "tools", "agent", "turn")
"""What a reply line's ``when`` sees of a context, beside its sections."""


def check_scenario(scenario: Scenario, document: Document, pipeline: Pipeline) -> None:
    """Raises SourceError for the first name that leads nowhere, or that cannot be done yet."""
    for key in LATER:
        if key in scenario.model_fields_set:
            raise _unsupported(document, (key,), f"`{key}`")
    for lint in scenario.lints:
        known = FINDINGS if lint.startswith(PREFIX) else LINTS
        require(document, ("lints", lint), "lint", lint, known, key=True)
    _check_given(scenario.given.state, document, pipeline)
    claims = ClaimNames(document, pipeline)
    projects: dict[str, str] = {}
    for place, turn in enumerate(scenario.turns):
        at = ("turns", place)
        _check_turn(turn, document, at)
        if place == 0 and turn.restart:
            raise document.error(
                (*at, "restart"), "nothing has run before the first turn that could be restarted",
                key=True,
            )  # fmt: skip
        _check_project(turn, document, at, projects)
        _check_replies(turn, document, at, pipeline)
        _check_results(turn.tool_results, document, (*at, "tool_results"), pipeline)
        if turn.restart and pipeline.store == "memory":
            raise document.error(
                (*at, "restart"),
                f"pipeline `{pipeline.pipeline}` has `store: memory`, which ends with its process",
                advice="With `store: sqlite`, or without `store:`, there is something to restore.",
                key=True,
            )
        claims.check(turn.expect, (*at, "expect"))
    claims.check(scenario.expect, ("expect",))
    _check_startable(scenario, document, pipeline)


def check_shared(shared: Shared, document: Document, pipeline: Pipeline) -> None:
    """Raises SourceError for the first name in a file under ``use`` that leads nowhere."""
    if "agents" in shared.model_fields_set:
        raise _unsupported(document, ("agents",), "`agents`")
    for code in shared.lints:
        require(document, ("lints", code), "finding", code, FINDINGS, key=True)
    _check_given(shared.given.state, document, pipeline)
    _check_results(shared.tool_results, document, ("tool_results",), pipeline)


def _unsupported(document: Document, path: SourcePath, what: str) -> SourceError:
    return document.error(path, f"{what} is not supported by this version of simkit", key=True)


def _check_given(state: Iterable[str], document: Document, pipeline: Pipeline) -> None:
    for channel in state:
        path = ("given", "state", channel)
        require(document, path, "channel", channel, channels_of(pipeline), key=True)


def _check_turn(turn: Turn, document: Document, at: SourcePath) -> None:
    if "resume" in turn.model_fields_set:
        if turn.user is not None:
            raise document.error(
                (*at, "resume"),
                "a turn has `user:` or `resume:`, not both",
                advice="`resume:` answers what an agent asked; `user:` says something new.",
                key=True,
            )
        return
    if turn.user is None:
        raise document.error(
            at, "a turn needs `user:`", advice="Write what the user says: `- user: Hello`."
        )
    for form in ("parts", "simulate"):
        if form in turn.user.model_fields_set:
            raise _unsupported(document, (*at, "user", form), f"`{form}`")


def _check_project(
    turn: Turn, document: Document, at: SourcePath, projects: dict[str, str]
) -> None:
    """A session belongs to the project of its first turn."""
    project = projects.setdefault(turn.session, turn.project)
    if project != turn.project:
        raise document.error(
            (*at, "project") if "project" in turn.model_fields_set else at,
            f"session `{turn.session}` belongs to project `{project}`, not `{turn.project}`",
            advice="Give the turn another `session:`, or the same `project:`.",
        )


# Replies


def _check_replies(turn: Turn, document: Document, at: SourcePath, pipeline: Pipeline) -> None:
    members = members_of(pipeline)
    for agent, lines in turn.replies.items():
        path: SourcePath = (*at, "replies", agent)
        require(document, path, "agent", agent, members, key=True)
        tools = tools_of(pipeline, members[agent])
        keys = (*sections_of(pipeline, members[agent]), *CONTEXT_KEYS)
        for place, line in enumerate(lines_of(lines)):
            inside = (*path, place) if isinstance(lines, tuple) else path
            _check_calls(agent, line, document, inside, tools)
            if line.handoff is not None:
                require(document, (*inside, "handoff", "to"), "agent", line.handoff.to, members)
            for where, key in keys_in(line.when, (*inside, "when")):
                if not leads_to(key, keys):
                    require(document, where, "part of a context", key, keys, key=True)


def _check_calls(
    agent: str, line: ReplyLine, document: Document, at: SourcePath, tools: tuple[str, ...]
) -> None:
    for path, tool in _calls_of(follow(document.data, (*at, "calls")), (*at, "calls")):
        if tool not in tools:
            raise document.error(
                path, f"agent `{agent}` has no tool `{tool}`", word=tool, known=tools,
                advice="" if tools else "Its `tools:` in the pipeline name none.", key=True,
            )  # fmt: skip


def _calls_of(written: Any, at: SourcePath) -> Iterator[tuple[SourcePath, str]]:
    """Yields the tools that a line calls, as the file writes them: a list, or a mapping."""
    if isinstance(written, Mapping):
        for tool in written:
            yield (*at, tool), tool
    elif isinstance(written, list):
        for place, call in enumerate(written):
            yield from _calls_of(call, (*at, place))


def _check_results(
    results: Iterable[str], document: Document, at: SourcePath, pipeline: Pipeline
) -> None:
    offered = {tool for name in pipeline.agents for tool in tools_of(pipeline, name)}
    for tool in results:
        if tool not in offered:
            raise document.error(
                (*at, tool), f"no agent has tool `{tool}`", word=tool, known=sorted(offered),
                key=True,
            )  # fmt: skip


def _check_startable(scenario: Scenario, document: Document, pipeline: Pipeline) -> None:
    """Refuses lines that can never be served."""
    can = startable(pipeline)
    for place, turn in enumerate(scenario.turns):
        for agent in turn.replies:
            if agent not in can:
                names = ", ".join(name for name in members_of(pipeline) if name in can)
                raise document.error(
                    ("turns", place, "replies", agent),
                    f"agent `{agent}` has reply lines, but nothing can ever start it",
                    advice=f"What the flow, a handoff or a summary can start: {names}.",
                    key=True,
                )
