"""Usage of pipelines and of files under ``use`` by scenarios; files of a folder that nothing uses.

Usage is complete when all scenarios are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from os.path import normpath
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit.core.errors import SourceError
from simkit.core.messages import ABSENT
from simkit.language.paths import follow, references_in, walk
from simkit.language.yaml import FILE_BYTES_MAX, Document, text_of
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.root_names import leads_to
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX, SIMULATION_SUFFIX
from simkit.spec.scenario.model import Scenario, Shared
from simkit.spec.validation import pipelines
from simkit.spec.validation.problems import Flaw, Problems, missing_functions, missing_in_scenario
from simkit.spec.validation.scenarios import Read, calls_in, line_flaws, unreachable, vacuous_claims

WORDS_MIN: Final = 4
"""Shorter words occur in any text by chance."""
PUNCTUATION: Final = ".,;:!?()[]{}\"'"


class Claimed:
    """The words that the claims of a scenario mention."""

    def __init__(self, scenario: Scenario, document: Document) -> None:
        scopes = [scenario.expect, *(turn.expect for turn in scenario.turns)]
        self.by_code = any(scope.has("satisfies") for scope in scopes)
        """Whether a user's predicate may read anything."""
        words: set[str] = set()
        for turn in range(len(scenario.turns)):
            words.update(_words(follow(document.data, ("turns", turn, "expect"))))
        words.update(_words(document.data.get("expect", ABSENT)))
        self.words = words
        """Every key and text, and the first names of keys that are paths."""
        self._turns: Any = document.data.get("turns")
        self._texts_said: set[str] = set()

    def has_text_of(self, value: Any) -> bool:
        """Return whether the turns seem to repeat a text of a value, or a claim to deny it.

        A text is searched by its longest word, so that this is linear.
        """
        if not self._texts_said:
            self._texts_said = {part for text in _words(self._turns) for part in _parts(text)}
        texts = list(_words(value))
        if not self._texts_said.isdisjoint(_longest(texts)):
            return True
        parts = {part for text in texts for part in _parts(text)}
        return not parts.isdisjoint(_longest(self.words))


def unread_state(
    state: Mapping[str, Any], pipeline: Pipeline, document: Document, claimed: Claimed
) -> Iterator[str]:
    """Yield the channels with a given value that nothing reads.

    Also counted as read: channels that a claim mentions or that the pipeline keeps private, and
    values that the turns repeat or a claim denies, because lints compare contexts and queries with
    given values.
    """
    use = pipelines.channel_use(pipeline, document)
    if use.sees_all or claimed.by_code:
        return
    private = {name for agent in pipeline.agents.values() for name in agent.private}
    conversation = pipeline.conversation
    for name, value in state.items():
        is_read = name in use.read or name in private or name == conversation
        if not is_read and name not in claimed.words and not claimed.has_text_of(value):
            yield name


def state_flaws(names: Iterable[str]) -> Iterator[Flaw]:
    """Yield the flaw that nothing reads a channel's given value."""
    for name in names:
        problem = f"nothing reads channel `{name}`, and no claim mentions it"
        yield Flaw("VAL-25", ("given", "state", name), problem, key=True)


def unread_names(scenario: Scenario, document: Document) -> Iterator[Flaw]:
    """Yield the columns of a table, variables under ``env``, and fakes that nothing refers to.

    The document is the one with unresolved references.
    """
    if not scenario.examples and not scenario.env and not scenario.given.fakes:
        return
    body = {key: value for key, value in document.data.items() if key not in ("examples", "env")}
    rows = scenario.examples or ()
    read = {text for _, text in references_in(body)}
    yield from _unread_fakes(scenario, read | {text for _, text in references_in(rows)})
    yield from _unread_columns(rows, read)
    for index, name in enumerate(scenario.env):
        if not _leads_to(f"env.{name}", read):
            yield Flaw("VAL-25", ("env", index), f"nothing refers to `${{env.{name}}}`")


