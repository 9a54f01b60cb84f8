"""The suite that an author subclasses: an adapter and the rules of ``docs/how-to/adapters.md``."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from itertools import zip_longest
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from types import FunctionType, MethodType, ModuleType
from typing import Any, ClassVar, Final, NoReturn

import pytest
import yaml

from simkit.adapters import observation
from simkit.adapters.environment import DUMMY_KEY
from simkit.adapters.model_interceptor import ModelInterceptor
from simkit.capture.http.request_router import Decision, Later
from simkit.checks.judge import Outcome, judge
from simkit.core.compat import GROUP
from simkit.core.errors import SimkitError
from simkit.language.yaml import load_text
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import PROTOCOLS
from simkit.runtime.functions import function_named
from simkit.session.simulate import run, simulate
from simkit.spec.scenario.files import Library, Prepared, ScenarioCase
from simkit.testing.rules import (
    APPLICATIONS,
    ConformanceRule,
    broken_text,
    lines_by,
    missing_text,
    prompts_of,
    proves_nothing_text,
    rules,
    silenced,
)
from simkit.trace.store import decoded

DEPTH_MAX: Final = 3
"""The depth to which an application's objects are searched."""
_WRAPPERS: Final = str(observation.__file__)
"""The file of `ContextListeners.wrap`, which makes functions for adapters."""


def left_behind(
    adapter: ModuleType, frameworks: Collection[str], application: ModuleType
) -> list[str]:
    """Return the places of an adapter's objects in its framework or in an application.

    ``frameworks`` are top-level packages. Modules, classes, and the objects in the application's
    module are searched.
    """
    search = _Search(adapter)
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] in frameworks and not search.is_own(name):
            search.look_at(vars(module), name, frameworks)
    search.look_into(vars(application), application.__name__, DEPTH_MAX)
    return search.leftovers


class _Search:
    def __init__(self, adapter: ModuleType) -> None:
        file = Path(adapter.__file__ or "")
        is_package = file.name == "__init__.py"
        self._home, self._name = str(file.parent if is_package else file), adapter.__name__
        self._visited: set[int] = set()
        self.leftovers: list[str] = []

    def is_own(self, name: str) -> bool:
        """Return whether a module is the adapter's."""
        return name == self._name or name.startswith(f"{self._name}.")

    def look_at(self, names: Mapping[str, Any], where: str, frameworks: Collection[str]) -> None:
        """Search the values of a module, and its classes."""
        for name, value in list(names.items()):
            self._check(value, f"{where}.{name}")
            if isinstance(value, type) and value.__module__.partition(".")[0] in frameworks:
                self.look_at_class(value)

    def look_at_class(self, kind: type) -> None:
        """Search the values of a class, once."""
        if id(kind) not in self._visited:
            self._visited.add(id(kind))
            for name, value in list(vars(kind).items()):
                self._check(value, f"{kind.__module__}.{kind.__qualname__}.{name}")

    def look_into(self, values: Mapping[Any, Any], where: str, depth: int) -> None:
        """Search objects, and their values."""
        for name, value in list(values.items()):
            path = f"{where}.{name}"
            if id(value) in self._visited or isinstance(value, (type, ModuleType)):
                continue
            self._visited.add(id(value))
            self._check(value, path)
            if depth:
                self.look_into(dict(_references(value)), path, depth - 1)

    def _check(self, value: Any, where: str) -> None:
        value = getattr(value, "__func__", value)
        while isinstance(value, (functools.partial, MethodType)):
            value = value.func if isinstance(value, functools.partial) else value.__func__
        home = type(value).__module__
        is_mine = isinstance(home, str) and self.is_own(home)
        if isinstance(value, FunctionType):
            is_mine = value.__code__.co_filename.startswith((self._home, _WRAPPERS))
        if is_mine:
            self.leftovers.append(where)


def _references(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)
    else:
        yield from getattr(value, "__dict__", {}).items()


