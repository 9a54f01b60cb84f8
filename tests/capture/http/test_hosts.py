from __future__ import annotations

import pytest

from simkit.capture.http.request_router import AllowedHosts


@pytest.mark.parametrize(
    ("rule", "host", "port"),
    [
        ("example.com", "example.com", 443),
        ("Example.com", "EXAMPLE.com.", None),
        ("example.com:5432", "example.com", 5432),
        ("example.com:5432", "example.com", None),
        ("*.example.com", "db.eu.example.com", 1),
        ("127.0.0.1", "127.0.0.1", 8080),
        ("::1", "::1", 8080),
        ("[::1]:8080", "::1", 8080),
        ("/run/Database.sock", "/run/Database.sock", None),
    ],
)
def test_host_that_fits_a_rule_is_allowed(rule: str, host: str, port: int | None) -> None:
    assert AllowedHosts([rule]).allow(host, port)


@pytest.mark.parametrize(
    ("rule", "host", "port"),
    [
        ("example.com", "www.example.com", 443),
        ("example.com", "badexample.com", 443),
        ("*.example.com", "example.com", 443),
        ("*.example.com", "badexample.com", 443),
        ("example.com:5432", "example.com", 443),
        ("[::1]:8080", "::1", 443),
        ("localhost", "127.0.0.1", 80),
        ("/run/Database.sock", "/run/database.sock", None),
    ],
)
def test_host_that_fits_no_rule_is_not(rule: str, host: str, port: int | None) -> None:
    assert not AllowedHosts([rule]).allow(host, port)


def test_address_is_allowed_as_the_name_that_it_was_found_for() -> None:
    allowed = AllowedHosts(["db.example.com:5432"])
    allowed.learn("db.example.com", ["192.0.2.1"])

    assert allowed.allow("192.0.2.1", 5432)
    assert not allowed.allow("192.0.2.1", 443)
    assert not allowed.allow("192.0.2.2", 5432)


@pytest.mark.parametrize("rule", ["", "*", "*.", "a*.example.com", "example.com:https", ":80"])
def test_what_is_no_host_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="is no host") as raised:
        AllowedHosts([rule])

    assert str(raised.value) == (
        f"`{rule}` is no host: write `example.com`, `*.example.com`, `example.com:5432`, or the "
        "path of a unix socket"
    )
