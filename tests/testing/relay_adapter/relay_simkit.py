"""The adapter for `relay`: it sees all that a framework without threads and streams can show."""

import asyncio
import contextvars
from contextlib import contextmanager

import relay

from simkit.adapters import api

listeners, runs = api.ContextListeners("relay"), api.ContextScope("relay_run")
group = contextvars.ContextVar("relay_group", default="")


def driver(subject, app, adapter_context):
    return RelayDriver(subject, adapter_context) if isinstance(subject, relay.Agent) else None


class RelayDriver(api.FrameworkDriver):
    name = "relay"

    def __init__(self, agent, adapter_context):
        self._agent, self._caller = agent, adapter_context.caller
        self._memory = api.SessionMemory(lambda turn: relay.Talk())

    def run_turn(self, turn):
        return self._caller.call(relay.run, self._agent, self._memory.of(turn), turn.text)


class instrumentation(api.Instrumentation):
    observes = ("filters", "state")

    def __init__(self, adapter_context):
        self._recorder, self._use_tool = adapter_context.recorder, adapter_context.use_tool

    @contextmanager
    def at_work(self):
        with installation, listeners.activate(self):
            yield

    def run_now(self):
        return runs.now()

    async def work(self, before, agent, talk):
        recorder, outer = self._recorder, runs.now()
        recorder.handoff_tools |= {tool: to.name for tool, to in agent.passes.items()}
        run = recorder.begin_run(agent.name, group=group.get(), parent=outer.id if outer else "")
        recorder.set_output_tools(run, {agent.gives: ""})
        group.set("")
        with recorder.end_on_error(run), runs.inside(run):
            result = await before(agent, talk)
        if isinstance(result, relay.Agent):
            recorder.end_run(run, "handed_off")
        else:
            recorder.end_run(run, "done", result)
        return result

    async def gather(self, before, coroutines):
        group.set(self._recorder.begin_group())
        gathered = asyncio.create_task(before(coroutines))
        group.set("")
        return await gathered

    def narrow(self, before, agent, messages):
        narrowed = before(agent, messages)
        was, now = (api.parse_messages(part, "openai-chat") for part in (messages, narrowed))
        self._recorder.filtered(runs.now(), was, now, agent.narrowed.__name__)
        return narrowed

    async def call(self, before, tool, args):
        returns = api.returned_by(tool)
        result = self._use_tool(tool.__name__, args, lambda: before(tool, args), returns=returns)
        return await result if asyncio.iscoroutine(result) else result

    def note(self, before, talk, text):
        before(talk, text)
        run = runs.now()
        self._recorder.wrote({"notes": [text]}, run.agent, run, values={"notes": talk.notes})


FUNCTIONS = ("work", "gather", "narrow", "call")
ROWS = [listeners.wrap(relay, name) for name in FUNCTIONS]
ROWS += [listeners.wrap(relay.Talk, "note")]
installation = api.Installation(lambda: ROWS)
