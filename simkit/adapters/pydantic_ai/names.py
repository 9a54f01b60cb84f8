"""Names of agents in a trace."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import FrameType, ModuleType
from typing import Any, Final, TypeAlias

from simkit.adapters.pydantic_ai import compat

NAMELESS: Final = "agent"
"""PydanticAI's own name for an agent without one."""
_LIBRARIES: Final = frozenset(("simkit", "pydantic_ai", "pydantic_graph", "contextlib", "anyio"))
_SENTENCE: Final = re.compile(r"[.!?:](?=\s|$)|\n")

Kind: TypeAlias = tuple[Any, ...]
"""The key that two agents of one name share if they are the same."""


class Names:
    """The names of one scenario's agents.

    Agents with one name get numbers if they differ in their tools, their output or the first
    sentence of their instructions. Otherwise they are one agent: code may make its agents again for
    every message.
    """

    def __init__(self) -> None:
        self._known: dict[str, list[Kind]] = {}
        self._agents: dict[int, tuple[Any, str]] = {}
        """Agents without names, by identity; the agent is kept, so that no other gets its id."""

    def hold(self, agent: Any) -> None:
        """Record the variable in which the calling code holds an agent.

        The run itself may begin in a task, where that is not known.
        """
        if agent.name is None and id(agent) not in self._agents:
            self._agents[id(agent)] = agent, held_as(agent)

    def of(self, agent: Any) -> str:
        """Return an agent's name, for code that runs it now."""
        self.hold(agent)
        name = agent.name or self._agents[id(agent)][1] or NAMELESS
        kinds, kind = self._known.setdefault(name, []), _kind_of(agent)
        if kind not in kinds:
            kinds.append(kind)
        number = kinds.index(kind) + 1
        return name if number == 1 else f"{name} ({number})"


def held_as(agent: Any) -> str:
    """Return the variable name under which the calling code holds an agent; empty for none.

    PydanticAI itself infers a name from variables, but in no task, and not if an agent is iterated.
    Here an attribute (``self.triage``) and a key (``agents["triage"]``) are names too, and a
    module's name counts before the variable of a loop.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _LIBRARIES:
            near, far = frame.f_locals, frame.f_globals
            for look, scope in ((_name_in, far), (_name_inside, near), (_name_inside, far)):
                name = look(scope, agent)
                if name:
                    return name
            name = _name_in(near, agent)
            if name:
                return name
        frame = frame.f_back
    return ""


def _name_in(scope: Mapping[Any, Any], agent: Any) -> str:
    """Return the key under which a mapping holds an agent."""
    return next((str(name) for name, value in [*scope.items()] if value is agent), "")


def _name_inside(scope: Mapping[str, Any], agent: Any) -> str:
    """Return the name under which one of the objects in a scope holds an agent."""
    for value in [*scope.values()]:
        inner = value if type(value) is dict else getattr(value, "__dict__", None)
        if type(inner) is dict and not isinstance(value, ModuleType):
            name = _name_in(inner, agent)
            if name:
                return name
    return ""


def _kind_of(agent: Any) -> Kind:
    texts, functions = instructions_of(agent)
    heads = tuple(_SENTENCE.split(text.strip(), maxsplit=1)[0] for text in texts)
    return heads, functions, tuple(tools_of(agent)), repr(agent.output_type)


def instructions_of(agent: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return an agent's own instructions: texts, and the names of functions that make some."""
    names = (compat.SYSTEM_PROMPTS, compat.INSTRUCTIONS, compat.PROMPT_FUNCTIONS)
    instructions = [item for name in names for item in getattr(agent, name, ())]
    texts, functions = [], []
    for instruction in instructions:
        function = getattr(
            instruction, "instruction", getattr(instruction, "function", instruction)
        )
        if isinstance(function, str):
            texts.append(function)
        else:
            functions.append(getattr(function, "__qualname__", type(function).__name__))
    return tuple(texts), tuple(functions)


def tools_of(agent: Any) -> list[str]:
    """Return the names of an agent's function tools, as far as they are known without a run."""
    tools: list[str] = []

    def look(toolset: Any) -> None:
        tools.extend(getattr(toolset, "tools", None) or ())

    for toolset in agent.toolsets:
        toolset.apply(look)
    return tools
