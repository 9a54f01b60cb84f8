"""Support for vcrpy and pytest-recording: model requests matched by their meaning.

`vcr_config` is the return value for the fixture of that name. Its matcher compares model requests
as simkit's own cassettes do, and describes a miss message by message; its hooks keep secrets out of
files.

From the bottom up: ``matching`` compares requests by their questions; ``configuring`` has the
hooks, and both as vcrpy's options.
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
