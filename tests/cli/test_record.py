"""``simkit record``: real code, real clients, a provider on loopback; then without any network."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from simkit.cli import main
from simkit.providers.http import HttpResponse
from tests.cli.projects import Call, Done, run_simkit, without_times
from tests.golden import assert_file_is
from tests.processes import run_python
from tests.recording import SCENARIO, Provider, completion, echo, write
from tests.recording import server as server

ROOT = Path(__file__).resolve().parents[2]
APPS = ROOT / "tests" / "apps"
SPY = '''\
"""Keeps what the client's library reads of each response."""

import os
import httpx2


def begin():
    read, aread = httpx2.Response.iter_raw, httpx2.Response.aiter_raw
    heard = open(os.environ["HEARD"], "wb")

    def iter_raw(self, *args):
        for chunk in read(self, *args):
            heard.write(chunk)
            yield chunk
        heard.write(b"\\n-- over --\\n")

    async def aiter_raw(self, *args):
        async for chunk in aread(self, *args):
            heard.write(chunk)
            yield chunk
        heard.write(b"\\n-- over --\\n")

    httpx2.Response.iter_raw, httpx2.Response.aiter_raw = iter_raw, aiter_raw
    yield
    httpx2.Response.iter_raw, httpx2.Response.aiter_raw = read, aread
    heard.close()
