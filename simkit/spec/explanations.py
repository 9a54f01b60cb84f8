"""Explanations of messages, their usual causes and their fixes: every catalogue in one form.

The messages of errors and of failed claims are listed here, those of lints and of validation in
their own catalogues. `simkit explain` prints them, and the page on troubleshooting is made from
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from simkit.core.errors import SimkitError
from simkit.core.text import near
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.validation_catalogue import CODES, REFUSALS


class ErrorEntry(msgspec.Struct, frozen=True, gc=False):
    """One kind of message: how it is worded (``…`` stands for what differs), and what to do."""

    message: str
    rule: str
    fix: str
    cause: str


ERRORS: Final[Mapping[str, ErrorEntry]] = {
    "ReplyMissing": ErrorEntry(
        "agent … made … model call … in turn …, but the scenario has … for it",
        "every model call is answered by a reply line of its agent in its turn",
        "Add the line under `replies`, or look in the timeline for the call that should not be.",
        cause="A tool call asks the model a second time, for the answer to the result; or another "
              "agent ran than you expected.",
    ),
    "ToolMissing": ErrorEntry(
        "agent … called tool … in turn …, which has neither a result in the scenario nor a "
        "function in the pipeline.",
        "every tool that a model calls has a result in the scenario or a function",
        "Add a result under `tool_results`, or name the tool's `function` in the pipeline.",
        cause="The scripted reply calls a tool for which the turn has no result.",
    ),
    "ScriptMisfit": ErrorEntry(
        "… calls tool …, which agent … is not offered.",
        "the pipeline does what the scenario's lines speak of",
        "Correct the line; or, if the change of the pipeline was a mistake, the pipeline.",
        cause="The pipeline changed after the scenario was written: a tool, a question or an "
              "output schema is another one now.",
    ),
    "ScriptBroken": ErrorEntry(
        "turns[…] … returned a …, which is no reply line.",
        "the scenario's lines can be served as they are written",
        "Correct the line that the message names.",
        cause="A function that should return a reply line returns something else, or a result "
              "could be meant in two ways.",
    ),
    "CallUnattributed": ErrorEntry(
        "a model call belongs to no agent: …",
        "each model call is known to be some agent's",
        "Copy the rule that the message proposes into `agents:`, or write "
        "`with simkit.agent(\"name\"):` around the call.",
        cause="The code has no adapter, and no rule under `agents:` fits the system message of "
              "this call.",
    ),
    "CassetteMissed": ErrorEntry(
        "…: no recording answers … in turn …: …",
        "each model call is in the cassette",
        "Read what differs from the nearest recording. If the change is meant, record again with "
        "the command that the message ends with.",
        cause="A prompt, a tool or a setting changed after the recording.",
    ),
    "CassetteInvalid": ErrorEntry(
        "…: not written: it would hold a secret, known by the rule …",
        "a cassette can be read, and holds no secret",
        "Restore the file from version control, or record it again. If a secret was about to be "
        "written, take it out of what is sent.",
        cause="The file was edited by hand, or merged; or a key stands in a request's body.",
    ),
    "ProviderUnreached": ErrorEntry(
        "the client of … sends nothing: …",
        "`simkit record` can reach the model's provider",
        "Install the provider's client, and set its key in the environment.",
        cause="The provider's key is not set where you record.",
    ),
    "NetworkRefused": ErrorEntry(
        "the pipeline reached for the network, …, which is refused.",
        "a scenario opens no real connection",
        "Stub the tool with `tool_results`, or list the host under `allow_hosts`.",
        cause="A tool really searches, downloads or queries, or a model's client has an address "
              "that simkit does not know as a provider's.",
    ),
    "FunctionMissing": ErrorEntry(
        "function …: there is no module …",
        "each function that a file names can be imported",
        "Correct the name, or add its folder: `app: {path: [../src]}`.",
        cause="simkit was started in another folder, or the module imports something that is not "
              "installed.",
    ),
    "ProgramNamed": ErrorEntry(
        "… is a program: it reads the user's messages itself, …",
        "the code of a pipeline waits for no input while it is imported or built",
        "Run it as it is: `app: {input: turns}` types each turn's text in.",
        cause="The named function or module is a loop around `input()`.",
    ),
    "FunctionFailed": ErrorEntry(
        "… raised …",
        "the application's own functions return",
        "Run with `--show events`, and debug the function: `breakpoint()` works in it.",
        cause="A bug in the function, or a tool result that it does not expect.",
    ),
    "FrameworkFailed": ErrorEntry(
        "turn … ended with error …: …",
        "the framework raises nothing; the error has the name of the framework's exception",
        "Read the error as you would without simkit. If it is meant, claim it: `error: {type: …}`.",
        cause="The framework refuses what the model answered, or a limit of its own was reached.",
    ),
    "ModelError": ErrorEntry(
        "turn … ended with error …: …",
        "a failed model call is retried or handled",
        "Handle the failure in the code, or claim it: `error: {type: rate_limit}`.",
        cause="A reply line with `error:` made the call fail on purpose, and nothing in the "
              "pipeline handles that. The type is the fault's: `rate_limit`, `timeout`, …",
    ),
    "TurnCancelled": ErrorEntry(
        "the user cancelled the turn at …",
        "a turn ends with its reply, unless its scenario says otherwise",
        "Nothing is to be done: `cancel` in the turn says that it ends there.",
        cause="The turn has `cancel`, and the call that it names was made.",
    ),
    "ProcessCrashed": ErrorEntry(
        "the process ended at …",
        "a turn ends with its reply, unless its scenario says otherwise",
        "Nothing is to be done: `crash` in the turn says that the process ends there.",
        cause="The turn has `crash`, and the call that it names was made.",
    ),
    "NoRoute": ErrorEntry(
        "node … decided …, which … none of its labels: …",
        "what a router decides is one of its labels, agents or edges",
        "Correct the scripted decision, or add the label.",
        cause="The reply line of the router has a typo, or a label was renamed.",
    ),
    "InputInvalid": ErrorEntry(
        "agent … reads its input, but the output of …, which ran before it, is null",
        "what an agent is given satisfies its `input` schema",
        "Let the agent before it return what this one needs, or correct the schema.",
        cause="The agent before it answered with nothing, or with another shape.",
    ),
    "OutputInvalid": ErrorEntry(
        "agent … must answer with JSON, but said: …",
        "an agent's answer satisfies its `output` schema",
        "Script the reply with `json:`, or correct the agent's `output`.",
        cause="The reply line is a text where the agent declares structured output.",
    ),
    "HandoffInvalid": ErrorEntry(
        "the handoff from … to … was refused again: …",
        "a handoff that was refused is made correctly the second time",
        "Correct the payload of the second try, or claim the refusal: `outcome: rejected`.",
        cause="Both scripted payloads break the contract, or its schema is stricter than meant.",
    ),
    "HandoffTimeout": ErrorEntry(
        "agent … took longer than the … ms that the handoff from … allows",
        "the target of a handoff answers within its contract's time",
        "Raise `timeout_ms` of the contract, or shorten the scripted `latency_ms`.",
        cause="Scripted latencies of the target and its tools add up to more, in virtual time.",
    ),
    "UserSilent": ErrorEntry(
        "the model of user … gave no message …: …",
        "the model of a simulated user answers with its next message",
        "Read what the model answered after the colon; a clearer `goal:`, or a model that keeps to "
        "a schema, helps.",
        cause="In a live run, the user's model answered in another form twice, refused, or failed.",
    ),
    "WriteInvalid": ErrorEntry(
        "there is no channel … to write; channels: …",
        "each write names a channel, and its reducer can take the value",
        "Correct the channel's name, or write a value of the channel's type.",
        cause="The channel was renamed, or a text is appended where a list is merged.",
    ),
    "LimitExceeded": ErrorEntry(
        "limit … reached: … allowed",
        "turns, runs, handoffs, calls and virtual time stay within their limits",
        "Find in the timeline what repeats, and end it; or raise the limit under `limits:`.",
        cause="Two agents pass control to each other without an end. FLW-01 reports the same.",
    ),
    "ProgramFailed": ErrorEntry(
        "… made no request for … seconds…",
        "a program under `program:` runs until the conversation ends",
        "Start the command by hand, and read what it prints.",
        cause="The program ended with an error, or waits for something other than a model.",
    ),
    "ReportInvalid": ErrorEntry(
        "… is nothing that a program can tell.",
        "what a program reports of itself is an event that simkit reads",
        "Correct the report: the page on programs in other languages lists the fields.",
        cause="A field is misspelt, or has another type.",
    ),
    "ProcessFailed": ErrorEntry(
        "the process that was to go on with turn … ended with code …",
        "after `restart: true` a new process continues the conversation",
        "Read the lines of the process that the message quotes.",
        cause="The code ends the process, or cannot be imported in a new one.",
    ),
    "StoreInvalid": ErrorEntry(
        "…: the store cannot be opened: …",
        "the file of a store can be read and written",
        "Restore the file, or let the scenario begin with a new one.",
        cause="The file is damaged, belongs to another program, or another process writes to it.",
    ),
    "TraceError": ErrorEntry(
        "…: the trace is cut off: it ends with …, not RunFinished",
        "a stored trace is whole, and of a format that this version reads",
        "Run the scenario again to get a new trace.",
        cause="The run was stopped, the file was edited, or another version wrote it.",
    ),
    "PatternTooSlow": ErrorEntry(
        "the regular expression … found no answer within … s of work",
        "a regular expression finds its answer in time",
        "Write the pattern without nested repetition: `a+` instead of `(a+)+`.",
        cause="The pattern can match the same text in very many ways.",
    ),
    "WireInvalid": ErrorEntry(
        "… is missing",
        "a request or a response is what its provider's protocol allows",
        "Correct the field that the message names.",
        cause="A client, or a hand-written recording, has a field of another type.",
    ),
    "Unsupported": ErrorEntry(
        "… is not supported by this version of simkit",
        "what is asked for can be done by this version, with what is installed",
        "Do what the message proposes: install the extra that it names, or leave the key out.",
        cause="A package is missing, or a key needs a pipeline that is declared in YAML.",
    ),
    "SourceError": ErrorEntry(
        "…: unknown … `…`",
        "a file says what simkit knows",
        "Write the word that the message proposes, at the line that it names. `simkit validate` "
        "gives the code, VAL-01 to VAL-05.",
        cause="A misspelt key or name.",
    ),
    "OutputFailed": ErrorEntry(
        "… cannot be written to: …",
        "the output can be written",
        "Free some space, or write to another place.",
        cause="The disk is full, or the stream was closed.",
    ),
    "DirectoryGone": ErrorEntry(
        "the working directory is not there any more: …",
        "simkit starts in a folder that exists",
        "Go to a folder that is there, and call simkit again.",
        cause="The folder was deleted or replaced while the terminal stood in it.",
    ),
}  # fmt: skip
"""Errors by the name of their type, under which `error:` claims those of the pipeline."""

CLAIMS: Final[Mapping[str, ErrorEntry]] = {
    "context-includes": ErrorEntry(
        "context.….includes[…] matches no message",
        "some message of the agent's context matches each pattern under `includes`",
        "Add the section that should bring it, or change the filter that the finding names.",
        cause="The recipe has no section for it, or a filter or window dropped it.",
    ),
    "context-excludes": ErrorEntry(
        "context.….excludes[…] matches a message",
        "no message of the agent's context matches a pattern under `excludes`",
        "Filter it out of the section that the finding names.",
        cause="The agent's history is not filtered by author or kind.",
    ),
    "mismatch": ErrorEntry(
        "… does not match",
        "the value of the run matches the value of the claim",
        "Compare `wanted` and `found`. If the new value is right, `simkit replay --update` "
        "writes it into the file.",
        cause="The pipeline behaves in another way than the claim says.",
    ),
    "ended-with-error": ErrorEntry(
        "turn … ended with error …: …",
        "a turn ends with a reply, unless the scenario claims an error",
        "Look up the type of the error here. If it is meant, claim it: `error: {type: …}`.",
        cause="See the error's own type.",
    ),
    "not-looked-at": ErrorEntry(
        "… was not looked at: …",
        "each claim is about something that the driver can see",
        "Claim what the wire shows (contexts, replies), or use the framework's adapter.",
        cause="The pipeline is code without an adapter, so its state or its handoffs are not "
              "visible.",
    ),
    "channel-not-written": ErrorEntry(
        "channel … was not written …",
        "some agent writes the channel in the turn",
        "Look at the column `state written` of the timeline, and correct the agent's `writes`.",
        cause="Another agent ran, or its output goes to another channel.",
    ),
}  # fmt: skip
"""Findings of claims, by a name for their message: their id is CLAIM for all of them."""


Kind = Literal["claim", "lint", "validation", "error"]

SEVERITIES: Final = MappingProxyType({"E": "error", "W": "warning"})


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One message: what should hold, why it does not, and what to do."""

    id: str
    """``HND-12``, ``ReplyMissing``; a claim's message has a name alone."""
    kind: Kind
    name: str = ""
    severity: str = ""
    """``error`` or ``warning`` of lints and of what validation finds."""
    message: str = ""
    """How it is worded, ``…`` for what differs; lints are known by their id."""
    rule: str
    cause: str
    fix: str
    fix_in_code: str = ""
    can_be_turned_off: bool = False

    @property
    def title(self) -> str:
        """Return ``HND-12 context-ignored``."""
        return f"{self.id} {self.name}".rstrip()

    def fits(self, words: str) -> bool:
        """Return whether a printed message is worded so."""
        parts = [part.strip() for part in self.message.split("…")]
        pattern = ".*?".join(re.escape(part) for part in parts if part)
        return bool(pattern and re.search(pattern, words))


