"""Build the site into ``build/site``, and fail on a broken link or a request to another host."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from website.privacy import outside_requests
from website.staging import ROOT, stage

STAGE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"


def build() -> int:
    """Build the site strictly; return 0 if every link leads somewhere and nothing is fetched."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    stage(STAGE)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(
        command,
        cwd=STAGE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    if built.returncode:
        print(built.stdout)
        return built.returncode
    shutil.move(STAGE / "site", SITE)
    requests = list(outside_requests(SITE))
    for file, address in requests:
        print(f"{file}: opening this page would fetch {address}")
    pages = len(list(SITE.rglob("*.html")))
    if not requests:
        print(f"{pages} pages in {SITE.relative_to(ROOT)}, and no request to another host")
    return bool(requests)


sys.exit(build())
