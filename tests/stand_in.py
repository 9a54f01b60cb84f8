"""Records the cassettes of the repository from a stand-in: `python -m tests.stand_in`.

No provider is asked. Over real HTTP on the loopback, the code's own clients get what the reply
lines of a `provider.scenario.yaml` say, as `simkit serve` answers them. Where the stand-in listens
is no part of what is recorded, so its address is written as the provider's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from simkit.adapters.programs.program import variables_for
from simkit.capture.http.request_router import Decision
from simkit.cli.serve import served
from simkit.providers.http import HttpResponse
from simkit.session.execution.recorded import Recording, cassette_path
from simkit.session.simulate import record
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import items_in
from simkit.trace.store import Trace
from tests.recording import provider

ROOT: Final = Path(__file__).resolve().parent.parent
PAIRS: Final = {
    "scenarios/agent_engine/recorded.scenario.yaml": "provider.scenario.yaml",
    "scenarios/fitness_coach/recorded.scenario.yaml": "provider.scenario.yaml",
    "scenarios/handoff_pattern/recorded.scenario.yaml": "provider.scenario.yaml",
    "scenarios/research_assistant/recorded.scenario.yaml": "provider.scenario.yaml",
    "scenarios/plain_http/recorded.scenario.yaml": "provider.scenario.yaml",
    "scenarios/recorded_desk/desk.scenario.yaml": "provider.scenario.yaml",
}
"""Scenarios that are recorded, and the file beside each that says what the stand-in answers."""
ADDRESSES: Final = {
    "/v1/chat/completions": "https://api.openai.com",
    "/v1/responses": "https://api.openai.com",
    "/v1/messages": "https://api.anthropic.com",
}
NOTE: Final = "# Recorded from a stand-in, not from a provider: cassettes/README.md says how.\n"


def recorded_scenarios(root: Path = ROOT, word: str = "") -> Iterator[Prepared]:
    """Yields the scenarios that are recorded here, and whose libraries are installed.

    Of a ``word``, those only in the path of whose file it is.
    """
    library = Library()
    for file in PAIRS:
        if word not in file:
            continue
        for item in items_in(str(root / file)):
            prepared = library.prepared(item)
            if prepared.skip is None:
                yield prepared


def cassette_of(prepared: Prepared) -> Path:
    """Returns the file that a scenario is answered from."""
    path = cassette_path(prepared)
    assert path is not None
    return path


def record_from_stand_in(prepared: Prepared, now: str) -> None:
    """Records one scenario anew; raises RuntimeError where it does not hold."""
    run = served(provider_scenario(prepared), Trace())
    with provider() as server, _environment(variables_for(server.url, os.environ)):
        server.answer = lambda request: closing(run.take(request))
        done = record(prepared, Recording("all", now))
    if run.problem or not done.outcome.passed:
        texts = [str(finding) for finding in done.outcome.judgement.findings]
        raise RuntimeError(f"{prepared.item.id}: {run.problem or texts}")
    _finish(cassette_of(prepared), server.url)


def closing(answer: Decision) -> Decision:
    """Ends the connection with an answer.

    A client that a library keeps for all scenarios, as the OpenAI Agents SDK does, would leave it
    open when the event loop that it belongs to is over, which is a ResourceWarning.
    """
    if not isinstance(answer, HttpResponse):
        return answer
    return msgspec.structs.replace(answer, headers=(*answer.headers, ("connection", "close")))


def provider_scenario(prepared: Prepared) -> Prepared:
    """Returns the scenario with the lines: the one in which the user says the same."""
    file = Path(prepared.document.file)
    name = next(extras for item, extras in PAIRS.items() if file.match(item))
    values = _user_texts(prepared)
    cases = (Library().prepared(item) for item in items_in(str(file.with_name(name))))
    return next(case for case in cases if _user_texts(case) == values)


def _user_texts(prepared: Prepared) -> list[object]:
    return [turn.user for turn in prepared.scenario.turns]


def _finish(file: Path, url: str) -> None:
    """Writes the providers' addresses in the place of the stand-in's, and says where it is from."""
    text = file.read_text(encoding="utf-8").removeprefix(NOTE)
    for path, address in ADDRESSES.items():
        text = text.replace(f"{url}{path}", f"{address}{path}")
    file.write_text(NOTE + text, encoding="utf-8")


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def main(*words: str) -> None:
    """Records what a word is in the name of; without words, everything."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with chdir(ROOT):
        for prepared in recorded_scenarios():
            file = cassette_of(prepared)
            if not words or any(word in str(file) for word in words):
                record_from_stand_in(prepared, now)
                print(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
