"""The same checks as in CI, on more Pythons, and at night at a larger size."""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "tests"]
# A Python that is not on this machine is a loud skip, not an error.
nox.options.error_on_missing_interpreters = False

OLDEST_PAIR = ("pytest~=8.2.0", "pytest-bdd~=8.1.0")
NEWEST_PAIR = ("pytest", "pytest-bdd")


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """All tests, scenarios and features."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "pytest", "-q", *session.posargs)


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Style, types and the direction of imports."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(python="3.11")
@nox.parametrize("pair", [OLDEST_PAIR, NEWEST_PAIR], ids=["oldest", "newest"])
def nightly(session: nox.Session, pair: tuple[str, str]) -> None:
    """The same tests at a larger size, with the oldest and the newest pytest that are supported."""
    session.install("--upgrade", "-e", ".[dev]", *pair)
    session.run("python", "-m", "pytest", "-q", *session.posargs, env={"SIMKIT_NIGHTLY": "1"})
