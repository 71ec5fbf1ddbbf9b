"""`gpudeck --web` as a user starts it, and Debian's Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.fakes.live_deck import DEADLINE_S, LiveDeck

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[A-Z=>])")
_KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "ArrowDown": (40, "")}


class Web:
    """A server that runs."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self.base, _, self.token = url.rpartition("/")
        self.port = int(self.base.rpartition(":")[2])

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(DEADLINE_S)


@contextmanager
def web_on(deck: LiveDeck, *arguments: str) -> Generator[Web]:
    """`gpudeck --web` in the deck's folder, ready for browsers."""
    process = subprocess.Popen(
        (sys.executable, "-P", "-m", "gpudeck", "--web", *arguments),
        cwd=deck.folder,
        env=deck.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        url = process.stdout.readline().strip()
        assert url, process.stderr.read()
        yield Web(process, url)
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(DEADLINE_S)
            if process.poll() is None:
                process.kill()
                process.wait()
        process.stdout.close()
        process.stderr.close()


class Browser:
    """One page of a headless Chromium."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read())
        self.errors: list[str] = []
        """What scripts threw and what the page was not allowed to load."""
        self.size = (0, 0)
        """Of the terminal in the page, in cells."""
        self.drawn = ""
        """All text that the terminal was sent, without escape sequences."""
        self._more = asyncio.Event()

    async def call(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = future
        await self._socket.send_json({"id": number, "method": method, "params": params})
        return await asyncio.wait_for(future, DEADLINE_S)

    async def _read(self) -> None:
        async for message in self._socket:
            found = json.loads(message.data)
            if "id" in found:
                future = self._answers.pop(found["id"])
                if "error" in found:
                    future.set_exception(AssertionError(str(found["error"])))
                else:
                    future.set_result(found["result"])
            elif found["method"] == "Network.webSocketFrameSent":
                self._sent(found["params"]["response"]["payloadData"])
            elif found["method"] == "Network.webSocketFrameReceived":
                self._received(found["params"]["response"])
            elif found["method"] == "Runtime.exceptionThrown":
                self.errors.append(str(found["params"]["exceptionDetails"]))
            elif found["method"] == "Log.entryAdded" and found["params"]["entry"]["level"] == "error":
                self.errors.append(found["params"]["entry"]["text"])

    def _sent(self, payload: str) -> None:
        kind, *more = json.loads(payload)
        if kind == "resize":
            self.size = more[0]["width"], more[0]["height"]

    def _received(self, frame: dict[str, Any]) -> None:
        if frame["opcode"] == 2:
            text = base64.b64decode(frame["payloadData"]).decode("utf-8", "replace")
            self.drawn += _ESCAPES.sub("", text)
            self._more.set()

    async def open(self, url: str) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def value(self, script: str) -> Any:
        """What an expression is in the page."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return found["result"].get("value")

    async def until(self, script: str, what: str) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        while not (found := await self.value(script)):
            assert time.monotonic() < deadline, f"waited in vain: {what}; {self.errors}"
            await asyncio.sleep(0.05)  # between two looks at the page
        return found

    async def click(self, x: float, y: float) -> None:
        """With the mouse, at a place of the page."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    async def until_drawn(self, text: str) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                while text not in self.drawn:
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} is not drawn; {self.errors}\n{self.drawn[-3000:]}") from None

    async def click_cell(self, column: int, row: int) -> None:
        """In a cell of the terminal, counted from 0; negative rows from its end."""
        columns, rows = self.size
        box = await self.value(
            "(() => { const b = document.querySelector('.xterm-screen').getBoundingClientRect();"
            " return [b.left, b.top, b.width, b.height] })()"
        )
        left, top, width, height = box
        at = row if row >= 0 else rows + row
        await self.click(left + (column + 0.5) * width / columns, top + (at + 0.5) * height / rows)

    async def press(self, key: str) -> None:
        code, text = _KEYS.get(key, (ord(key.upper()) if len(key) == 1 else 0, key))
        more = {"key": key, "windowsVirtualKeyCode": code}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **more, **({"text": text} if text else {}))
        await self.call("Input.dispatchKeyEvent", type="keyUp", **more)

    async def picture(self, path: Path) -> bytes:
        """A screenshot of the page, written to *path* as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        content = base64.b64decode(found["data"])
        path.write_bytes(content)
        return content

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


@asynccontextmanager
async def browser(folder: Path, *, size: tuple[int, int] = (1200, 800)) -> AsyncGenerator[Browser]:
    """A Chromium with a profile of its own in *folder*. Fails where there is none: Debian's package is `chromium`."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert program is not None, "no Chromium: apt-get install chromium"
    profile = folder / "chromium"
    process = subprocess.Popen(
        (
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0",
            f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", "about:blank",
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        port = await _port(profile / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                pages = [page for page in await answer.json() if page["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Browser(socket)
                try:
                    yield page
                finally:
                    await page.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def _port(file: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while not (file.exists() and (text := file.read_text())):
        assert process.poll() is None, "Chromium did not start"
        assert time.monotonic() < deadline, "Chromium does not answer"
        await asyncio.sleep(0.05)  # between two looks at its folder
    return text.split("\n")[0]


async def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        await asyncio.sleep(0.02)  # between two looks
