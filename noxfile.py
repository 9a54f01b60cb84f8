"""The same checks as in CI, on more Pythons, and at night at a larger size."""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "tests"]
# A Python that is not on this machine is a loud skip, not an error.
nox.options.error_on_missing_interpreters = False

# The corners of what pyproject.toml allows: every pair of them must hold. pytest-bdd 9.0.0 and
# older fail with pytest 9.2, although their own metadata allows it.
PAIRS = {
    "oldest": ("pytest==8.2.0", "pytest-bdd==9.0.1"),
    "oldest-pytest": ("pytest==8.2.0", "pytest-bdd"),
    "oldest-bdd": ("pytest", "pytest-bdd==9.0.1"),
    "newest": ("pytest", "pytest-bdd"),
}

ADK = (
    "tests/adapters/test_google_adk.py",
    "tests/testing/test_google_adk.py",
    "tests/apps/google_adk_desk.scenario.yaml",
    "tests/apps/google_adk_team.scenario.yaml",
)

# Each in an environment of its own: what they hold below today's versions differs.
FRAMEWORKS = {
    "agent-framework": (
        "agent-framework-core",
        "agent-framework-openai",
        "agent-framework-orchestrations",
    ),
    "autogen": ("autogen-agentchat", "autogen-ext[openai]"),
    "semantic-kernel": ("semantic-kernel",),
    "strands": ("strands-agents[openai]",),
}


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


@nox.session
@nox.parametrize("pair", list(PAIRS.values()), ids=list(PAIRS))
def pairs(session: nox.Session, pair: tuple[str, str]) -> None:
    """A user's small project with the oldest and the newest pytest and pytest-bdd."""
    session.install("--upgrade", ".", "pytest-xdist", *pair)
    session.run("python", "tests/compat/outside.py")


@nox.session(python="3.11")
def old_sdks(session: nox.Session) -> None:
    """The matrix of clients with the libraries before those of today, on httpx, and LiteLLM."""
    # LiteLLM asks for openai < 3 itself, and imports mcp without asking for it.
    session.install("-e", ".", "openai<3", "anthropic<1", "google-genai", "litellm", "mcp")
    session.install("aiohttp", "hypothesis", "pytest-xdist", "requests")
    session.run("python", "-m", "pytest", "-q", "tests/adapters/test_matrix.py", *session.posargs)


@nox.session(python="3.11")
def google_adk(session: nox.Session) -> None:
    """The Agent Development Kit, which holds google-genai and OpenTelemetry below today's."""
    session.install("-e", ".[google-adk]", "hypothesis", "pytest-xdist")
    session.run("python", "-m", "pytest", "-q", *ADK, *session.posargs)


@nox.session(python="3.11")
@nox.parametrize("framework", list(FRAMEWORKS), ids=list(FRAMEWORKS))
def frameworks(session: nox.Session, framework: str) -> None:
    """Frameworks without an adapter, whose agents are known by their spans."""
    session.install("-e", ".", "hypothesis", "pytest-xdist", *FRAMEWORKS[framework])
    # Semantic Kernel warns of itself where it is imported.
    run = ("python", "-m", "pytest", "-q", "-W", "default", "tests/frameworks")
    session.run(*run, *session.posargs)


@nox.session(python="3.11")
@nox.parametrize("pair", [PAIRS["oldest"], PAIRS["newest"]], ids=["oldest", "newest"])
def nightly(session: nox.Session, pair: tuple[str, str]) -> None:
    """The same tests at a larger size, with the oldest and the newest pytest that are supported."""
    session.install("--upgrade", "-e", ".[dev]", *pair)
    session.run("python", "-m", "pytest", "-q", *session.posargs, env={"SIMKIT_NIGHTLY": "1"})
    session.notify("old_sdks")
    session.notify("google_adk")
    for framework in FRAMEWORKS:
        session.notify(f"frameworks({framework})")
