import copy
import functools
import inspect
from contextlib import contextmanager

from smolagents import CodeAgent, FinalAnswerStep, MultiStepAgent, RunResult, Tool

from simkit.adapters import api

ANSWER = {"final_answer": "answer"}
listeners = api.ContextListeners("smolagents")
runs = api.ContextScope("smolagents_run")


def driver(subject, app, adapter_context):
    return SmolagentsDriver(subject, app) if isinstance(subject, MultiStepAgent) else None


class SmolagentsDriver(api.FrameworkDriver):
    name = "smolagents"

    def __init__(self, agent, app):
        self._app = app
        self._agents = api.SessionMemory(lambda turn: with_own_memory(agent))

    def run_turn(self, turn):
        options = api.make_run_options(self._app, turn.session)
        return self._agents.of(turn).run(turn.text, reset=False, **options)


class instrumentation(api.Instrumentation):
    observes = ("tools",)

    def __init__(self, adapter_context):
        self._recorder, self._tools = adapter_context.recorder, adapter_context.use_tool

    @contextmanager
    def at_work(self):
        with installation, listeners.activate(self):
            yield

    def run_now(self):
        return runs.now()

    def reply(self, returned):
        return output_of(returned)

    def run(self, before, agent, task, *args, **options):
        outer, request, name = runs.now(), api.request_here(), agent.name or "agent"
        call_id = request.call.id if request and request.run is outer else ""
        parent = outer.id if outer else ""
        with self._recorder.lock:
            run = self._recorder.begin_run(name, task, parent=parent, call_id=call_id)
            self._recorder.set_output_tools(run, ANSWER)
        with self._recorder.end_on_error(run), runs.inside(run):
            result = before(agent, task, *args, **options)
            if inspect.isgenerator(result):
                return self._steps(run, result)
            self._recorder.end_run(run, output=output_of(result))
            return result

    def _steps(self, run, steps):
        with self._recorder.end_on_error(run):
            while not run.is_over:
                with runs.inside(run):
                    step = next(steps)
                if isinstance(step, FinalAnswerStep):
                    self._recorder.end_run(run, output=output_of(step))
                yield step

    def use_tool(self, before, tool, *args, **options):
        real = functools.partial(before, tool, *args, **options)
        if tool.name in ANSWER:
            return real()
        named = {**dict(zip(tool.inputs, args, strict=False)), **options}
        given = {name: value for name, value in named.items() if name in tool.inputs}
        return self._tools(tool.name, given, real, returns={"type": tool.output_type})


def with_own_memory(agent):
    own = copy.copy(agent)
    own.memory, own.state = copy.deepcopy(agent.memory), {**agent.state}
    managed = agent.managed_agents.items()
    own.managed_agents = {name: with_own_memory(agent) for name, agent in managed}
    if isinstance(agent, CodeAgent):
        own.python_executor = own.create_python_executor()
    return own


def output_of(result):
    is_holder = isinstance(result, (RunResult, FinalAnswerStep))
    return api.plain_or_text(result.output if is_holder else result)


ROWS = [listeners.wrap(owner, "__call__", "use_tool") for owner in (MultiStepAgent, Tool)]
installation = api.Installation(lambda: [*ROWS, listeners.wrap(MultiStepAgent, "run")])