def _unread_columns(rows: Sequence[Mapping[str, Any]], references: Iterable[str]) -> Iterator[Flaw]:
    first_rows: dict[str, int] = {}
    for index, row in enumerate(rows):
        for name in row:
            first_rows.setdefault(name, index)
    for name, index in first_rows.items():
        if not _leads_to(f"column.{name}", references):
            problem = f"nothing refers to column `{name}`: write `${{column.{name}}}`"
            yield Flaw("VAL-25", ("examples", index, name), problem, key=True)


def _unread_fakes(scenario: Scenario, references: Iterable[str]) -> Iterator[Flaw]:
    for name, fake in scenario.given.fakes.items():
        if not _leads_to(name, references):
            person = name if fake.count is None else f"{name}[0]"
            problem = f"nothing refers to `{name}`: write `${{{person}.name}}`"
            yield Flaw("VAL-25", ("given", "fakes", name), problem, key=True)


def _leads_to(name: str, references: Iterable[str]) -> bool:
    return any(leads_to(reference, (name,)) for reference in references)


def _parts(text: str) -> Iterator[str]:
    """Yield the words of a text that do not occur in others by chance."""
    for part in text.split():
        word = part.strip(PUNCTUATION)
        if len(word) >= WORDS_MIN:
            yield word


def _longest(texts: Iterable[str]) -> set[str]:
    """Return the longest word of each text."""
    return {max(parts, key=len) for text in texts if (parts := list(_parts(text)))}


def _words(value: Any) -> Iterator[str]:
    """Yield all keys and texts of a value, and the first names of keys that are paths."""
    for path, inner in walk(value):
        if path and isinstance(key := path[-1], str):
            yield key
            parts = key.replace("[", ".").split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts)))
        if isinstance(inner, str):
            yield inner


# Usage of pipelines and of files under ``use`` by scenarios; complete when all are read


class _PipelineUse(msgspec.Struct):
    pipeline: Pipeline
    document: Document
    words: set[str] = msgspec.field(default_factory=set)
    """The words in its scenarios' given values and claims."""
    scenarios: int = 0
    by_code: bool = False
    """Whether a scenario has a predicate that may read anything."""


class _SharedUse(msgspec.Struct):
    document: Document
    shared: Shared
    unread: set[str]
    """Channels with a given value that no scenario has read yet."""
    uncalled: set[str]
    """Tools with a result that no scenario's line has called yet."""


