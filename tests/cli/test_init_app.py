"""``simkit init --app``: the first test of an app that is there is written, and passes at once."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from simkit.cli.init.project import look_at
from tests.cli.projects import Call, Done, write
from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[2]

ASK = """
import json
import urllib.request

def ask(system, messages, **tools):
    offers = [
        {"type": "function", "function": {"name": name, "parameters": {
            "type": "object", "properties": {key: {"type": "string"}}, "required": [key]}}}
        for name, key in tools.items()
    ]
    body = {"model": "m", "messages": [{"role": "system", "content": system}, *messages]}
    if offers:
        body["tools"] = offers
    request = urllib.request.Request(
        "https://llm.example.test/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]
"""
DESK = f"""{ASK}
def find_order(customer):
    raise ConnectionError("the shop cannot be reached from here")

def answer(text):
    messages = [{{"role": "user", "content": text}}]
    said = ask("You are the triage agent.", messages, find_order="customer", to_refunds="order_id")
    for call in said.get("tool_calls") or ():
        args = json.loads(call["function"]["arguments"])
        said = ask(f"You are the refund agent. The order is {{args['order_id']}}.", messages)
    return said["content"]
"""
LOOP = f"""{ASK}
def main():
    while (text := input("You: ")) != "quit":
        print("Bot:", ask("Be kind.", [{{"role": "user", "content": text}}])["content"])

if __name__ == "__main__":
    main()
"""
SCENARIO = """\
# `simkit init --app helpdesk.desk:answer` ran the app once. No model was asked: write what yours \
would reply.
# It holds, since `expect` says what is sent today: read it, and change what is wrong.
scenario: helpdesk
pipeline: helpdesk.pipeline.yaml
turns:
  - user: Hello
    # What the models answer.
    replies:
      triage_agent:
        handoff: {to: refunds, payload: {order_id: order_id A-1}}
      refunds: Reply 1.
    # What must hold. `context` is what each agent's model is sent.
    expect:
      context:
        triage_agent:
          messages:
            - system: You are the triage agent.
            - user: Hello
          tools: {$unordered: [find_order, to_refunds]}
        refunds:
          messages:
            - system: You are the refund agent. The order is order_id A-1.
            - user: Hello
      handoffs:
        - {from: triage_agent, to: refunds, type: handoff, payload: {order_id: order_id A-1}}
  - user: Bye
    replies: {triage_agent: Reply 2.}
    expect:
      context:
        triage_agent:
          messages:
            - system: You are the triage agent.
            - user: Bye
          tools: {$unordered: [find_order, to_refunds]}
"""
PIPELINE = """\
pipeline: helpdesk
code: helpdesk.desk:answer
# Which model call is whose, by its instructions.
agents:
  triage_agent: {system: {$starts: You are the triage agent}}
  refunds: {system: {$starts: You are the refund agent}}
"""
REPORT = """\
running helpdesk.desk:answer: no model is asked
tests/scenarios/helpdesk.pipeline.yaml: written: how the app is run, and which calls are whose
tests/scenarios/helpdesk.scenario.yaml: written: 2 turns; agents refunds, triage_agent
  never reached: tools find_order
  To reach them: `simkit coverage tests/scenarios` says what to write for each.
  turns share nothing: no call is sent a message of an earlier turn, so no fault in a history fails.
  To remember, compile a graph with `checkpointer=InMemorySaver()`; a function takes `session`.
.github/workflows/simkit.yml: written
Next:
  simkit replay tests/scenarios
  python -m pytest tests/scenarios
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a project with a `src` layout and tests in `tests`."""
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    write("src/helpdesk/__init__.py", "")
    write("src/helpdesk/desk.py", DESK)
    write(
        "pyproject.toml",
        '[project]\nname = "helpdesk"\nrequires-python = ">=3.13"\n'
        '[build-system]\nrequires = ["hatchling"]\n'
        '[dependency-groups]\ndev = ["pytest"]\n'
        # As in many projects, a warning is an error.
        '[tool.pytest.ini_options]\ntestpaths = ["tests"]\nfilterwarnings = ["error"]\n',
    )
    (folder / "tests").mkdir()
    return folder


def init(*arguments: str) -> Done:
    """Call `simkit init` in a process of its own, as a user does who installed simkit."""
    done = run_python("-P", "-m", "simkit", "init", *arguments)
    return Done(done.returncode, done.stdout, done.stderr)


def read(file: str) -> str:
    """Return the text of a file."""
    return Path(file).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_the_first_test_of_an_app_is_written_and_passes() -> None:
    done = init("--app", "helpdesk.desk:answer", "--say", "Hello", "--say", "Bye")

    assert done == Done(0, REPORT, "")
    assert read("tests/scenarios/helpdesk.scenario.yaml") == SCENARIO
    assert read("tests/scenarios/helpdesk.pipeline.yaml") == PIPELINE
    assert run_python("-P", "-m", "pytest", "tests/scenarios").returncode == 0
    workflow = yaml.safe_load(read(".github/workflows/simkit.yml"))
    steps = workflow["jobs"]["simkit"]["steps"]
    assert steps[1]["with"] == {"python-version": "3.13"}
    assert [step["run"] for step in steps if "run" in step] == [
        "python -m pip install -e .",
        "python -m pip install --group dev",
        f"python -m pip install agent-simkit=={version('agent-simkit')}",
        "simkit validate tests/scenarios --format github",
        "python -m pytest tests/scenarios",
    ]
    again = init("--app", "helpdesk.desk:answer")
    left = "there already: edit it, or delete it to have it written anew"
    assert f"tests/scenarios/helpdesk.scenario.yaml: {left}\n" in again.out
    assert again.code == 0
    assert read("tests/scenarios/helpdesk.scenario.yaml") == SCENARIO
    # A change of the app's instructions is found.
    write("src/helpdesk/desk.py", DESK.replace("The order is", "About"))
    failed = run_python("-P", "-m", "simkit", "replay", "-q", "tests")
    assert failed.returncode == 1
    assert "You are the refund agent. About order_id A-1." in failed.stdout


LOOKUP = f"""{ASK}
kept = {{}}

def find_order(customer):
    raise ConnectionError("the shop cannot be reached from here")

def answer(text, session="all"):
    history = kept.setdefault(session, [])
    history.append({{"role": "user", "content": text}})
    system = 'You look orders up. Answer in JSON: {{"order": "..."}}'
    said = ask(system, history, find_order="customer")
    for call in said.get("tool_calls") or ():
        found = find_order(**json.loads(call["function"]["arguments"]))
        history += [said, {{"role": "tool", "tool_call_id": call["id"], "content": found}}]
        said = ask(system, history)
    task = json.loads(said["content"])
    reply = ask(f"You refund the order {{task['order']}}.", history)["content"]
    if ask("Was that kind or rude?", history)["content"] == "rude":
        reply = ask(f"You are sorry, about {{task['order']}}.", history)["content"]
    history.append({{"role": "assistant", "content": reply}})
    return reply
"""
PLANTED = {
    "a lost payload": ("order {task['order']}", "order {task.get('order_id')}"),
    "one of the turn before": ("task = json", "task = kept['task'] = kept.get('task') or json"),
    "one that a word leads to": ("about {task['order']}", "about {task.get('order_id')}"),
    "a leaked message": ('.", history)["content"]\n    if', '.", history * 2)["content"]\n    if'),
    "an orphaned call": ("history += [said, ", "history += [said] or ["),
    "an overwritten state": (
        'history.append({"role": "assistant"',
        'history[:] = [] or history.append({"role": "assistant"',
    ),
    "a session's history for another one": ("kept.setdefault(session", "kept.setdefault('all'"),
}


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_the_first_test_fails_for_usual_faults() -> None:
    write("shop.py", LOOKUP)
    done = init("--app", "shop:answer", "--say", "I am Ada")
    assert "4 turns; " in done.out, done
    assert "never reached" not in done.out

    passed = []
    for name, (right, wrong) in PLANTED.items():
        assert LOOKUP.count(right) == 1, name
        write("shop.py", LOOKUP.replace(right, wrong))
        if run_python("-P", "-m", "simkit", "replay", "tests").returncode != 1:
            passed.append(name)

    assert not passed


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_a_loop_is_run_as_a_program_whatever_it_is_named_by() -> None:
    write("talk.py", LOOP)

    for name in ("talk", "talk.py", "talk:main"):
        done = init("--app", name, "--say", "Hi", "--say", "quit")
        assert (done.code, done.err) == (0, ""), done
        pipeline = yaml.safe_load(read("tests/scenarios/talk.pipeline.yaml"))
        assert pipeline["code"] == name.removesuffix(".py")
        assert pipeline["app"] == {"input": "turns"}
        assert "user: quit" in read("tests/scenarios/talk.scenario.yaml")
        for file in Path("tests").rglob("talk.*"):
            file.unlink()


@pytest.mark.slow
def test_what_makes_an_app_fail_is_told_and_nothing_is_written(desk: Path) -> None:
    before = sorted(desk.rglob("*"))
    write("broken.py", "def answer(text):\n    return text\n")

    done = init("--app", "broken:answer")

    assert done == Done(
        2,
        "running broken:answer: no model is asked\n",
        "`broken:answer` called no model that simkit knows: there is nothing to write\n"
        "  `simkit doctor` says which client libraries are seen.\n",
    )
    after = [f for f in sorted(desk.rglob("*")) if "__pycache__" not in f.parts]
    assert set(after) - set(before) == {desk / "broken.py"}


KEYED = """\
import os
from helpdesk.desk import ask

if not os.environ.get("SHOP_API_KEY"):
    raise ValueError("Set the environment variable SHOP_API_KEY.")

class Many:
    def ask(self, text):
        return ask("Be kind.", [{"role": "user", "content": text}])["content"]

    def run(self, text):
        return self.ask(text)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_a_key_that_is_missed_gets_a_dummy_and_a_method_is_asked_for() -> None:
    write("src/helpdesk/keyed.py", KEYED)

    unclear = init("--app", "helpdesk.keyed:Many")
    done = init("--app", "helpdesk.keyed:Many", "--call", "ask")

    assert unclear.code == 2
    assert unclear.err == (
        "`helpdesk.keyed:Many` is or makes an object of class `Many`, and it is not clear which "
        "method takes the user's message: run, ask.\nName it: `app: {call: run}`, or "
        "`helpdesk.keyed:Many.run` for `init` and `explore`.\n  Here: `--call run`.\n"
    )
    assert done.code == 0, done
    assert yaml.safe_load(read("tests/scenarios/helpdesk.pipeline.yaml"))["app"] == {
        "call": "ask",
        "env": {"SHOP_API_KEY": "simkit"},
    }


NEEDY = """
import json
import os
import string
import sys
import urllib.request

import prepared

if hasattr(string, "needy_table"):
    raise RuntimeError("the table is there already")
string.needy_table = True  # As a class that a database library knows.
print("needy is imported", file=sys.stderr)

def ask(system, text, **more):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    body = json.dumps({"model": "m", "messages": messages, **more}).encode()
    url = os.environ["NEEDY_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]

def answer(text):
    schema = {
        "type": "object", "required": ["is_abusive"], "additionalProperties": False,
        "properties": {"is_abusive": {"type": "boolean"}},
    }
    form = {"type": "json_schema", "json_schema": {"name": "abuse", "schema": schema}}
    if json.loads(ask("You detect abuse.", text, response_format=form))["is_abusive"]:
        raise ValueError("The user is abusive.")
    name, shop = prepared.NAMES[0], os.environ["SHOP"]
    return ask("\\n    You help customers of " + shop + ".\\n    One is " + name, text)
"""
ADVICE = """
  If it needs more than the user's message, say so with --option, as often as needed:
    variables of the environment     --option env.SHOP=test
"""


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_an_app_that_needs_more_than_the_message_is_given_it() -> None:
    write("needy.py", NEEDY)
    write(
        "prepared.py",
        "NAMES = []\n\ndef add():\n    NAMES.append('Ada')\n\ndef fail():\n    NAMES[0]\n",
    )
    name, setup = ("--app", "needy:answer"), ("--option", "setup=prepared:add")

    lacking = init(*name, *setup)
    failing = init(*name, "--option", "setup=prepared:fail")
    done = init(*name, *setup, "--option", "env.SHOP=Shop")

    assert "raised KeyError: 'SHOP', at needy.py:" in lacking.err
    assert ADVICE in lacking.err
    assert (
        "`prepared:fail` prepares the app before its first turn, and raised IndexError: list index "
        "out of range, at prepared.py:7 in fail.\n"
    ) in failing.err
    # What the app prints is printed once for each way that is tried.
    assert (done.code, set(done.err.splitlines())) == (0, {"needy is imported"}), done
    assert yaml.safe_load(read("tests/scenarios/needy.pipeline.yaml"))["app"] == {
        "setup": "prepared:add",
        "env": {"NEEDY_BASE_URL": "http://localhost/v1", "SHOP": "Shop"},
    }
    scenario = yaml.safe_load(read("tests/scenarios/needy.scenario.yaml"))
    assert {"json": {"is_abusive": False}} in scenario["turns"][0]["replies"].values()
    claims = scenario["turns"][0]["expect"]["context"].values()
    assert {"system": {"$starts": "\n    You help customers of Shop."}} in [
        message for claim in claims for message in claim["messages"]
    ]


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("SHOP", "--option SHOP: this is no KEY=VALUE\n  Write `--option env.SHOP=test`.\n"),
        ("run_options={state", "--option run_options:1:1: the `{` opened here is never closed"),
        ("lags=true", "unknown option of an app `lags`"),
    ],
)
def test_an_option_that_is_none_is_refused(simkit: Call, desk: Path, pair: str, says: str) -> None:
    done = simkit("init", "--app", "helpdesk.desk:answer", "--option", pair)

    assert done.code == 2
    assert says in done.err
    assert not (desk / "tests" / "scenarios").exists()


