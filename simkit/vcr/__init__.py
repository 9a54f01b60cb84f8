"""For suites on vcrpy or pytest-recording: model requests matched by what they mean.

`vcr_config` is what the fixture of that name returns. Its matcher compares model requests as
simkit's own cassettes do, and tells a miss message by message; its hooks keep secrets out of files.

From the ground up: ``requests`` for what a request of vcrpy's asks; ``matching`` and ``hooks``;
``configuring`` for both as vcrpy's options.
"""

from simkit.vcr.configuring import register, setting, vcr_config

_PLAIN = setting()
matches_model_request = _PLAIN.matching.matches_model_request
is_nearest_recording = _PLAIN.matching.is_nearest_recording
before_record_request = _PLAIN.hooks.before_record_request
before_record_response = _PLAIN.hooks.before_record_response

__all__ = [
    "before_record_request",
    "before_record_response",
    "is_nearest_recording",
    "matches_model_request",
    "register",
    "vcr_config",
]
