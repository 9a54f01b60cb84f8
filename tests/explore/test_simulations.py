"""Simulations: users, models, tools and faults that may be, and claims that hold in all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simkit.checks.findings import Finding
from simkit.cli.commands import search as options
from simkit.core.errors import SourceError
from simkit.explore import campaigns
from simkit.explore.campaigns import Bounds
from simkit.explore.causes import Cause, cause_of, label_of
from simkit.explore.choices import ODDS, Choices, Plan, TurnPlan, rare
from simkit.explore.claims import Part
from simkit.explore.conversations import ExploredRun, converse
from simkit.explore.scenarios import scenario_text
from simkit.explore.search import Campaign, Discovery
from simkit.explore.subjects import PROFILES, Subject, simulation_subject, with_profile
from simkit.pytest_plugin.items import failure_of
from simkit.session.simulate import simulate
from simkit.spec.scenario import simulations
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in, simulations_in
from tests.cli.projects import Call, write
from tests.explore.desks import DESK
from tests.explore.searching import search
from tests.test_docs import write_files

BUYER = """
users:
  buyer:
    persona: {order: {$sample: [A-1042, B-7]}}
    states:
      asks: {says: "Refund ${persona.order}.", then: [insists, end]}
      insists: {says: "I said: refund ${persona.order}!", then: {insists: 1, end: 2}}
    answers: [B-7, "no"]
"""
REFUNDS = """
models:
  desk:
    - {weight: 3, handoff: {to: billing, payload: {order: "${persona.order}"}}}
    - {weight: 1, anything: true}
    - {weight: 1, interrupt: Which order?}
  billing: ["Refunded ${persona.order}."]
tools: {look: {returns: {is: {$sample: [sent, lost]}}, fails: 0.3}}
"""


def subject_of(folder: Path, text: str, pipeline: str = DESK) -> Subject:
    file = folder / "desk.simulation.yaml"
    file.write_text(pipeline + text, encoding="utf-8")
    library = Library()
    (case,) = simulations_in(str(file), library.cache)
    return simulation_subject(library, case)


def campaign_of(subject: Subject, runs: int = 100) -> Campaign:
    return search(
        partial(converse, subject),
        runs=runs,
        turns_max=subject.simulation.turns,
        seed=0,
        rare=len(subject.rare),
    )


def labels(campaign: Campaign) -> dict[str, Discovery]:
    return {
        f"{label_of(discovery.cause)} {discovery.cause.detail}".strip(): discovery
        for discovery in campaign.discoveries
    }


def replayed(discovery: Discovery, subject: Subject, folder: Path) -> set[Cause]:
    file = folder / "a.scenario.yaml"
    file.write_text(scenario_text(discovery, subject, folder, "simkit explore"), encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    judgement = simulate(library.prepared(item)).judgement
    findings = (*judgement.findings, *judgement.warnings)
    return {cause_of(finding) for finding in findings if not finding.follows}


@pytest.mark.slow
def test_a_claim_that_always_holds_is_judged_in_every_turn(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, BUYER + REFUNDS + "always: {state: {refunds: {$len: 1}}}\n")

    discoveries = labels(campaign_of(subject))

    assert [*discoveries] == ["always always.state.refunds"]
    discovery = discoveries["always always.state.refunds"]
    first, second = discovery.record.turns
    assert first["user"].startswith("Refund ")
    order = first["user"].removeprefix("Refund ").removesuffix(".")
    assert second["user"] == f"I said: refund {order}!"
    assert replayed(discovery, subject, tmp_path) == {discovery.cause}


@pytest.mark.slow
def test_a_claim_on_a_whole_conversation_is_judged_at_its_end(tmp_path: Path) -> None:
    claim = "finally: {model_calls: {billing: 0}}\n"
    subject = subject_of(tmp_path, BUYER + REFUNDS + claim)

    (discovery,) = campaign_of(subject).discoveries

    assert label_of(discovery.cause) == "finally"
    assert len(discovery.record.turns) == 1
    assert replayed(discovery, subject, tmp_path) == {discovery.cause}


FAULTS = """
users: {buyer: {says: "Where is A-1?"}}
models: {desk: Sent.}
faults: {server_error: 0.9}
"""


@pytest.mark.parametrize(
    "claim", ["{$absent: true}", "null", "{$either: [{$absent: true}, {type: rate_limit}]}"]
)
def test_a_claim_on_the_error_is_judged_where_a_fault_causes_it(tmp_path: Path, claim: str) -> None:
    subject = subject_of(tmp_path, f"{FAULTS}always: {{error: {claim}}}\n")

    (discovery,) = campaign_of(subject, 30).discoveries

    assert discovery.cause.detail.startswith("always.error")
    assert replayed(discovery, subject, tmp_path) == {discovery.cause}


@pytest.mark.parametrize(
    "claim", ["", "always: {error: {$either: [{$absent: true}, {status: 500}]}}"]
)
def test_an_error_that_a_fault_explains_is_no_finding_where_no_claim_denies_it(
    tmp_path: Path, claim: str
) -> None:
    subject = subject_of(tmp_path, f"{FAULTS}{claim}\n")

    assert campaign_of(subject, 30).discoveries == ()


@pytest.mark.slow
def test_a_claim_that_wants_nothing_is_judged(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, BUYER + REFUNDS + "always: {interrupt: null}\n")

    assert [*labels(campaign_of(subject))] == ["always always.interrupt"]


@pytest.mark.parametrize("claim", ["null", "{$absent: true}"])
def test_an_error_claimed_of_a_whole_conversation_is_refused(tmp_path: Path, claim: str) -> None:
    with pytest.raises(SourceError, match="Write the claim under `always:`") as caught:
        subject_of(tmp_path, f"{FAULTS}finally: {{error: {claim}}}\n")

    assert "at finally.error" in str(caught.value)


@pytest.mark.slow
def test_a_claim_on_what_did_not_take_place_is_not_judged(tmp_path: Path) -> None:
    """The same claims in a scenario would fail in turns in which billing does not run."""
    claims = """
