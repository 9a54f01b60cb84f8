"""`simkit doctor`: what is seen here, and why a run showed nothing."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from simkit.cli import doctor as doctor_checks
from simkit.cli.doctor import clients, frameworks, plugins, servers
from tests.cli.projects import Call, Done, write
from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """\
version: 1
scenario: hello
pipeline: shop:run
app: {path: [.]}
agents: {clerk: {system: Sell.}}
turns:
  - {user: hi, replies: {clerk: hello}, expect: {reply: hello}}
  - {user: bye, replies: {clerk: goodbye}, expect: {reply: goodbye}}
"""
ASKS = """\
import json, urllib.request

URL = "https://api.openai.com/v1/chat/completions"


def run(text):
    body = {"model": "m", "messages": [{"role": "system", "content": "Sell."},
                                       {"role": "user", "content": text}]}
    request = urllib.request.Request(URL, json.dumps(body).encode(), {"user-agent": "shop/1"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
"""


@pytest.fixture
def doctor(process: Call) -> Call:
    """Looks at the scenario of a pipeline with this code; returns what is said of its turn."""

    def look(code: str, scenario: str = SCENARIO) -> Done:
        write("shop.py", code)
        write("shop.scenario.yaml", scenario)
        done = process("doctor", "shop.scenario.yaml")
        return done._replace(out=done.out[done.out.find("First turn") :])

    return look


@pytest.mark.slow
def test_the_call_its_client_and_its_agent_are_told(doctor: Call) -> None:
    done = doctor(ASKS)

    assert done.out == (
        "First turn of shop.scenario.yaml::hello\n\n"
        "1 model call seen\n\n"
        "agent    told by                client    protocol\n"
        "-------  ---------------------  --------  -----------\n"
        "clerk    the rule agents.clerk  shop/1    openai-chat\n"
    )
    assert (done.code, done.err) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "how"),
    [
        (ASKS.replace('"user-agent": "shop/1"', '"x-simkit-agent": "clerk"'),
         "the header x-simkit-agent"),
        (ASKS.replace("def run", "import simkit\n\n@simkit.agent('clerk')\ndef run"),
         "`simkit.agent`"),
    ],
    ids=["header", "mark"],
)  # fmt: skip
def test_how_else_an_agent_is_told_is_said(doctor: Call, code: str, how: str) -> None:
    done = doctor(code)

    assert f"clerk    {how} " in done.out
    assert done.code == 0


@pytest.mark.slow
def test_a_call_of_nobody_s_is_shown_with_the_rule_that_is_proposed(doctor: Call) -> None:
    done = doctor(ASKS.replace("Sell.", "Buy."))

    assert "none     nothing    shop/1    openai-chat" in done.out
    assert "a model call belongs to no agent: POST https://api.openai.com" in done.out
    assert done.code == 2


REASONS = {
    "no call": (
        "def run(text):\n    return 'hello'\n",
        ["- the pipeline answered this message without asking a model, or from a cache"],
    ),
    "a transport of its own": (
        "import httpx\n"
        "answer = httpx.MockTransport(lambda request: httpx.Response(200, text='hello'))\n"
        "client = httpx.Client(transport=answer)\n\n"
        "def run(text):\n    return client.post('https://api.openai.com/v1/responses').text\n",
        [
            "- a httpx.Client has a transport of its own, httpx.MockTransport, which is never "
            "patched",
            "- the pipeline answered this message without asking a model, or from a cache",
        ],
    ),
    "another process": (
        "import subprocess, sys\n\n"
        "def run(text):\n"
        "    said = subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True)\n"
        "    return said.stdout.decode()\n",
        ["it started a process, ", "point the other to `simkit serve`"],
    ),
    "an error": (
        "def run(text):\n    raise ValueError('no key')\n",
        ["- the turn ended before one, with FunctionFailed", "ValueError: no key"],
    ),
    "no module": (
        "import not_there\n",
        ["No module named 'not_there'", "- the pipeline could not be run: see above"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REASONS)
def test_why_there_was_no_call_is_told(doctor: Call, case: str) -> None:
    code, report = REASONS[case]

    done = doctor(code)

    assert "0 model calls seen" in done.out
    assert [text for text in report if text not in done.out] == []
    assert done.code == 2


@pytest.mark.slow
def test_a_request_that_is_no_model_call_is_told(doctor: Call) -> None:
    done = doctor(ASKS.replace("chat/completions", "files?secret=1"))

    assert (
        "no model call, and refused unless allowed: POST https://api.openai.com/v1/files\n"
        in done.out
    )
    assert done.code == 2


@pytest.mark.slow
def test_what_the_pipeline_prints_is_no_part_of_the_report(doctor: Call) -> None:
    done = doctor(ASKS.replace("def run(text):\n", "def run(text):\n    print('noise')\n"))

    assert "noise" not in done.out
    assert done.err == "noise\n"


@pytest.mark.slow
def test_a_declared_pipeline_needs_no_client(process: Call) -> None:
    done = process("doctor", "scenarios/good.scenario.yaml::it holds")

    assert done.out.endswith(
        "First turn of scenarios/good.scenario.yaml::it holds\n\n"
        "Its pipeline is declared: simkit runs it itself, and no client is used.\n"
    )
    assert done.code == 0


@pytest.mark.slow
def test_a_wrong_call_is_broken(process: Call) -> None:
    done = process("doctor", "scenarios")

    assert done.err == (
        "scenarios: `simkit doctor` looks at one scenario, and here are 3\n"
        "  Name one: PATH::NAME.\n"
    )
    assert done.code == 2


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What is installed here instead: names, with what each requires."""
    texts_by_name: dict[str, list[str]] = {}

    def version(name: str) -> str:
        if name not in texts_by_name:
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(f"{doctor_checks.__name__}.metadata.version", version)
    monkeypatch.setattr(
        f"{doctor_checks.__name__}.metadata.requires", lambda name: texts_by_name[name]
    )
    return texts_by_name


def test_each_kind_of_library_is_a_table_of_its_own(
    installed: dict[str, list[str]], cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed |= {"openai": ["httpx<1,>=0.23"], "httpx": []}
    monkeypatch.setattr(doctor_checks, "__version__", "1.2.3")

    text = doctor_checks.environment_text()

    assert text.startswith(
        "simkit        version\n------------  ---------\nagent-simkit  1.2.3\n\nClients\n\nlibrary "
    )
    assert ("\n\nFrameworks: none of those that simkit knows\n\nTried\n\nlibrary ") in text
    assert text.endswith("\n\npytest: none of those that simkit knows")


def test_a_patched_library_says_what_is_replaced(installed: dict[str, list[str]]) -> None:
    installed |= {"httpx": [], "requests": [], "grpcio": []}

    rows = {name: (at, observed, replaced) for name, at, observed, replaced in clients()}

    assert rows["httpx"] == (
        "1.0",
        "yes",
        "HTTPTransport.handle_request\nAsyncHTTPTransport.handle_async_request\n"
        "httpx._transports.default.create_ssl_context",
    )
    assert rows["http.client"][1] == "yes"
    assert rows["requests"] == ("1.0", "yes, through urllib3", "")
    assert rows["grpcio"] == (
        "1.0",
        "no, and it connects in C: use the client's REST transport, or `simkit serve`",
        "",
    )
    assert list(rows) == ["httpx", "http.client", "requests", "grpcio"]


def test_a_framework_says_how_its_agents_are_told(installed: dict[str, list[str]]) -> None:
    installed |= {"smolagents": [], "autogen-agentchat": [], "claude-agent-sdk": []}
    installed |= {"strands-agents": [], "llama-index-core": []}
    by_rules, as_it_says = ("yes", "by rules", "by rules", "no", "no"), ["as it says"] * 3

    assert {name: cells for name, _, *cells in frameworks()} == {
        "smolagents": ["rules under `agents`, or `with simkit.agent(…)`", *by_rules],
        "autogen-agentchat": ["its OpenTelemetry spans", "yes", "yes", *by_rules[2:]],
        "claude-agent-sdk": ["another process makes its calls: `simkit serve`", *by_rules],
        "strands-agents": ["its adapter, `strands`", "yes", "yes", *as_it_says],
        "llama-index-core": ["its adapter, `llama-index`", "yes", "yes", *as_it_says],
    }


@pytest.mark.parametrize(
    ("version", "note"), [("1.2.2", "older"), ("1.2.3", ""), ("1.5.0", ""), ("2.0", "newer")]
)
def test_the_versions_that_were_tried_are_shown(
    version: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_checks, "TRIED", {"langgraph": ("1.2.3", "1.5.0"), "x": ("1", "2")})
    monkeypatch.setattr(
        doctor_checks, "version_of", lambda name: "none" if name == "x" else version
    )

    assert doctor_checks.tested_versions() == [("langgraph", version, "1.2.3", "1.5.0", note)]


def test_a_patch_of_the_newest_python_is_not_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "TRIED", {"Python": ("3.11", "3.13")})
    monkeypatch.setattr(doctor_checks, "version_of", lambda name: "3.13.7")

    assert doctor_checks.tested_versions() == [("Python", "3.13.7", "3.11", "3.13", "")]


def test_plugins_that_get_in_the_way_are_told(installed: dict[str, list[str]]) -> None:
    installed |= {"pytest": [], "pytest-httpx": []}

    assert plugins() == [
        ("pytest", "1.0", ""),
        ("pytest-httpx", "1.0", "replaces the same methods of httpx: a test uses `httpx_mock` or "
         "simkit"),
    ]  # fmt: skip


HELPED = """\
import sys
from simkit.cli import main

try:
    main([sys.argv[1], "--help"])
except SystemExit as stop:
    print("loaded:", *sorted(name for name in sys.modules if name.startswith("simkit.")))
    sys.exit(stop.code)
"""


@pytest.mark.parametrize("command", ["doctor", "serve"])
def test_help_loads_nothing_that_reads_scenarios(command: str) -> None:
    done = run_python("-c", HELPED, command, folder=ROOT)

    loaded = done.stdout.rpartition("loaded:")[2].split()
    modules = ("answers", "errors", "gc_pause", "raw_threads", "requirements", "stopping", "text")
    core = [f"simkit.core.{name}" for name in modules]
    commands = [file.stem for file in (ROOT / "simkit/cli/commands").glob("[a-z]*.py")]
    cli = [
        "simkit.cli",
        "simkit.cli.commands",
        *(f"simkit.cli.commands.{name}" for name in commands),
    ]
    assert loaded == sorted((*cli, "simkit.core", *core))


def test_servers_of_a_project_are_listed_without_their_variables(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    files = {"command": "npx", "args": ["-y", "@acme/files"], "env": {"TOKEN": "secret"}}
    write(str(tmp_path / ".mcp.json"), json.dumps({"mcpServers": {"files": files}}))
    web = {"web": {"url": "https://web.example.com:8443/mcp?key=secret"}, "odd": 1}
    write(str(tmp_path / ".vscode/mcp.json"), json.dumps({"servers": web}))
    write(str(tmp_path / "mcp.json"), "no JSON")

    assert servers(tmp_path) == [
        ("files", ".mcp.json", "npx -y @acme/files", "servers: {files: {mcp: recorded}}"),
        ("web", ".vscode/mcp.json", "https://web.example.com:8443", WEB),
        ("odd", ".vscode/mcp.json", "", WEB.replace("web", "odd")),
    ]


WEB = "servers: {web: {mcp: recorded}}"
