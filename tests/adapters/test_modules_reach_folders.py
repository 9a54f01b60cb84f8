"""Code that imports from folders without `__init__.py`, inside packages that nobody imported."""

from __future__ import annotations

from pathlib import Path

from tests.adapters.running import run_app

CODE = """
def main(text):
    from namespace_outer.inner import words

    return words.SAID
"""


def test_a_folder_without_init_inside_a_package_is_no_error(tmp_path: Path) -> None:
    inner = tmp_path / "namespace_outer" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("", encoding="utf-8")
    (inner / "words.py").write_text('SAID = "Hello."\n', encoding="utf-8")
    (tmp_path / "namespace_app.py").write_text(CODE, encoding="utf-8")

    ran = run_app("namespace_app:main", "turns: [{user: Hi, expect: {reply: Hello.}}]", tmp_path)

    assert ran.judgement.findings == ()
