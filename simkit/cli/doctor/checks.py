"""Checks of ``simkit doctor``: client libraries, frameworks, variables, pytest plugins."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module, metadata
from typing import Final
from urllib.parse import urlsplit

from packaging.version import Version
from tabulate import tabulate

from simkit import __version__
from simkit.adapters.framework_driver import GROUP
from simkit.adapters.libraries import FRAMEWORKS, PROVIDERS, adapter_of, installed
from simkit.capture.http.interception import intercepting, patched
from simkit.core.compat import TRIED, version_of
from simkit.providers.protocols import PROTOCOLS

_IMPORTED: Final = ("httpx2", "httpx", "aiohttp", "urllib3", "httplib2", "http.client")
"""The status of a patched library; one that is not imported is not patched yet."""

OTHERS: Final[Mapping[str, str]] = {
    "requests": "yes, through urllib3",
    "botocore": "yes, through urllib3",
    "websockets": "no: its connections are refused while a scenario runs",
    "websocket-client": "no: its connections are refused while a scenario runs",
    "tornado": "no: its connections are refused while a scenario runs",
    "grpcio": "no, and it connects in C: use the client's REST transport, or `simkit serve`",
    "pycurl": "no, and it connects in C: `simkit serve`",
    "curl-cffi": "no, and it connects in C: `simkit serve`",
    "primp": "no, and it connects in Rust: `simkit serve`",
    "pyreqwest": "no, and it connects in Rust: `simkit serve`",
}
"""Libraries that are not patched themselves, and whether simkit sees their requests."""

_APART: Final = frozenset(("claude-agent-sdk",))
"""Frameworks whose model calls another process makes."""
_TOLD_BY_SPANS: Final[Mapping[str, str]] = {
    "agent-framework": "its OpenTelemetry spans",
    "agent-framework-core": "its OpenTelemetry spans",
    "autogen-agentchat": "its OpenTelemetry spans",
    "semantic-kernel": (
        "its OpenTelemetry spans, with\n"
        "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS=true"
    ),
    "strands-agents": "its OpenTelemetry spans",
}
"""Frameworks whose agents simkit recognizes by the spans that they emit."""

ASPECTS: Final = ("contexts", "runs", "handoffs", "state", "filters")
"""Aspects that may be observed of a framework; a claim on another one is "not observable"."""
_NAMED: Final = "if `pipeline` names an agent"
_SEEN_BY_ADAPTER: Final[Mapping[str, tuple[str, ...]]] = {
    "langgraph": ("yes", "yes", "yes", "yes", "yes"),
    "openai-agents": ("yes", "yes", "yes", _NAMED, "yes"),
    "pydantic-ai": ("yes", "yes", "yes", _NAMED, "yes"),
    "google-adk": ("yes", "yes", "yes", _NAMED, "yes"),
}
_SEEN_BY_OTHERS: Final = ("yes", "yes", "as it says", "as it says", "as it says")
"""The text for an adapter that is a package of its own."""
_SEEN_BY_SPANS: Final = ("yes", "yes", "by rules", "no", "no")
_SEEN_BY_RULES: Final = ("yes", "by rules", "by rules", "no", "no")

PLUGINS: Final[Mapping[str, str]] = {
    "pytest-httpx": "replaces the same methods of httpx: a test uses `httpx_mock` or simkit",
    "pytest-socket": "may forbid sockets to `simkit serve`; runs in process need none",
    "pytest-vcr": "defines the mark `vcr`, as pytest-recording does: keep one of them",
    "pytest-responses": "replaces what requests sends in every test: simkit sees none of it",
    "pytest-freezer": "stops the clock of a test; simkit has its own",
    "pytest-freezegun": "stops the clock of a test; simkit has its own",
}
"""pytest plugins that disturb simkit, and how."""

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_ADDRESS: Final = re.compile(r"_(?:BASE_URL|API_BASE|ENDPOINT|API_URL|BASE|HOST)$")
_OF_MODELS: Final = re.compile(
    r"^(?:OPENAI|AZURE|ANTHROPIC|GOOGLE|GEMINI|VERTEX|MISTRAL|GROQ|COHERE|OLLAMA|LITELLM|XAI"
    r"|TOGETHER|DEEPSEEK|OPENROUTER|HF|HUGGINGFACE)_"
)
_KEY: Final = re.compile(r"(?:_API_KEY|_API_TOKEN|_ACCESS_KEY)$")
_REPORTING: Final = ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "OTEL_EXPORTER_OTLP_ENDPOINT")
_DISTRIBUTION: Final = re.compile(r"[A-Za-z0-9._-]+")

Rows = list[tuple[str, ...]]


def environment_text() -> str:
    """Return the facts about this environment, as tables."""
    sections = (
        ("", ("simkit", "version"), [("agent-simkit", __version__)]),
        ("Clients", ("library", "version", "seen", "replaced while a scenario runs"), clients()),
        ("Providers", ("library", "version", "sends through"), providers()),
        ("Frameworks", ("library", "version", "its agents are told by", *ASPECTS), frameworks()),
        ("Tried", ("library", "version", "oldest", "newest", "this one"), tested_versions()),
        ("Variables", ("variable", "value", "what it does"), variables(os.environ)),
        ("pytest", ("plugin", "version", "beside simkit"), plugins()),
    )
    return "\n\n".join(_section(*section) for section in sections)


def _section(title: str, head: Sequence[str], rows: Rows) -> str:
    if not rows:
        return f"{title}: none of those that simkit knows"
    text: str = tabulate(rows, head, tablefmt="simple", disable_numparse=True)
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return f"{title}\n\n{lines}" if title else lines


def clients() -> Rows:
    """Return the installed client libraries, and how simkit observes each."""
    for module in _IMPORTED:
        with contextlib.suppress(ImportError):
            import_module(module)
    with intercepting():
        rows: Rows = [
            (row.library, row.version, "yes" if row.way else "no", row.way.replace(", ", "\n"))
            for row in patched()
        ]
    return [*rows, *((name, at, OTHERS[name], "") for name, at in installed(OTHERS))]


def providers() -> Rows:
    """Return the installed provider libraries, and the client that each uses."""
    known = {row[0] for row in clients()}
    return [(name, at, _through(name, known)) for name, at in installed(PROVIDERS)]


def _through(name: str, known: Iterable[str]) -> str:
    """Return the clients, or provider libraries, that a distribution requires."""
    known_hosts = {*known, *PROVIDERS}
    required = [line for line in metadata.requires(name) or () if "extra ==" not in line]
    names = [match[0].lower() for line in required if (match := _DISTRIBUTION.match(line))]
    return ", ".join(dict.fromkeys(name for name in names if name in known_hosts)) or "unknown"


def frameworks() -> Rows:
    """Return the installed frameworks, and how simkit recognizes their agents."""
    adapters = {adapter_of(entry) for entry in metadata.entry_points(group=GROUP)}
    rows: Rows = []
    for name, at in installed(FRAMEWORKS):
        how = "rules under `agents`, or `with simkit.agent(…)`"
        libraries: tuple[str, ...] = _SEEN_BY_RULES
        if name in _APART:
            how = "another process makes its calls: `simkit serve`"
        elif name.removesuffix("-slim") in adapters:
            how = f"its adapter, `{name.removesuffix('-slim')}`"
            libraries = _SEEN_BY_ADAPTER.get(name.removesuffix("-slim"), _SEEN_BY_OTHERS)
        elif name in _TOLD_BY_SPANS:
            how = _TOLD_BY_SPANS[name]
            libraries = _SEEN_BY_SPANS
        rows.append((name, at, how, *libraries))
    return rows


def tested_versions() -> Rows:
    """Return the tested versions of installed libraries for which simkit has a `compat` module."""
    rows: Rows = []
    for name, (oldest, newest) in TRIED.items():
        at = version_of(name)
        if at != "none":
            is_older, is_newer = Version(at) < Version(oldest), Version(at) > Version(newest)
            # Any patch of a tested version of Python counts as that version.
            is_newer = is_newer and not at.startswith(f"{newest}.")
            rows.append((name, at, oldest, newest, "older" * is_older + "newer" * is_newer))
    return rows


def variables(environment: Mapping[str, str]) -> Rows:
    """Return the set variables that clients read: names, and hosts of addresses; never a value."""
    replaced = {name for protocol in PROTOCOLS.values() for name in protocol.keys}
    addresses = {name for protocol in PROTOCOLS.values() for name in protocol.variables}
    rows: Rows = []
    for name, value in sorted(environment.items()):
        if not value:
            continue
        if name.upper() in _PROXIES:
            rows.append((name, _host(value), "no matter in process; `serve` sets NO_PROXY"))
        elif name in _REPORTING:
            rows.append((name, "set", "reports elsewhere, which a scenario refuses"))
        elif name in replaced:
            rows.append((name, "set", "a dummy stands for it while a scenario runs"))
        elif name in addresses or (_OF_MODELS.match(name) and _ADDRESS.search(name)):
            rows.append((name, _host(value), "points clients there; a scenario answers first"))
        elif _KEY.search(name):
            rows.append((name, "set", "stays, and is redacted in what is written"))
    return rows


def _host(value: str) -> str:
    """Return scheme, host and port of an address, which are no secret."""
    try:
        parts = urlsplit(value if "://" in value else f"//{value}")
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}".removeprefix("://")
    except ValueError:
        return "no address"


def plugins() -> Rows:
    """Return pytest itself, and the plugins that disturb simkit."""
    rows: Rows = [(name, at, "") for name, at in installed(("pytest", "pytest-bdd"))]
    return [*rows, *((name, at, PLUGINS[name]) for name, at in installed(PLUGINS))]