always:
  context: {billing: {includes: [{$contains: "${persona.order}"}]}}
  runs: {billing: {reply: "Refunded ${persona.order}."}}
  state: {refunds: {$len: {$gte: 1}}}
"""
    campaign = campaign_of(subject_of(tmp_path, BUYER + REFUNDS + claims))

    assert campaign.discoveries == ()
    assert campaign.turns > campaign.runs


def test_a_users_answer_resumes_what_was_asked(tmp_path: Path) -> None:
    models = "models: {desk: [{interrupt: Which order?}, Done.]}\n"
    subject = subject_of(tmp_path, BUYER + models)

    record = converse(subject, Plan((TurnPlan(), TurnPlan(user=1), TurnPlan())))

    assert [*record.turns[0]] == ["user", "replies"]
    assert record.turns[1]["resume"] == "no"


@pytest.mark.slow
def test_a_claim_on_state_is_judged_in_sessions_that_have_it(tmp_path: Path) -> None:
    """What one session has written is no state of another, except in channels that they share."""
    text = (
        BUYER + "    sessions: 2\n" + REFUNDS + "always: {state: {messages: {$len: {$gte: 1}}}}\n"
    )
    calm = "faults: {cancelled_turn: 0.4}\n"

    campaign = campaign_of(subject_of(tmp_path, text + calm))

    assert campaign.discoveries == ()


def test_sessions_are_interleaved_and_each_has_its_persona(tmp_path: Path) -> None:
    users = BUYER + "    sessions: 2\n"
    subject = subject_of(tmp_path, users)

    record = converse(
        subject, Plan((TurnPlan(user=0), TurnPlan(user=1), TurnPlan(user=0)), personas=2)
    )

    assert [turn["session"] for turn in record.turns] == ["buyer-1", "buyer-2", "buyer-1"]
    assert [turn["user"] for turn in record.turns] == [
        "Refund A-1042.", "Refund B-7.", "I said: refund A-1042!",
    ]  # fmt: skip


def test_no_turn_follows_when_all_users_are_done(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "users: {u: {states: {asks: {says: Hello.}}}}\n")

    assert len(converse(subject, Plan((TurnPlan(), TurnPlan(), TurnPlan()))).turns) == 1


FAULTY = Plan((TurnPlan(rare=(0, ODDS - 1)), TurnPlan()), enabled=(True,))


def test_a_fault_of_the_provider_is_no_finding_and_the_conversation_goes_on(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "faults: {rate_limit: 0.2}\n")

    record = converse(subject, FAULTY)

    assert not record.causes
    assert record.turns[0]["replies"] == {"desk": {"error": "rate_limit"}}
    assert record.turns[0]["expect"] == {"error": "rate_limit"}
    assert len(record.turns) == 2


def test_a_fault_happens_only_where_it_is_enabled(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "faults: {rate_limit: 0.2}\n")

    record = converse(subject, Plan(FAULTY.turns, enabled=(False,)))

    assert record.turns[0]["replies"] == {"desk": "Done."}


@pytest.mark.parametrize(
    ("kind", "line"),
    [("malformed_json", {"error": "malformed_json"}), ("refusal", {"error": "refusal"}),
     ("empty", "")],
)  # fmt: skip
def test_a_model_misbehaves(kind: str, line: Any, tmp_path: Path) -> None:
    subject = subject_of(tmp_path, f"misbehaves: {{{kind}: 0.2}}\n")

    record = converse(subject, FAULTY)

    assert record.turns[0]["replies"]["desk"] == line


def test_arguments_that_do_not_fit_are_sent(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "misbehaves: {invalid_arguments: 0.2}\n")

    record = converse(subject, FAULTY)

    lines = record.turns[0]["replies"]["desk"]
    line = lines[0] if isinstance(lines, list) else lines
    assert line == {"calls": [{"look": {}}], "unchecked": True}


FAILING = """
version: 1
simulation: the desk
pipeline: broken_simulated:answer
app: {path: [.]}
faults: {rate_limit: 0.5}
"""


def test_an_error_of_the_code_ends_the_conversation_and_is_found(tmp_path: Path) -> None:
    code = "def answer(text):\n    raise KeyError(text)\n"
    (tmp_path / "broken_simulated.py").write_text(code, encoding="utf-8")
    subject = subject_of(tmp_path, FAILING, pipeline="")

    record = converse(subject, Plan((TurnPlan(), TurnPlan()), enabled=(True,)))

    assert len(record.turns) == 1
    assert [label_of(cause) for cause in record.causes] == ["error"]
    assert [cause.detail for cause in record.causes] == ["KeyError"]


def test_a_restart_and_a_message_sent_twice(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "faults: {restart: 0.5, duplicate_turn: 0.5}\n")
    turns = (TurnPlan(), TurnPlan(rare=(1,)), TurnPlan(rare=(ODDS - 1,)))

    record = converse(subject, Plan(turns, enabled=(True, True)))

    assert [turn.get("restart", False) for turn in record.turns] == [False, False, True]
    assert record.turns[1]["user"] == record.turns[0]["user"]
    assert not record.causes


def test_shares_are_kept() -> None:
    happened = [rare(number, {"a": 0.01, "b": 0.25}) for number in range(ODDS)]

    assert (happened.count("a"), happened.count("b")) == (100, 2_500)
    assert rare(0, {"a": 0.5}) == ""
    assert rare(0, {}) == rare(ODDS - 1, {}) == ""


def test_weights_are_kept() -> None:
    chosen = [Choices(number).weighted({"a": 3, "b": 1}) for number in range(40)]

    assert (chosen.count("a"), chosen.count("b")) == (30, 10)
    assert chosen[0] == "a"


NUMBERS = st.integers(0, 2**32 - 1)
MANY = st.lists(NUMBERS, max_size=5).map(tuple)
ODD = st.lists(st.integers(0, ODDS - 1), max_size=6).map(tuple)
TURNS = st.builds(TurnPlan, user=NUMBERS, answers=MANY, results=MANY, rare=ODD)
EVERYTHING = """
misbehaves: {invalid_arguments: 0.1, malformed_json: 0.1, empty: 0.1, repeats_itself: 0.1}
faults: {rate_limit: 0.1, timeout: 0.1, duplicate_turn: 0.2}
always: {state: {refunds: {$len: 1}}, model_calls: {billing: 1}}
"""
NOTHING = Cause("none", "", "")
NO_FINDING = Finding("none", "W", "nothing", "")


@pytest.mark.slow
@given(
    plan=st.builds(
        Plan,
        turns=st.lists(TURNS, min_size=1, max_size=4).map(tuple),
        personas=NUMBERS,
        enabled=st.tuples(*[st.booleans()] * 7),
    )
)
@settings(suppress_health_check=list(HealthCheck))
def test_what_is_written_is_what_was_run(
    plan: Plan, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The scenario of any conversation shows its causes and no other lint, in as many calls."""
    folder = tmp_path_factory.mktemp("desk")
    subject = subject_of(folder, BUYER + REFUNDS + EVERYTHING)
    record = converse(subject, plan)

    for cause in record.causes or {NOTHING: NO_FINDING}:
        causes: Mapping[Cause, Finding] = record.causes or {NOTHING: NO_FINDING}
        whole = ExploredRun(record.turns, causes, record.model_calls, record.claims)
        replayed_causes = replayed(Discovery(cause, whole, 1, 1), subject, folder)
        lints = {cause for cause in record.causes if label_of(cause) not in ("always", "finally")}
        assert replayed_causes == lints | {cause} - {NOTHING}