def test_an_app_in_place_of_a_folder_is_asked_back(simkit: Call, desk: Path) -> None:
    done = simkit("init", "helpdesk.desk:answer")

    assert (done.code, done.out) == (2, "")
    assert "there is no folder `helpdesk.desk:answer`. Did you mean --app helpdesk.desk" in done.err
    assert not (desk / "helpdesk.desk:answer").exists()


def test_several_apps_are_listed_with_what_to_type(simkit: Call, desk: Path) -> None:
    write("talk.py", LOOP)

    done = simkit("init")

    assert done.code == 2
    assert done.err == (
        "there are several apps here\n"
        "  Name one:\n"
        "    simkit init --app talk   # an input() loop in talk.py\n"
        "    simkit init --app helpdesk.desk:answer   # a function in src/helpdesk/desk.py\n"
        "  Or write a sample project: `simkit init --sample`.\n"
    )
    assert not (desk / "tests" / "scenarios").exists()


def test_code_without_a_certain_app_is_listed_and_no_sample_written(
    simkit: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write("parts.py", "from agents import Agent\ndef worker(name):\n  return Agent(name=name)\n")

    done = simkit("init")

    assert done.code == 2
    assert done.err.startswith("none of this code is surely the app\n")
    assert "    simkit init --app parts:worker   # in parts.py\n" in done.err
    assert [*folder.iterdir()] == [folder / "parts.py"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--sample", "--app", "x:y"), "--sample writes another app; leave out --app."),
        (("--say", "Hi"), "name the app that is to be run: --app MODULE:NAME."),
    ],
)
def test_options_that_say_nothing_together_are_refused(
    simkit: Call, cwd: Path, arguments: tuple[str, ...], says: str,
) -> None:  # fmt: skip

    done = simkit("init", *arguments)

    assert done.code == 2
    assert says in done.err


