from __future__ import annotations

import copy
from typing import Any

import pytest
import vcr
from vcr.request import Request

from simkit.core.errors import ReferenceInvalid
from simkit.vcr import register, vcr_config
from tests.capture.cassettes.requests import CHAT_URL
from tests.processes import run_python


def test_the_defaults_are_few() -> None:
    data = vcr_config()

    assert data.pop("before_record_request")[0].__name__ == "before_record_request"
    assert data.pop("before_record_response")[0].__name__ == "before_record_response"
    assert data == {
        "match_on": ["method", "matches_model_request", "is_nearest_recording"],
        "decode_compressed_response": True,
    }


def test_options_of_vcrpy_come_before_the_defaults_and_their_hooks_run_first() -> None:
    def theirs(request: Request) -> Request:
        assert "authorization" in request.headers
        request.body = request.body.replace(b"mine", b"sk-proj-1234567890abcdefghijklmnopqrstuv")
        return request

    data = vcr_config(before_record_request=theirs, ignore_hosts=["a"], match_on=["uri"])

    assert (data["ignore_hosts"], data["match_on"]) == (["a"], ["uri"])
    config = register(vcr.VCR(**data)).get_merged_config(path="a")
    request = Request("POST", CHAT_URL, b'{"a": "mine"}', {"authorization": "x"})
    remaining = config["before_record_request"](request)
    assert (remaining.body, dict(remaining.headers)) == (b'{"a":"[redacted:openai]"}', {})
    assert request.body == b'{"a": "mine"}'


def test_a_hook_that_leaves_a_request_out_leaves_it_out() -> None:
    result = vcr.VCR(**vcr_config(before_record_request=lambda request: None, match_on=["uri"]))

    filter_ = result.get_merged_config(path="a")["before_record_request"]

    assert filter_(Request("POST", CHAT_URL, b"{}", {})) is None


def test_a_variable_that_is_named_is_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_ID", "ledger-77-oslo")
    request = Request("POST", CHAT_URL, b'{"a": "ledger-77-oslo"}', {})
    plain, data = vcr_config(), vcr_config(secrets=["LEDGER_ID"], personal=["email"])

    assert plain["before_record_request"][0](request).body == b'{"a": "ledger-77-oslo"}'
    assert data["before_record_request"][0](request).body == b'{"a":"[redacted:env]"}'


def test_a_value_that_the_environment_takes_on_is_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    vcr_config()
    monkeypatch.setenv("MY_OWN_API_KEY", "plain-words-of-my-own")

    hook = vcr_config()["before_record_request"][0]

    request = Request("POST", CHAT_URL, b'{"a": "plain-words-of-my-own"}', {})
    assert hook(request).body == b'{"a":"[redacted:env]"}'


def test_a_configuration_can_be_copied_and_made_again() -> None:
    data, other = vcr_config(volatile=["user"]), vcr_config(volatile=["user"])

    assert data == other
    assert copy.deepcopy(data)["match_on"] == [
        "method", "matches_model_request volatile=user", "is_nearest_recording volatile=user",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "error", "reply"),
    [
        ({"volatile": ["/(/"]}, ReferenceInvalid, "the pattern `(` cannot be read"),
        ({"volatile": "model"}, TypeError, "volatile: a list of texts is needed, not the text"),
        ({"personal": ["name"]}, ValueError, "personal: 'name' is not known; known: email, phone"),
    ],
)
def test_what_is_wrong_is_told_where_it_is_configured(
    options: Any, error: type[Exception], reply: str
) -> None:
    with pytest.raises(error) as caught:
        vcr_config(**options)

    assert reply in str(caught.value)


def test_a_recorder_that_is_not_registered_says_what_is_missing() -> None:
    with pytest.raises(KeyError, match="matches_model_request doesn't exist or isn't registered"):
        vcr.VCR(**vcr_config()).get_merged_config(path="a")


def test_the_plugin_imports_nothing_where_nothing_is_configured() -> None:
    code = (
        "import sys, simkit.pytest_plugin as plugin\n"
        "plugin.pytest_recording_configure(object())\n"
        "print({'vcr', 'simkit.vcr', 'simkit.capture.cassettes'} & set(sys.modules))\n"
    )

    done = run_python("-c", code)

    assert done.stdout == "set()\n"
