"""Catalogue of lints: name, severity, rule, and what to do about a finding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec


class LintEntry(msgspec.Struct, frozen=True, gc=False):
    """One lint in the catalogue and the reports."""

    severity: Literal["E", "W"]
    """``E`` fails the scenario, ``W`` is a warning."""
    name: str
    rule: str
    fix: str
    fix_in_code: str = ""
    """The advice if the pipeline is code; empty if ``fix`` fits code too."""
    cause: str = ""
    """Why it usually happens."""

    def advice(self, is_code: bool) -> str:
        """Return what to do, for a pipeline that is code or for a declared one."""
        return (self.fix_in_code if is_code else "") or self.fix


LINTS: Final[Mapping[str, LintEntry]] = {
    "RUN-01": LintEntry(
        "E", "script-mismatch",
        "every reply line and every tool result is used, and every model call and tool call has "
        "one",
        "Remove the unused line or result, move it to the turn that needs it, or add the "
        "missing one.",
        cause="An agent was asked more often, or less often, than its lines say: a tool call asks "
              "the model once more for its result, a router never chose the agent, or a name "
              "under `replies` is misspelt.",
    ),
    "RUN-02": LintEntry(
        "E", "uncontrolled",
        "user code uses no thread, process or network that simkit does not control",
        "Pass the value in, or stub the tool with `tool_results`.",
        "Pass the value in, or stub the tool that asks for it with `tool_results`, and name its "
        "function under `app: {tools: …}` unless it is a framework's tool.",
        cause="Code starts a thread or a process of its own, or opens a connection, for example a "
              "tool that really searches the web.",
    ),
    "RUN-03": LintEntry(
        "W", "vacuous-claim",
        "the pattern of an `excludes`, `$not` or `$unique` occurs somewhere in the trace or in "
        "the given values",
        "Correct the pattern: nothing in this run could match it.",
        cause="A typo in the pattern, or a pattern for text that this conversation never has: "
              "`excludes: [A-1043]` where every message says A-1042.",
    ),
    "RUN-04": LintEntry(
        "E", "unplayed",
        "every recorded interaction of a cassette answers a request",
        "Record the scenario again, or find out why the pipeline makes fewer requests than "
        "before.",
        cause="The pipeline makes fewer model calls than when the cassette was recorded, for "
              "example since a step was removed.",
    ),
    "RUN-05": LintEntry(
        "W", "drifted",
        "a request equals the recorded one that answers it",
        "Record the scenario again, or compare by content: the cassette's `policy: content`.",
        cause="A prompt or a tool's description was changed after the recording, and the cassette "
              "is matched by agent alone: `policy: per-agent`.",
    ),
    "RUN-06": LintEntry(
        "W", "unread-request",
        "every request to a model provider is in an interface that simkit reads",
        "Use one of OpenAI's chat completions or responses, Anthropic's messages or Gemini's "
        "generateContent, or claim the effects of the call: a reply, a state.",
        cause="A client calls an endpoint other than chat: embeddings, files, an older "
              "completions interface, or a provider that simkit does not know.",
    ),
    "RUN-07": LintEntry(
        "E", "lost-error",
        "every error that ends a thread or a task of the pipeline is taken by other code",
        "Await the task, or pass the thread's error on to the code that waits for it; handle "
        "where it is raised what may fail.",
        cause="Work in the background failed: a task that nobody awaits, a thread that is joined. "
              "Python prints the error and goes on, so the turn ends as if all were well.",
    ),
    "RUN-08": LintEntry(
        "E", "carried-over",
        "no text of an earlier scenario of the same process reaches a request of this one",
        "Reset it in a fixture, or write `app: {process: own}`: then the scenario has a process of "
        "its own.",
        cause="A list, a cache or a client in a module outlives the scenario: the history of every "
              "user in one place. `simkit replay` gives each scenario a process of its own.",
    ),
    "RUN-09": LintEntry(
        "E", "process-ended",
        "the process of a scenario goes on until its last turn is over",
        "Find what ends it: `os._exit`, a crash of a native library, a lack of memory, a signal.",
        cause="Code called `os._exit`, or a library crashed. What was printed before stands above.",
    ),
    "CTX-01": LintEntry(
        "E", "orphan-result",
        "every tool result in a context comes after the call that it answers",
        "Let filters and windows take a call and its result together: `tool_calls` with "
        "`tool_messages`, `window: {rounds: N}`.",
        "Where your code cuts the history, keep or drop a call together with its result: cut "
        "before a user's message.",
        cause="A window or a trimming function begins between a call and its result, or a filter "
              "removes the calls and keeps the results.",
    ),
    "CTX-02": LintEntry(
        "E", "orphan-call",
        "every tool call in a context is answered once, before the conversation continues",
        "Answer every call, or filter calls out of the history: `tool_calls`, or `handoffs` for "
        "those that pass control.",
        "Answer every call before the next model call, or leave it out of the messages; the "
        "same goes for calls that pass control.",
        cause="Control passed to another agent before a tool answered, or a filter removed the "
              "results and kept the calls. Providers refuse such a request with status 400.",
    ),
    "CTX-03": LintEntry(
        "E", "wrong-instructions",
        "a context has exactly one instructions block, and it is the calling agent's",
        "Begin the recipe with `instructions`, once.",
        cause="A history was handed over with the first agent's system message in it, or a recipe "
              "names `instructions` twice or not at all.",
    ),
    "CTX-05": LintEntry(
        "E", "required-fact-missing",
        "the facts under an agent's `requires` are in each of its contexts",
        "Add the section that shows the fact, or change the filter or window that drops it.",
        cause="A window or a summary removed the message that carried the fact, or the recipe has "
              "no section that shows it.",
    ),
    "CTX-06": LintEntry(
        "E", "private-fact-leaked",
        "the content of a channel that is `private` to an agent is in no other agent's context",
        "Filter out the message that contains it, or remove the channel from `private`.",
        cause="The agents share one history, and a message or a tool result in it quotes the "
              "private channel.",
    ),
    "CTX-07": LintEntry(
        "W", "duplicate-message",
        "no two messages of a context are equal in role, author and content, and no id comes twice",
        "Read each message from one section only, and store replies as `${run.final_message}`.",
        "Add each message to the history once: of an agent's result, only the new messages.",
        cause="The history and another section show the same message, or an agent returns the "
              "whole list and its channel appends it once more.",
    ),
    "CTX-10": LintEntry(
        "E", "over-budget",
        "a context stays within its token budget; a warning from 80 % on",
        "Give the history a `window`, or sections a `preview` or `tokens`.",
        "Trim or summarize the history before the model call, or raise `limits: "
        "{context_tokens: N}`.",
        cause="The history grows with every turn and nothing cuts it, or a tool returns a whole "
              "document.",
    ),
    "CTX-11": LintEntry(
        "W", "irrelevant-share",
        "the share of a context's tokens that comes from agents outside `sees` stays under its "
        "limit",
        "Add the filter `agents: {only: […]}` to the agent's history, or a window.",
        "Leave other agents' messages out of the agent's context, or name those agents under "
        "`sees`.",
        cause="All agents read one history, so an agent is sent the conversations of all the "
              "others.",
    ),
    "CTX-12": LintEntry(
        "E", "illegal-sequence",
        "no message of a context is empty: each has a text, or calls",
        "Leave the message out, or give it a text.",
        cause="A model answered with nothing, or a filter emptied a message and kept it. Some "
              "providers refuse such a request.",
    ),
    "CTX-15": LintEntry(
        "W", "system-not-first",
        "instructions, and system messages of a history, come before all other messages",
        "Put `instructions` first in the recipe, and keep system messages out of the "
        "conversation.",
        "Send the instructions first, and keep system messages out of the conversation.",
        cause="A system message was added in the middle of the conversation, for example as a "
              "note at a handoff. Anthropic and Gemini accept system messages at the beginning "
              "only.",
    ),
    "CTX-16": LintEntry(
        "E", "current-message-twice",
        "the user's current message appears at most once in a context",
        "Show it in `current_message` or in the history, not in both.",
        "Send the user's message once: at the end of the history, or beside it.",
        cause="The history contains the user's message already, and the recipe or the code adds "
              "it once more.",
    ),
    "CTX-17": LintEntry(
        "E", "filtered-comes-back",
        "a message that a filter dropped from an agent's context does not come back in a later "
        "one",
        "Continue from the messages that the agent received (OpenAI Agents SDK: "
        '`to_input_list(mode="normalized")`), or apply the filter to every call.',
        cause="A filter ran once, at a handoff, and the next turn went on from the list that was "
              "never filtered.",
    ),
    "CTX-18": LintEntry(
        "E", "results-swapped",
        "a tool's result is shown under its own call, not under another one of the same message",
        "Pair each result with the id of its call, in whatever order the calls end.",
        cause="Tools ran in parallel and their results were stored in the order in which they "
              "ended, not in the order of the calls.",
    ),
    "HND-01": LintEntry(
        "E", "payload-invalid",
        "the payload of a handoff that was made satisfies its contract",
        "Correct the payload, or the contract's schema.",
        cause="A key is misspelt, missing or of another type, or code between the agents dropped "
              "it.",
    ),
    "HND-03": LintEntry(
        "E", "request-lost",
        "the target's first context holds the user's latest message or the handoff's query",
        "Give the target's recipe `current_message`, or declare the isolation: the contract's "
        "`history: none`, or a `task` section.",
        "Send the target the user's message, in the history or inside the payload. If you want "
        "the isolation, turn the lint off: `lints: {HND-03: why}`.",
        cause="The target's history is filtered or starts empty, and nothing else carries the "
              "question to it.",
    ),
    "HND-04": LintEntry(
        "E", "wrong-target",
        "after a handoff was made, its target is the agent that runs next",
        "Let the handoff itself start its target.",
        cause="The handoff was announced, and a router or an edge then started another agent.",
    ),
    "HND-06": LintEntry(
        "E", "dangling-handoff",
        "a requested handoff is made or rejected in its turn, and other calls of the same "
        "message are answered",
        "Make or reject the handoff in its turn, and answer every call before control passes.",
        cause="One message both called a tool and handed over, and the framework did only one of "
              "the two.",
    ),
    "HND-08": LintEntry(
        "W", "several-handoffs",
        "one assistant message asks for one handoff",
        "Ask for one handoff at a time, or route to several agents in parallel.",
        cause="The model called two transfer tools at once. Only one of them can happen.",
    ),
    "HND-10": LintEntry(
        "W", "data-in-query",
        "a delegated query does not contain the document itself",
        "Move the data into the payload and leave a short note in the query.",
        cause="The caller put the whole document into the question instead of the payload.",
    ),
    "HND-11": LintEntry(
        "W", "unregistered",
        "a handoff's type is in the registry for its pair of agents",
        "Add a contract for the pair and type.",
        cause="A contract exists for another type or another pair of agents, or the type is "
              "misspelt.",
    ),
    "HND-12": LintEntry(
        "W", "context-ignored",
        "every key of a delivered payload that its contract requires reaches one of the target's "
        "contexts",
        "Add a `handoff` section to the target's recipe, or leave the payload out.",
        "Put the payload into the target's instructions or messages, or leave it out of the "
        "handoff.",
        cause="The handoff has a payload, and no section of the target shows it. The target then "
              "answers as if it knew.",
    ),
    "STA-01": LintEntry(
        "E", "lost-update",
        "every write of parallel branches is in the merged value",
        "Give the channel a reducer that keeps both (append, merge, add), or write `{$set: "
        "…}` if the overwrite is intended.",
        "Give the channel a reducer that keeps both (in LangGraph: `Annotated[list, "
        "operator.add]`), or let only one branch write it.",
        cause="Two parallel branches write one channel that replaces its value: the branch that "
              "is merged last wins.",
    ),
    "STA-03": LintEntry(
        "E", "impure-reducer",
        "a reducer does not change its arguments, and returns the same when called again",
        "Build a new value from the arguments, without a clock or random numbers.",
        cause="The reducer appends to the list that it was given, or uses the clock or a random "
              "number.",
    ),
    "STA-05": LintEntry(
        "E", "shrinking",
        "an appending channel never shrinks and a counter never falls, except by a declared "
        "reset",
        "Write `{$set: …}` if the reset is intended.",
        "Return only new items. If the reset is intended, write it as one: in LangGraph, "
        "`Overwrite(…)`.",
        cause="An agent returns a shorter list for a channel that it should only add to, for "
              "example the result of a trimming function.",
    ),
    "STA-06": LintEntry(
        "E", "resume-differs",
        "a session that continues from a checkpoint gives the same results as one that never "
        "stopped",
        "Keep everything that a later turn needs in channels: a new process has nothing else.",
        "Keep everything that a later turn needs in the saved state: a new process has nothing "
        "else.",
        cause="Something that a turn needs is kept in a variable or in an object, so it is lost "
              "at the restart.",
    ),
    "STA-08": LintEntry(
        "E", "session-bleed",
        "a session gives the same results among other sessions as alone",
        "Keep a session's data in its channels, not in a module or an object.",
        "Keep a session's data in its own state, not in a module or an object that sessions "
        "share.",
        cause="A module-level list, a cache or a client object is shared by all sessions.",
    ),
    "STA-09": LintEntry(
        "E", "double-count",
        "an agent does not append to a list the items that it received from it",
        "Return only new items: give a subgraph an output schema without the channel, or its "
        "own channel.",
        cause="A node, or a subgraph, returns the whole list that it read, and the channel "
              "appends it to itself.",
    ),
    "STA-10": LintEntry(
        "W", "in-place-change",
        "an agent returns updates and does not change the state that it received",
        "Return the new value and write it with `writes`.",
        cause='Code writes `state["messages"].append(…)` instead of returning the new message.',
    ),
    "STA-11": LintEntry(
        "W", "call-twice",
        "in a list of messages no call is made twice, and none has two results",
        "Give the replacement of a message the same id, and the channel the reducer `by_id`.",
        "Give the replacement of a message the same id: in LangGraph, `add_messages` replaces "
        "by id.",
        cause="A message was built anew without its id, so the reducer added it instead of "
              "replacing the old one.",
    ),
    "FLW-01": LintEntry(
        "E", "limit-reached",
        "turns, runs, handoffs, calls and virtual time stay within their limits",
        "Stop the loop, or raise the limit under `limits`.",
        cause="Two agents pass control to each other, or a tool loop never gets the answer that "
              "ends it.",
    ),
    "FLW-02": LintEntry(
        "E", "undeclared-edge",
        "control moves along a declared edge, route or contract",
        "Declare the edge, or correct the route.",
        cause="A router named an agent to which no edge leads, or a flow changed and its edges "
              "did not.",
    ),
    "FLW-03": LintEntry(
        "E", "repeated-call",
        "no agent makes the same call three times in a turn with the same result and no write in "
        "between",
        "Use the first result, or end the run when the call returns nothing new.",
        cause="The model does not see the result of its call, because a filter removed it, so it "
              "calls again.",
    ),
    "FLW-04": LintEntry(
        "E", "ping-pong",
        "no agent runs twice in a turn with the same state and input, reached the same way",
        "Let something change between the two runs, or end the turn.",
        cause="Each of two agents takes the task for the other's, and nothing in the state says "
              "that it was tried.",
    ),
    "FLW-05": LintEntry(
        "E", "call-after-end",
        "no model is called after the turn's reply",
        "End the turn with the run that makes the reply.",
        cause="The flow goes on after the agent that answers the user, for example through an "
              "edge without an exit.",
    ),
    "FLW-06": LintEntry(
        "E", "asked-again",
        "an answered question is not asked again, and its answer goes to the agent that asked",
        "Keep the answer in the state, and resume the agent that asked.",
        cause="The answer was not stored, or the turn resumed at another agent than the one that "
              "asked.",
    ),
    "FLW-07": LintEntry(
        "E", "open-work",
        "a turn does not end with tool calls that were never answered",
        "Wait for every tool's answer before the turn ends.",
        "Answer every call before the turn ends. If the turn has a reply, this does not concern "
        "calls that your code reads instead, because they end the work or name the next agent.",
        cause="The turn's end does not wait for a tool, or a tool's error was swallowed.",
    ),
    "FLW-08": LintEntry(
        "W", "ambiguous-route",
        "exactly one label of a decision's edges matches its answer",
        "Choose labels that do not contain each other, or route by `equals`.",
        cause='A router compares with `contains`, and one label is a part of another: "create" in '
              '"recreate".',
    ),
    "FLW-09": LintEntry(
        "W", "argument-changed",
        "a tool is called with the arguments that the model wrote, apart from conversions by "
        "its schema",
        "Pass each argument under its name, or turn the lint off if the code changes it on "
        "purpose.",
        cause="A wrapper around the tool renames, drops or rewrites arguments.",
    ),
    "NET-01": LintEntry(
        "E", "retried-in-vain",
        "a request that the provider refuses for good (4xx except 408, 409, 425, 429) is not "
        "sent again unchanged",
        "Change the request, or give up: retry only after 408, 409, 425, 429 and 5xx.",
        cause="A retry loop does not look at the status: it sends a refused request (400, 401, "
              "404) again.",
    ),
    "NET-02": LintEntry(
        "E", "retried-too-early",
        "no call is retried before the provider's `Retry-After` is over",
        "Wait as long as the response's `retry-after` says, or leave retries to the client "
        "library.",
        cause="The code waits a fixed time, or not at all, and ignores the header.",
    ),
    "NET-03": LintEntry(
        "E", "cut-reply-taken",
        "the beginning of a reply that broke off is not used as the reply",
        "Check the finish reason and errors inside the stream; call again, or report that the "
        "reply is incomplete.",
        cause="A stream broke off, and the code took the text so far for the whole answer.",
    ),
    "NET-04": LintEntry(
        "W", "retry-storm",
        "no call is made more than 5 times",
        "Limit the attempts in one layer: the client library makes its own beside yours.",
        cause="Two layers retry, the client library and a decorator around it, so their attempts "
              "multiply.",
    ),
}  # fmt: skip