# What is seen of a project


FILES = {
    "langgraph": (
        {
            "langgraph.json": '{"graphs": {"agent": "./src/app/graph.py:graph"}}',
            "src/app/__init__.py": "",
            "src/app/graph.py": "from langgraph.graph import StateGraph\n"
            "graph = StateGraph(dict).compile(name='x')\n",
        },
        ["app.graph:graph"],
    ),
    "a script that imports its neighbours": (
        {
            "src/__init__.py": "",
            "src/nodes.py": "",
            "src/graph.py": "import nodes\nfrom langgraph.graph import StateGraph\n"
            "builder = StateGraph(dict)\ngraph = builder.compile()\n",
        },
        ["graph:graph"],
    ),
    "a package whose module is called as a library": (
        {
            "airline/__init__.py": "",
            "airline/agents.py": "from agents import Agent\n"
            "faq_agent = Agent[str](name='f')\ntriage_agent = Agent(name='t')\n",
            "main.py": "from airline.agents import triage_agent\n",
        },
        ["airline.agents:triage_agent", "airline.agents:faq_agent"],
    ),
    "functions that make one": (
        {
            "made.py": "from langgraph.graph import StateGraph\n"
            "def build():\n  b = StateGraph(dict)\n  return b.compile()\n\ngraph = build()\n",
            "maker.py": "from langgraph.graph import StateGraph\n"
            "def build(name='x'):\n  graph = StateGraph(dict).compile()\n  return graph\n",
            "parts.py": "from agents import Agent\n"
            "def worker(name):\n  return Agent(name=name)\n\n"
            "def model():\n  return 'gpt-5'\n\nteam = Agent(handoffs=[worker('a')])\n",
        },
        ["made:graph", "maker:build", "parts:team"],
    ),
    "folders without __init__": (
        {
            "state/kept.py": "import openai\ndef answer(text): pass\n",
            "main.py": "import state.kept\n",
            "other/alone.py": "import openai\ndef answer(text): pass\n",
        },
        ["alone:answer", "state.kept:answer"],
    ),
    "loops": (
        {
            "pyproject.toml": '[project.scripts]\ntalk = "cli.talk:main"\n',
            "cli/__init__.py": "",
            "cli/talk.py": "import openai\ndef main():\n  while True: print(input())\n",
            "top.py": "import sys\nfor line in sys.stdin: print(line)\n",
            "tool.py": "def main():\n  while True: input()\n",
        },
        ["cli.talk:main", "top"],
    ),
    "nothing that is one": (
        {
            "tests/test_it.py": "import openai\ndef answer(text): pass\n",
            ".venv/pyvenv.cfg": "",
            ".venv/lib.py": "import openai\ndef answer(text): pass\n",
            "broken.py": "import openai\ndef answer(text)\n",
            "plain.py": "def answer(text): pass\n",
            "load.py": "import openai\ndef load_chat_model(name): pass\n",
        },
        [],
    ),
}


