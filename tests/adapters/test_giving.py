"""What a scenario gives is put into the state of code by a function that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from tests.adapters.running import prepared, run_app

SHOP = """
import simkit
from openai import OpenAI


class Shop:
    def __init__(self):
        self.plan = "free"

    def chat(self, text):
        simkit.state(plan=self.plan)
        with simkit.agent("clerk"):
            said = f"{self.plan}: {text}"
            asked = [{"role": "user", "content": said}]
            answer = OpenAI().chat.completions.create(model="m", messages=asked)
        return answer.choices[0].message.content


def put(shop, state):
    vars(shop).update(state)


def put_and_say(shop, state, session, start):
    shop.plan = f"{state['plan']} of {session} at {start}"


def answer(text):
    return f"{FIXED['plan']}: {text}"


FIXED = {"plan": "free"}


def fix(function, state):
    function.__globals__["FIXED"] = state
"""
TURNS = """
    given: {state: {plan: pro}}
    turns:
      - user: Hello
        replies: {clerk: Hi}
        expect: {context: {clerk: {messages: [user: "SAID: Hello"]}}}
      - user: Hello
        session: s2
        replies: {clerk: Hi}
        expect: {context: {clerk: {messages: [user: "OTHER: Hello"]}}}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop_of_giving.py").write_text(SHOP, encoding="utf-8")
    return tmp_path


def scenario(put: str, reply: str, other: str) -> str:
    turns = TURNS.replace("SAID", reply).replace("OTHER", other)
    return f"    app: {{path: [.], given: 'shop_of_giving:{put}'}}\n{turns}"


def test_every_session_begins_with_what_is_given(shop: Path) -> None:
    ran = run_app("shop_of_giving:Shop", scenario("put", "pro", "pro"), shop)

    assert ran.judgement.findings == ()
    assert [turn.state for turn in ran.view.turns] == [{"plan": "pro"}, {"plan": "pro"}]
    assert [run.received for turn in ran.view.turns for run in turn.runs] == [{"plan": "pro"}] * 2


def test_the_function_is_told_the_session_and_the_start_if_it_takes_them(shop: Path) -> None:
    start = "2026-01-05T09:00:00.000Z"
    texts = [f"pro of {session} at {start}" for session in ("s1", "s2")]
    text = f"    start: 2026-01-05T09:00:00Z\n{scenario('put_and_say', *texts)}"

    assert run_app("shop_of_giving:Shop", text, shop).judgement.findings == ()


def test_a_function_is_what_it_is_given_where_no_object_has_it(shop: Path) -> None:
    text = """
        app: {path: [.], given: "shop_of_giving:fix"}
        given: {state: {plan: pro}}
        turns: [{user: Hello, expect: {reply: "pro: Hello"}}]
    """

    assert run_app("shop_of_giving:answer", text, shop).judgement.findings == ()


def test_nothing_can_be_given_where_nobody_puts_it_in(shop: Path) -> None:
    with pytest.raises(SourceError) as caught:
        prepared("shop_of_giving:Shop", TURNS, shop)

    assert str(caught.value).partition(": ")[2] == (
        "the state of `shop_of_giving:Shop` is its own: nothing can be given\n"
        "  at given.state\n"
        "  Name a function that puts it in: `app: {given: module:function}`."
    )
