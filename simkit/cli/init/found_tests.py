"""The scenarios, pipelines and features that a project has, and the commands that run them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from simkit.cli.init.project import TEXTS, files_below
from simkit.core.text import late_pattern, shell_word
from simkit.spec.scenario.claim_names import FEATURE_SUFFIX
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX

_BINDER: Final = "test_features.py"
_TEST: Final = late_pattern(r"conftest\.py$|test_|.*_test\.py$")
_BOUND: Final = late_pattern(r"\bscenarios?\(([^)]*)")
_QUOTED: Final = late_pattern(r"""["']([^"']+)["']""")
_PIPELINE_STEP: Final = "the pipeline "
"""A part of each feature that simkit's steps can run."""


class FoundTests(msgspec.Struct, frozen=True):
    """The files of a project that simkit knows, each from its folder."""

    scenarios: tuple[Path, ...]
    pipelines: tuple[Path, ...]
    features: tuple[Path, ...]
    """Those with simkit's steps."""
    binders: tuple[Path, ...]
    """The modules that bind features, where simkit's steps are known."""

    @property
    def are_there(self) -> bool:
        """Return whether there is a scenario or a feature."""
        return bool(self.scenarios or self.features)

    def commands(self, *, in_ci: bool = False) -> list[str]:
        """Return the commands to type next, or those for CI: each has something to do."""
        homes = {feature.parent for feature in self.features}
        binders = (b if b.parent in homes else b / "_" for b in self.binders)
        run = [*_command("python -m pytest", (*self.scenarios, *binders))]
        checks = [*_command("simkit validate", self.scenarios or self.pipelines)]
        if in_ci:
            return [*(f"{line} --format github" for line in checks), *run]
        return [*_command("simkit replay", self.scenarios), *(run or checks)]


def tests_below(root: Path) -> FoundTests:
    """Return the scenarios, pipelines and features of a folder."""
    files = [file.relative_to(root) for file in files_below(root)]

    def with_end(suffix: str) -> tuple[Path, ...]:
        return tuple(file for file in files if file.name.endswith(suffix))

    texts = {file: _text(root / file) for file in with_end(".py") if _TEST.match(file.name)}
    known = [file for file, text in texts.items() if "simkit.bdd" in text]
    binders = (
        file
        for file, text in texts.items()
        if "pytest_bdd" in text
        and _BOUND.search(text)
        and any(file == o or _is_for(o, file) for o in known)
    )
    features = (f for f in with_end(FEATURE_SUFFIX) if _PIPELINE_STEP in _text(root / f))
    return FoundTests(
        with_end(SCENARIO_SUFFIX), with_end(PIPELINE_SUFFIX), tuple(features), tuple(binders)
    )


def binders_for(root: Path) -> dict[str, str]:
    """Return the modules, by their names, that bind those features that none binds yet."""
    root, tests = root.resolve(), tests_below(root)
    bound = {
        (root / binder.parent / name).resolve()
        for binder in tests.binders
        for arguments in _BOUND.findall(_text(root / binder))
        for name in _QUOTED.findall(arguments)
    }
    unbound: dict[Path, list[str]] = {}
    for feature in tests.features:
        if bound.isdisjoint(((root / feature), *(root / feature).parents)):
            unbound.setdefault(feature.parent, []).append(feature.name)
    modules = {}
    for folder, names in unbound.items():
        is_all = {*names}.issuperset(f.name for f in (root / folder).glob(f"*{FEATURE_SUFFIX}"))
        is_free = not (root / folder / _BINDER).exists()
        module = folder / (_BINDER if is_free else f"test_{Path(names[0]).stem}.py")
        arguments = ", ".join(f'"{name}"' for name in (["."] if is_all else names))
        modules[module.as_posix()] = TEXTS["steps"].format(arguments)
    return modules


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _is_for(conftest: Path, file: Path) -> bool:
    """Return whether a file is a `conftest.py` for another."""
    return conftest.name == "conftest.py" and file.is_relative_to(conftest.parent)


def _command(command: str, files: Iterable[Path]) -> Iterator[str]:
    """Yield the command on the folders of files, if there are any; of the project's own, the file.

    A folder inside another one is left out.
    """
    places = dict.fromkeys(file if file.parent == Path() else file.parent for file in files)
    if outer := [place for place in places if places.keys().isdisjoint(place.parents)]:
        yield " ".join((command, *(shell_word(place.as_posix()) for place in outer)))
