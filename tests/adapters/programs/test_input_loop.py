"""Programs that are a loop around `input()` run as they are."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from simkit.core.errors import SimkitError, SourceError
from tests.adapters.running import run_app
from tests.building import Ran

ASK = """
import json
import urllib.request

def ask(messages):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    headers = {"content-type": "application/json"}
    url = "https://llm.example.test/v1/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as response:
        return json.load(response)["choices"][0]["message"]["content"]

def answer(text):
    return ask([{"role": "user", "content": text}])
"""

PLAIN = """
def main():
    print("Welcome! Type quit to leave.")
    history = []
    while True:
        text = input("You: ").strip()
        if text in ("quit", "exit"):
            print("Goodbye!")
            break
        history.append({"role": "user", "content": text})
        history.append({"role": "assistant", "content": ask(history)})
        print("Bot:", history[-1]["content"])
"""

TALK = """
    agents: {bot: {messages: {$any: true}}}
    turns:
      - user: Hello
        replies: {bot: Hi there}
        expect: {reply: "Bot: Hi there"}
      - user: How are you?
        replies: {bot: Fine}
        expect:
          reply: "Bot: Fine"
          context:
            bot: {messages: [user: Hello, assistant: Hi there, user: How are you?]}
"""


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = {*threading.enumerate()}
    yield
    left = [t.name for t in threading.enumerate() if t not in before and "program" in t.name]
    assert left == []


def ran(
    folder: Path, code: str, scenario: str, *, name: str = "loop_app", entry: str = "main"
) -> Ran:
    """Run the scenario of a program, whose module is new."""
    (folder / f"{name}.py").write_text(ASK + code, encoding="utf-8")
    sys.modules.pop(name, None)
    pipeline = f"{name}:{entry}" if entry else name
    if "app: {" not in scenario:
        scenario = f"\n    app: {{input: turns}}{scenario}"
    return run_app(pipeline, scenario, folder)


def check_program(folder: Path, code: str, scenario: str, *, entry: str = "main") -> Ran:
    """Run the scenario of a program, which must hold."""
    result = ran(folder, code, scenario, entry=entry)
    assert [finding.what for finding in result.judgement.findings] == []
    return result


def replies_of(result: Ran) -> list[object]:
    """Return what each turn's reply was."""
    return [turn.reply for turn in result.view.turns]


def test_turns_are_typed_in_and_what_is_printed_is_the_reply_in_each_run(tmp_path: Path) -> None:
    first, second = check_program(tmp_path, PLAIN, TALK), check_program(tmp_path, PLAIN, TALK)

    assert first.trace.digest() == second.trace.digest()


MODULES = {
    "at its top": PLAIN.replace("def main():", "if True:").replace(
        "    break", "    raise SystemExit"
    ),
    "guarded": PLAIN + '\nif __name__ == "__main__":\n    main()\n',
    "guarded the other way": PLAIN + "\nif '__main__' != __name__:\n    raise OSError\nmain()\n",
}


@pytest.mark.parametrize("code", MODULES.values(), ids=MODULES)
def test_a_module_runs_as_a_program(tmp_path: Path, code: str) -> None:
    check_program(tmp_path, code, TALK, entry="")


@pytest.mark.parametrize("name", ["2-chat", "01_chat", "größe"])
def test_a_program_has_any_name_that_python_can_import(tmp_path: Path, name: str) -> None:
    result = ran(tmp_path, MODULES["guarded"], TALK, name=name, entry="")

    assert replies_of(result) == ["Bot: Hi there", "Bot: Fine"]


def test_a_package_runs_by_its_main_module(tmp_path: Path) -> None:
    package = tmp_path / "loop_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "talk.py").write_text(ASK + PLAIN, encoding="utf-8")
    (package / "__main__.py").write_text("from .talk import main\n\nmain()\n", encoding="utf-8")

    result = run_app("loop_package", f"\n    app: {{input: turns}}{TALK}", tmp_path)

    assert replies_of(result) == ["Bot: Hi there", "Bot: Fine"]


