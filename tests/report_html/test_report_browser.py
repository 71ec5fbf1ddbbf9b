"""The report in a real Chromium: it loads without a complaint, sorts by mouse and keyboard, and filters."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.inside.report_html import page
from tests.report_html.report_samples import EVIL, report
from tests.tui.web_rig import Browser, browser

pytestmark = pytest.mark.browser

NAMES = "[...document.querySelectorAll('#tasks tbody tr:not([hidden]) th')].map(cell => cell.textContent)"
HEAD = "document.querySelector('#tasks th:nth-child({}) button')"
READY = "document.readyState == 'complete' && !document.getElementById('filter').hidden"


async def names(tab: Browser) -> list[str]:
    return [name.rpartition("-")[2] for name in await tab.value(NAMES)]


def test_heads_sort_words_filter_and_nothing_else_runs(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(page(report(12, word=EVIL, reason=EVIL)))

    async def look() -> None:
        async with browser(tmp_path) as tab:
            await tab.open(path.as_uri())
            await tab.until(f"location.protocol == 'file:' && {READY}", "the page is there")
            in_file_order = [str(place) for place in range(12)]
            assert await names(tab) == in_file_order

            await tab.value(f"{HEAD.format(1)}.focus()")
            await tab.press("Enter")
            assert await tab.value("document.querySelector('#tasks th').ariaSort") == "ascending"
            assert await names(tab) == in_file_order  # as numbers, not as letters
            await tab.press("Enter")
            assert await names(tab) == in_file_order[::-1]

            await tab.value(f"{HEAD.format(2)}.click()")
            assert (await names(tab))[:4] == ["11", "8", "5", "2"]  # failed before succeeded

            await tab.value("words.value = '-11'; words.dispatchEvent(new Event('input'))")
            assert await names(tab) == ["11"]
            assert await tab.value("document.getElementById('shown').textContent") == "1 of 12"
            assert tab.errors == []

    asyncio.run(look())


def test_a_phone_scrolls_the_wide_parts_and_not_the_page(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(page(report(12)))

    async def look() -> None:
        async with browser(tmp_path, size=(500, 800)) as tab:
            await tab.call(
                "Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True
            )
            await tab.open(path.as_uri())
            await tab.until(f"location.protocol == 'file:' && {READY}", "the page is there")
            assert await tab.value("document.documentElement.scrollWidth") == 400
            assert await tab.value("document.querySelector('.wide').scrollWidth > 400")
            assert tab.errors == []

    asyncio.run(look())
