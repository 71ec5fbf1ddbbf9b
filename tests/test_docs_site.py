"""The documentation as a site, in a real Chromium."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tui.web_rig import browser

ROOT = Path(__file__).parent.parent


@pytest.mark.browser
def test_search_of_pages_opened_from_the_disk_finds_those_for_users_first(tmp_path: Path) -> None:
    site = tmp_path / "site"
    build = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site))
    subprocess.run(build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)

    async def look() -> None:
        async with browser(tmp_path) as tab:
            await tab.open(f"{(site / 'index.html').as_uri()}?q=gpu_hours")
            found = "document.querySelector('.md-search-result__link')?.href"
            assert "sharing.html" in await tab.until(found, "a page is found")
            await tab.open(f"{(site / 'index.html').as_uri()}?q=reboot")  # which pages for developers name more often
            assert "/dev/" not in await tab.until(found, "a page is found")

    asyncio.run(look())