def test_a_class_of_a_program_finds_its_types_by_the_modules_name(tmp_path: Path) -> None:
    code = (
        """
from __future__ import annotations
"""
        + ASK
        + """
import typing
from dataclasses import dataclass

@dataclass
class Talk:
    last: Note | None = None

@dataclass
class Note:
    text: str

if __name__ == "__main__":
    print(sorted(typing.get_type_hints(Talk)), Talk.__module__)
    while True:
        print(answer(input("> ")), typing.get_type_hints(Talk)["last"] == (Note | None))
"""
    )
    (tmp_path / "typed_loop.py").write_text(code, encoding="utf-8")
    scenario = """
    app: {input: turns}
    agents: {bot: {messages: {$any: true}}}
    turns: [{user: Hello, replies: {bot: Hi}, expect: {reply: Hi True}}]
    """

    assert replies_of(run_app("typed_loop", scenario, tmp_path)) == ["Hi True"]


ENDS = {
    "a word": ("user: quit", "Goodbye!"),
    "nothing": ("user: Bye\n        replies: {bot: Bye}", "Bot: Bye"),
}


@pytest.mark.parametrize(("turn", "reply"), ENDS.values(), ids=ENDS)
def test_a_program_ends_with_its_word_or_after_the_last_turn(
    tmp_path: Path, turn: str, reply: str
) -> None:
    scenario = f"""
    agents: {{bot: {{messages: {{$any: true}}}}}}
    turns:
      - {turn}
    """

    assert replies_of(check_program(tmp_path, PLAIN, scenario)) == [reply]


def test_a_turn_after_a_programs_end_is_an_error_that_can_be_claimed(tmp_path: Path) -> None:
    scenario = """
    turns:
      - user: quit
      - user: Hello?
        expect:
          error:
            type: FunctionFailed
            message: "`loop_app:main` ended in turn 1, and reads no more messages"
    """

    check_program(tmp_path, PLAIN, scenario)


ONE_TURN = """
    agents: {bot: {messages: {$any: true}}}
    turns: [{user: Hello, replies: {bot: Hi}}]
"""

LOOPS = {
    "end of input is caught": (
        "def main():\n"
        "    while True:\n"
        "        try:\n"
        "            print(answer(input('> ')))\n"
        "        except (EOFError, KeyboardInterrupt):\n"
        "            print(answer('a question of its own'))\n"
        "            break\n"
    ),
    "everything is caught": (
        "import traceback\n"
        "def main():\n"
        "    while True:\n"
        "        try:\n"
        "            print(answer(input('> ')))\n"
        "        except:\n"
        "            traceback.print_exc()\n"
        "            break\n"
    ),
    "lines of stdin": (
        "import sys\ndef main():\n    for line in sys.stdin:\n        print(answer(line.strip()))\n"
    ),
    "bytes of stdin": (
        "import sys\n"
        "def main():\n"
        "    while line := sys.stdin.buffer.readline():\n"
        "        sys.stdout.buffer.write(answer(line.decode().strip()).encode() + b'\\n')\n"
    ),
    "all of stdin": "import sys\ndef main():\n    print(answer(sys.stdin.read().strip()))\n",
    "a prompt that is printed": (
        "import sys\n"
        "def main():\n"
        "    while True:\n"
        "        print('You: ', end='', flush=True)\n"
        "        print(answer(sys.stdin.readline().strip()))\n"
    ),
    "a stream of words": (
        "def main():\n"
        "    while True:\n"
        "        for letter in answer(input('\\nYou: ')):\n"
        "            print(letter, end='', flush=True)\n"
    ),
    "colours and a spinner": (
        "def main():\n"
        "    while True:\n"
        "        text = input('\\033[94mYou\\033[0m: ')\n"
        "        print('Thinking…', end='\\r')\n"
        "        print(f'\\033[1;92m{answer(text)}\\033[0m')\n"
    ),
    "a coroutine": ("async def main():\n    while True:\n        print(answer(input('> ')))\n"),
    "a coroutine whose thread reads": (
        "import asyncio\n"
        "async def main():\n"
        "    while True:\n"
        "        print(answer(await asyncio.to_thread(input, '> ')))\n"
    ),
    "an event loop of its own": (
        "import asyncio\n"
        "async def talk():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    while True:\n"
        "        text = await loop.run_in_executor(None, input, '> ')\n"
        "        await asyncio.sleep(1)\n"
        "        print(answer(text))\n"
        "def main():\n"
        "    asyncio.run(talk())\n"
    ),
    "a thread that reads": (
        "import queue, threading\n"
        "def main():\n"
        "    texts = queue.Queue()\n"
        "    def read():\n"
        "        try:\n"
        "            while True:\n"
        "                texts.put(input('> '))\n"
        "        finally:\n"
        "            texts.put('')\n"
        "    threading.Thread(target=read, daemon=True).start()\n"
        "    while text := texts.get():\n"
        "        print(answer(text))\n"
    ),
    "signals and arguments": (
        "import argparse, signal, sys\n"
        "def main():\n"
        "    argparse.ArgumentParser().parse_args()\n"
        "    signal.signal(signal.SIGINT, lambda number, frame: sys.exit(0))\n"
        "    sys.stdout.reconfigure(encoding='utf-8')\n"
        "    while True:\n"
        "        print(answer(input('> ')))\n"
    ),
    "an end by exit()": ("def main():\n    print(answer(input('> ')))\n    exit()\n"),
    "a method": (
        "class Talk:\n"
        "    def run(self):\n"
        "        while True:\n"
        "            print(answer(input('> ')))\n"
        "main = Talk\n"
    ),
}


