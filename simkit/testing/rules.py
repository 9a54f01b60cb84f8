"""Rules: required observations of an adapter, each with an application; texts of failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit.checks.judge import Outcome
from simkit.language.yaml import load_text
from simkit.report.events import event_lines
from simkit.report.text import findings_text
from simkit.report.wording import wrapped
from simkit.trace import events as e

FILE: Final = Path(__file__).with_name("rules.yaml")


class ConformanceRule(msgspec.Struct, frozen=True):
    """One rule of ``docs/how-to/adapters.md``, as a conversation that shows whether it is kept."""

    rule: str
    """Its name."""
    app: str
    """The application of the conversation."""
    says: str
    fix: str
    """Advice on how to keep it."""
    turns: tuple[Mapping[str, Any], ...]
    by_prompt: bool = False
    """Whether a silent adapter breaks it even if prompts attribute model calls."""


@cache
def rules() -> Mapping[str, ConformanceRule]:
    """Return every rule by its name."""
    text = FILE.read_text(encoding="utf-8")
    rules_read = (
        msgspec.convert(document.data, ConformanceRule) for document in load_text(text, FILE.name)
    )
    return {document.rule: document for document in rules_read}


APPLICATIONS: Final[Mapping[str, str]] = {
    "solo": "`writer` answers.",
    "chain": "`first` answers; `second` is sent that answer, and its own answer is the reply.",
    "parallel": "`left` and `right` answer at once, both with the instructions `You review.`; the "
    "reply is both answers, left first, with ` / ` between them.",
    "nested": "`boss` has a tool `ask_helper(input)` that lets `helper` answer.",
    "handoff": "`front` passes control to `expert` with a payload `{topic: …}`, by a tool that is "
    "called `pass_on` if models pass control: a tool's name alone must not prove a handoff.",
    "filter": "`front` has a tool `look_up(word)` and passes control to `expert`, whose history "
    "the function `without_tools` has cleared of all tool traffic.",
    "state": "`first` and `second` each add their answer to the list `notes` of the state.",
    "interrupt": "`teller` has a tool `pay(amount)` for which the user must be asked first; the "
    "answer `true` lets it run.",
    "stream": "`writer` answers, streamed; the reply is the whole stream.",
    "retry": "`writer` answers; a call that fails with status 503 is repeated after the second "
    "that the provider asks for.",
    "broken": '`clerk` answers; then code of the application raises `LookupError("lost")` while '
    "its run lasts.",
    "tools": "`clerk` has a tool `look_up(word)` that returns `<word> is known.`",
    "cancel": "`slow` has a tool `wait()` that never returns; once it runs, the application "
    "cancels the work, and replies `Cancelled.`",
    "sessions": "`clerk` answers, and is sent every message of its session.",
    "output": "`clerk` has a tool `look_up(word)`, and answers with an object `{count: …}`, which "
    "its model gives by calling another tool.",
}
"""Application to its description. The instructions of an agent are `You are <its name>.`"""


def lines_by(replies: Mapping[str, Any], tool: tuple[str, str] | None) -> dict[str, Any]:
    """Return reply lines by agent, in which each text is a call of ``tool`` with that argument."""
    if tool is None:
        return dict(replies)
    return {
        agent: [_line_by(line, *tool) for line in lines]
        if isinstance(lines, list)
        else _line_by(lines, *tool)
        for agent, lines in replies.items()
    }


def _line_by(line: Any, tool: str, argument: str) -> Any:
    options = {"text": line} if isinstance(line, str) else dict(line)
    if {"calls", "handoff"} & {*options} or "text" not in options:
        return line
    return {"calls": [{tool: {argument: options.pop("text")}}], **options}


def prompts_of(rule: ConformanceRule) -> dict[str, Any]:
    """Return attribution rules by the prompts of a rule's agents, for a scenario."""
    agents = dict.fromkeys(name for turn in rule.turns for name in turn.get("replies", ()))
    prompt = "You review." if rule.app == "parallel" else "You are {}."
    return {name: {"system": {"$contains": prompt.format(name)}} for name in agents}


_HEAD = (e.RunStarted, e.SessionStarted, e.RunFinished)
"""Events that every trace has, whatever an adapter reports."""


def broken_text(adapter: str, entry: str, rule: ConformanceRule, outcome: Outcome | str) -> str:
    """Return the text of a broken rule; ``outcome`` is its run, or why it could not continue."""
    return "\n".join(
        (
            f"the adapter {adapter!r} breaks the rule `{rule.rule}` (docs/how-to/adapters.md):",
            *wrapped(rule.says, "  "),
            *wrapped(f"`{entry}` is to be this: {APPLICATIONS[rule.app]}", "  "),
            "",
            *_outcome_lines(outcome),
            "",
            *wrapped(rule.fix, "  → ", "    "),
        )
    )


def proves_nothing_text(adapter: str, entry: str, rule: ConformanceRule) -> str:
    """Return the text of a rule that holds although nothing was reported."""
    return "\n".join(
        (
            f"the rule `{rule.rule}` holds for `{entry}` with the adapter {adapter!r} silenced:",
            *wrapped(
                "the application shows all of it by itself, so that the rule proves nothing. "
                f"It is to be this: {APPLICATIONS[rule.app]}",
                "  ",
            ),
        )
    )


def missing_text(applications: str, name: str) -> str:
    """Return the text of a missing application."""
    return "\n".join(
        (
            f"{applications!r} has no application `{name}`, which is to be this:",
            *wrapped(f"{APPLICATIONS[name]} An agent's instructions are `You are <name>.`", "  "),
            *wrapped(
                "Where the framework cannot do that, say why: "
                f'`not_supported = {{"{name}": "…"}}`.',
                "  → ",
                "    ",
            ),
        )
    )


def _outcome_lines(outcome: Outcome | str) -> Iterator[str]:
    if isinstance(outcome, str):
        yield "the run could not go on:"
        yield from (f"  {line}" for line in outcome.splitlines())
        return
    yield findings_text(outcome.judgement.findings)
    yield ""
    yield "the trace holds:"
    events = [event for event in outcome.trace.events if not isinstance(event, _HEAD)]
    yield from event_lines(events)