def test_a_key_that_resembles_sample_is_a_key(tmp_path: Path) -> None:
    text = "tools: {look: {returns: {sales: 1, sample: {$sample: [2]}}}}\n"

    tool = subject_of(tmp_path, text).simulation.tools["look"]

    assert tool.returns == {"sales": 1, "sample": {"$sample": [2]}}


SPELT = """
given: {state: {refunds: [1.50]}}
users:
  buyer:
    persona: {age: 1.50}
    says: [1.50, "I am ${persona.age}.", {json: {age: 007}}]
    answers: {age: 1.50}
models:
  desk:
    - 1.50
    - {text: 007, usage: {input_tokens: 010}}
    - {json: {sum: 1.50}}
    - {calls: [{look: {order: A, sum: 1.50}}]}
    - {handoff: {to: billing, query: 1.50, payload: {order: A, sum: 1.0e+308}}}
    - {interrupt: {sum: 1.50}}
    - {replies_of: spelt.scenario.yaml}
tools: {look: {returns: {sum: 1.50}, error: 1.50, fails: 0.50}}
misbehaves: {empty: 0.10}
always: {state: {refunds: {$len: {$gte: 0.50}}}, reply: {$not: {$contains: 1.25}}}
never: [{tool: look, args: {sum: 2.50}}]
finally: {state: {refunds: {$has: [1.50]}}}
"""
SPELT_SCRIPT = """
version: 1
scenario: numbers
pipeline: desk
turns:
  - {user: Hello., replies: {desk: {interrupt: {sum: 1.50}}}}
  - {resume: {sum: 1.50}, replies: {desk: [{calls: [{look: {order: A, sum: 1.50}}]}, 1.50]}}
"""


