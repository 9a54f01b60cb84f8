"""``simkit live``: real clients over real HTTP, and a provider that answers by a distribution."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from simkit.cli import main
from simkit.cli.live import exit_code
from simkit.cli.live_report import FinishedRun, LiveReport, ScenarioRuns
from simkit.core.messages import Message, ToolCall, Usage
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.protocols import protocol_of
from simkit.providers.values import OutgoingReply
from simkit.session.live.trials import Trial
from tests.cli.projects import Call, Done
from tests.cli.test_answers import answer_of
from tests.conftest import IS_NIGHTLY
from tests.recording import Provider, completion
from tests.recording import server as server
from tests.scripted_providers import (
    HANDS_OVER,
    KEY,
    REFUNDS,
    agent_of,
    point_clients,
    says,
    write_desk,
)

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """\
version: 1
scenario: a broken order is refunded
pipeline: desk.pipeline.yaml
turns:
  - user: My order A-1 came broken, I want a refund
    replies:
      triage: {handoff: {to: billing, payload: {order: A-1}}}
      billing: You get a refund by Friday.
    expect:
      agents: [triage, billing]
      handoffs: [{from: triage, to: billing, type: refund, payload: {order: A-1}}]
      reply: {$contains: refund}
      state: {messages: {$len: 2}}
      context: {billing: {excludes: [{$contains: by Friday}]}}
"""
PRICES = """\
prices:
  gpt-5-mini: {input: 1000, output: 2000}
  claude-haiku-4-5: {input: 1000, output: 2000}
"""
RUNS = 10 if IS_NIGHTLY else 5
COST = 2 * (11 * 1000 + 7 * 2000) / 1e6
"""The cost of a run of two calls, in US dollars."""


class Dealer:
    """Answers as a desk does; in a share of the runs its billing does not refund."""

    def __init__(
        self, share: float, triage: Message = HANDS_OVER, seed: int = 3, tokens: int = 11
    ) -> None:
        self._tokens = tokens
        self._share, self._triage, self._draws = share, triage, random.Random(seed)
        self._lock = threading.Lock()
        self.refusals = 0
        self.answers = 0

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answers one request."""
        protocol = protocol_of(request)
        assert protocol is not None
        parsed = protocol.parse_request(request)
        with self._lock:
            self.answers += 1
            message = self._triage
            if agent_of(parsed) == "billing":
                is_refund = self._draws.random() < self._share
                self.refusals += not is_refund
                message = REFUNDS if is_refund else says("No.")
            number = self.answers
        calls = tuple(
            ToolCall(f"{protocol.call_prefix}{number}", call.name, call.args)
            for call in message.calls
        )
        reply = Message("assistant", message.content, calls=calls)
        return protocol.served(OutgoingReply(f"s{number}", reply, Usage(self._tokens, 7)), parsed)


@pytest.fixture
def desk(cwd: Path, monkeypatch: pytest.MonkeyPatch, server: Provider) -> Path:
    point_clients(server, monkeypatch)
    server.requests.clear()
    (cwd / "prices.yaml").write_text(PRICES, encoding="utf-8")
    write_desk(cwd, scenario=SCENARIO)
    return cwd


