from __future__ import annotations

import json
from pathlib import Path

import pytest

from simkit.report.last_run import Ledger, RunEntry, slug


def ledger(folder: Path) -> Ledger:
    return Ledger(folder / ".simkit")


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("name", ["last.json", "traces", "runs"])
def test_a_folder_that_simkit_did_not_make_is_left_alone(tmp_path: Path, name: str) -> None:
    theirs = tmp_path / ".simkit" / name
    theirs.parent.mkdir()
    theirs.mkdir() if name != "last.json" else theirs.write_text("{}")

    with pytest.raises(OSError, match=r"without simkit's `\.gitignore`: move it, or delete"):
        ledger(tmp_path).begin()

    assert [path.name for path in theirs.parent.iterdir()] == [name]


def test_a_trace_is_kept_out_of_version_control(tmp_path: Path) -> None:
    own = ledger(tmp_path)
    remaining = own.keep("s/x.scenario.yaml::Late", b'{"a":1}\n{"b":2}\n')
    own.close([RunEntry("s/x.scenario.yaml::Late", "held", "", remaining)], [])
    own.end()

    assert Path(remaining).read_bytes() == b'{"a":1}\n{"b":2}\n'
    assert files(tmp_path) == [
        ".simkit/.gitignore", ".simkit/last.json", f".simkit/traces/{Path(remaining).name}"
    ]  # fmt: skip
    assert (tmp_path / ".simkit/.gitignore").read_text() == "*\n"


def test_closing_records_the_run_and_forgets_older_traces(tmp_path: Path) -> None:
    before, after = ledger(tmp_path), ledger(tmp_path)
    old = before.keep("f::old", b"{}\n")
    before.close([RunEntry("f::old", "held", "d0", old)], [])
    new = after.keep("f::new", b"{}\n")

    after.close([RunEntry("f::new", "failed", "d1", new)], ["f::new"])

    assert json.loads((tmp_path / ".simkit/last.json").read_text()) == {
        "version": 1,
        "scenarios": [{"id": "f::new", "outcome": "failed", "digest": "d1", "trace": new}],
        "failed": ["f::new"],
        "unkept": 0,
    }
    assert (Path(old).exists(), Path(new).exists()) == (False, True)


def test_failures_stay_until_they_are_run_again(tmp_path: Path) -> None:
    ledger(tmp_path).close([RunEntry("a", "failed"), RunEntry("b", "broken")], ["a", "b"])
    ledger(tmp_path).close([RunEntry("a", "held"), RunEntry("c", "failed")], ["c"])

    assert ledger(tmp_path).failed() == ("b", "c")


def test_nothing_is_known_before_the_first_run_or_of_a_file_that_is_none(tmp_path: Path) -> None:
    assert ledger(tmp_path).failed() is None

    (tmp_path / ".simkit").mkdir()
    (tmp_path / ".simkit/last.json").write_text("{")

    assert ledger(tmp_path).failed() is None


def test_slugs_are_readable_and_differ_where_ids_do() -> None:
    assert slug("s/x.scenario.yaml::It's late!")[:-8] == "s-x-it-s-late-"
    assert slug("a b") != slug("a-b")
    assert len(slug("x" * 500)) == 89


def test_a_secret_in_a_name_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "s3cr3t-value")
    own = ledger(tmp_path)

    entry = own.keep("a::s3cr3t-value", b"{}\n")
    own.close([RunEntry("a::s3cr3t-value", "failed", "", entry)], ["a::s3cr3t-value"])

    assert "s3cr3t" not in entry
    assert b"s3cr3t" not in (tmp_path / ".simkit/last.json").read_bytes()
    assert own.failed() == ("a::[redacted:env]",)