def test_numbers_may_be_spelt_in_any_way_wherever_values_are(tmp_path: Path) -> None:
    (tmp_path / "spelt.scenario.yaml").write_text(DESK.partition("---")[0] + "---" + SPELT_SCRIPT)
    subject, files = subject_of(tmp_path, SPELT), list[str]()

    for n in range(14):
        record = converse(subject, Plan((TurnPlan(answers=(n, n), user=n), TurnPlan(user=n))))

        whole = ExploredRun(record.turns, {NOTHING: NO_FINDING}, record.model_calls)
        assert not record.causes
        assert not replayed(Discovery(NOTHING, whole, 1, 1), subject, tmp_path)
        files.append((tmp_path / "a.scenario.yaml").read_text())
    text = "\n".join(files)
    assert all(part in text for part in ("desk: 1.50", "text: 007", "query: 1.50", 'user: "1.50"'))


@pytest.mark.slow
def test_a_function_that_raises_is_a_tool_that_fails(tmp_path: Path) -> None:
    pipeline = DESK.replace("look: {args", "look: {function: tests.functions:failing, args")
    lines = "models: {desk: [{calls: {look: {order: A}}}, Done.]}\nnever: [{kind: ToolFailed}]\n"
    subject = subject_of(tmp_path, lines, pipeline=pipeline)

    (discovery,) = campaign_of(subject, runs=20).discoveries

    assert label_of(discovery.cause) == "never"
    assert {label_of(cause) for cause in replayed(discovery, subject, tmp_path)} == {"always"}


