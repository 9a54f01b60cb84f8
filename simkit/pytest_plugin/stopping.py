"""A session with scenarios that ends on SIGTERM; one without ends as always."""

from __future__ import annotations

import contextlib
from typing import Final

import pytest

from simkit.core.errors import Terminated
from simkit.core.stopping import TERMINATED, terminable

NAME: Final = "simkit-stopping"


def listen(config: pytest.Config) -> None:
    """End the session on SIGTERM from now on; processes of pytest-xdist leave that to the parent.

    This is called for each file of scenarios.
    """
    if not hasattr(config, "workerinput") and not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(_Stopping(config), NAME)


class _Stopping:
    """Ends a session on SIGTERM as on Ctrl-C: with its processes, its summary and files.

    Without it SIGTERM would leave the processes of pytest-xdist running.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._was_told = False
        stack = contextlib.ExitStack()
        stack.enter_context(terminable())
        config.add_cleanup(stack.close)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record the reason of the end."""
        self._was_told = isinstance(excinfo.value, Terminated)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Set the session's exit code to the shells' code for SIGTERM."""
        if self._was_told:
            session.exitstatus = TERMINATED
