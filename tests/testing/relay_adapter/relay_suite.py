"""The suite's test of the adapter for `relay`: a copy of it is `test_relay.py`."""

from simkit.testing import AdapterConformance


class TestRelay(AdapterConformance):
    adapter = "relay"
    applications = "relay_applications"
    not_supported = {
        "interrupt": "agents of relay do not ask the user",
        "stream": "relay has no streams",
    }