MISTAKES = {
    "users: {u: {}}": "a user has either `says`, `states`, `says_of` or `model`",
    "users: {u: {says: Hi, states: {a: {says: Hi}}}}": "a user has either `says`, `states`,",
    "users: {u: {says: Hi, model: openai/m, goal: A, cassette: c}}": "a user has either `says`",
    "users: {u: {model: openai/m, goal: A}}": "a user with a `model` needs a `cassette`",
    "users: {u: {model: openai/m, cassette: c}}": "a user with a `model` needs a `goal`",
    "users: {u: {model: openai/m, goal: ' ', cassette: c}}": "needs a `goal`",
    "users: {u: {model: openai/m, goal: A, cassette: c, start: a}}": "has no states",
    "users: {u: {model: gpt-5, goal: A, cassette: c}}": "`gpt-5` names no model",
    "users: {u: {model: {model: openai/m, goal: A}, cassette: c}}": "unknown option of a model",
    "users: {u: {says: Hi, goal: A}}": "`goal` is for a user with a `model`",
    "users: {u: {says: Hi, cassette: c}}": "`cassette` is for a user with a `model`",
    "users: {u: {says_of: a, model: openai/m}}": "`model` has no meaning beside `says_of`",
    "users: {u: {model: openai/m, goals: A, cassette: c}}": "unknown key of a user `goals`",
    "users: {u: {states: {a: {says: Hi, then: b}}}}": "there is no state `b`",
    "users: {u: {start: b, states: {a: {says: Hi}}}}": "there is no state `b`",
    "users: {u: {states: {a: {says: Hi, then: []}}}}": "must name a state, or several",
    "users: {u: {says: 'Hi ${persona.order}'}}": "`${persona.order}` is not there",
    "models: {desk: [{weight: 2}]}": "exactly one of these keys must stand here, not 0",
    "models: {dsk: [Hello]}": "unknown agent `dsk`",
    "models: {desk: [Hello, {calls: {lok: {}}}]}": "tool `lok`",
    "models: {desk: [{anything: true, text: Hi}]}": "unknown key of a line `text`",
    "tools: {lok: {returns: 1}}": "no agent has tool `lok`",
    "tools: {look: {fails: 2}}": "must be a share above 0 and up to 1",
    "misbehaves: {unknown_tol: 0.1}": "unknown misbehaviour `unknown_tol`",
    "faults: {rate_limt: 0.1}": "unknown fault `rate_limt`",
    "always: {context: {dsk: {tokens: 5}}}": "unknown agent `dsk`",
    "finally: {model_calls: {dsk: 1}}": "unknown agent `dsk`",
    "users: {u: {says: Hi, persona: {a: 1}}, v: {says: '${persona.a}'}}": (
        "Each user needs this key in its `persona:`."
    ),
    "users: {u: {says: Hi, persona: {a: 1}}}\nfinally: {reply: '${persona.a}'}": (
        "a whole conversation may have several users, so it has no persona"
    ),
    "users: {u: {says: Hi, persona: {a: 1}}}\njudge: openai/gpt-5\n"
    "finally: {judge: {'Is ${persona.a} named?': yes}}": (
        "a whole conversation may have several users, so it has no persona"
    ),
    "turns: 0": "must be at least 1",
    "turns: 9000": "must be at most 8,000",
    "users: {u: {says: Hi, sessions: 100000000}}": "must be at most 1,000",
    "users: {u: {states: {end: {says: Hi}}}}": "`end` is no state",
    "users: {u: {says: Hi, persona: {a: {$sample: []}}}}": "`$sample` has no value to choose",
    "users: {u: {says: Hi, answers: {$sampel: [b]}}}": "unknown key `$sampel`",
    "users: {u: {says: [{json: {a: {$sample: [b]}}}]}}": "`$sample` is not read here",
    "users: {u: {states: {a: {says: [{json: {$sample: [b]}}]}}}}": "`$sample` is not read here",
    "models: {desk: [{calls: {look: {order: {$sample: [b]}}}}]}": "`$sample` is not read here",
    "tools: {look: {returns: {$sample: sent}}}": "takes a list of values, and stands alone",
    "tools: {look: {returns: [{$sample: [a], b: 1}]}}": "takes a list of values, and stands alone",
    "users: {u: {says: Hi, answers: []}}": "must not be empty",
    "users: {'': {says: Hi}}": "a user needs a name",
    "users: {u: {says: Hi, sessions: 2}, u-2: {says: Hi}}": "`u-2` is the session of another user",
    "models: {desk: [{anything: false}]}": "there is no answer here",
    "models: {desk: [{replies_of: [a.scenario.yaml]}]}": "must be the name of a scenario file",
    "turn: 3": "unknown key `turn`",
}


