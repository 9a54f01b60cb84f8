"""Runs an agent's turns: the runner, its services, and each session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from google.adk.apps import App as AdkApp
from google.adk.artifacts import InMemoryArtifactService
from google.adk.memory import InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from simkit.adapters.api import SessionMemory, UserTurn

WAYS: Final = ("run_async", "run")
"""Ways to call a runner: ``app: {call: …}``."""
_SERVICES: Final = ("session_service", "artifact_service", "memory_service", "credential_service")
_RUNNERS: Final = (*_SERVICES, "plugins", "app_name")
_SESSIONS: Final = ("user_id", "state")


class Running:
    """One pipeline, with the services that store its sessions."""

    def __init__(
        self, root: Any, name: str, way: str, options: Callable[[str], dict[str, Any]]
    ) -> None:
        """``options`` returns the run options of a session."""
        self.root, self._name, self._way, self._options = root, name, way, options
        self._services = {
            "session_service": InMemorySessionService(),
            "artifact_service": InMemoryArtifactService(),
            "memory_service": InMemoryMemoryService(),
        }
        self._runners: list[Runner] = []
        self._memory = SessionMemory(self._begin)
        """Each session's runner, with what it is run with."""

    async def turn(self, turn: UserTurn, message: types.Content) -> list[Any]:
        """Run one turn of a session; return its events."""
        runner, options = self._memory.of(turn)
        identity = {"user_id": options.get("user_id", turn.project), "session_id": turn.session}
        service, app = runner.session_service, runner.app_name
        if await service.get_session(app_name=app, **identity) is None:
            await service.create_session(app_name=app, state=options.get("state"), **identity)
        rest = {key: value for key, value in options.items() if key not in (*_RUNNERS, *_SESSIONS)}
        if self._way == "run":
            return list(runner.run(new_message=message, **identity, **rest))
        made_events = []
        async with aclosing(runner.run_async(new_message=message, **identity, **rest)) as events:
            async for event in events:
                made_events.append(event)
        return made_events

    def _begin(self, turn: UserTurn) -> tuple[Runner, dict[str, Any]]:
        options = self._options(turn.session)
        own: dict[str, Any] = {key: options[key] for key in _RUNNERS if key in options}
        runner = Runner(**{**self._services, **self._rooted(own), **own})
        self._runners.append(runner)
        return runner, options

    def _rooted(self, own: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self.root, AdkApp):
            return {"app": self.root}
        key = "agent" if hasattr(self.root, "sub_agents") else "node"
        return {key: self.root, "app_name": own.get("app_name", self._name)}

    def keepers(self) -> list[Any]:
        """Return the services that store the sessions run so far."""
        return [runner.session_service for runner in self._runners]