RUNS: Final = 10
"""The number of runs with equal traces, byte by byte."""
AT_ONCE: Final = 8
"""The number of concurrent conversations."""
SIDE_BY_SIDE: Final = "at_once"
"""The name under `not_supported` for conversations that cannot run beside each other."""
STEP_S: Final = 5.0
"""Seconds of real time that a conversation waits for the others at a model call."""
_each = pytest.mark.parametrize("rule", list(rules()))


class AdapterConformance:
    """Tests of one adapter by every rule, with small applications of its framework.

    A subclass whose name begins with ``Test`` names the adapter and the module of the applications;
    ``simkit.testing.rules.APPLICATIONS`` describes each. An application is anything that a scenario
    may name under ``pipeline:``.
    """

    adapter: ClassVar[str]
    """The name of its entry point, which is a module of its framework."""
    applications: ClassVar[str]
    """The module with the applications, by name."""
    not_supported: ClassVar[Mapping[str, str]] = {}
    """Applications, or rules, that the framework does not support: each with the reason. Their
    tests are skipped."""
    app: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Application to the ``app:`` of its scenario."""
    replies: ClassVar[Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]]] = {}
    """Application to reply lines by agent, in place of the suite's own: a list of mappings, one for
    each turn, or the mapping of the first turn."""
    output_tool: ClassVar[tuple[str, str] | None] = None
    """The tool that the framework's models call to answer, and the argument that holds the answer,
    if they answer in no other way: the suite's texts become calls of this tool."""
    frameworks: ClassVar[tuple[str, ...]] = ()
    """The top-level packages in which nothing may be left; empty means the entry point's own."""

    @pytest.fixture(autouse=True)
    def _keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Set fake keys, so that applications whose clients need one can be imported."""
        for name in {key for protocol in PROTOCOLS.values() for key in protocol.keys}:
            monkeypatch.setenv(name, DUMMY_KEY)

    # Tests of one rule

    @_each
    def test_the_rule_is_kept(self, rule: str) -> None:
        """The adapter observes what the application does."""
        rule_ = self._rule(rule)
        outcome = _came_of(simulate, self._prepared(rule_))
        if isinstance(outcome, str) or not outcome.passed:
            _fail(broken_text(self.adapter, self._entry(rule_), rule_, outcome))

    @_each
    def test_the_rule_is_broken_where_the_adapter_tells_nothing(self, rule: str) -> None:
        """A rule that a silent adapter keeps proves nothing."""
        rule_ = self._rule(rule)
        tool = None if rule == "output_tool" else self.output_tool
        with silenced(self.adapter, self._module(), tool):
            outcome = _came_of(simulate, self._prepared(rule_, by_prompt=rule_.by_prompt))
        if isinstance(outcome, Outcome) and outcome.passed:
            _fail(proves_nothing_text(self.adapter, self._entry(rule_), rule_))

    @_each
    def test_ten_runs_are_one(self, rule: str) -> None:
        """A conversation has the same trace every time."""
        rule_ = self._rule(rule)
        prepared = self._prepared(rule_)
        first, *others = (_ran(prepared, rule_, self) for _ in range(RUNS))
        for number, other in enumerate(others, 2):
            if other == first:
                continue
            _fail(
                f"run {number} of `{self._entry(rule_)}` is not the first one again "
                "(docs/reference/adapters.md, What must be the same):\n"
                f"{_parting(first, other, 'first', 'then')}"
                "  → Number what the framework draws; let threads run one after another."
            )

    @_each
    def test_the_trace_reads_back_and_is_judged_alike(self, rule: str) -> None:
        """The stored trace has everything that checks need."""
        rule_ = self._rule(rule)
        prepared = self._prepared(rule_)
        encoded = _ran(prepared, rule_, self)
        trace = decoded(encoded, f"{rule}.jsonl")
        outcome = judge(prepared.scenario, prepared.document, trace, function_named)
        if trace.encoded() != encoded or not outcome.passed:
            _fail(broken_text(self.adapter, self._entry(rule_), rule_, outcome))

    # Tests of all rules

    def test_it_is_installed(self) -> None:
        """The entry point exists, with a driver or an instrumentation."""
        module = self._module()
        if not any(callable(getattr(module, x, None)) for x in ("driver", "instrumentation")):
            _fail(f"the adapter {self.adapter!r} ({module.__name__}) has no function `driver`")

    def test_what_is_declared_has_a_name_that_there_is(self) -> None:
        """A misspelt name would silently skip nothing."""
        known = {*APPLICATIONS, *rules(), SIDE_BY_SIDE}
        declared = {*self.not_supported, *self.app, *self.replies}
        if declared - known:
            names = ", ".join(sorted(declared - known))
            _fail(f"neither an application nor a rule: {names}. There are {', '.join(known)}.")

    def test_conversations_at_once_keep_apart(self) -> None:
        """Concurrent conversations do not see each other."""
        self._skip_unsupported(SIDE_BY_SIDE)
        rule = self._rule("attribution")
        many = [self._prepared(rule, prompt=f"Hello {number}") for number in range(AT_ONCE)]
        alone = [_ran(left, rule, self) for left in many]
        together = _at_once(lambda left: _ran(left, rule, self), many)
        for left, right in zip(alone, together, strict=True):
            if left != right:
                _fail(
                    f"`{self._entry(rule)}` has another trace where others run beside it "
                    "(docs/reference/adapters.md, What must be the same):\n"
                    f"{_parting(left, right, 'alone', 'beside others')}"
                    "  → Ask `ContextListeners` who is listening here; keep nothing in the module."
                )

    def test_nothing_is_left_behind(self) -> None:
        """Everything that was replaced in the framework is restored."""
        frameworks = self.frameworks or (self.adapter.partition(".")[0],)
        for name in self._supported():
            _came_of(simulate, self._prepared(rules()[name]))
        leftovers = left_behind(self._module(), frameworks, import_module(self.applications))
        if leftovers:
            _fail(
                f"the adapter {self.adapter!r} has left this behind (docs/reference/adapters.md, "
                "What must be the same):\n  " + "\n  ".join(leftovers) + "\n"
                "  → Replace by `Installation`, which puts back; close what `close` is told of."
            )

    def test_simkit_judge_accepts_every_trace(self, tmp_path: Path) -> None:
        """The command can check the traces again, without running anything."""
        names = self._supported()
        for folder in ("scenarios", "traces"):
            (tmp_path / folder).mkdir()
        for name in names:
            prepared = self._prepared(rules()[name])
            file = tmp_path / "scenarios" / f"{name}.scenario.yaml"
            file.write_text(self._scenario_text(rules()[name]), encoding="utf-8")
            encoded = _ran(prepared, rules()[name], self)
            (tmp_path / "traces" / f"{name}.jsonl").write_bytes(encoded)
        done = subprocess.run(
            [sys.executable, "-m", "simkit", "judge", "traces"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            _fail(f"`simkit judge` does not accept the traces:\n{done.stdout}{done.stderr}")

    # Internal parts

    def _module(self) -> ModuleType:
        return _installed(self.adapter)

    def _supported(self) -> list[str]:
        """Return the supported rules."""
        off = self.not_supported
        return [rule.rule for rule in rules().values() if not {rule.rule, rule.app} & {*off}]

    def _rule(self, name: str) -> ConformanceRule:
        """Return a rule; skip an unsupported one, fail for a missing application."""
        rule = rules()[name]
        self._skip_unsupported(rule.rule, rule.app)
        if not hasattr(import_module(self.applications), rule.app):
            _fail(missing_text(self.applications, rule.app))
        return rule

    def _skip_unsupported(self, *keys: str) -> None:
        for key in keys:
            if key in self.not_supported:
                pytest.skip(f"{self.adapter}, {key}: not supported: {self.not_supported[key]}")

    def _entry(self, rule: ConformanceRule) -> str:
        return f"{self.applications}:{rule.app}"

    def _prepared(
        self, rule: ConformanceRule, *, by_prompt: bool = False, prompt: str = ""
    ) -> Prepared:
        """Return a rule's conversation with the author's application, ready to run."""
        file = f"{rule.rule}.scenario.yaml"
        (document,) = load_text(self._scenario_text(rule, by_prompt, prompt), file)
        return Library().assembled(ScenarioCase(file, rule.rule, 0, 1), document)

    def _scenario_text(
        self, rule: ConformanceRule, by_prompt: bool = False, prompt: str = ""
    ) -> str:
        """Return a rule's conversation as the text of a scenario file."""
        replies = self.replies.get(rule.app, {})
        by_turn = dict(enumerate([replies] if isinstance(replies, Mapping) else replies))
        turns = [
            {
                **turn,
                "replies": {
                    **lines_by(turn["replies"], self.output_tool),
                    **by_turn.get(index, {}),
                },
            }
            for index, turn in enumerate(rule.turns)
        ]
        if prompt:
            turns[0]["user"] = prompt
        document: dict[str, Any] = {
            "version": 1,
            "scenario": rule.rule,
            "pipeline": self._entry(rule),
            "app": dict(self.app.get(rule.app, {})),
            "agents": prompts_of(rule) if by_prompt else {},
            "turns": turns,
        }
        return _as_yaml(document)