def test_each_user_speaks_of_its_own_persona(tmp_path: Path) -> None:
    users = "users: {a: {says: 'Hi ${persona.x}', persona: {x: 1}}, b: {says: 'I: ${persona.y.z}', "
    text = f"{users}persona: {{y: {{z: 2}}}}}}}}\nmodels: {{desk: Hm.}}\nturns: 6\n"
    subject = subject_of(tmp_path, text)
    chance = Random(0)

    run = converse(subject, Plan(tuple(TurnPlan(chance.getrandbits(64)) for _ in range(6))))

    assert {(turn["session"], turn["user"]) for turn in run.turns} == {
        ("a", "Hi 1"), ("b", "I: 2")
    }  # fmt: skip
    with pytest.raises(SourceError, match=r"`\$\{persona\.x\}` is not there"):
        subject_of(tmp_path, text.replace("desk: Hm.", "desk: 'Hm ${persona.x}'"))
    with pytest.raises(SourceError, match=r"`\$\{persona\.x\}` is not there"):
        subject_of(tmp_path, text.replace("${persona.y.z}", "${persona.x}"))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_at_its_place(mistake: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as problem:
        subject_of(tmp_path, mistake + "\n")

    assert MISTAKES[mistake] in str(problem.value)
    line = (DESK + mistake).count("\n") + 1
    assert problem.value.where.startswith(f"{tmp_path / 'desk.simulation.yaml'}:{line}:")


def test_the_second_of_several_lines_is_named(tmp_path: Path) -> None:
    text = "models:\n  desk:\n    - anything: true\n    - {calls: {lok: {}}}\n"
    with pytest.raises(SourceError) as problem:
        subject_of(tmp_path, text)

    assert problem.value.at == "models.desk[1].calls.lok"


@pytest.mark.slow
def test_the_command_explores_the_simulations_of_a_folder(simkit: Call) -> None:
    write("a.simulation.yaml", DESK + BUYER)
    write("b.simulation.yaml", DESK + BUYER + REFUNDS + "always: {state: {refunds: []}}\n")

    done = simkit("explore", ".", "--runs", "30")

    assert done.code == 1, done.err
    assert "a.simulation.yaml::the desk:\n" in done.out
    assert "  FOUND  always: the claim on `state.refunds` does not hold" in done.out
    assert "simkit replay found/always-state-refunds.scenario.yaml" in done.out
    assert simkit("replay", "found").code == 1


def test_the_command_knows_every_profile() -> None:
    assert [*PROFILES] == [*options.PROFILE_NAMES]
    limits = campaigns.RUNS_LIMIT, simulations.TURNS_LIMIT
    assert limits == (options.RUNS_LIMIT, options.TURNS_LIMIT)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_adds_to_what_the_simulation_says(name: str, tmp_path: Path) -> None:
    plain = subject_of(tmp_path, BUYER + "faults: {rate_limit: 0.5}\n")
    subject = with_profile(plain, name)

    assert subject.simulation.faults["rate_limit"] == 0.5
    assert len(subject.rare) == len({*subject.rare})
    changes = len(subject.rare) + subject.simulation.users["buyer"].sessions > 2
    is_longer = subject.simulation.turns > plain.simulation.turns
    assert changes or is_longer or subject.simulation.schedule == "pct"
    assert campaign_of(subject, runs=20).runs >= 20


@pytest.mark.slow
def test_a_message_that_is_sent_twice_is_found_by_a_profile(simkit: Call) -> None:
    write("a.simulation.yaml", DESK + "models: {desk: [{handoff: {to: billing, "
          "payload: {order: A}}}], billing: Refunded.}\nturns: 2\n"
          "users: {u: {states: {asks: {says: Refund me.}}}}\n"
          "always: {state: {refunds: {$len: 1}}}\n")  # fmt: skip

    assert simkit("explore", "a.simulation.yaml", "--runs", "30").code == 0
    done = simkit("explore", "a.simulation.yaml", "--runs", "30", "--profile", "users")

    assert done.code == 1
    (file,) = Path("found").iterdir()
    assert "--profile users" in file.read_text(encoding="utf-8")


def test_what_was_never_reached_is_listed(simkit: Call) -> None:
    write("a.simulation.yaml", DESK + "models: {desk: Hello.}\n")

    done = simkit("explore", "a.simulation.yaml", "--runs", "5")

    assert done.code == 0
    assert "reached 1 of 2 agents, 0 of 1 handoff, 0 of 1 tool\n" in done.out
    assert "never reached: agent billing: nothing passed control to it\n" in done.out
    assert "never reached: handoff desk → billing: no model asked for it\n" in done.out
    assert "never reached: tool look of desk: no model called it\n" in done.out


HOW_TO = Path(__file__).parent.parent.parent / "docs" / "how-to"
ORDER = HOW_TO / "order-of-answers.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "name"), [(HOW_TO / "simulations.md", "refunds"), (ORDER, "letters")]
)
def test_the_page_shows_what_the_command_says(page: Path, name: str, simkit: Call) -> None:
    blocks = re.findall(r"^```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    command = f"$ simkit explore {name}.simulation.yaml\n"
    (output,) = (block for block in blocks if block.startswith(command))
    write_files(page, Path())

    done = simkit("explore", f"{name}.simulation.yaml")

    # How many conversations it takes depends on Hypothesis.
    assert re.sub(r"\d+", "#", done.out) == re.sub(r"\d+", "#", output.removeprefix(command))
    assert simkit("replay", "found").code == 1


@pytest.mark.slow
def test_the_page_shows_the_order_that_was_written(simkit: Call) -> None:
    blocks = re.findall(r"^```text\n(.*?)^```$", ORDER.read_text(encoding="utf-8"), re.M | re.S)
    (text,) = (block for block in blocks if "schedule:" in block)
    write_files(ORDER, Path())

    simkit("explore", "letters.simulation.yaml", "--runs", "60")

    file = Path("found", "always-reply.scenario.yaml")
    assert file.read_text(encoding="utf-8").replace(" --runs 60", "") == text


def test_a_simulation_is_checked(simkit: Call) -> None:
    write("a.simulation.yaml", DESK + BUYER)
    assert simkit("validate", ".").code == 0
    write("a.simulation.yaml", DESK + "models: {dsk: Hello}\n")

    done = simkit("validate", "a.simulation.yaml")

    assert done.code == 2
    assert "unknown agent `dsk`" in done.out + done.err
    replayed = simkit("replay", "a.simulation.yaml")
    assert replayed.code == 2
    assert "simkit explore a.simulation.yaml" in replayed.err


def test_a_misspelt_document_is_no_pipeline(simkit: Call) -> None:
    write("a.simulation.yaml", DESK.replace("simulation: the desk", "simulaton: the desk"))

    done = simkit("explore", "a.simulation.yaml")

    assert done.code == 2
    assert "unknown key `simulaton`" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("count", ["0", "-3", "many"])
def test_pytest_draws_at_least_one_conversation(count: str, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--simkit-runs", count)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    problem = f"*--simkit-runs: must be a whole number of at least 1, not '{count}'"
    result.stderr.fnmatch_lines([problem])


@pytest.mark.slow
def test_a_simulation_is_an_item_of_pytest(pytester: pytest.Pytester) -> None:
    pytester.makefile(".simulation.yaml", a=DESK + BUYER)
    broken = DESK + BUYER + REFUNDS + "always: {state: {refunds: []}}\n"
    pytester.makefile(".simulation.yaml", b=broken)

    result = pytester.runpytest_subprocess("--simkit-runs", "20", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "always: the claim on `state.refunds` does not hold*",
            "    scenario: the desk",
            "write it as a scenario: simkit explore 'b.simulation.yaml::the desk' --runs 20 *",
        ]
    )


def test_a_literal_reference_is_written_as_one(tmp_path: Path) -> None:
    text = "users: {u: {says: 'What is $${this}?'}}\nmodels: {desk: '$${that} is'}\n"
    subject = subject_of(tmp_path, text + "always: {model_calls: {desk: 2}}\n")

    (discovery,) = campaign_of(subject, runs=5).discoveries

    assert discovery.record.turns[0]["user"] == "What is ${this}?"
    assert 'replies: {desk: "$${that} is"}' in scenario_text(discovery, subject, tmp_path, "")
    assert replayed(discovery, subject, tmp_path) == {discovery.cause}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{calls: {look: {order: 7}}}", "models.desk[1] calls tool 'look' with arguments"),
        ("{calls: {look: {}}}", "models.desk[1] calls tool 'look' with arguments"),
    ],
)
def test_a_line_that_does_not_fit_is_told_at_its_place(
    line: str, problem: str, tmp_path: Path
) -> None:
    models = f"models:\n  desk:\n    - anything: true\n    - {line}\n"
    subject = subject_of(tmp_path, models)

    with pytest.raises(SourceError, match=re.escape(problem)) as raised:
        campaign_of(subject)

    assert f"desk.simulation.yaml:{(DESK + models).count(chr(10))}:" in raised.value.where


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("calls: {look: {order: A}}", "was used as often as one turn permits"),
        ("interrupt: Which?", "has asked already"),
        ("{text: Hm., when: {messages: {$len: 99}}}", "waits for its `when`"),
        ("{handoff: {to: billing, payload: {order: A}}, when: {messages: {$len: 99}}}",
         "waits for its `when`"),
    ],
)  # fmt: skip
def test_lines_that_leave_nothing_to_say_are_a_mistake(
    line: str, reason: str, tmp_path: Path
) -> None:
    subject = subject_of(tmp_path, f"models:\n  desk:\n    - {line}\n")

    with pytest.raises(SourceError) as raised:
        campaign_of(subject)

    assert str(raised.value) == (
        f"{tmp_path}/desk.simulation.yaml:{DESK.count(chr(10)) + 3}:5: agent 'desk' is asked for "
        f"an answer, and none of its lines is left: `[0]` {reason}\n"
        "  Add a line that ends its work, such as a text, or `anything: true`."
    )


