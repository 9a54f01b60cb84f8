"""Required packages: report a missing one by name, with the command that installs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simkit.core.text import late_pattern

DISTRIBUTION: Final = "agent-simkit"
_NAMED_OTHERWISE: Final = {"pyyaml": "yaml", "vcrpy": "vcr"}
"""Modules with a name that differs from their distribution's."""
_REQUIREMENT: Final = late_pattern(r"([A-Za-z0-9][\w.-]*)\s*([^;]*)")


def missing_package(problem: BaseException | None) -> str:
    """Return one line about a required package that is not installed; empty for other problems."""
    if not isinstance(problem, ModuleNotFoundError):
        return ""
    needed = _requirements().get((problem.name or "").partition(".")[0])
    if needed is None:
        return ""
    name, versions = needed
    requirement = f"'{name}{versions}'" if versions else name
    return f"simkit needs {name}, which is not installed here: pip install {requirement}"


def install_command(extra: str, *options: str) -> str:
    """Return the command that installs an extra's packages by their own names.

    The packages are on every index; simkit itself may have been installed from a file.

    >>> install_command("explore")
    "pip install 'hypothesis>=6.100'"
    """
    # Only an error needs it.
    from packaging.requirements import Requirement

    needed = []
    for requirement in map(Requirement, _required_lines()):
        marker = requirement.marker
        if marker and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            requirement.marker = None
            needed.append(f"'{requirement}'")
    return " ".join(["pip install", *options, *(needed or [f"'{DISTRIBUTION}[{extra}]'"])])


def distribution_of(module: str) -> str:
    """Return the distribution that brings a module: mostly one of the same name."""
    # Only an error needs it.
    from simkit.core.compat import LIBRARIES

    top = module.partition(".")[0]
    return LIBRARIES.distributions.get(top, top)


def was_asked_by_simkit(problem: BaseException) -> bool:
    """Return whether simkit's own code failed to import, not the user's."""
    step = problem.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    importer = "" if step is None else str(step.tb_frame.f_globals.get("__name__", ""))
    return importer.partition(".")[0] == "simkit"


def missing_in_test(problem: BaseException, module_text: str = "") -> str:
    """Return the text that pytest prints if a test or module fails because a package is missing.

    ``module_text`` is pytest's text about a module. It stays if the module itself imported the
    package: the traceback of a test's own failed import says more.
    """
    # pytest wraps the import error of a module, which is the cause.
    cause = problem if isinstance(problem, ModuleNotFoundError) else problem.__cause__
    lacking = missing_package(cause)
    if not lacking or cause is None or was_asked_by_simkit(cause):
        return lacking
    return f"{module_text}\n{lacking}" if module_text else ""


def _requirements() -> dict[str, tuple[str, str]]:
    """Return name and versions of each required package, by module."""
    matches = [_REQUIREMENT.match(line) for line in _required_lines() if "extra ==" not in line]
    pairs = [(match[1], match[2].strip()) for match in matches if match]
    return {_module(name): (name, versions) for name, versions in pairs}


def _required_lines() -> Sequence[str]:
    """Return the requirements of simkit's own metadata, the extras' too."""
    # Only an error needs them.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        return requires(DISTRIBUTION) or ()
    except PackageNotFoundError:
        return ()


def _module(name: str) -> str:
    lowercase = name.lower()
    return _NAMED_OTHERWISE.get(lowercase, lowercase.replace("-", "_"))
