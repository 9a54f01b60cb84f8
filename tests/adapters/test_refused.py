"""A request that is no model call is refused, and what may stand in for it is said; it can."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from simkit import SourceError, load, simulate
from tests.adapters.running import run_app
from tests.building import Ran

SEARCH = """
import openai

DOCUMENTS = {"refunds": [1.0, 0.0], "seats": [0.0, 1.0]}


def embed(text):
    made = openai.OpenAI().embeddings.create(model="m", input=text)
    return made.data[0].embedding


def search(text):
    vector = embed(text)
    return max(DOCUMENTS, key=lambda name: sum(map(float.__mul__, DOCUMENTS[name], vector)))


class Index:
    def chat(self, text):
        return str(openai.OpenAI().embeddings.create(model="m", input=text))


def listing(text):
    return str(openai.OpenAI().files.list())


def fake():
    global embed
    before, embed = embed, lambda text: [0.0, 1.0]
    yield
    embed = before
"""
REFUSED = (
    "simkit answers model calls only, and the network is refused.\n"
    "Let the function that returns them be stood in for: "
)


def run(folder: Path, name: str, app: str = "", turn: str = "") -> Ran:
    (folder / "embedding_desk.py").write_text(dedent(SEARCH), encoding="utf-8")
    scenario = f"app: {{path: [.]{app}}}\nturns: [{{user: Hello{turn}}}]"
    return run_app(f"embedding_desk:{name}", scenario, folder)


def error_of(ran: Ran) -> str:
    assert ran.view.error is not None
    return ran.view.error.message


def test_embeddings_are_refused_with_the_function_that_may_be_stood_in_for(tmp_path: Path) -> None:
    assert error_of(run(tmp_path, "search")) == (
        "the pipeline asked for embeddings, POST https://api.openai.com/v1/embeddings, at "
        f"embedding_desk.py:8 in embed: {REFUSED}`app: {{tools: {{embed: embedding_desk:embed}}}}` "
        "and `tool_results: {embed: {returns: [0.1, 0.2]}}`. Or put a fake in its place under "
        "`app: {setup: module:function}`, or record it with a `cassette`."
    )


def test_of_a_method_no_name_is_said(tmp_path: Path) -> None:
    error = error_of(run(tmp_path, "Index"))

    assert f"{REFUSED}`app: {{tools: {{embed: module:function}}}}`" in error


def test_what_is_advised_against_embeddings_holds(tmp_path: Path) -> None:
    stood_in = run(
        tmp_path, "search", ", tools: {embed: embedding_desk:embed}",
        ", tool_results: {embed: {returns: [0.0, 1.0]}}, expect: {reply: seats}",
    )  # fmt: skip
    faked = run(tmp_path, "search", ", setup: embedding_desk:fake", ", expect: {reply: seats}")

    assert (stood_in.judgement.findings, faked.judgement.findings) == ((), ())


def test_any_other_request_is_refused_with_its_host(tmp_path: Path) -> None:
    assert error_of(run(tmp_path, "listing")) == (
        "the pipeline sent GET https://api.openai.com/v1/files, which is no model call that simkit "
        "knows, and the network is refused, at embedding_desk.py:23 in listing.\n"
        "Stub the tool with `tool_results` and `app: {tools: …}`, or allow the host: "
        "`allow_hosts: [api.openai.com]`."
    )


@pytest.mark.parametrize("code", ["{}", "def answer():\n    {}"], ids=["imported", "made"])
def test_what_is_sent_before_the_first_turn_needs_a_fake_before_that(
    tmp_path: Path, code: str
) -> None:
    send = "import urllib.request; urllib.request.urlopen('https://config.example.test/a')"
    (tmp_path / "early_desk.py").write_text(code.format(send), encoding="utf-8")
    write = "version: 1\nscenario: a\npipeline: early_desk:answer\napp: {path: [.], fresh: true}\n"
    (tmp_path / "a.scenario.yaml").write_text(f"{write}turns: [{{user: hi}}]\n", encoding="utf-8")
    (case,) = load(tmp_path / "a.scenario.yaml")

    with pytest.raises(SourceError) as error:
        simulate(case)

    place, advice = str(error.value).split("\n")
    assert place.startswith(
        f"{tmp_path}/a.scenario.yaml:3:11: the pipeline sent GET https://config"
    )
    assert advice == (
        "It is sent while `early_desk:answer` is imported or made. Put a fake in its place before "
        "that: `app: {setup: module:function}`, or allow the host: "
        "`allow_hosts: [config.example.test]`."
    )
