"""The same checks as in CI, on more Pythons, and at night at a larger size."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import subprocess
import tarfile
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from typing import Any

import nox

nox.options.sessions = ["lint", "tests"]
# A Python that is not on this machine is a loud skip, not an error.
nox.options.error_on_missing_interpreters = False

PYTHONS = ["3.11", "3.12", "3.13"]

# In as many processes as there are cores, with differences in full; `ALL_TESTS` runs the slow ones
# too, which pytest alone leaves out.
QUICK_TESTS = ("python", "-m", "pytest", "-q", "-n", "auto", "-o", "verbosity_assertions=2")
ALL_TESTS = (*QUICK_TESTS, "-m", "")

# In percent of lines and branches: 87 were measured on the larger part of the quick tests, and all
# of them can only take more. Raise it when a whole run says more.
COVERAGE_FLOOR = "86"

# In bytes, with gzip: the page without data, which every report carries.
VIEWER_MAX = 150_000

# One process: two tests may write parts of one page.
WRITE_GOLDEN = ("python", "-m", "pytest", "-q", "-n", "0", "-m", "golden")

# What a user does first, with the wheel alone.
AFTER_INSTALLING = (
    "simkit --version",
    "simkit init",
    "simkit validate --strict scenarios",
    "simkit replay scenarios",
    "python -m pytest -q scenarios features",
)
# A program of an environment that nox did not make, with no variable that leads back to the tree.
AS_IS: dict[str, Any] = {"external": True, "env": {"PYTHONPATH": None, "PYTEST_ADDOPTS": None}}

if shutil.which("pyenv"):
    # Its commands start only versions that are chosen: nox would miss the others that are here.
    asked = [["pyenv", "version-name"], ["pyenv", "versions", "--bare"]]
    chosen, kept = (
        subprocess.run(one, capture_output=True, text=True, check=False).stdout.split()
        for one in asked
    )
    ours = [one for one in kept if one.startswith(tuple(f"{name}." for name in PYTHONS))]
    os.environ["PYENV_VERSION"] = ":".join([*chosen, *ours])

# The corners of what pyproject.toml allows: every pair of them must hold. pytest-bdd 9.0.0 and
# older fail with pytest 9.2, although their own metadata allows it.
PAIRS = {
    "oldest": ("pytest==8.2.0", "pytest-bdd==9.0.1"),
    "oldest-pytest": ("pytest==8.2.0", "pytest-bdd"),
    "oldest-bdd": ("pytest", "pytest-bdd==9.0.1"),
    "newest": ("pytest", "pytest-bdd"),
}

# Of each the oldest and the newest that is supported. Before 8.2, vcrpy sees nothing of clients on
# httpx2, and vcrpy 7 imports a name that aiohttp 3.14 no longer has.
VCRS = {
    "oldest": (
        "vcrpy==7.0.0", "pytest-recording==0.13.0", "openai<3", "anthropic<1", "aiohttp<3.14",
    ),
    "newest": ("vcrpy", "pytest-recording", "openai", "anthropic", "aiohttp"),
}  # fmt: skip
VCR_TESTS = (
    "tests/vcr",
    "tests/capture/cassettes/test_vcrpy.py",
    "tests/capture/cassettes/test_saving.py",
)

ADK_SCENARIOS = (
    "tests/apps/google_adk_desk.scenario.yaml",
    "tests/apps/google_adk_team.scenario.yaml",
)
ADK = (
    "tests/adapters/google_adk/test_driver.py",
    "tests/adapters/test_memory.py",
    "tests/explore/test_tool_orders.py",
    "tests/testing/test_google_adk.py",
    *ADK_SCENARIOS,
)

# What the first Python found, by the files, and its campaign: the others are compared with it.
digests_of_files: dict[tuple[str, ...], dict[str, str]] = {}
campaigns: dict[str, Any] = {}

# Each in an environment of its own: what they hold below today's versions differs.
FRAMEWORKS = {
    "agent-framework": (
        "agent-framework-core",
        "agent-framework-openai",
        "agent-framework-orchestrations",
    ),
    "autogen": ("autogen-agentchat", "autogen-ext[openai]"),
    "crewai": ("crewai", "crewai-tools[mcp]", "uvicorn"),
    "llama-index": (
        "llama-index-core",
        "llama-index-llms-openai",
        "llama-index-tools-mcp",
        "uvicorn",
    ),
    # It imports protobuf without asking for it.
    "semantic-kernel": ("semantic-kernel", "protobuf"),
    "strands": ("strands-agents[openai]", "mcp", "uvicorn"),
}

WHOLE = {"SIMKIT_NIGHTLY": "1"}
"""What has `sample_by_day` leave nothing out."""

MATRIX = ("tests/adapters/test_mcp_transports.py", "tests/adapters/test_mcp_faults.py")
"""MCP over three transports, and its faults, with clients of the frameworks that are installed."""

# Pages on libraries that simkit's other tests do not need; smolagents is among the extra `dev`.
PAGES = ("claude-agent-sdk", "litellm")

# What has an environment of its own, and is run at night.
BESIDE = (
    *(f"pairs({pair})" for pair in PAIRS),
    *(f"vcr({pair})" for pair in VCRS),
    "old_sdks",
    "mcp_clients(mcp-1)",
    "mcp_clients(mcp-2)",
    "a2a_clients(a2a-0)",
    "a2a_clients(a2a-1)",
    "exports",
    "vendor_clients",
    "google_adk",
    *(f"digests-{python}" for python in PYTHONS),
    *(f"google_adk_digests-{python}" for python in PYTHONS),
    *(f"frameworks({framework})" for framework in FRAMEWORKS),
    *(f"pages({page})" for page in PAGES),
)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """All tests, scenarios and features."""
    session.install("-e", ".[dev]")
    session.run(*ALL_TESTS, *session.posargs)


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Style, types and the direction of imports."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(python=PYTHONS)
def quick(session: nox.Session) -> None:
    """Tests, scenarios and features, without the slow ones."""
    session.install("-e", ".[dev]")
    session.run(*QUICK_TESTS, *session.posargs)


@nox.session(python="3.11")
def coverage(session: nox.Session) -> None:
    """Which lines and branches the quick tests take; less than the floor fails."""
    session.install("-e", ".[dev]")
    session.run(*QUICK_TESTS, "--cov", "--cov-fail-under", COVERAGE_FLOOR, *session.posargs)


@nox.session(venv_backend="none")
def near(session: nox.Session) -> None:
    """Run the tests near modules: `nox -s near -- simkit/runtime/turn.py`."""
    listed = session.run("python", "-m", "tests.near", *session.posargs, silent=True)
    session.run("python", "-m", "pytest", "-q", "-x", *str(listed).split())


@nox.session(venv_backend="none")
def changed(session: nox.Session) -> None:
    """Run the tests that the changes since `main`, or another commit, may break."""
    listed = session.run("python", "-m", "tests.changes", *session.posargs, silent=True)
    # Standard error, which says why a file is among them, is part of what nox returns.
    runs = [line for line in str(listed).splitlines() if " contains: " not in line]
    for run in runs:
        session.run("python", "-m", "pytest", "-q", *shlex.split(run), success_codes=[0, 5])


@nox.session(venv_backend="none")
def mutants(session: nox.Session) -> None:
    """Break random lines of simkit and count those noticed: `-- --seed 7 --count 25`."""
    session.run("python", "-m", "tests.code_mutants", *session.posargs)


@nox.session(venv_backend="none")
def golden(session: nox.Session) -> None:
    """Write anew, in the environment that is active, what tests hold to the last letter."""
    session.run(*WRITE_GOLDEN, *session.posargs, env={"SIMKIT_WRITE_GOLDEN": "1"})
    session.run("git", "diff", "--stat", external=True)


@nox.session(python="3.11")
def docs(session: nox.Session) -> None:
    """Build the site into build/site; a broken link or a request to another host fails."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    # What builds the site needs nothing of simkit: it reads pages.
    session.install(*project["optional-dependencies"]["docs"])
    session.run("python", "-m", "website")


