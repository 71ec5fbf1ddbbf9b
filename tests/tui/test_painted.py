"""What is sent to the terminal: the cells that differ, and after any change the terminal looks as it should."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from tests.inside.tui import Painted

CONSOLE = Console(color_system="truecolor", force_terminal=True)
WIDTH, HEIGHT = 40, 6
RED, BLUE = Style.parse("red on black"), Style.parse("bold #102030 on blue")
_SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([Hm])|([^\x1b])", re.DOTALL)


class Emulated:
    """A terminal that knows what is sent here: two cells for what is wide, none for what combines."""

    def __init__(self) -> None:
        self.cells = [[("?", "")] * WIDTH for _ in range(HEIGHT)]
        self._x = self._y = 0
        self._look: list[str] = ["", "", ""]

    def take(self, text: str) -> None:
        for match in _SEQUENCE.finditer(text):
            parameters, kind, character = match.groups()
            if character is not None:
                self._put(character)
            elif kind == "H":
                self._y, self._x = (int(number) - 1 for number in parameters.split(";"))
            else:
                self._turn(parameters.split(";"))

    def _put(self, character: str) -> None:
        if character == "\u0301":
            before = self.cells[self._y][self._x - 1]
            self.cells[self._y][self._x - 1] = (before[0] + character, before[1])
            return
        look = "/".join(self._look)
        self.cells[self._y][self._x] = (character, look)
        self._x += 1
        if character == "中":
            self.cells[self._y][self._x] = ("", look)
            self._x += 1

    def _turn(self, parameters: list[str]) -> None:
        while parameters:
            code = parameters.pop(0)
            if code in ("0", ""):
                self._look = ["", "", ""]
            elif code in ("38", "48"):
                colour = [parameters.pop(0) for _ in range(4 if parameters[0] == "2" else 2)]
                self._look[1 if code == "38" else 2] = ",".join(colour)
            elif code in ("39", "49"):
                self._look[1 if code == "39" else 2] = ""
            elif len(code) == 1:
                self._look[0] += code
            else:
                self._look[1 if code[0] in "39" else 2] = code


def whole(*lines: Strip) -> LayoutUpdate:
    return LayoutUpdate([[line] for line in lines], Region(0, 0, WIDTH, len(lines)))


def part(x: int, y: int, strip: Strip) -> ChopsUpdate:
    chops = [{x: strip} if row == y else {} for row in range(HEIGHT)]
    ends = [[x + strip.cell_length] if row == y else [] for row in range(HEIGHT)]
    return ChopsUpdate(chops, [(y, x, x + strip.cell_length)], ends)


def line(*pieces: tuple[str, Style | None]) -> Strip:
    return Strip([Segment(text, style) for text, style in pieces]).adjust_cell_length(WIDTH)


def sent(painted: Painted, update: CompositorUpdate) -> str:
    text = painted.difference(update, CONSOLE)
    assert text is not None
    return text


def test_what_is_drawn_again_as_it_was_sends_nothing() -> None:
    painted = Painted()
    first = whole(line(("loss 0.1", RED)), line(("step 2", None)))
    assert "loss 0.1" in sent(painted, first)
    assert sent(painted, whole(line(("loss 0.1", RED)), line(("step 2", None)))) == ""
    assert sent(painted, part(0, 1, line(("step 2", None)))) == ""


def test_of_a_line_that_is_drawn_again_only_what_differs_is_sent() -> None:
    painted = Painted()
    sent(painted, whole(line(("00:00:01 train-1 running", None))))
    assert sent(painted, whole(line(("00:00:02 train-1 running", None)))) == "\x1b[1;8H2"


def test_another_colour_of_the_same_text_is_sent() -> None:
    painted = Painted()
    sent(painted, whole(line(("ab", RED))))
    assert "ab" in sent(painted, whole(line(("ab", BLUE))))


def test_after_somebody_else_drew_on_the_terminal_all_is_sent() -> None:
    painted = Painted()
    update = whole(line(("loss 0.1", RED)))
    before = sent(painted, update)
    painted.forget()
    assert sent(painted, update) == before


def test_an_update_of_a_kind_that_is_not_known_is_left_to_textual_and_all_is_sent_after_it() -> None:
    painted = Painted()
    update = whole(line(("loss 0.1", RED)))
    before = sent(painted, update)
    assert painted.difference(CompositorUpdate(), CONSOLE) is None
    assert sent(painted, update) == before


def test_where_a_character_is_wide_or_combines_the_whole_piece_is_sent() -> None:
    painted = Painted()
    sent(painted, whole(line(("中 e\u0301 task 1", None))))
    assert sent(painted, whole(line(("中 e\u0301 task 2", None)))).startswith("\x1b[1;1H中 e\u0301 task 2")


def test_after_any_changes_the_terminal_looks_as_if_all_had_been_sent() -> None:
    dice = random.Random(7)
    painted, terminal = Painted(), Emulated()
    rows = [line(("", None)) for _ in range(HEIGHT)]
    terminal.take(sent(painted, whole(*rows)))
    for _ in range(400):
        y = dice.randrange(HEIGHT)
        if dice.random() < 0.3:
            x = dice.randrange(0, 20)
            strip = _random_line(dice).crop(0, dice.randrange(1, 20))
            left, under, right = rows[y].divide([x, x + strip.cell_length, WIDTH])
            if left.text + under.text + right.text != rows[y].text:
                continue  # it would cut a wide character in two
            rows[y] = Strip.join([left, strip, right])
            terminal.take(sent(painted, part(x, y, strip)))
        else:
            rows[y] = _random_line(dice)
            terminal.take(sent(painted, whole(*rows)))
        assert terminal.cells == _all_of(rows)


def _random_line(dice: random.Random) -> Strip:
    texts = ("loss", " ", "abcdef", "▂▅", "中", "e\u0301", "0.25 ")
    styles = (None, RED, BLUE)
    return line(*((dice.choice(texts), dice.choice(styles)) for _ in range(dice.randrange(7))))


def _all_of(rows: Sequence[Strip]) -> list[list[tuple[str, str]]]:
    """As a terminal looks that has been sent everything."""
    terminal = Emulated()
    terminal.take(sent(Painted(), whole(*rows)))
    return terminal.cells
