"""The suite for adapters, on the adapter for `relay`: what keeps a rule, and what breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import sample_by_day
from tests.testing.third_party import ThirdParty

pytestmark = pytest.mark.slow


@pytest.fixture
def relay(tmp_path: Path) -> ThirdParty:
    pytest.importorskip("openai", reason="openai is not installed")
    return ThirdParty("relay", tmp_path)


def test_the_adapter_keeps_the_rules(relay: ThirdParty) -> None:
    done = relay.pytest()

    assert " passed, 8 skipped in " in done.stdout.splitlines()[-1], done.stdout
    assert "relay, stream: not supported: relay has no streams" in done.stdout


WORK = (
    """\
        with recorder.end_on_error(run), runs.inside(run):
            result = await before(agent, talk)
""",
    """\
        try:
            with runs.inside(run):
                result = await before(agent, talk)
        finally:
            recorder.end_run(run)
""",
)
HOOKS = {
    "attribution": ('("work", "gather", ', '("gather", '),
    "parallel": ("group=group.get(), ", ""),
    "nested": ('outer.id if outer else ""', '""'),
    "handoff": ("recorder.handoff_tools |= ", "unused = "),
    "filter": ("self._recorder.filtered(runs.now(), was, now, agent.narrowed.__name__)", "pass"),
    "state": ('ROWS += [listeners.wrap(relay.Talk, "note")]\n', ""),
    "reducer": ('{"notes": [text]}', '{"notes": talk.notes}'),
    "tools": (', "call")', ")"),
    "cancel": WORK,
    "exception": WORK,
    "sessions": ("lambda turn: relay.Talk()", "lambda turn, talk=relay.Talk(): talk"),
    "output_tool": ('recorder.set_output_tools(run, {agent.gives: ""})', "pass"),
}


@pytest.mark.parametrize("rule", sample_by_day(HOOKS, 4))
def test_each_hook_is_needed_to_keep_its_rule(rule: str, relay: ThirdParty) -> None:
    relay.edit("simkit", *HOOKS[rule])

    done = relay.pytest("-k", f"is_kept and {rule}")

    assert "1 failed" in done.stdout
    assert f"the adapter 'relay' breaks the rule `{rule}` (docs/how-to/adapters.md):" in done.stdout


LISTENERS = 'listeners, runs = api.ContextListeners("relay"), api.ContextScope("relay_run")'
ANYONE = """class Anyone(api.ContextListeners):
    last = None

    @contextmanager
    def activate(self, listener, *installations):
        self.last = listener
        with super().activate(listener, *installations):
            yield

    def current(self):
        return self.last if self.are_active() else None


listeners, runs = Anyone("relay"), api.ContextScope("relay_run")
"""
BREAKING = {
    "it has left this behind": (
        "with installation, listeners.activate(self):",
        "installation.__enter__()\n        with listeners.activate(self):",
        "left_behind",
        "relay.work",
    ),
    "two runs differ": (
        '{"notes": [text]}',
        '{"notes": [text, id(talk)]}',
        "ten_runs and state",
        "is not the first one again",
    ),
    "others are heard": (LISTENERS, ANYONE, "at_once", "beside others:"),
}


@pytest.mark.parametrize("name", BREAKING)
def test_what_no_conversation_shows_is_found_too(name: str, relay: ThirdParty) -> None:
    right, wrong, test, message = BREAKING[name]
    relay.edit("simkit", right, wrong)

    done = relay.pytest("-k", test)

    assert "1 failed" in done.stdout
    assert message in done.stdout


def test_an_application_that_shows_nothing_is_refused(relay: ThirdParty) -> None:
    blind = "async def chain(text):\n    return text\n\n\nasync def unused(text):"
    relay.edit("applications", "async def chain(text):", blind)
    relay.edit(
        "test",
        "class TestRelay",
        "from simkit.testing import rules\n"
        "rules.rules()['attribution'].turns[0].update(expect={'reply': 'Hello'}, replies={})\n\n\n"
        "class TestRelay",
    )

    done = relay.pytest("-k", "tells_nothing and attribution")

    assert "the rule `attribution` holds for `relay_applications:chain` with the adapter " in (
        done.stdout
    )


def test_a_missing_application_says_what_it_is_to_be(relay: ThirdParty) -> None:
    relay.edit("applications", "nested = ", "unnamed = ")

    done = relay.pytest("-k", "is_kept and nested")

    assert (
        "'relay_applications' has no application `nested`, which is to be this: "
        "`boss` has a tool `ask_helper(input)` that lets `helper` answer. An agent's instructions "
        "are `You are <name>.` "
        '→ Where the framework cannot do that, say why: `not_supported = {"nested": "…"}`.'
    ) in " ".join(done.stdout.split())


def test_a_misspelt_name_of_what_is_not_supported_is_refused(relay: ThirdParty) -> None:
    relay.edit("test", '"stream"', '"streams"')

    done = relay.pytest("-k", "is_declared")

    assert "neither an application nor a rule: streams." in done.stdout


def test_an_adapter_that_is_not_installed_is_reported(relay: ThirdParty) -> None:
    (relay.folder / "relay_simkit-1.0.dist-info" / "entry_points.txt").unlink()

    done = relay.pytest("-k", "is_installed")

    assert "no adapter is installed under the name 'relay'" in done.stdout


def test_reply_lines_are_replaced_turn_by_turn(relay: ThirdParty) -> None:
    lines = '[{"clerk": "Hello Ada."}, {}, {"clerk": "Bo?"}]'
    relay.edit(
        "test", "    not_supported", f'    replies = {{"sessions": {lines}}}\n    not_supported'
    )

    done = relay.pytest("-k", "is_kept and sessions")

    # The third line names the other session's user, so that the last turn is sent it.
    assert "wanted no" in done.stdout or "excludes" in done.stdout, done.stdout
    assert "(turn 5" in done.stdout, done.stdout