@nox.session(venv_backend="none")
def pictures(session: nox.Session) -> None:
    """Draw docs/pictures and docs/images anew: what the terminal and a browser show."""
    session.run("python", "-m", "website.pictures")
    session.run("python", "-m", "website.images")
    session.run("git", "diff", "--stat", external=True)


@nox.session(venv_backend="none")
def viewer(session: nox.Session) -> None:
    """Build the page from viewer/ again, and compare: what is committed must be what is built.

    `nox -s viewer -- write` writes it. Without node nothing is compared, which is said.
    """
    if shutil.which("npm") is None:
        session.warn("npm is not on this machine: simkit/viewer/report.html is NOT compared")
        return
    page = Path("simkit/viewer/report.html").resolve()
    with session.chdir("viewer"), TemporaryDirectory() as scratch:
        session.run("npm", "ci", "--ignore-scripts", external=True)
        for command in ("check", "test"):
            session.run("npm", "run", "--silent", command, external=True)
        fresh = page if "write" in session.posargs else Path(scratch, "report.html")
        session.run("node", "build.mjs", str(fresh), external=True)
        size = len(gzip.compress(fresh.read_bytes()))
        session.log(f"{size} bytes with gzip; at most {VIEWER_MAX}")
        if size > VIEWER_MAX:
            session.error("the page is too large")
        if fresh.read_bytes() != page.read_bytes():
            session.error("report.html is not what viewer/ builds: `nox -s viewer -- write`")


