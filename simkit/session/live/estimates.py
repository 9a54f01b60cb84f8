"""Estimates from repeated runs: rates with intervals, pass@k, pass^k, and percentiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import msgspec

CONFIDENCE: Final = 0.95
_Z: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class Rate(msgspec.Struct, frozen=True):
    """A number of runs, and how many of them passed."""

    passes: int
    runs: int

    @property
    def share(self) -> float:
        """Return the share that passed; 0 without runs."""
        return self.passes / self.runs if self.runs else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return the Wilson score interval of the true share, with 95 % confidence.

        With n runs of which the share p passed, and z = 1.96, its middle is
        (p + z²/2n) / (1 + z²/n), and its half width z √(p(1-p)/n + z²/4n²) / (1 + z²/n)
        (E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927).
        It is right for few runs, too, and never leaves 0 to 1.
        """
        if not self.runs:
            return 0.0, 1.0
        share, runs, square = self.share, self.runs, _Z * _Z
        scale = 1 + square / runs
        middle = (share + square / (2 * runs)) / scale
        half = _Z * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs)) / scale
        # Rounding must not put a certain end beside its limit.
        low = 0.0 if self.passes == 0 else middle - half
        high = 1.0 if self.passes == runs else middle + half
        return low, high

    def any_of(self, k: int) -> float:
        """Return pass@k: the chance that at least one of k runs passes; ``k`` is at most the runs.

        With c passes in n runs, 1 - C(n-c, k) / C(n, k) is its unbiased estimate (M. Chen et al.,
        Evaluating Large Language Models Trained on Code, 2021, arXiv:2107.03374).
        """
        return 1 - math.comb(self.runs - self.passes, k) / math.comb(self.runs, k)

    def all_of(self, k: int) -> float:
        """Return pass^k: the chance that all of k runs pass; ``k`` is at most the runs.

        With c passes in n runs, C(c, k) / C(n, k) is its unbiased estimate (S. Yao et al., τ-bench:
        A Benchmark for Tool-Agent-User Interaction in Real-World Domains, 2024, arXiv:2406.12045).
        """
        return math.comb(self.passes, k) / math.comb(self.runs, k)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is not below this share of all values (the nearest rank).

    ``values`` must not be empty.
    """
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]
