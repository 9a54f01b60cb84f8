"""One word of each feature changed gives the text of a finding, from the first letter to the last.

``golden/<feature>.txt`` holds what is changed, ``-`` and ``+``, and what pytest prints of it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.golden import assert_files_are
from tests.processes import run_python

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = Path(__file__).parent / "golden"
FEATURES = sorted((ROOT / "features").glob("*.feature"))
HEADLINE = re.compile(r"^_+ test_\w+(?:\[.*\])? _+\n", re.MULTILINE)
PLACE = re.compile(r"^features/(\w+)\.feature:\d+", re.MULTILINE)


def golden(feature: str) -> tuple[str, str, str]:
    """What is changed, what stands there instead, and what it is answered with."""
    old, new, *answer = (GOLDEN / f"{feature}.txt").read_text(encoding="utf-8").split("\n", 2)
    assert (old[:2], new[:2]) == ("- ", "+ ")
    return old[2:], new[2:], answer[0].strip() if answer else ""


def answers(root: Path) -> dict[str, str]:
    """What one run of all changed features prints, by feature."""
    for folder in ("cassettes", "scenarios"):
        (root / folder).symlink_to(ROOT / folder)
    (root / "features").mkdir()
    shutil.copy(ROOT / "features" / "test_features.py", root / "features")
    for file in FEATURES:
        old, new, _ = golden(file.stem)
        text = file.read_text(encoding="utf-8")
        assert old in text
        changed = text.replace(old, new, 1)
        (root / "features" / file.name).write_text(changed, encoding="utf-8")
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "features", folder=root)
    report, _, _ = done.stdout.partition("= short test summary info =")
    # The line that counts warnings speaks of all features.
    report, _, _ = report.partition("\nsimkit: ")
    texts_by_name: dict[str, str] = {}
    for block in HEADLINE.split(report.rstrip("=\n "))[1:]:
        place = PLACE.search(block)
        assert place, block
        texts_by_name[place[1]] = texts_by_name.get(place[1], "") + block.rstrip("=\n ") + "\n"
    return texts_by_name


@pytest.mark.golden
@pytest.mark.slow(10)
def test_a_changed_word_of_each_feature_is_answered_as_the_golden_file_says(tmp_path: Path) -> None:
    texts = {}
    answers_by_feature = answers(tmp_path)
    for file in FEATURES:
        old, new, _ = golden(file.stem)
        answer = answers_by_feature.get(file.stem, "").strip()
        texts[GOLDEN / f"{file.stem}.txt"] = f"- {old}\n+ {new}\n\n{answer}\n"

    assert_files_are(texts)