@nox.session(python="3.11")
def release(session: nox.Session) -> None:
    """Build sdist and wheel into dist/, and use the wheel where nothing else is installed."""
    root = Path.cwd()
    shutil.rmtree(root / "dist", ignore_errors=True)
    session.install("build")
    session.run("python", "-m", "build", "--outdir", "dist")
    (wheel,), (source,) = (root / "dist").glob("*.whl"), (root / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listing = session.run("git", "ls-files", external=True, silent=True)
    if more := names - {"PKG-INFO", *str(listing).splitlines()}:
        session.error(f"the sdist has files that are not in the repository: {sorted(more)[:5]}")
    # Outside the tree: pytest would take its settings, and simkit its pipelines, from above.
    with TemporaryDirectory() as scratch, session.chdir(scratch):
        session.run("python", "-m", "venv", "environment")
        programs = Path(scratch, "environment", "Scripts" if os.name == "nt" else "bin")
        session.run(str(programs / "python"), "-m", "pip", "install", "-q", str(wheel), **AS_IS)
        Path("project").mkdir()
        with session.chdir("project"):
            for command in AFTER_INSTALLING:
                program, *arguments = command.split()
                session.run(str(programs / program), *arguments, **AS_IS)


@nox.session
@nox.parametrize("pair", list(PAIRS.values()), ids=list(PAIRS))
def pairs(session: nox.Session, pair: tuple[str, str]) -> None:
    """A user's small project with the oldest and the newest pytest and pytest-bdd."""
    session.install("--upgrade", ".", "pytest-xdist", *pair)
    session.run("python", "tests/compat/outside.py")


@nox.session(python="3.11")
@nox.parametrize("pair", list(VCRS.values()), ids=list(VCRS))
def vcr(session: nox.Session, pair: tuple[str, ...]) -> None:
    """A suite on vcrpy and pytest-recording, and their files, with the oldest and the newest.

    CI has the newest in the environment in which all tests run.
    """
    session.install("--upgrade", "-e", ".", *pair)
    session.install("httpx", "hypothesis", "pytest-xdist", "requests")
    session.run(*ALL_TESTS, *VCR_TESTS, *session.posargs)


@nox.session(python="3.11")
def old_sdks(session: nox.Session) -> None:
    """The matrix of clients with the libraries before those of today, on httpx, and LiteLLM."""
    # LiteLLM asks for openai < 3 itself, and imports mcp without asking for it.
    session.install("-e", ".", "openai<3", "anthropic<1", "google-genai", "litellm", "mcp")
    session.install("aiohttp", "hypothesis", "pytest-xdist", "requests")
    tests = "tests/adapters/test_matrix.py"
    session.run(*ALL_TESTS, tests, *session.posargs, env=WHOLE)


@nox.session(python="3.11")
@nox.parametrize("sdk", ["mcp<2", "mcp>=2"], ids=["mcp-1", "mcp-2"])
def mcp_clients(session: nox.Session, sdk: str) -> None:
    """MCP servers with both generations of the official SDK, and frameworks on it."""
    session.install("-e", ".", "hypothesis", "pytest-xdist", sdk, "openai-agents", "httpx")
    if sdk == "mcp<2":  # LangChain's adapters and PydanticAI's client ask for it.
        session.install("langchain", "langchain-mcp-adapters", "langchain-openai", sdk)
        session.install("pydantic-ai-slim[mcp,openai]", sdk)
    tests = ["tests/adapters/test_mcp_servers.py", "tests/adapters/test_server_questions.py"]
    # openai-agents calls it by its name of before.
    warning = "ignore:Use `streamable_http_client`:DeprecationWarning"
    run = (*ALL_TESTS, "-W", warning, *MATRIX, *tests, *session.posargs)
    session.run(*run, env=WHOLE)


@nox.session(python="3.11")
@nox.parametrize("sdk", ["a2a-sdk<1", "a2a-sdk>=1"], ids=["a2a-0", "a2a-1"])
def a2a_clients(session: nox.Session, sdk: str) -> None:
    """Remote agents over A2A with both generations of the official SDK, and the page of it."""
    session.install("-e", ".", "hypothesis", "pytest-xdist", sdk, "openai-agents", "httpx")
    session.run(*ALL_TESTS, "tests/adapters/test_a2a.py", *session.posargs)
    if sdk == "a2a-sdk>=1":
        session.run(*ALL_TESTS, "tests/test_docs.py", "-k", "remote-agents")


@nox.session(python="3.11")
def vendor_clients(session: nox.Session) -> None:
    """Bedrock, Ollama and Cohere through their own clients, and frameworks on these."""
    session.install("-e", ".", "hypothesis", "pytest-xdist", "boto3", "ollama", "cohere")
    session.install("langchain-aws", "langchain-ollama", "langchain-cohere", "anthropic")
    session.install("pydantic-ai-slim[bedrock,cohere]")
    session.run(*ALL_TESTS, "tests/adapters/test_vendor_clients.py", *session.posargs)


@nox.session(python="3.11")
def exports(session: nox.Session) -> None:
    """The exports that `simkit import` is tested with, made by the instrumentations of today."""
    script = "tests/capture/telemetry/export_traces.py"
    folder = Path(session.create_tmp(), "exports").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for group, packages in run_path(script)["PACKAGES"].items():
        session.install("-e", ".", "hypothesis", "pytest-xdist", *packages)
        session.run("python", script, str(folder), group)
    tests = "tests/capture/telemetry"
    session.run(*ALL_TESTS, tests, *session.posargs, env={"EXPORTS": str(folder)})


@nox.session(python="3.11")
def google_adk(session: nox.Session) -> None:
    """The Agent Development Kit, which holds google-genai and OpenTelemetry below today's.

    `nox -s google_adk -- whole` runs what CI leaves to the night, too.
    """
    session.install("-e", ".[google-adk]", "hypothesis", "pytest-xdist", "mcp", "uvicorn")
    session.run("simkit", "replay", "-q", "--needs-met", *ADK_SCENARIOS)
    session.run(*ALL_TESTS, *ADK, *MATRIX, env=WHOLE if "whole" in session.posargs else {})
    # The page's example, which has nothing to run on elsewhere.
    session.run(*ALL_TESTS, "tests/test_docs.py", "-k", "google-adk")


@nox.session(python=PYTHONS)
def digests(session: nox.Session) -> None:
    """All scenarios, and a campaign of one seed, have the same digests on every Python."""
    session.install("-e", ".[dev]")
    _compare_digests(session)
    campaign = session.run("python", "-m", "tests.campaigns", silent=True)
    first = campaigns.setdefault("first", campaign)
    if campaign != first:
        session.error("the campaign differs from that on another Python")


@nox.session(python=PYTHONS)
def google_adk_digests(session: nox.Session) -> None:
    """The Agent Development Kit's scenarios have the same digests on every Python."""
    session.install("-e", ".[google-adk]")
    _compare_digests(session, *ADK_SCENARIOS)


def _compare_digests(session: nox.Session, *files: str) -> None:
    """Compare the digests of files with those that other Pythons found in this run of nox."""
    output = session.run("python", "-m", "tests.digests", *files, silent=True)
    if not isinstance(output, str):
        return  # With --install-only nothing is run.
    document = next(line for line in output.splitlines() if line.startswith("{"))
    found = json.loads(document)["digests"]
    if not found:
        session.error("no scenario could run: there is nothing to compare")
    expected = digests_of_files.setdefault(files, found)
    different = [name for name in expected if found.get(name) != expected[name]]
    if different:
        session.error(f"digests differ from those on another Python: {different}")
    session.log(f"{len(found)} digests compared")


@nox.session(python="3.11")
@nox.parametrize("framework", list(FRAMEWORKS), ids=list(FRAMEWORKS))
def frameworks(session: nox.Session, framework: str) -> None:
    """Frameworks whose agents are known by their spans, or by an adapter of their own."""
    session.install("-e", ".", "hypothesis", "pytest-xdist", *FRAMEWORKS[framework])
    team = f"tests/frameworks/{framework.replace('-', '_')}_team.scenario.yaml"
    session.run("simkit", "replay", "-q", "--needs-met", team)
    # Semantic Kernel warns of itself where it is imported.
    matrix = MATRIX if any("mcp" in package for package in FRAMEWORKS[framework]) else ()
    run = (*ALL_TESTS, "-W", "default", "tests/frameworks", *matrix)
    session.run(*run, *session.posargs, env=WHOLE)
    if framework == "llama-index":
        session.run(*ALL_TESTS, "tests/test_docs.py", "-k", "frameworks")


@nox.session(python="3.11")
@nox.parametrize("page", PAGES, ids=PAGES)
def pages(session: nox.Session, page: str) -> None:
    """The example of a page runs with the newest version of its library."""
    session.install("-e", ".", "hypothesis", "pytest-xdist", page)
    # The home of Claude Code's own settings and records.
    env = {"CLAUDE_CONFIG_DIR": str(Path(session.create_tmp(), "claude").resolve())}
    session.run(*ALL_TESTS, "tests/test_docs.py", "-k", page, *session.posargs, env=env)


@nox.session(python="3.11")
def nightly(session: nox.Session) -> None:
    """What CI leaves out: tests at their whole size; published examples; other versions.

    After it, also where it fails, whatever has an environment of its own.
    """
    for name in (*BESIDE, "oldest_pytest", "coverage"):
        session.notify(name, ["whole"] if name == "google_adk" else None)
    session.install("--upgrade", "-e", ".[dev]")
    session.run(*ALL_TESTS, "tests", *session.posargs, env=WHOLE)
    session.run(*ALL_TESTS, "scenarios", "--simkit-runs", "300", *session.posargs)
    session.run("simkit", "replay", "scenarios", "--verify", "-q")
    # The examples that frameworks publish: without them their scenarios are skipped, loudly.
    session.run("python", "-m", "tests.upstream")
    session.run(*QUICK_TESTS, "tests/apps", "tests/adapters/openai_agents/test_driver.py")


@nox.session(python="3.11")
def oldest_pytest(session: nox.Session) -> None:
    """The quick suite with the oldest pytest and pytest-bdd."""
    session.install("--upgrade", "-e", ".[dev]", *PAIRS["oldest"])
    session.run(*QUICK_TESTS, *session.posargs)