@cache
def explanations() -> MappingProxyType[str, Explanation]:
    """Return every explanation by its id, those of claims first."""
    return MappingProxyType({explanation.id: explanation for explanation in _all()})


def _all() -> Iterator[Explanation]:
    for name, claim in CLAIMS.items():
        yield Explanation(id=name, kind="claim", **msgspec.structs.asdict(claim))
    for code, entry in (*LINTS.items(), *CODES.items()):
        fields = {**msgspec.structs.asdict(entry), "severity": SEVERITIES[entry.severity]}
        kind: Kind = "lint" if code in LINTS else "validation"
        yield Explanation(id=code, kind=kind, can_be_turned_off=code not in REFUSALS, **fields)
    for name, error in ERRORS.items():
        yield Explanation(id=name, kind="error", **msgspec.structs.asdict(error))


def explanation_of(words: str) -> Explanation:
    """Return what is known under an id, a name (``context-ignored``) or by a printed message.

    Raises SimkitError that names the nearest id for words that nothing is known of.
    """
    known = explanations()
    words = " ".join(words.split())
    spelled = {
        name.lower(): explanation
        for explanation in known.values()
        for name in (explanation.id, explanation.name)
    }
    if words and words.lower() in spelled:
        return spelled[words.lower()]
    for id_inside in re.findall(r"\b[A-Z]{3}-\d\d\b|\b[A-Z][A-Za-z]+\b", words):
        if id_inside in known:
            return known[id_inside]
    fitting = [explanation for explanation in known.values() if explanation.fits(words)]
    if fitting:
        return max(fitting, key=lambda explanation: len(explanation.message.replace("…", "")))
    nearest = near(words, [name for name in spelled if name])
    hint = f"\n  did you mean `{spelled[nearest].id}`?" if nearest else ""
    raise SimkitError(
        f"nothing is known under `{words}`{hint}\n"
        "  `simkit explain` lists every id. A message is found by its own words, too: copy it "
        "whole, in quotes.\n"
        "  Errors of a file end with their own advice; `simkit validate FILE` prints their ids."
    )
