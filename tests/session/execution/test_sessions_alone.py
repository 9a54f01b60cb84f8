"""STA-08 on code: what time, ids, chance and imports make different is no leak, what leaks is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from simkit import load, simulate

HEAD = """
import json, random, secrets, tempfile, time, uuid
from datetime import datetime
from openai import OpenAI
"""
ASKING = """
def ask(system, said):
    client = OpenAI()
    return client.responses.create(model="gpt-5", instructions=system, input=said).output_text
"""
SCENARIO = """
version: 1
scenario: sessions
pipeline: alone_app:ENTRY
app: {path: [.], FRESH}
start: 2027-05-05T00:00:00Z
agents: {bot: {system: {$starts: You help}}}
turns:
  - {user: One, replies: {bot: {text: Hi., latency_ms: 20}}}
  - {user: Two, session: s2, replies: {bot: Hi.}}
  - {user: Three, session: s3, replies: {bot: Hi.}}
  - {user: Four, session: s2, replies: {bot: Hi.}}
  - {user: Five, replies: {bot: Hi.}}
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("alone_")]:
        del sys.modules[name]


def find_problems(
    folder: Path, files: Mapping[str, str], fresh: str = "fresh: false", entry: str = "Bot"
) -> list[str]:
    """Returns what is found of an application's sessions."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    text = SCENARIO.replace("FRESH", fresh).replace("ENTRY", entry)
    (folder / "one.scenario.yaml").write_text(text, encoding="utf-8")
    (item,) = load(str(folder / "one.scenario.yaml"))
    return [finding.what for finding in simulate(item).judgement.findings]


TEXTS = [
    "datetime.now().isoformat()",
    "time.time_ns()",
    "time.monotonic_ns()",
    "time.perf_counter()",
    "uuid.uuid1()",
    "uuid.uuid4()",
    "random.random()",
    "random.sample(range(99), 5)",
    "random.gauss(0, 1)",
    "random.Random().random()",
    "secrets.token_hex(8)",
    "tempfile.mktemp()",
    "[time.time() for _ in range(400)][-1]",
]


SHOWN_WITH = {
    "numpy": ["numpy.random.rand()", "numpy.random.default_rng().random()"],
    "uuid_utils.compat": ["uuid_utils.uuid7()", "uuid_utils.compat.uuid7()"],
}
"""What more is shown where a library is installed."""


@pytest.mark.parametrize("fresh", ["fresh: false", "fresh: true"])
def test_what_time_and_chance_make_different_is_no_leak(tmp_path: Path, fresh: str) -> None:
    modules = [name for name in SHOWN_WITH if find_spec(name.partition(".")[0])]
    values = ", ".join([*TEXTS, *(item for name in modules for item in SHOWN_WITH[name])])
    imports = "".join(f"import {name}\n" for name in modules)
    bot = f"""
AT_IMPORT = json.dumps([{values}], default=str)

class Bot:
    def __init__(self):
        self.made = json.dumps([{values}], default=str)

    def run(self, text):
        now = json.dumps([{values}], default=str)
        return ask(f"You help. {{AT_IMPORT}} {{self.made}} {{now}}", text)
"""
    files = {"alone_app.py": HEAD + imports + ASKING + bot}

    assert find_problems(tmp_path, files, fresh) == []


@pytest.mark.slow
def test_a_list_that_sessions_share_is_a_leak_and_the_place_is_shown(tmp_path: Path) -> None:
    bot = """
SAID = []

class Bot:
    def run(self, text):
        SAID.append(text)
        return ask(f"You help. {'Be kind. ' * 30}{datetime.now()} {SAID}", text)
"""

    texts = find_problems(tmp_path, {"alone_app.py": HEAD + ASKING + bot}, "fresh: true")

    kind = "…" + ("kind. " + "Be kind. " * 30)[-78:]
    at = "2027-05-05 00:00:00.021000"
    assert texts[0] == (
        "session 's2' is not what it is alone, from turn 2 on: context of bot: messages[0].content "
        f"is {kind}{at} ['One', 'Two'] among others, {kind}{at} ['Two'] alone"
    )
    assert [text.split(" is ")[0] for text in texts[1:]] == ["session 's3'", "session 's1'"]


LATE = """
from datetime import datetime
SEEN = {}
AT = datetime.now().isoformat()

