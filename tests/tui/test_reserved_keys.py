"""ctrl+a, ctrl+b and ctrl+s mean nothing in any field: they belong to tmux, screen and the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from gpudeck.tests.fakes.screen_rig import ScreenRig, over
from gpudeck.tui.settings.keys import RESERVED

DECK = """
[deck]
gpus = "sim:1"
[[task]]
name = "a"
command = "echo boo; exit 3"
"""


@pytest.mark.parametrize("opens", [("slash",), ("l", "slash"), ("ctrl+p",)], ids=["filter", "search", "palette"])
def test_reserved_keys_do_not_move_the_cursor_of_a_field(tmp_path: Path, opens: tuple[str, ...]) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press(*opens)
        await rig.until(lambda: isinstance(rig.app.focused, Input), "a field has the keys")
        field = rig.app.focused
        assert isinstance(field, Input)
        await rig.press("a", "b", *sorted(RESERVED), "c")
        await rig.until(lambda: field.value == "abc")

    over(tmp_path, DECK, {"a": "failed"})(body)
