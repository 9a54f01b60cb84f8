from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
import vcr
from vcr.request import Request

from simkit.core.errors import ReferenceInvalid
from simkit.vcr import register, vcr_config
from tests.cassettes.requests import CHAT_URL


def test_the_defaults_are_few() -> None:
    found = vcr_config()

    assert found.pop("before_record_request")[0].__name__ == "before_record_request"
    assert found.pop("before_record_response")[0].__name__ == "before_record_response"
    assert found == {
        "match_on": ["method", "matches_model_request", "is_nearest_recording"],
        "decode_compressed_response": True,
    }


def test_options_of_vcrpy_come_before_the_defaults_and_their_hooks_run_first() -> None:
    def theirs(request: Request) -> Request:
        assert "authorization" in request.headers
        request.body = request.body.replace(b"mine", b"sk-proj-1234567890abcdefghijklmnopqrstuv")
        return request

    found = vcr_config(before_record_request=theirs, ignore_hosts=["a"], match_on=["uri"])

    assert (found["ignore_hosts"], found["match_on"]) == (["a"], ["uri"])
    made = register(vcr.VCR(**found)).get_merged_config(path="a")
    request = Request("POST", CHAT_URL, b'{"a": "mine"}', {"authorization": "x"})
    kept = made["before_record_request"](request)
    assert (kept.body, dict(kept.headers)) == (b'{"a":"[redacted:openai]"}', {})
    assert request.body == b'{"a": "mine"}'


def test_a_hook_that_leaves_a_request_out_leaves_it_out() -> None:
    made = vcr.VCR(**vcr_config(before_record_request=lambda request: None, match_on=["uri"]))

    kept = made.get_merged_config(path="a")["before_record_request"]

    assert kept(Request("POST", CHAT_URL, b"{}", {})) is None


def test_a_variable_that_is_named_is_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_ID", "ledger-77-oslo")
    request = Request("POST", CHAT_URL, b'{"a": "ledger-77-oslo"}', {})
    plain, asked = vcr_config(), vcr_config(secrets=["LEDGER_ID"], personal=["email"])

    assert plain["before_record_request"][0](request).body == b'{"a": "ledger-77-oslo"}'
    assert asked["before_record_request"][0](request).body == b'{"a":"[redacted:env]"}'


def test_a_value_that_the_environment_takes_on_is_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    vcr_config()
    monkeypatch.setenv("MY_OWN_API_KEY", "plain-words-of-my-own")

    hook = vcr_config()["before_record_request"][0]

    request = Request("POST", CHAT_URL, b'{"a": "plain-words-of-my-own"}', {})
    assert hook(request).body == b'{"a":"[redacted:env]"}'


def test_a_configuration_can_be_copied_and_made_again() -> None:
    one, other = vcr_config(volatile=["user"]), vcr_config(volatile=["user"])

    assert one == other
    assert copy.deepcopy(one)["match_on"] == [
        "method", "matches_model_request volatile=user", "is_nearest_recording volatile=user",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"volatile": ["/(/"]}, ReferenceInvalid, "the pattern `(` cannot be read"),
        ({"volatile": "model"}, TypeError, "volatile: a list of texts is needed, not the text"),
        ({"personal": ["name"]}, ValueError, "personal: 'name' is not known; known: email, phone"),
    ],
)
def test_what_is_wrong_is_told_where_it_is_configured(
    options: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        vcr_config(**options)

    assert said in str(caught.value)


def test_a_recorder_that_is_not_registered_says_what_is_missing() -> None:
    with pytest.raises(KeyError, match="matches_model_request doesn't exist or isn't registered"):
        vcr.VCR(**vcr_config()).get_merged_config(path="a")


def test_the_plugin_imports_nothing_where_nothing_is_configured() -> None:
    code = (
        "import sys, simkit.pytest_plugin as plugin\n"
        "plugin.pytest_recording_configure(object())\n"
        "print({'vcr', 'simkit.vcr', 'simkit.capture.cassettes'} & set(sys.modules))\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"