'''
CLINIC_RULES = """\
agents:
  intake: {system: {$starts: You take}}
  pharmacist: {system: {$contains: pharmacist}}
  nurse: {system: {$contains: nurse}}
"""


def without_replies(text: str) -> str:
    """Returns a scenario whose reply lines are taken out."""
    results, deep = [], None
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip())
        if deep is not None and line.strip() and depth > deep:
            continue
        deep = depth if line.strip() == "replies:" else None
        if deep is None:
            results.append(line)
    return "\n".join(results)


def call(folder: Path, *words: str, **environment: str) -> Done:
    """Calls the command line in a process of its own, without any way to a provider."""
    return run_simkit(*words, folder=folder, **{"COLUMNS": "100", **environment})


def project(folder: Path, app: str) -> None:
    """Writes an app's scenario twice: scripted, and to be recorded."""
    shutil.copy(APPS / f"{app}.py", folder)
    (folder / "spy.py").write_text(SPY, encoding="utf-8")
    text = (APPS / f"{app}.scenario.yaml").read_text(encoding="utf-8")
    recorded = without_replies(text).replace("pipeline:", f"cassette: {app}\npipeline:", 1)
    recorded = recorded.replace("app: {path: [.]}", "app:\n  path: [.]", 1)
    recorded = recorded.replace("  path: [.]\n", "  path: [.]\n  setup: spy:begin\n", 1)
    (folder / "recorded.scenario.yaml").write_text(recorded, encoding="utf-8")
    scripted = text if "agents:\n" in text else text.replace("turns:", f"{CLINIC_RULES}turns:", 1)
    (folder / "scripted.scenario.yaml").write_text(scripted, encoding="utf-8")


def served(folder: Path, *words: str, **environment: str) -> None:
    """Calls the command line while the scripted scenario answers for the provider."""
    command = shlex.join([sys.executable, "-m", "simkit", *words])
    then = f"{command} > told.txt 2>&1"
    call(folder, "serve", "scripted.scenario.yaml", "--then", then, **environment)


@pytest.mark.slow
@pytest.mark.parametrize("app", ["travel", "clinic"])
def test_what_was_recorded_from_a_provider_is_replayed_byte_for_byte_without_it(
    tmp_path: Path, app: str
) -> None:
    project(tmp_path, app)

    served(tmp_path, "record", "recorded.scenario.yaml", HEARD="live.bin")
    done = call(tmp_path, "replay", "recorded.scenario.yaml", "-q", HEARD="replayed.bin")

    text = (tmp_path / "told.txt").read_text(encoding="utf-8")
    assert re.search(rf"recorded: [67] interactions in cassettes/{app}.yaml", text), text
    assert done.code == 0, done.out + done.err
    live = (tmp_path / "live.bin").read_bytes()
    assert live.count(b"-- over --") >= 6
    assert (tmp_path / "replayed.bin").read_bytes() == live


@pytest.mark.slow
def test_a_changed_system_prompt_is_named_by_the_miss(tmp_path: Path) -> None:
    project(tmp_path, "travel")
    served(tmp_path, "record", "recorded.scenario.yaml", HEARD="live.bin")
    source = (tmp_path / "travel.py").read_text(encoding="utf-8")
    changed = source.replace("You are the flight agent.", "You are the flight agent. Be brief.")
    (tmp_path / "travel.py").write_text(changed, encoding="utf-8")

    done = call(tmp_path, "replay", "recorded.scenario.yaml", "-q", HEARD="replayed.bin")

    assert done.code == 1
    assert (
        "recorded.scenario.yaml:16:5: turn 1 ended with error CassetteMissed: "
        "cassettes/travel.yaml: no\n"
        "  recording answers agent 'flights' in turn 1: POST /v1/chat/completions\n"
        "    nothing was recorded that asks the same\n"
        "    nearest: interactions[1], agent 'flights', turn 1, call 1, has not answered yet\n"
        "      ~ messages[0] system\n"
        '          - You are the flight agent. Known so far: {"destination": "Lisbon"}\n'
        '          + You are the flight agent. Be brief. Known so far: {"destination": "Lisbon"}\n'
        "        = 1 message\n"
        "    if the change is meant, record again: simkit record "
        "'recorded.scenario.yaml::specialists see\n"
        "  what was said and what is known, and nothing of triage' --mode all\n"
    ) in done.out


DATA = {
    "travel": ("I need to be in Lisbon on Friday", "And two nights near the river"),
    "clinic": ("My head has ached for three days", "I also feel dizzy since yesterday"),
}
ENTRY = {"travel": ("travel:Desk", "--call", "ask"), "clinic": ("clinic:build",)}
UNREACHABLE = 'raise ConnectionError("the airline\'s system is not reachable from here")'


@pytest.mark.golden
@pytest.mark.slow
@pytest.mark.parametrize("app", ["travel", "clinic"])
def test_a_first_scenario_is_written_from_a_run_and_holds(tmp_path: Path, app: str) -> None:
    project(tmp_path, app)
    source = (tmp_path / f"{app}.py").read_text(encoding="utf-8")
    reachable = source.replace(UNREACHABLE, 'return [{"at": "9:40"}, {"at": "15:05"}]')
    (tmp_path / f"{app}.py").write_text(reachable, encoding="utf-8")
    says = [word for text in DATA[app] for word in ("--say", text)]

    served(tmp_path, "init", "--app", *ENTRY[app], "--record", *says)
    done = call(tmp_path, "replay", "scenarios", "-q")

    report = (tmp_path / "told.txt").read_text(encoding="utf-8")
    names = {"travel": "flights, hotels, triage_agent", "clinic": "intake, nurse, pharmacist"}
    assert f"scenarios/{app}.scenario.yaml: written: 2 turns; agents {names[app]}\n" in report
    golden = Path(__file__).parent / "first_talk" / f"{app}.yaml"
    files = (f"scenarios/{app}.{kind}.yaml" for kind in ("pipeline", "scenario"))
    assert_file_is(golden, "---\n".join((tmp_path / file).read_text("utf-8") for file in files))
    assert done.code == 0, done.out + done.err


@pytest.fixture
def desk(project_folder: Path, server: Provider, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: an app on plain HTTP, and its scenario."""
    monkeypatch.setenv("PROVIDER", server.url)
    monkeypatch.setenv("KEY", "sk-test-0123456789abcdef")
    server.requests.clear()
    server.answer = echo
    write(Path())
    return project_folder


@pytest.fixture
def project_folder(cwd: Path) -> Iterator[Path]:
    before = list(sys.path)
    yield cwd
    sys.path[:] = before
    sys.modules.pop("desk", None)


@pytest.fixture
def simkit(desk: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process; times are taken out of what it prints."""

    def called(*arguments: str) -> Done:
        sys.modules.pop("desk", None)
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        out, err = capsys.readouterr()
        return Done(int(stop.value.code or 0), without_times(out), err)

    return called


def test_recording_is_refused_in_ci(
    simkit: Call, server: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")

    done = simkit("record", "desk.scenario.yaml")

    assert done == Done(
        2,
        "",
        "simkit record sends real requests and keeps what is answered, and is refused in CI "
        "(CI is set)\n"
        "  Record where somebody reads what is written, and commit that; --force records here.\n",
    )
    assert server.requests == []


def test_recording_can_be_forced_in_ci(simkit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    assert simkit("record", "desk.scenario.yaml", "--force").code == 0
    assert Path("cassettes/desk.yaml").exists()


def test_replaying_is_not_refused_in_ci(simkit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    simkit("record", "desk.scenario.yaml")
    monkeypatch.setenv("CI", "true")

    assert simkit("record", "desk.scenario.yaml", "--mode", "none").code == 0


def test_scenarios_are_recorded_by_their_words(simkit: Call, server: Provider) -> None:
    other = SCENARIO.replace("hears it", "hears more").replace("hello", "bye")
    write(Path(), f"{SCENARIO}---\n{other}")

    done = simkit("record", "desk.scenario.yaml", "-k", "more", "-q")

    assert done == Done(0, "1 scenario: 1 passed (0.00 s)\n", "")
    assert [b"bye" in item.body for item in server.requests] == [True, True]


def test_what_verify_finds_is_a_finding(simkit: Call, server: Provider) -> None:
    simkit("record", "desk.scenario.yaml")
    server.answer = lambda request: completion("boss: clerk: hello", usage={"total_tokens": 3})

    done = simkit("record", "desk.scenario.yaml", "--mode", "verify", "-q")

    assert done.code == 1
    assert (
        "desk.scenario.yaml:6:11: cassettes/desk.yaml: agent 'clerk' in turn 1 gets another "
        "answer than the\n"
        f"  recorded one: POST {server.url}/v1/chat/completions\n"
        "  + body.usage: mapping\n"
        "  if the new answer is right, record again: simkit record "
        "'desk.scenario.yaml::the boss hears it'\n"
        "    --mode all\n"
    ) in done.out


def test_a_cassette_that_cannot_be_read_is_told_and_kept(simkit: Call) -> None:
    Path("cassettes").mkdir()
    Path("cassettes/desk.yaml").write_text("version: 1\n", encoding="utf-8")

    done = simkit("record", "desk.scenario.yaml", "--mode", "all", "-q")

    assert done.code == 2
    assert (
        "cassettes/desk.yaml:1: this is no cassette: it has no `interactions`\n"
        "  restore the file, or delete it and record again; it is never overwritten\n"
    ) in done.out
    assert Path("cassettes/desk.yaml").read_text(encoding="utf-8") == "version: 1\n"


INIT = ("init", "--app", "desk:run", "--record")


@pytest.mark.slow
def test_no_first_scenario_is_written_of_an_app_that_fails(simkit: Call, server: Provider) -> None:
    server.answer = lambda request: HttpResponse(500, (), (b"{}",))

    done = simkit(*INIT)

    assert done.code == 2
    assert done.err.startswith("the app failed in turn 1: ")
    assert not Path("scenarios/desk.scenario.yaml").exists()


LAZY = "def run(text):\n    from answers import run as inner\n    return inner(text)\n"


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--path", "lib")], ids=["found by chance", "said"])
def test_a_first_scenario_is_replayed_alone_before_it_is_said_to_hold(
    desk: Path, server: Provider, options: tuple[str, ...]
) -> None:
    (desk / "src").mkdir()
    (desk / "lib").mkdir()
    (desk / "desk.py").rename(desk / "lib" / "answers.py")
    (desk / "src" / "shop.py").write_text(LAZY, encoding="utf-8")
    says = ("init", "--app", "shop:run", "--record", *options)

    done = run_simkit(*says, PYTHONPATH=os.pathsep.join(("src", "lib")))

    if options:
        text = (desk / "scenarios/shop.pipeline.yaml").read_text("utf-8")
        assert "app: {path: [.., ../lib, ../src]}\n" in text
        assert run_python("-P", "-m", "simkit", "replay", "-q", "scenarios").returncode == 0
    else:
        assert done.code == 2
        assert "not written, since it does not hold in a new process:" in done.err
        assert "No module named 'answers'" in done.err
        assert "Say with --path from which folder" in done.err
        assert not (desk / "scenarios/shop.scenario.yaml").exists()


APP = """
    import json
    import socket
    import threading
    import urllib.request
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


    def answer(text):
        message = {"role": "assistant", "content": "You said " + text}
        return json.dumps({
            "object": "chat.completion", "id": "c1", "created": 0, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }).encode()


    class Provider(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # The connection is kept, and its thread with it.

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            said = answer(asked["messages"][-1]["content"])
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *args):
            pass


    def threading_server():
        server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port


    def by_hand():
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        return listener.getsockname()[1]


    def accept(listener):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


    def serve(connection):
        with connection, connection.makefile("rb") as file:
            size = 0
            while (line := file.readline().strip().lower()):
                name, _, value = line.partition(b":")
                size = int(value) if name == b"content-length" else size
            said = answer(json.loads(file.read(size))["messages"][-1]["content"])
            head = (
                b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\n"
                b"connection: close\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(said)
            )
            connection.sendall(head + said)


    ports = []


    def ask(text):
        if not ports:
            ports.append(SERVER())
        said = [{"role": "system", "content": "You answer."}, {"role": "user", "content": text}]
        request = urllib.request.Request(
            f"http://127.0.0.1:{ports[0]}/v1/chat/completions",
            json.dumps({"model": "m", "messages": said}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read())["choices"][0]["message"]["content"]
"""
SERVER_SCENARIO = """
    version: 1
    scenario: the desk answers
    pipeline: desk:ask
    app: {path: [.]}
    agents: {desk: {system: You answer.}}
    cassette: desk
    turns:
      - {user: Hello, expect: {reply: You said Hello}}
      - {user: Again, expect: {reply: You said Again}}
"""

TEXT = """

    import LIBRARY

    client = LIBRARY.AsyncClient()


    async def ask_kept(text):
        if not ports:
            ports.append(threading_server())
        said = [{"role": "system", "content": "You answer."}, {"role": "user", "content": text}]
        response = await client.post(
            f"http://127.0.0.1:{ports[0]}/v1/chat/completions",
            json={"model": "m", "messages": said},
        )
        return response.json()["choices"][0]["message"]["content"]
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", ["httpx2", "httpx"])
def test_a_client_that_is_kept_over_scenarios_is_recorded_in_each(
    library: str, tmp_path: Path
) -> None:
    """Each scenario has an event loop; a connection of one that is over serves no other."""
    pytest.importorskip(library)
    (tmp_path / "pyproject.toml").touch()
    app = textwrap.dedent(APP + TEXT).replace("LIBRARY", library)
    (tmp_path / "desk.py").write_text(app.replace("SERVER()", "0"), encoding="utf-8")
    text = textwrap.dedent(SERVER_SCENARIO).replace("desk:ask", "desk:ask_kept")
    other = text.replace("the desk answers", "it answers again").replace("Hello", "Good day")
    (tmp_path / "desk.scenario.yaml").write_text(f"{text}---{other}", encoding="utf-8")

    done = call(tmp_path, "record", "desk.scenario.yaml", "-q")

    assert done.out.startswith("2 scenarios: 2 passed"), done.out + done.err
    assert call(tmp_path, "replay", "desk.scenario.yaml", "-q").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("server", ["threading_server", "by_hand"])
def test_a_server_of_threads_in_the_same_process_is_recorded_at_once(
    server: str, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    app = textwrap.dedent(APP).replace("SERVER()", f"{server}()")
    (tmp_path / "desk.py").write_text(app, encoding="utf-8")
    (tmp_path / "desk.scenario.yaml").write_text(textwrap.dedent(SERVER_SCENARIO), encoding="utf-8")

    done = call(tmp_path, "record", "desk.scenario.yaml")

    assert "did not come to rest" not in done.out
    assert (done.code, done.err) == (0, "")
    assert "recorded: 2 interactions in cassettes/desk.yaml" in done.out
    assert call(tmp_path, "replay", "desk.scenario.yaml", "-q").code == 0