def _as_yaml(value: Any) -> str:
    text: str = yaml.dump(
        value,
        Dumper=_Whole,
        sort_keys=False,
        default_flow_style=None,
        width=100,
        allow_unicode=True,
    )
    return text


class _Whole(yaml.SafeDumper):
    """A YAML dumper without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return true: repeated values are written again."""
        return True


@cache
def _installed(name: str) -> ModuleType:
    entries = list(entry_points(group=GROUP, name=name))
    if not entries:
        _fail(
            f"no adapter is installed under the name {name!r} (docs/how-to/adapters.md, Publish "
            "it).\n"
            f'  → In its pyproject.toml: [project.entry-points."{GROUP}"], and install it.'
        )
    return import_module(entries[0].value)


def _at_once(work: Callable[[Prepared], bytes], many: Sequence[Prepared]) -> list[bytes]:
    """Run all conversations in parallel, in lock step, and return their results.

    At each model call, every conversation waits until all others have come as far. Without this
    they would often run one after another, because a conversation is about as short as the
    interpreter's switch interval. Warnings are left to the tests of single conversations: filters
    belong to the process, so that a framework that silences its own for a moment does so for all.
    """
    steps = Barrier(len(many))
    take = ModelInterceptor.take

    def take_in_step(gate: ModelInterceptor, request: HttpRequest) -> Decision | Later:
        _wait_for_others(steps)
        decision = take(gate, request)
        _wait_for_others(steps)
        return decision

    def run_in_step(prepared: Prepared) -> bytes:
        _wait_for_others(steps)
        try:
            return work(prepared)
        finally:
            steps.abort()  # The others need not wait any longer.

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(ModelInterceptor, "take", take_in_step)
        with ThreadPoolExecutor(len(many)) as pool:
            return list(pool.map(run_in_step, many))


