"""Property tests draw the same examples in every run; `SIMKIT_NIGHTLY=1` draws more of them."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("nightly", derandomize=True, deadline=None, max_examples=2_000)
settings.load_profile("nightly" if os.environ.get("SIMKIT_NIGHTLY") == "1" else "ci")

# What a shell starts in the background ignores Ctrl-C, and so does all that it starts in turn:
# tests that interrupt a process must mean the same there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