@pytest.mark.parametrize("code", LOOPS.values(), ids=LOOPS)
def test_loops_of_many_kinds_run_as_they_are(
    tmp_path: Path, code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert replies_of(check_program(tmp_path, code, ONE_TURN)) == ["Hi"]
    assert capfd.readouterr() == ("", "")


def test_each_line_of_a_text_is_typed_in(tmp_path: Path) -> None:
    code = """
def main():
    while True:
        name = input("Name? ")
        print(answer(f"{name}: {input('Text? ')}"))
"""
    scenario = """
    agents: {bot: {messages: {$any: true}}}
    turns:
      - user: "Ada\\nHello"
        replies: {bot: Hi}
        expect: {context: {bot: {messages: [user: "Ada: Hello"]}}}
      - user: Ben
        expect: {reply: null, agents: []}
      - user: Bye
        replies: {bot: Goodbye}
        expect: {reply: Goodbye, context: {bot: {messages: [user: "Ben: Bye"]}}}
    """

    check_program(tmp_path, code, scenario)


def test_each_session_is_a_run_of_the_program(tmp_path: Path) -> None:
    scenario = """
    agents: {bot: {messages: {$any: true}}}
    turns:
      - {user: Hello, session: a, replies: {bot: Hi A}}
      - {user: Hello, session: b, replies: {bot: Hi B}}
      - user: Again
        session: a
        replies: {bot: A again}
        expect: {context: {bot: {messages: [user: Hello, assistant: Hi A, user: Again]}}}
    """

    assert replies_of(check_program(tmp_path, PLAIN, scenario)) == [
        "Bot: Hi A", "Bot: Hi B", "Bot: A again",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_restart_ends_the_program_and_starts_it_anew(tmp_path: Path) -> None:
    scenario = """
    agents: {bot: {messages: {$any: true}}}
    turns:
      - {user: Hello, replies: {bot: Hi}}
      - user: Again
        restart: true
        replies: {bot: Hi again}
        expect: {context: {bot: {messages: [user: Again]}}}
    """

    forgets = ran(tmp_path, PLAIN, scenario)
    keeps = PLAIN.replace("history = []", "history = kept()").replace(
        '        print("Bot:', '        keep(history)\n        print("Bot:'
    )
    files = f"""
from pathlib import Path
FILE = Path({str(tmp_path / "history.json")!r})
def kept():
    return json.loads(FILE.read_text()) if FILE.exists() else []
def keep(history):
    FILE.write_text(json.dumps(history))
"""
    remembers = ran(tmp_path, files + keeps, scenario.replace("[user: Again]", "{$len: 3}"))

    assert replies_of(forgets) == replies_of(remembers) == ["Bot: Hi", "Bot: Hi again"]
    assert "STA-06" in [finding.id for finding in forgets.judgement.findings]
    assert [f.what for f in remembers.judgement.findings if "holds" in f.what] == []


def test_what_a_program_raises_is_the_turns_error_with_its_place(tmp_path: Path) -> None:
    code = "\ndef main():\n    while True:\n        print({}[input('> ')])\n"
    scenario = """
    turns:
      - user: Hello
        expect:
          error:
            type: FunctionFailed
            message: "`loop_app:main` raised KeyError: 'Hello', at loop_app.py:17 in main"
    """

    check_program(tmp_path, code, scenario)


def test_a_program_that_swallows_a_halt_does_not_go_on(tmp_path: Path) -> None:
    code = """
def main():
    while True:
        try:
            print(answer(input("> ")))
        except BaseException as problem:
            print("Something went wrong.")
            if not isinstance(problem, Exception) and "Closed" in type(problem).__name__:
                raise
"""

    with pytest.raises(SourceError, match="belongs to no agent"):
        ran(tmp_path, code, "\n    turns: [{user: Hello}, {user: Again}]\n")


def test_a_loop_that_is_named_as_a_pipeline_is_told_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as refused:
        ran(tmp_path, PLAIN, "\n    app: {path: [.]}\n    turns: [{user: Hello}]\n")

    assert refused.value.what == (
        "`loop_app:main` is a program: it reads the user's messages itself, by `input()` or from "
        "stdin.\nRun it as it is: `app: {input: turns}` types each turn's text in, and what is "
        "printed is the reply. If the loop is in the module itself, name the module alone: "
        "`pipeline: loop_app`."
    )


def test_a_loop_that_catches_everything_is_told_so_too(tmp_path: Path) -> None:
    code = """
def main():
    while True:
        try:
            print(answer(input("> ")))
        except:
            break
"""

    with pytest.raises(SourceError, match="is a program: it reads"):
        ran(tmp_path, code, "\n    app: {path: [.]}\n    turns: [{user: Hello}]\n")


def test_a_program_whose_question_is_in_its_code_has_a_turn_that_says_nothing(
    tmp_path: Path,
) -> None:
    code = "def main():\n    print(answer('Hello'))\n"
    turns = "agents: {bot: {messages: {$any: true}}}\n    turns: [{user: '', replies: {bot: Hi}}]\n"

    assert replies_of(check_program(tmp_path, code, f"\n    {turns}")) == ["Hi"]


REFUSED = {
    "needs arguments": (
        "def main(config):\n    input()\n",
        "main",
        "needs `config`, and a program",
    ),
    "is not there": ("", "mein", "has no 'mein'"),
    "reads nothing": ("def main():\n    pass\n", "main", 'say nothing: `user: ""`'),
}


@pytest.mark.parametrize(("code", "entry", "says"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_program_is_refused(tmp_path: Path, code: str, entry: str, says: str) -> None:
    with pytest.raises(SimkitError, match=says):
        refuse_errors(ran(tmp_path, code, "\n    turns: [{user: Hello}]\n", entry=entry))


def refuse_errors(result: Ran) -> None:
    """Raise SimkitError for the first turn that ended with an error."""
    for turn in result.view.turns:
        if turn.error is not None:
            raise SimkitError(turn.error.message)


def test_a_module_that_is_not_there_is_told_with_what_is_near(tmp_path: Path) -> None:
    (tmp_path / "loop_app.py").write_text(PLAIN, encoding="utf-8")

    with pytest.raises(SourceError, match=r"(?s)there is no module 'loop_ap'.*mean `loop_app`"):
        run_app("loop_ap", "\n    app: {input: turns}\n    turns: [{user: Hello}]\n", tmp_path)


def test_a_misspelt_way_of_input_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"(?s)`turn`.*mean `turns`"):
        ran(tmp_path, PLAIN, "\n    app: {input: turn}\n    turns: [{user: Hello}]\n")


GRAPH = """
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

def chatbot(state: MessagesState):
    return {"messages": [ChatOpenAI(model="gpt-4.1-nano").invoke(state["messages"])]}

def check(state: MessagesState):
    if "refund" in state["messages"][-1].content:
        return {"messages": [("ai", interrupt("Who agrees?"))]}

builder = StateGraph(MessagesState)
builder.add_node(chatbot)
builder.add_node(check)
builder.add_edge(START, "chatbot")
builder.add_edge("chatbot", "check")
graph = builder.compile(checkpointer=InMemorySaver())

def show(given):
    for event in graph.stream(given, {"configurable": {"thread_id": "1"}}, stream_mode="updates"):
        for value in event.values():
            if isinstance(value, tuple):
                show(Command(resume=input(value[0].value)))
            elif value:
                print("Assistant:", value["messages"][-1][1:] or value["messages"][-1].content)

while True:
    try:
        user_input = input("User: ")
        if user_input.lower() in ["quit", "exit", "q"]:
            print("Goodbye!")
            break
        show({"messages": [{"role": "user", "content": user_input}]})
    except:
        user_input = "What do you know about LangGraph?"
        show({"messages": [{"role": "user", "content": user_input}]})
        break
""".replace('value["messages"][-1][1:] or value["messages"][-1].content', 'value["messages"][-1]')


def test_a_loop_around_a_graph_shows_its_nodes_its_state_and_what_it_asks(tmp_path: Path) -> None:
    pytest.importorskip("langgraph")
    pytest.importorskip("langchain_openai")
    scenario = """
    turns:
      - user: Hello
        replies: {chatbot: Hi there}
        expect:
          agents: [chatbot, check]
          reply: {$contains: content='Hi there'}
          context: {chatbot: {messages: [user: Hello]}}
      - user: Money back
        replies: {chatbot: Shall I refund it?}
        expect: {interrupt: Who agrees?, state: {messages: {$len: 4}}}
      - user: Ada
        expect: {agents: [check], reply: "Assistant: ('ai', 'Ada')"}
      - user: q
        expect: {reply: Goodbye!, agents: []}
    """

    check_program(tmp_path, GRAPH, scenario, entry="")


def test_a_loop_around_an_agent_shows_its_name_and_its_tools(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_ai")
    code = """
from pydantic_ai import Agent

agent = Agent("openai-chat:gpt-4o", name="helper", system_prompt="Be brief.")

@agent.tool_plain
def shout(word: str) -> str:
    return word.upper()

def agent_loop():
    messages = None
    while True:
        user_input = input("User: ")
        if user_input == "exit":
            break
        result = agent.run_sync(user_input, message_history=messages)
        messages = result.all_messages()
        print(result.output)

if __name__ == "__main__":
    agent_loop()
"""
    scenario = """
    turns:
      - user: Shout hello
        replies: {helper: [calls: [shout: {word: hello}], HELLO it is.]}
        expect:
          agents: [helper]
          reply: HELLO it is.
          tool_calls: [{agent: helper, tool: shout, result: HELLO}]
      - user: Thanks
        replies: {helper: You are welcome.}
        expect: {context: {helper: {messages: {$len: 6}}}}
    """

    check_program(tmp_path, code, scenario, entry="")


def test_a_child_may_write_to_the_stream_for_errors_and_not_to_the_screen(tmp_path: Path) -> None:
    code = """
import io
import sys

def main():
    text = input()
    answer(text)
    try:
        sys.stdout.fileno()
    except io.UnsupportedOperation:
        print("screen")
    print(sys.stderr.fileno() >= 0)
    input()
"""
    scenario = """
    agents: {bot: {messages: {$any: true}}}
    turns:
      - {user: Hello, replies: {bot: Hi}, expect: {reply: "screen\\nTrue"}}
"""

    check_program(tmp_path, code, scenario)