@pytest.mark.slow
def test_a_model_says_what_its_lines_leave(tmp_path: Path) -> None:
    lines = "models: {desk: [{calls: {look: {order: A}}}, Done.]}\n"
    subject = subject_of(tmp_path, lines)

    campaign = campaign_of(subject)

    assert not campaign.discoveries
    assert Part("handoff", "desk → billing") not in campaign.reach.reached


UNJUDGED = """
always:
  context: {billing: {tokens: 500}, "*": {tokens: {$lte: 500}}}
  state: {refunds: {$len: 1}}
  runs: {desk: {reply: {$any: true}}}
  model_calls: {desk: 1}
models: {desk: Hello.}
"""


def test_a_claim_that_was_never_judged_is_listed(simkit: Call) -> None:
    write("a.simulation.yaml", DESK + UNJUDGED)

    done = simkit("explore", "a.simulation.yaml", "--runs", "5")

    assert ", 3 of 5 claims\n" in done.out
    assert "never reached: claim always.context.billing, always.state.refunds: " in done.out


@pytest.mark.slow
def test_a_claim_that_was_never_judged_fails_a_strict_test(pytester: pytest.Pytester) -> None:
    pytester.makefile(".simulation.yaml", a=DESK + UNJUDGED)
    library = Library()
    (case,) = simulations_in("a.simulation.yaml", library.cache)
    bounds = Bounds(runs=5)

    assert failure_of(library, case, bounds)[1] == ""
    result = pytester.runpytest_subprocess(
        "--simkit-runs", "5", "-p", "no:cacheprovider", "--simkit-strict"
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["always.state.refunds: no conversation judged it: what it speaks of never happened"]
    )