@pytest.mark.parametrize(("files", "apps"), FILES.values(), ids=FILES)
def test_the_apps_of_a_project_are_seen(cwd: Path, files: dict[str, str], apps: list[str]) -> None:
    for name, text in files.items():
        write(name, text)

    assert sorted(app.name for app in look_at(cwd).apps) == sorted(apps)


INSTALLS = {
    "nothing": ({}, []),
    "uv": (
        {"uv.lock": "", "pyproject.toml": '[project]\ndependencies = ["openai"]\n'},
        [
            "python -m pip install uv",
            "uv export --quiet --frozen --all-groups --no-emit-project -o requirements.lock",
            "python -m pip install --no-deps -r requirements.lock",
        ],
    ),
    "extras": (
        {
            "pyproject.toml": "[build-system]\n[project.optional-dependencies]\ntest = []\n",
            "requirements.txt": "",
        },
        ['python -m pip install -e ".[test]"', "python -m pip install -r requirements.txt"],
    ),
}


@pytest.mark.parametrize(("files", "lines"), INSTALLS.values(), ids=INSTALLS)
def test_how_a_project_is_installed_is_seen(
    cwd: Path, files: dict[str, str], lines: list[str]
) -> None:
    for name, text in files.items():
        write(name, text)

    assert list(look_at(cwd).install) == lines


