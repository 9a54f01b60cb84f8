"""The lines of a live report that only some runs have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from simkit.cli.live_report import _cache_lines
from simkit.session.live.meter import CacheUse


def report_with(*uses: CacheUse) -> Any:
    return SimpleNamespace(trials=[SimpleNamespace(cache=use) for use in uses])


def test_what_caches_reused_is_one_line_over_all_runs() -> None:
    report = report_with(CacheUse(2, 3000, 0, 0.5), CacheUse(1, 1500, 1400, 0.25))

    assert list(_cache_lines(report)) == [
        "prompt caches: 3 calls could reuse 4,500 tokens at least (an estimate), the providers "
        "reused 1,400, which cost $0.7500 more"
    ]
    assert list(_cache_lines(report_with(CacheUse()))) == []