def said(text, session):
    SEEN.setdefault(session, []).append(text)
    return "; ".join(SEEN[session])
"""
KEYED = """
import alone_late

class Bot:
    def __init__(self, session):
        self.session = session

    def run(self, text):
        return ask(f"You help at {alone_late.AT}.", alone_late.said(text, self.session))

BOTS = {}

def answer(text, session):
    return BOTS.setdefault(session, Bot(session)).run(text)
"""


@pytest.mark.parametrize("fresh", ["fresh: false", "fresh: true"])
@pytest.mark.parametrize(
    "helper", ["alone_late.py", "alone_package/__init__.py", "alone_space/late.py"]
)
def test_what_a_helper_keeps_by_session_is_no_leak(tmp_path: Path, fresh: str, helper: str) -> None:
    name = helper.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    app = HEAD + ASKING + KEYED.replace("import alone_late", f"import {name} as alone_late")

    assert find_problems(tmp_path, {"alone_app.py": app, helper: LATE}, fresh, "answer") == []


@pytest.mark.parametrize("fresh", ["fresh: false", "fresh: true"])
def test_module_that_one_session_is_the_first_to_import_is_imported_at_the_same_time(
    tmp_path: Path, fresh: str
) -> None:
    bot = """
class Bot:
    def run(self, text):
        import alone_late
        return ask(f"You help at {alone_late.AT}", text)
"""

    assert (
        find_problems(tmp_path, {"alone_app.py": HEAD + ASKING + bot, "alone_late.py": LATE}, fresh)
        == []
    )


@pytest.mark.parametrize("fresh", ["fresh: false", "fresh: true"])
def test_list_of_a_helper_that_sessions_share_is_a_leak(tmp_path: Path, fresh: str) -> None:
    files = {
        "alone_app.py": HEAD + ASKING + KEYED,
        "alone_late.py": LATE.replace("SEEN.setdefault(session", "SEEN.setdefault(0").replace(
            "SEEN[session]", "SEEN[0]"
        ),
    }

    texts = find_problems(tmp_path, files, fresh, "answer")

    assert [text.split(": ")[0] for text in texts] == [
        "session 's2' is not what it is alone, from turn 2 on",
        "session 's3' is not what it is alone, from turn 3 on",
        "session 's1' is not what it is alone, from turn 5 on",
    ]


@pytest.mark.slow
def test_leak_is_found_where_an_earlier_scenario_left_something_in_the_module(
    tmp_path: Path,
) -> None:
    files = {
        "alone_app.py": HEAD
        + ASKING
        + """
SAID = []

class Bot:
    def run(self, text):
        SAID.append(text)
        return ask(f"You help. {SAID}", text)
"""
    }
    find_problems(tmp_path, files)

    texts = find_problems(tmp_path, files)

    assert [text.split(" among others")[0].rpartition(" is ")[2] for text in texts] == [
        "You help. ['One', 'Two']",
        "You help. ['One', 'Two', 'Three']",
        "You help. ['One', 'Two', 'Three', 'Four', 'Five']",
    ]


FILE = """
from pathlib import Path
FILE = Path(__file__).with_name("said.json")

class Bot:
    def run(self, text):
        said = json.loads(FILE.read_text()) if FILE.exists() else []
        FILE.write_text(json.dumps([*said, text]))
        return ask(f"You help. {said}", text)
"""
ONCE = """
import sys
assert not hasattr(sys, "alone_was_here"), "twice"
sys.alone_was_here = True

class Bot:
    def run(self, text):
        return ask("You help.", text)
"""


def test_what_a_file_keeps_of_the_first_run_is_no_knowledge(tmp_path: Path) -> None:
    assert find_problems(tmp_path, {"alone_app.py": HEAD + ASKING + FILE}) == []


def test_code_that_cannot_be_imported_twice_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "alone_was_here", True, raising=False)
    monkeypatch.delattr(sys, "alone_was_here")

    assert find_problems(tmp_path, {"alone_app.py": HEAD + ASKING + ONCE}) == []
