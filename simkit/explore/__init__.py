"""Exploration: unscripted conversations, on a declared pipeline or on a user's code.

Models answer whatever their interface permits; what breaks a rule becomes the smallest scenario
file that shows it. The package is the function, too: it returns an `Exploration`, with a finding
for each cause. A finding raises nothing; SimkitError is raised if the subject cannot be run.

>>> exploration = simkit.explore("desk.pipeline.yaml", runs=20, turns=2)
>>> [finding.text for finding in exploration.findings]
[]

From the bottom up: ``choices`` (numbers that decide), ``values`` (values of a JSON Schema),
``scene`` and ``interfaces`` (models and tools that choose), ``users``, ``subjects`` (what a name
stands for), ``causes`` (of findings), ``claims`` (that speak of what took place), ``conversations``
(one run), ``chunks`` (parts of a campaign, whose tallies are merged in any order), ``drawing``
(Hypothesis), ``shrinking`` (small conversations), ``search`` (a campaign in this process),
``enumeration`` (every conversation, in one process or several), ``scenarios`` (files of what was
found), ``journal``, ``processes`` and ``cluster`` (campaigns of any size), ``campaigns`` (the one
place that sets a search up), ``api`` (the function, and the agents of code that does not name
them).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simkit.explore.api import Exploration


class _Package(ModuleType):
    """The package as a function: `simkit.explore` is both, as its name in the command is."""

    def __call__(self, *args: Any, **options: Any) -> Exploration:
        # Importing a part of the package must not need Hypothesis.
        from simkit.explore.api import explore

        return explore(*args, **options)


sys.modules[__name__].__class__ = _Package
