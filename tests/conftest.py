"""Property tests draw the same examples in every run; `SIMKIT_NIGHTLY=1` draws more of them."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("nightly", derandomize=True, deadline=None, max_examples=2_000)
settings.load_profile("nightly" if os.environ.get("SIMKIT_NIGHTLY") == "1" else "ci")
