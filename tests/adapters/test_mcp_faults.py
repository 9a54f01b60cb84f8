"""Faults of real MCP servers, over each transport: one finding names server, tool and cause.

`nox -s mcp_clients` runs this file with both generations of the official SDK, as client and server.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from simkit import Outcome, simulate
from simkit.capture.http import stdio_servers
from tests.adapters.test_mcp_transports import CLIENTS, KNOWN_BY_MODEL
from tests.adapters.test_server_questions import TRANSPORTS
from tests.adapters.test_servers import ASK, FILES, problems_of, scenario
from tests.conftest import sample_by_day
from tests.recording import prepared

if find_spec("mcp") is None:
    pytest.skip("mcp is not installed: `nox -s mcp_clients` has it", allow_module_level=True)

pytestmark = [pytest.mark.slow(20), pytest.mark.filterwarnings("default")]

TEXTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
FAULTS, DECLARED = TEXTS["faults"], TEXTS["declared"]
TURNS = TEXTS["turns"]
TWO = ASK + TEXTS["two"]
SHORT = TURNS.replace(", {calls: [read_file: {path: b}]}", "").replace(", {tool: read_file}]", "]")


@pytest.fixture
def address(entry: str, fault: str, tmp_path: Path) -> Iterator[str]:
    """The address of the official server, in a process of its own; empty over stdio."""
    (tmp_path / "server.py").write_text(TEXTS["server"], encoding="utf-8")
    if entry == "stdio":
        yield ""
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(tmp_path / "server.py"), entry, str(port), fault]
    server = subprocess.Popen(command)
    for _ in range(400):
        with socket.socket() as probe:
            if server.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.kill()
    server.wait()


def outcome_of(
    folder: Path, client: str, entry: str, address: str, fault: str, rest: str = ""
) -> Outcome:
    """The run of a client with a faulty server."""
    for library in (client, *(["openai"] if client == "mcp" else [])):
        pytest.importorskip(library, reason=f"{library} is not installed: a session of nox has it")
    url = address and f"{address}/{'sse' if entry == 'sse' else 'mcp'}"
    command = [sys.executable, str(folder / "server.py"), "stdio", "0", fault]
    head = f"KIND, URL, COMMAND = {entry!r}, {url!r}, {command!r}\n"
    (folder / "reading.py").write_text(head + CLIENTS[client], encoding="utf-8")
    rules = "agents: {reader: {model: m}}\n" if client in KNOWN_BY_MODEL else ""
    match = f"match: {{$contains: {'127.0.0.1' if address else 'server.py'}}}"
    rest = rest or f"servers: {{files: {{{match}, mcp: real}}}}\n{TURNS}"
    rest = rest.replace("  files:\n", f"  files:\n    {match}\n")
    file = folder / "a.scenario.yaml"
    file.write_text(
        f"version: 1\nscenario: a\npipeline: reading:run\n{rules}app: {{path: [.], fresh: true}}\n"
        + rest,
        encoding="utf-8",
    )
    return simulate(prepared(file))


def check(outcome: Outcome, text: str) -> None:
    """One finding has the cause; it is the first, unless code has survived the server's end."""
    causes = [each for each in outcome.judgement.findings if not each.follows]
    named = [each for each in causes if text in str(each)]
    assert len(named) == 1
    assert named[0] is causes[0] or all(each.id == "claim" for each in causes[:-1])


@TRANSPORTS
@pytest.mark.parametrize("fault", sample_by_day(FAULTS, 3))
@pytest.mark.parametrize("client", KNOWN_BY_MODEL)
def test_a_fault_of_a_real_server_is_one_finding(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    client: str,
    fault: str,
    entry: str,
    address: str,
) -> None:
    monkeypatch.setattr(stdio_servers, "PATIENCE_S", 10.0)

    outcome = outcome_of(tmp_path, client, entry, address, fault)
    check(outcome, FAULTS[fault])


@TRANSPORTS
@pytest.mark.parametrize("fault", sample_by_day(DECLARED, 2))
@pytest.mark.parametrize("client", KNOWN_BY_MODEL)
def test_a_fault_of_a_declared_server_is_one_finding(
    tmp_path: Path, client: str, fault: str, entry: str
) -> None:
    address = "" if entry == "stdio" else "http://127.0.0.1:9"
    servers = FILES.replace("    mcp:\n", f"    mcp:\n      {DECLARED[fault][0]}\n")
    rest = TURNS if fault == "changes its tools" else SHORT
    rest = rest.replace("    replies", "    tool_results: {read_file: Buy milk.}\n    replies")
    first, second = (
        outcome_of(tmp_path, client, entry, address, fault, servers + rest) for _ in "12"
    )

    check(first, DECLARED[fault][1])
    assert first.trace.digest() == second.trace.digest()


@TRANSPORTS
@pytest.mark.parametrize(
    ("servers", "names"),
    [
        pytest.param(TEXTS["shared"], ("`files`", "`drive`", "`read_file`"), id="a shared name"),
        pytest.param(TEXTS["orders"], ("files", "send_mail", "SEC-02"), id="orders"),
    ],
)
@pytest.mark.parametrize("code", [TWO, TEXTS["two_agents"]], ids=["mcp", "agents"])
def test_what_two_servers_share_and_what_one_orders_is_one_finding(
    tmp_path: Path, code: str, servers: str, names: tuple[str, ...], entry: str
) -> None:
    for library in ("openai", *(["agents"] if code is TEXTS["two_agents"] else [])):
        pytest.importorskip(library, reason=f"{library} is not installed: a session of nox has it")
    url = "" if entry == "stdio" else "https://example.com"
    head = f"KIND, URL = {entry!r}, {url!r}\n"
    judgement = simulate(scenario(tmp_path, head + code, servers)).judgement

    texts = [str(each) for each in (*judgement.findings, *judgement.warnings) if not each.follows]
    assert len([text for text in texts if all(name in text for name in names)]) == 1


@pytest.mark.parametrize(("entry", "fault"), [("sse", "")])
def test_the_address_that_a_server_announces_over_sse_is_the_servers(
    tmp_path: Path, entry: str, fault: str, address: str
) -> None:
    """Its name is a word of the first address only."""
    pytest.importorskip("openai", reason="openai is not installed: a session of nox has it")
    servers = f"servers: {{files: {{match: {{$contains: /sse}}, mcp: real}}}}\n{SHORT}"

    assert problems_of(outcome_of(tmp_path, "mcp", entry, address, fault, servers)) == []