def test_dependencies_of_what_is_not_built_are_installed_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("pyproject.toml", '[project]\ndependencies = ["openai>=2", "httpx"]\n')

    assert look_at(tmp_path).install == ("python -m pip install 'openai>=2' httpx",)


def test_an_app_in_a_folder_of_a_repository_has_its_workflow_at_the_top(
    simkit: Call, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.parent / ".git").mkdir()

    done = simkit("init", "--sample")

    workflow = yaml.safe_load((desk.parent / ".github/workflows/simkit.yml").read_text("utf-8"))
    assert workflow["jobs"]["simkit"]["defaults"] == {"run": {"working-directory": "desk"}}
    assert done.code == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json_object"])
def test_an_app_that_a_made_up_reply_breaks_is_told_how_to_go_on(simkit: Call, form: str) -> None:
    write("orders.py", f'''
import json
from openai import OpenAI

def run(text):
    made = OpenAI().chat.completions.create(
        model="m",
        messages=[{{"role": "user", "content": text}}],
        response_format={{"type": "{form}"}},
    )
    return json.loads(made.choices[0].message.content)["intent"]
''')  # fmt: skip

    failed = simkit("init", "--app", "orders:run")
    answered = ("--reply", '{"intent": "refund"}', "--reply", "Bye.")
    done = simkit("init", "--app", "orders:run", *answered)

    assert failed.code == 2
    last = {"text": "Reply 1.", "json_object": "{}"}[form]
    _, _, advice = failed.err.partition(f"  A made-up reply came last: {last}\n")
    assert advice.startswith("  If the app cannot read it, say what its models answer, in order,")
    assert "  If it needs more than the user's message, say so with --option" in advice
    assert done.code == 0, done
    assert "--reply Bye.: no request of this run takes it\n" in done.out
    (reply,) = yaml.safe_load(read("scenarios/orders.scenario.yaml"))["turns"][0][
        "replies"
    ].values()
    assert (
        reply
        == {"text": '{"intent": "refund"}', "json_object": {"json": {"intent": "refund"}}}[form]
    )