class Usage:
    """Collects what the scenarios of one check use, and reports the rest at the end."""

    def __init__(self, library: Library, problems: Problems, read: Read) -> None:
        """``read`` returns the output for a reply's text."""
        self._library, self._problems, self._read = library, problems, read
        self._pipelines: dict[tuple[str, int], _PipelineUse] = {}
        self._shared: dict[str, _SharedUse] = {}

    def pipeline(self, pipeline: Pipeline, document: Document) -> _PipelineUse:
        """Add a pipeline; report the flaws that need no scenario once."""
        key = normpath(document.file), document.index
        if key not in self._pipelines:
            self._pipelines[key] = _PipelineUse(pipeline, document)
            self._problems.add(document, _pipeline_flaws(pipeline, document))
        return self._pipelines[key]

    def scenario(self, prepared: Prepared) -> None:
        """Add a scenario, or a row of its table."""
        scenario, document, pipeline = prepared.scenario, prepared.document, prepared.pipeline
        if isinstance(pipeline, App):
            # Its code is unknown: only contradictions within the file are reported.
            names = unread_names(scenario, prepared.source_document or document)
            self._problems.add(document, names)
            return
        use = self.pipeline(pipeline, prepared.pipeline_document)
        claimed = Claimed(scenario, document)
        use.scenarios += 1
        use.by_code |= claimed.by_code
        use.words |= claimed.words
        use.words |= scenario.given.state.keys()
        self._problems.add(document, self._flaws(prepared, pipeline, use, claimed))
        for inner, shared in zip(prepared.used_written, prepared.shared, strict=True):
            use.words |= shared.given.state.keys()
            self._share(inner, shared, scenario, use, claimed)

    def _flaws(
        self, prepared: Prepared, pipeline: Pipeline, use: _PipelineUse, claimed: Claimed
    ) -> Iterator[Flaw]:
        scenario = prepared.scenario
        yield from line_flaws(scenario, pipeline, self._read)
        yield from vacuous_claims(scenario, pipeline)
        yield from missing_in_scenario(scenario)
        initial_state = scenario.given.state
        yield from state_flaws(unread_state(initial_state, pipeline, use.document, claimed))
        yield from unread_names(scenario, prepared.source_document or prepared.document)

    def _share(
        self,
        document: Document,
        shared: Shared,
        scenario: Scenario,
        use: _PipelineUse,
        claimed: Claimed,
    ) -> None:
        """Remove what this scenario reads of a file under ``use``."""
        file = normpath(document.file)
        shared_use = self._shared.get(file)
        if shared_use is None:
            shared_use = self._shared[file] = _SharedUse(
                document, shared, set(shared.given.state), set(shared.tool_results)
            )
        if shared_use.unread:
            unread = {name: shared.given.state[name] for name in shared_use.unread}
            shared_use.unread = set(unread_state(unread, use.pipeline, use.document, claimed))
        if shared_use.uncalled:
            shared_use.uncalled -= _called(scenario, shared_use.uncalled)

    def finish(self, complete: set[str]) -> None:
        """Report what no scenario uses, for files whose scenarios were all read."""
        for (file, _), use in self._pipelines.items():
            if file in complete and use.scenarios and not use.by_code:
                flaws = pipelines.unused_channels(use.pipeline, use.document, use.words)
                self._problems.add(use.document, flaws)
        for file, shared_use in self._shared.items():
            if file in complete:
                initial_state = shared_use.shared.given.state
                flaws = state_flaws(name for name in initial_state if name in shared_use.unread)
                self._problems.add(shared_use.document, flaws)
                self._problems.add(shared_use.document, _result_flaws(shared_use))


def _pipeline_flaws(pipeline: Pipeline, document: Document) -> Iterator[Flaw]:
    yield from unreachable(pipeline)
    yield from pipelines.graph_flaws(pipeline)
    yield from pipelines.private_reads(pipeline, document)
    yield from missing_functions(pipeline)
    yield from pipelines.unused(pipeline)


def _called(scenario: Scenario, tools: set[str]) -> set[str]:
    """Return the tools that a scenario's lines may call, in turns without a result for them."""
    tools_called: set[str] = set()
    for turn in scenario.turns:
        calls = calls_in(turn, scenario)
        if calls is None:
            return tools
        tools_called.update(tool for tool in calls if tool not in turn.tool_results)
    return tools_called & tools


def _result_flaws(use: _SharedUse) -> Iterator[Flaw]:
    for tool in use.shared.tool_results:
        if tool in use.uncalled:
            problem = f"no reply line of the scenarios that use this file calls tool `{tool}`"
            yield Flaw("VAL-25", ("tool_results", tool), problem, key=True)


_TOP_KEY: Final = re.compile(r"^(\w[\w-]*)[ \t]*:", re.MULTILINE)
_SCENARIO: Final = frozenset(("scenario", "turns"))
_SIMULATION: Final = frozenset(("simulation", "pipeline"))
_PIPELINE: Final = frozenset(("pipeline", "agents", "flow"))
_FIXTURES: Final = frozenset(("given", "tool_results"))
_SHARED: Final = _FIXTURES | {"version", "use", "agents", "lints"}
_FEATURES: Final = "*.feature"
_CODE: Final = ("*.py", _FEATURES)
"""Endings of files that may name a pipeline, too."""