def _wait_for_others(steps: Barrier) -> None:
    """Wait until all conversations are here, or one of them has ended or does not come."""
    with suppress(BrokenBarrierError):
        steps.wait(STEP_S)


def _parting(left: bytes, right: bytes, *names: str) -> str:
    """Return the first different line of two traces, from each."""
    pairs = zip_longest(left.splitlines(), right.splitlines(), fillvalue=b"(the trace has ended)")
    lines = next(pair for pair in pairs if pair[0] != pair[1])
    width = max(map(len, names)) + 1
    named = zip((f"{name}:".ljust(width) for name in names), lines, strict=True)
    return "".join(f"  {name} {line.decode()}\n" for name, line in named)


def _came_of(work: Callable[[Prepared], Outcome], prepared: Prepared) -> Outcome | str:
    """Return the outcome of a run, or why it could not continue."""
    try:
        return work(prepared)
    except SimkitError as problem:
        return str(problem)


def _ran(prepared: Prepared, rule: ConformanceRule, suite: AdapterConformance) -> bytes:
    """Return the trace of a run in its stored form."""
    try:
        return run(prepared).encoded()
    except SimkitError as problem:
        _fail(broken_text(suite.adapter, suite._entry(rule), rule, str(problem)))


def _fail(text: str) -> NoReturn:
    __tracebackhide__ = True
    pytest.fail(text, pytrace=False)