@pytest.fixture
def simkit(desk: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process; its runs have processes of their own."""

    def call(*arguments: str) -> Done:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        out, err = capsys.readouterr()
        return Done(int(stop.value.code or 0), out, err)

    return call


def report_of(done: Done) -> Any:
    """Returns the JSON report of a command."""
    return answer_of(done.out, "live")


def kept_files(folder: Path = Path("live")) -> list[str]:
    """Returns the scenarios that replay failed runs."""
    return sorted(str(file) for file in folder.glob("*.scenario.yaml"))


def replayed(file: str) -> Any:
    """Replays a file in a process without keys, addresses and network; returns its report."""
    keyless = {k: v for k, v in os.environ.items() if not k.endswith(("_KEY", "_URL"))}
    code = (
        "import socket, sys; socket.socket.connect = None\n"
        "from simkit.cli import main\n"
        f"main(['replay', {file!r}, '--format', 'json'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**keyless, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    (scenario,) = json.loads(done.stdout)["scenarios"]
    return scenario


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])
def test_rates_are_those_of_the_provider_and_failed_runs_replay_offline(
    desk: Path, server: Provider, simkit: Call, protocol: str
) -> None:
    write_desk(desk, protocol, scenario=SCENARIO)
    dealer = server.answer = Dealer(0.6)

    done = simkit("live", "desk.scenario.yaml", "--runs", f"{RUNS}", "-j", "2", "--format", "json")

    assert done.code == 1, done.err
    report = report_of(done)
    (scenario,) = report["scenarios"]
    claims = {claim["claim"]: claim for claim in scenario["claims"]}
    passes = RUNS - dealer.refusals
    assert 0 < passes < RUNS
    assert {name: claim["held"] for name, claim in claims.items()} == {
        "turn 1: agents": RUNS,
        "turn 1: handoffs": RUNS,
        "turn 1: reply": passes,
        "turn 1: state.messages": RUNS,
    }
    low, high = claims["turn 1: reply"]["interval"]
    assert low < 0.6 < high
    assert scenario["held"] == passes
    assert scenario["pass_hat_k"] == pytest.approx(math.comb(passes, 3) / math.comb(RUNS, 3))
    assert report["model_calls"] == 2 * RUNS
    assert (report["input_tokens"], report["output_tokens"]) == (2 * RUNS * 11, 2 * RUNS * 7)
    assert report["cost_usd"] == pytest.approx(RUNS * COST)
    failed = [run for run in scenario["runs"] if not run["held"]]
    assert [run["replays"] for run in failed] == [True] * dealer.refusals
    assert sorted(run["scenario"] for run in failed) == kept_files()
    finding = replayed(kept_files()[0])["findings"][0]
    assert finding["path"][:4] == ["turns", 0, "expect", "reply"]
    assert finding["differences"][0]["found"] == '"No."'


@pytest.mark.slow
def test_a_run_leaves_no_key_in_any_file_or_in_what_is_printed(
    desk: Path, server: Provider, simkit: Call
) -> None:
    server.answer = Dealer(0.0, triage=says(f"The key is {KEY}"))

    done = simkit("live", "desk.scenario.yaml", "--runs", "2")

    assert KEY not in done.out + done.err
    texts = [file.read_bytes() for file in desk.rglob("*") if file.is_file()]
    assert len(texts) > 5
    assert not [text for text in texts if KEY.encode() in text]


@pytest.mark.slow
def test_claims_that_only_the_script_can_keep_are_left_out_and_listed(
    server: Provider, simkit: Call
) -> None:
    server.answer = Dealer(1.0)

    done = simkit("live", "desk.scenario.yaml", "--runs", "1")
    judged = simkit("live", "desk.scenario.yaml", "--runs", "1", "--all-claims")

    left_out = "turn 1: context.billing.excludes"
    assert done.code == 0
    assert f"    {left_out}: 'by Friday' stands in reply lines only\n" in done.out
    assert f"  {left_out}  " in judged.out
    assert "left out" not in judged.out


def test_the_report_has_each_selected_scenario(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simkit.cli.live._Campaign.run", lambda _: "nothing was asked")

    done = simkit("live", "desk.scenario.yaml", "--format", "json")

    report = report_of(done)
    assert [each["id"].partition("::")[2] for each in report["scenarios"]] == [
        "a broken order is refunded"
    ]
    assert (report["end"], report["runs"], done.code) == ("nothing was asked", 0, 1)


# The budget


@pytest.mark.slow
def test_a_run_that_could_exceed_the_budget_is_not_started(server: Provider, simkit: Call) -> None:
    dealer = server.answer = Dealer(1.0)

    done = simkit(
        *("live", "desk.scenario.yaml", "--runs", "9", "-j", "3"),
        *("--budget-usd", f"{COST * 3.5}", "--format", "json"),
    )

    report = report_of(done)
    assert report["runs"] == 3
    assert report["cost_usd"] == pytest.approx(3 * COST)
    assert report["end"] == (
        "stopped at the budget: $0.1500 of $0.1750 is spent, and the dearest run cost $0.0500; "
        "6 runs not made"
    )
    assert dealer.answers == 6
    assert done.code == 0


@pytest.mark.slow
def test_runs_at_the_same_time_share_the_budget_when_they_get_dear(
    server: Provider, simkit: Call
) -> None:
    cheap = Dealer(1.0)
    dear = Dealer(1.0, triage=says("No."), tokens=1_000)

    server.answer = lambda request: (cheap if cheap.answers < 2 else dear)(request)

    done = simkit(
        *("live", "desk.scenario.yaml", "--runs", "9", "-j", "3"),
        *("--budget-usd", "4", "--format", "json"),
    )

    # A dear run costs $1.014: three fit into what the first one left, a fourth does not.
    report = report_of(done)
    assert dear.answers == 3
    assert report["cost_usd"] == pytest.approx(COST + 3 * 1.014)
    assert report["end"].endswith("5 runs not made")


@pytest.mark.slow
def test_a_run_that_costs_more_than_all_before_sends_no_call_beyond_the_budget(
    server: Provider, simkit: Call
) -> None:
    dealer = server.answer = Dealer(1.0)

    done = simkit(
        *("live", "desk.scenario.yaml", "--runs", "9"),
        *("--budget-usd", f"{COST / 4}", "--format", "json"),
    )

    report = report_of(done)
    assert dealer.answers == 1
    assert [run["stopped"] for run in report["scenarios"][0]["runs"]] == [True]
    assert report["scenarios"][0]["judged"] == 0
    assert done.code == 1


@pytest.mark.slow
def test_a_provider_that_does_not_say_its_tokens_ends_runs_under_a_budget(
    server: Provider, simkit: Call
) -> None:
    server.answer = lambda request: completion("You get a refund.")

    done = simkit("live", "desk.scenario.yaml", "--runs", "9", "--budget-usd", "5")

    assert len(server.requests) == 1
    assert "1 run, 1 model call: tokens not known, cost not known\n" in done.out
    assert done.out.endswith(
        "stopped: the provider did not say how many tokens a call took, so that the budget cannot "
        "be kept; a streamed request must ask for them (`stream_options: {include_usage: true}`)\n"
    )


@pytest.mark.parametrize("prices", ["", "prices: {gpt-4: {input: 1, output: 1}}\n"])
def test_a_budget_without_the_price_of_a_model_is_refused_before_anything_is_sent(
    desk: Path, server: Provider, simkit: Call, prices: str
) -> None:
    (desk / "prices.yaml").unlink()
    if prices:
        (desk / "prices.yaml").write_text(prices, encoding="utf-8")

    done = simkit("live", "desk.scenario.yaml", "--budget-usd", "1")

    assert done.code == 2
    assert "in US dollars for a million tokens" in done.err
    assert server.requests == []


@pytest.mark.slow
def test_without_a_price_the_cost_is_not_known(desk: Path, server: Provider, simkit: Call) -> None:
    (desk / "prices.yaml").unlink()
    server.answer = Dealer(1.0)

    done = simkit("live", "desk.scenario.yaml", "--runs", "1")

    assert "1 run, 2 model calls: 22 tokens in, 14 out, cost not known\n" in done.out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prices: {m: {input: -1, output: 1}}", "must be a number of US dollars, not -1"),
        ("prices: {m: {input: 1}}", "key `output` is missing"),
        ("prices: {m: {input: 1, out: 1}}", "unknown key of a price `out`"),
    ],
)
def test_a_wrong_file_of_prices_is_one_error_with_its_place(
    desk: Path, simkit: Call, text: str, problem: str
) -> None:
    (desk / "mine.yaml").write_text(text, encoding="utf-8")

    done = simkit("live", "desk.scenario.yaml", "--prices", "mine.yaml")

    assert done.code == 2
    assert done.err.startswith("mine.yaml:1:")
    assert problem in done.err


# Keys, CI, and what a user may get wrong


@pytest.mark.slow
def test_a_missing_key_is_one_error(
    server: Provider, simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")

    done = simkit("live", "desk.scenario.yaml", "-j", "2")

    assert done.code == 2
    assert "Set its key and address in the environment: OPENAI_API_KEY" in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert server.requests == []
    assert kept_files() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "problem", "remedy"),
    [
        (401, "refused the key for `gpt-5-mini`", "Set a valid key in the environment."),
        (404, "has no `gpt-5-mini` at this address",
         "Correct the name of the model, or the address in the environment."),
    ],
)  # fmt: skip
def test_what_would_fail_in_every_run_ends_them(
    server: Provider, simkit: Call, status: int, problem: str, remedy: str
) -> None:
    server.answer = lambda request: HttpResponse(status, (), (b'{"error": {"message": "no"}}',))

    done = simkit("live", "desk.scenario.yaml", "--runs", "5")

    assert done.code == 2
    assert done.err == f"the provider {problem} (status {status})\n  {remedy}\n"
    assert len(server.requests) == 1
    assert kept_files() == []


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["w", "字", "𠀀"])
def test_a_run_of_a_scenario_with_a_long_name_is_kept(
    desk: Path, server: Provider, simkit: Call, letter: str
) -> None:
    text = SCENARIO.replace("a broken order is refunded", letter * 300)
    (desk / "desk.scenario.yaml").write_text(text, encoding="utf-8")
    server.answer = Dealer(0.0)

    done = simkit("live", "desk.scenario.yaml", "--runs", "1", "--format", "json")

    (run,) = report_of(done)["scenarios"][0]["runs"]
    assert run["replays"] is True
    assert Path(run["scenario"]).name.startswith(letter * 37)


@pytest.mark.slow
def test_words_of_a_provider_are_no_keys_of_the_scenario_that_is_kept(
    server: Provider, simkit: Call
) -> None:
    words = "no\rapp: {path: [elsewhere]}\u2028notes: \u202e\x1b[31m"
    body = json.dumps({"error": {"message": words}}).encode()
    server.answer = lambda request: HttpResponse(400, (), (body,))

    done = simkit("live", "desk.scenario.yaml", "--runs", "1", "--format", "json")

    (run,) = report_of(done)["scenarios"][0]["runs"]
    assert run["replays"] is True
    text = Path(run["scenario"]).read_text(encoding="utf-8")
    assert text.splitlines()[0].endswith("app: {path: [elsewhere]} notes: \\u202e\\x1b[31m")


def test_ci_is_refused(server: Provider, simkit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    done = simkit("live", "desk.scenario.yaml")

    assert done.code == 2
    assert done.err == (
        "simkit live sends real requests, which cost money, and is refused in CI (CI is set)\n"
        "  --force runs it there.\n"
    )
    assert server.requests == []


@pytest.mark.slow
def test_ci_is_obeyed_no_more_with_force(
    server: Provider, simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    server.answer = Dealer(1.0)

    assert simkit("live", "desk.scenario.yaml", "--runs", "1", "--force").code == 0


def test_a_pipeline_without_models_is_refused(desk: Path, simkit: Call) -> None:
    file = desk / "desk.pipeline.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("models: {default: openai/gpt-5-mini}\n", ""), encoding="utf-8")

    done = simkit("live", "desk.scenario.yaml")

    assert done.code == 2
    assert done.err.startswith("desk.pipeline.yaml:2:11: the pipeline names no models")


def test_a_program_of_its_own_is_refused(desk: Path, simkit: Call) -> None:
    (desk / "p.pipeline.yaml").write_text("pipeline: p\nprogram: cat\n", encoding="utf-8")
    text = "scenario: a program\npipeline: p.pipeline.yaml\nturns: [{user: hello}]\n"
    (desk / "p.scenario.yaml").write_text(text, encoding="utf-8")

    done = simkit("live", "p.scenario.yaml")

    assert done.code == 2
    assert done.err.startswith("p.scenario.yaml:2:11: the pipeline is a program of its own")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("y.simulation.yaml",), "y.simulation.yaml: there is no such file"),
        (("x.simulation.yaml",), "nothing says what tool `find_order` returns"),
        (("nowhere.scenario.yaml",), "there is no such file"),
        (("desk.scenario.yaml", "-k", "other"), "there is no scenario that fits -k 'other'"),
        (("desk.scenario.yaml", "--prices", "nowhere.yaml"), "there is no such file of prices"),
        (("empty",), "there is no scenario\n  Scenarios are in files named *.scenario.yaml."),
        (("desk.scenario.yaml", "--to", "prices.yaml"), "--to prices.yaml: prices.yaml is a file"),
        (("desk.scenario.yaml", "--to", "prices.yaml/x"), "prices.yaml is a file"),
        (("desk.scenario.yaml", "--runs", "2", "--k", "5"), "Ask for more with --runs 5."),
        (("desk.scenario.yaml", "--budget-usd", "nan"), "nan is no number"),
        (("desk.scenario.yaml", "--budget-usd", "inf"), "inf is no number"),
        (("desk.scenario.yaml", "--fail-under", "nan"), "nan is no number"),
    ],
)
def test_a_mistake_is_one_error_before_anything_is_sent(
    desk: Path, server: Provider, simkit: Call, words: tuple[str, ...], problem: str
) -> None:
    (desk / "empty").mkdir()
    simulation = "simulation: s\npipeline: desk.pipeline.yaml\n"
    (desk / "x.simulation.yaml").write_text(simulation, encoding="utf-8")

    done = simkit("live", *words)

    assert done.code == 2
    assert problem in done.err
    assert "Traceback" not in done.err
    assert server.requests == []
    assert not (desk / "live").exists()


@pytest.mark.slow
def test_an_address_at_which_nobody_answers_is_one_error(
    desk: Path, simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")

    done = simkit("live", "desk.scenario.yaml")

    assert done.code == 2
    assert "no provider answered: turn 1 ended with error connection" in done.err
    assert "Set its address in the environment" in done.err
    assert done.out == ""
    assert not (desk / "live").exists()


def scenario_with(passes: int, runs: int) -> ScenarioRuns:
    """Returns a scenario that held in so many of its runs."""
    trials = [
        Trial(passed=number < passes, unheld=(), unseen=(), others=(), texts=("no",), places=(),
              calls=(), seconds=1)
        for number in range(runs)
    ]  # fmt: skip
    finished = [FinishedRun(number=n + 1, trial=trial) for n, trial in enumerate(trials)]
    return ScenarioRuns("a", "a", "a", None, finished)  # type: ignore[arg-type]


def test_a_share_that_is_asked_for_is_enough() -> None:
    for runs in (7, 100, 1000):
        for percent in range(1, 101):
            if percent * runs % 100 == 0:
                passes = percent * runs // 100
                report = LiveReport(
                    scenarios=[scenario_with(passes, runs)], k=3, runs_requested=runs
                )
                assert exit_code(report, float(percent)) == 0
                assert exit_code(report, percent + 0.01) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_reports_the_runs_so_far_and_keeps_their_files(desk: Path, server: Provider) -> None:
    dealer, blocked = Dealer(0.0), threading.Event()

    def answer(request: HttpRequest) -> HttpResponse:
        if dealer.answers >= 2:
            blocked.set()
            time.sleep(0.2)
        return dealer(request)

    server.answer = answer
    process = subprocess.Popen(
        [sys.executable, "-m", "simkit", "live", "desk.scenario.yaml", "--runs", "999"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert blocked.wait(timeout=120)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)

    assert process.returncode == 130, err
    assert err == "\nstopped\n"
    assert re.search(r"turn 1: reply +0 of 1 +0 %", out), out
    assert out.endswith("cut short: calls of runs that did not end are in no number above\n")
    assert replayed(kept_files()[0])["outcome"] == "failed"


# Code

TEAM = '''\
"""A desk whose triage asks OpenAI and whose billing asks Anthropic."""

import anthropic
import openai

TALK = []


def run(text):
    TALK.append(text)
    with openai.OpenAI() as client:
        topic = client.chat.completions.create(
            model="gpt-5-mini",
            messages=[
                {"role": "system", "content": "You are the triage."},
                {"role": "user", "content": " ".join(TALK)},
            ],
        )
    with anthropic.Anthropic() as client:
        answer = client.messages.create(
            model="claude-haiku-4-5",
            max_tokens=99,
            system="You are the billing. Topic: " + topic.choices[0].message.content,
            messages=[{"role": "user", "content": text}],
        )
    return answer.content[0].text
'''
TEAM_SCENARIO = """\
version: 1
scenario: damage is refunded
pipeline: team:run
app: {path: [.]}
agents:
  triage: {system: {$starts: You are the triage}}
  billing: {system: {$starts: You are the billing}}
turns:
  - user: My order came broken, I want a refund
    replies: {triage: damage, billing: You get a refund.}
    expect:
      agents: [triage, billing]
      reply: {$contains: refund}
      context: {triage: {messages: [{role: system}, {user: {$starts: My order came broken}}]}}
"""


@pytest.fixture
def team(desk: Path) -> Path:
    (desk / "team.py").write_text(TEAM, encoding="utf-8")
    (desk / "cases").mkdir()
    text = TEAM_SCENARIO.replace("[.]", "[..]")
    (desk / "cases" / "team.scenario.yaml").write_text(text, encoding="utf-8")
    return desk


@pytest.mark.slow
def test_code_asks_its_models_itself_and_starts_anew_in_each_run(
    team: Path, server: Provider, simkit: Call
) -> None:
    dealer = server.answer = Dealer(0.5, triage=says("damage"))

    done = simkit("live", "cases", "--runs", "4", "-j", "2", "--to", "out/live", "--format", "json")

    (scenario,) = report_of(done)["scenarios"]
    claims = {claim["claim"]: claim["held"] for claim in scenario["claims"]}
    assert claims == {
        "turn 1: agents": 4,
        "turn 1: reply": 4 - dealer.refusals,
        "turn 1: context.triage.messages": 4,
    }
    assert report_of(done)["cost_usd"] == pytest.approx(4 * COST)
    assert 0 < dealer.refusals < 4
    files = kept_files(Path("out/live"))
    assert len(files) == dealer.refusals
    assert replayed(files[0])["findings"][0]["path"][:4] == ["turns", 0, "expect", "reply"]


@pytest.mark.slow
def test_code_with_a_model_without_a_price_sends_nothing_under_a_budget(
    team: Path, server: Provider, simkit: Call
) -> None:
    (team / "prices.yaml").write_text("prices: {m: {input: 1, output: 1}}\n", encoding="utf-8")

    done = simkit("live", "cases", "--budget-usd", "1")

    assert done.code == 2
    assert "the price of model `gpt-5-mini` is not known, so no request is sent" in done.err
    assert server.requests == []


@pytest.mark.slow
def test_code_without_a_key_sends_nothing(
    team: Path, server: Provider, simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    server.answer = Dealer(1.0, triage=says("damage"))

    done = simkit("live", "cases")

    assert done.code == 2
    assert done.err == (
        "there is no key for the models' provider, so nothing is sent\n"
        "  Set it in the environment: ANTHROPIC_API_KEY.\n"
    )
    assert len(server.requests) == 1


@pytest.mark.slow
def test_a_run_that_fails_before_any_call_is_replayed_without_a_cassette(
    team: Path, server: Provider, simkit: Call
) -> None:
    (team / "team.py").write_text("def run(text):\n    return 1 / 0\n", encoding="utf-8")

    done = simkit("live", "cases", "--runs", "1", "--format", "json")

    (run,) = report_of(done)["scenarios"][0]["runs"]
    assert run["replays"] is True
    assert "ZeroDivisionError" in replayed(run["scenario"])["findings"][0]["what"]


BREAKING = (
    TEAM
    + """

def run_or_break(text):
    answer = run(text)
    if answer == "No.":
        TALK.clear()
        with openai.OpenAI() as client:
            message = {"role": "system", "content": "Nobody knows me."}
            client.chat.completions.create(model="gpt-5-mini", messages=[message])
    return answer
"""
)


@pytest.mark.slow
def test_a_run_that_breaks_off_is_a_failed_run_unless_all_do(
    team: Path, server: Provider, simkit: Call
) -> None:
    (team / "team.py").write_text(BREAKING, encoding="utf-8")
    text = TEAM_SCENARIO.replace("team:run", "team:run_or_break")
    (team / "team.scenario.yaml").write_text(text, encoding="utf-8")
    shares = iter([1.0, 0.0])
    first, second = (Dealer(share, triage=says("damage")) for share in shares)
    dealers = iter([first, first, second, second])
    server.answer = lambda request: next(dealers)(request)

    done = simkit("live", "team.scenario.yaml", "--runs", "2", "--format", "json")
    server.answer = Dealer(0.0, triage=says("damage"))
    broken = simkit("live", "team.scenario.yaml", "--runs", "2")

    (scenario,) = report_of(done)["scenarios"]
    assert (scenario["held"], scenario["judged"]) == (1, 2)
    run = scenario["runs"][1]
    assert "a model call belongs to no agent" in run["findings"][0]
    assert run["replays"] is True
    assert broken.code == 2
    assert "a model call belongs to no agent" in broken.err
    assert broken.out == ""


@pytest.mark.slow
def test_a_provider_that_does_not_answer_ends_the_run_in_time(
    server: Provider, simkit: Call
) -> None:
    over = threading.Event()

    def hang(request: HttpRequest) -> HttpResponse:
        over.wait(60)
        return Dealer(1.0)(request)

    server.answer = hang
    try:
        done = simkit("live", "desk.scenario.yaml", "--runs", "3", "--timeout", "0.5")
    finally:
        over.set()

    assert done.code == 2
    assert " took longer than 0.5 s, and was ended" in done.err
    assert "--timeout SECONDS allows more" in done.err


# The turns before


TALK = """\
version: 1
scenario: the second answer is live
pipeline: team:run
app: {path: [.]}
agents:
  triage: {system: {$starts: You are the triage}}
  billing: {system: {$starts: You are the billing}}
turns:
  - user: My order came broken
    replies: {triage: damage, billing: I am sorry.}
    expect: {reply: I am sorry.}
  - user: I want a refund
    replies: {triage: money, billing: You get a refund.}
    expect:
      reply: {$contains: refund}
      context: {triage: {messages: [{role: system}, {user: My order came broken I want a refund}]}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_recorded", [False, True], ids=["lines", "cassette"])
def test_turns_before_are_replayed(
    team: Path, server: Provider, simkit: Call, process: Call, is_recorded: bool
) -> None:
    text = TALK
    file = team / "talk.scenario.yaml"
    if is_recorded:
        text = re.sub("    replies: .*\n", "", text)
        text = text.replace("turns:", "cassette: talk\nturns:")
        text = text.replace("I am sorry.", "You get a refund.")
    file.write_text(text, encoding="utf-8")
    if is_recorded:
        server.answer = Dealer(1.0, triage=says("damage"))
        # The team keeps its history in a module: `record` replays in another process.
        assert process("record", "talk.scenario.yaml").code == 0
    server.requests.clear()
    server.answer = Dealer(0.0, triage=says("damage"))

    done = simkit("live", "talk.scenario.yaml", "--from", "2", "--runs", "1", "--format", "json")

    assert done.code == 1, done.err
    (scenario,) = report_of(done)["scenarios"]
    assert {claim["claim"]: claim["held"] for claim in scenario["claims"]} == {
        "turn 2: reply": 0,
        "turn 2: context.triage.messages": 1,
    }
    assert len(server.requests) == 2
    (path,) = kept_files()
    assert scenario["runs"][0]["replays"] is True
    assert replayed(path)["findings"][0]["path"][:4] == ["turns", 1, "expect", "reply"]


def test_a_turn_that_the_scenario_does_not_have_is_refused(simkit: Call) -> None:
    done = simkit("live", "desk.scenario.yaml", "--from", "2")

    assert done.code == 2
    assert done.err == ("--from 2: desk.scenario.yaml::a broken order is refunded has 1 turn\n")


ROWS = """\
version: 1
scenario: the order ${column.order} is refunded
pipeline: desk.pipeline.yaml
examples: [{order: A-1}, {order: "$${B}"}]
turns:
  - user: My order ${column.order} came broken
    repeat: 2
    replies:
      triage: {handoff: {to: billing, payload: {order: A-1}}}
      billing: You get a refund.
    expect: {reply: {$contains: refund}}
  - user: You said ${turns[0].reply}, is ${column.order} meant?
    restart: true
    replies:
      triage: {handoff: {to: billing, payload: {order: A-1}}}
      billing: You get a refund.
    expect:
      reply: "${turns[0].reply}"
      context: {triage: {includes: [{user: {$contains: "is ${column.order} meant?"}}]}}
"""


@pytest.mark.slow
def test_rows_repetitions_restarts_and_references_are_those_of_the_run(
    desk: Path, server: Provider, simkit: Call
) -> None:
    (desk / "desk.scenario.yaml").write_text(ROWS, encoding="utf-8")
    server.answer = Dealer(0.0)

    done = simkit("live", "desk.scenario.yaml", "--runs", "1", "--format", "json")

    assert done.code == 1, done.err
    assert simkit("validate", "--strict", "live").code == 0
    scenarios = report_of(done)["scenarios"]
    assert len(scenarios) == 2
    for scenario in scenarios:
        assert {claim["claim"]: claim["held"] for claim in scenario["claims"]} == {
            "turn 1: reply": 0,
            "turn 2: reply": 0,
            "turn 3: reply": 1,
            "turn 3: context.triage.includes": 1,
        }
        (run,) = scenario["runs"]
        assert run["replays"] is True
        (finding,) = replayed(run["scenario"])["findings"]
        assert [finding["turn"], *(each["turn"] for each in finding["following"])] == [1, 2]