def test_a_tool_that_is_not_there_is_called_and_the_model_is_told(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "misbehaves: {unknown_tool: 0.2}\n")

    record = converse(subject, FAULTY)

    first, second = record.turns[0]["replies"]["desk"]
    assert first == {"calls": [{"a_tool_that_was_not_offered": {}}], "unchecked": True}
    assert second == "Done."
    cause = next(iter(record.causes), NOTHING)
    whole = ExploredRun(record.turns, {cause: NO_FINDING}, record.model_calls)
    file = tmp_path / "a.scenario.yaml"
    text = scenario_text(Discovery(cause, whole, 1, 1), subject, tmp_path, "")
    file.write_text(text, encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    outcome = simulate(library.prepared(item))
    assert "there is no tool 'a_tool_that_was_not_offered'" in outcome.trace.encoded().decode()
    assert Part("tool", "a_tool_that_was_not_offered of desk") not in record.reach.reached


HANDING = """
from openai import OpenAI

def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}

def answer(text):
    messages = [{"role": "user", "content": text}]
    tools = [tool("look"), tool("transfer_to_a"), tool("transfer_to_b")]
    reply = OpenAI().chat.completions.create(model="gpt-5", messages=messages, tools=tools)
    return reply.choices[0].message.content or "called"
"""
HANDS = """
simulation: the desk
pipeline: handing_simulated:answer
app: {path: [.]}
agents: {desk: {model: gpt-5}}
"""


@pytest.mark.parametrize(
    ("kind", "tools"),
    [
        ("two_handoffs_at_once", ["transfer_to_a", "transfer_to_a"]),
        ("handoff_beside_tool_call", ["transfer_to_a", "look"]),
    ],
)
def test_code_is_sent_two_calls_of_which_one_hands_off(
    kind: str, tools: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    (tmp_path / "handing_simulated.py").write_text(HANDING, encoding="utf-8")
    subject = subject_of(tmp_path, f"{HANDS}misbehaves: {{{kind}: 0.5}}\n", pipeline="")

    record = converse(subject, FAULTY)

    line = record.turns[0]["replies"]["desk"]
    assert [name for call in line["calls"] for name in call] == tools


def test_a_declared_pipeline_hands_off_once_in_a_reply(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "misbehaves: {two_handoffs_at_once: 0.2}\n")

    assert converse(subject, FAULTY).turns[0]["replies"] == {"desk": "Done."}