def named_files(documents: Iterable[Document], library: Library) -> Iterator[str]:
    """Yield the pipeline and the files under ``use`` that scenarios name, normalized.

    They are read from the source, so that a scenario with an error elsewhere counts as well.
    """
    for document in documents:
        data = document.data
        if isinstance(data, Mapping) and {"scenario", "simulation"} & {*data}:
            name = text_of(data.get("pipeline")) or ""
            yield normpath(Path(document.file).parent / name)
            try:
                yield from (normpath(inner.file) for inner in library.used(document))
            except SourceError:
                # That error is already reported.
                continue


def check_folder(
    folder: str, files: Iterable[str], named: Collection[str], library: Library, problems: Problems
) -> None:
    """Add the flaws of a folder; ``named`` are the files that its scenarios name."""
    code: str | None = None
    for file in files:
        if file.endswith((SCENARIO_SUFFIX, SIMULATION_SUFFIX)) or normpath(file) in named:
            continue
        if file.endswith(PIPELINE_SUFFIX):
            code = _code_in(folder) if code is None else code
            name = Path(file).name
            # A feature names a pipeline in quotes, and may leave the ending out.
            if name not in code and f'"{name.removesuffix(PIPELINE_SUFFIX)}"' not in code:
                _check_orphan(file, library, problems)
        else:
            _check_other(file, library, problems)


def yaml_files(folder: str) -> list[str]:
    """Return the YAML files below a folder, sorted, without hidden folders."""
    return sorted(str(path) for path in _visible(folder, "*.y*ml"))


def _check_orphan(file: str, library: Library, problems: Problems) -> None:
    document = _first(file, frozenset(("pipeline",)), library)
    if document is not None and "implements" not in document.data:
        problem = "no scenario names this pipeline"
        problems.add(document, [Flaw("VAL-31", ("pipeline",), problem, key=True)])


def _check_other(file: str, library: Library, problems: Problems) -> None:
    keys = _top_keys(file)
    for looks, ending in (
        (_SCENARIO, SCENARIO_SUFFIX),
        (_SIMULATION, SIMULATION_SUFFIX),
        (_PIPELINE, PIPELINE_SUFFIX),
    ):
        document = _first(file, looks, library) if looks <= keys else None
        if document is not None:
            key = ending.split(".")[1]
            problem = f"a {key} stands in a file that is not named as one"
            advice = f"Name the file `{Path(file).name.split('.')[0]}{ending}`."
            problems.add(document, [Flaw("VAL-32", (key,), problem, advice, key=True)])
            return
    if keys & _FIXTURES and all(key in _SHARED or key.startswith("x-") for key in keys):
        document = _first(file, frozenset(), library)
        if document is not None:
            problems.add(document, [Flaw("VAL-30", (), "no scenario uses this file")])


def _top_keys(file: str) -> frozenset[str]:
    """Return the likely top-level keys of a file; a foreign file has none."""
    path = Path(file)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            return frozenset()
        return frozenset(_TOP_KEY.findall(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return frozenset()


def _first(file: str, keys: frozenset[str], library: Library) -> Document | None:
    """Return the file's first document with these keys; None if there is none, or no YAML."""
    try:
        documents = library.documents(file)
    except SourceError:
        return None
    return next((document for document in documents if keys <= _keys(document.data)), None)


def _keys(data: Any) -> frozenset[str]:
    return frozenset(data) if isinstance(data, Mapping) else frozenset()


def _code_in(folder: str) -> str:
    """Return the code below a folder, and the features below the folder of this project.

    A feature may use the pipelines of other folders.
    """
    found_files = [path for pattern in _CODE for path in _visible(folder, pattern)]
    if Path(folder).resolve().is_relative_to(Path.cwd()):
        found_files += _visible(os.curdir, _FEATURES)
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in found_files)
    return "\n".join(texts)


def _visible(folder: str, pattern: str) -> Iterator[Path]:
    address = Path(folder)
    for path in address.rglob(pattern):
        hidden = any(part.startswith(".") for part in path.relative_to(address).parts)
        if not hidden and path.is_file():
            yield path
