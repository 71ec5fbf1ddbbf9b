"""The first lines of the screen: how the deck stands, and what keeps it from going on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ...engine.protocol.counts import Counts
from ...engine.protocol.wire import DeckHead
from ...engine.protocol.words import goes_on_text
from ...engine.text import plural
from ..acting.actions import BY_ID
from ..drawing.format import about, clean, clipped, clock, count, cut, duration, length, percent, width_of
from ..drawing.paragraphs import folded
from ..drawing.view import LOOKS, Piece, Tone
from ..model import DeckModel, Link, LinkKind

Line = list[Piece]


class Note(NamedTuple):
    """What keeps the deck from going on, or wants the user."""

    text: str
    tone: Tone
    remedy: str = ""
    """What ends it, with what joins it to the text: stays where the text is cut."""


_ORDER = (
    "running", "pending", "queued", "waiting", "backoff", "failed", "unknown", "blocked", "cancelled", "pruned",
    "succeeded", "cached",
)  # fmt: skip
_APART = "  "
_NOTE = "▎ "


def heading(deck: DeckModel, width: int, now_s: float, *, notes: int = 3) -> list[Line]:
    """Two lines, then at most *notes* lines of what keeps the deck from going on or wants the user. Without a deck
    nothing else is to be shown: why is told in full."""
    head = deck.head
    if head is None:
        return [[("gpudeck", "strong"), _link_piece(deck, now_s, _APART)], *_told_in_full(deck, width)]
    return [
        _first(deck, head, width, now_s),
        _second(head, width, now_s),
        *_noted(deck, width, notes),
    ]


# -- name, counts, link -----------------------------------------------------------------------------------------------


def _first(deck: DeckModel, head: DeckHead, width: int, now_s: float) -> Line:
    link: Line = [_link_piece(deck, now_s)]
    slurm = head.backend == "slurm"
    marks = [text for text, said in (("SIM", head.simulated), ("CPU", head.on_cpu), ("Slurm", slurm)) if said]
    if marks:
        link.insert(0, (" ".join(marks) + _APART, "strong" if marks == ["Slurm"] else "warn"))
    name = cut(clean(head.deck), max(12, width // 4))
    run = (f" run {head.run}" + (" ended" if head.ended else "")) if head.run else " never started"
    left: Line = [(name, "strong"), (run + _APART, "muted")]
    counted: Line = []
    for apart, worded in ((_APART, True), (_APART, False), (" ", False)):
        counted = _counts(head.counts, apart, worded=worded)
        if length(left) + length(counted) + length(link) + 2 <= width:
            break
    return _ends([*left, *counted], link, width)


def _counts(counts: Counts, apart: str, *, worded: bool) -> Line:
    pieces: Line = []
    for state in _ORDER:
        number: int = getattr(counts, state)
        if not number:
            continue
        look = LOOKS[state]
        pieces.append((look.glyph + apart[1:], look.tone))
        pieces.append((count(number), "bad" if look.tone == "bad" else "plain"))
        pieces.append((f" {state}{apart}" if worded else apart, "muted"))
    return pieces or [("no tasks", "muted")]


def _link_text(deck: DeckModel, now_s: float) -> str:
    link = deck.link
    match link.kind:
        case "connecting":
            text = "connecting …"
        case "live":
            text = "live" if deck.whole else f"loading {count(len(deck.rows))} of {count(deck.total)}"
        case "silent":
            text = f"no answer for {duration(link.silent_s)}"
        case "restarting":
            text = "engine vanished, starting it again …"
        case "over":
            return "read-only: no engine"
        case "failed":
            text = "no engine"
        case "files":
            text = f"state of {clock(link.as_of, now_s)}" if link.as_of else "never started"
    return f"read-only · {text}" if link.read_only else text


_LINK_TONES: Mapping[LinkKind, Tone] = {
    "connecting": "muted", "live": "muted", "silent": "bad", "restarting": "warn", "over": "warn", "failed": "bad",
    "files": "warn",
}  # fmt: skip


def _link_piece(deck: DeckModel, now_s: float, apart: str = "") -> Piece:
    return apart + _link_text(deck, now_s), _LINK_TONES[deck.link.kind]


# -- how far it is ----------------------------------------------------------------------------------------------------


def _second(head: DeckHead, width: int, now_s: float) -> Line:
    """A slim bar, and what it comes to."""
    counts = head.counts
    total = max(1, counts.total)
    ended = counts.succeeded + counts.cached
    words = [f"{percent(ended / total)} of {count(counts.total)}"]
    if head.slots:
        what = "submitted" if head.backend == "slurm" else "slots"
        words.append(f"{what} {head.used_slots}/{head.slots}")
    if head.eta_s is not None and not (head.ended or head.paused):
        if head.unmeasured:
            words.append(f"at least {about(head.eta_s)} left")
            words.append(f"{plural(head.unmeasured, 'task')} not measured yet")
        else:
            words.append(f"{about(head.eta_s)} left")
            words.append(clock(now_s + head.eta_s, now_s))
    while len(words) > 1 and len(_APART.join(words)) > width // 2:
        words.pop()
    text = _APART.join(words)
    cells = max(0, width - len(text) - 2)
    return [*_bar(counts, total, cells), (_APART, "plain"), (cut(text, width), "plain")]


def _bar(counts: Counts, total: int, cells: int) -> Line:
    """Done, failed, stopped, running, to do, each in a glyph of its own; each that there is has a cell at least, if
    there is room."""
    parts: tuple[tuple[int, str, Tone], ...] = (
        (counts.succeeded + counts.cached, "━", "good"),
        (counts.failed + counts.unknown, "╳", "bad"),
        (counts.blocked + counts.cancelled + counts.pruned + counts.backoff, "╌", "warn"),
        (counts.running, "╍", "running"),
    )
    line: Line = []
    left = cells
    for number, glyph, tone in parts:
        share = min(left, max(round(cells * number / total), 1)) if number else 0
        if share > 0:
            line.append((glyph * share, tone))
            left -= share
    line.append(("─" * left, "rest"))
    return line


def is_full(deck: DeckModel) -> bool:
    """Whether what is let go has to wait for a slot."""
    head = deck.head
    return head is not None and bool(head.slots) and head.used_slots >= head.slots


# -- what wants to be known -------------------------------------------------------------------------------------------


def notes(deck: DeckModel) -> list[Note]:
    """The gravest first, a line each."""
    head, link = deck.head, deck.link
    said = _about_link(link)
    if head is None:
        return said
    if head.unwritable:
        said.append(Note(f"nothing starts, the journal cannot be written: {clean(head.unwritable)}", "bad"))
    if head.halted:
        how = goes_on_text(head, halted=True)
        said.append(Note(f"halted by {clean(head.halted)}", "bad", how and f"; {_key('pause')} {how}"))
    if head.file_problem:
        said.append(Note(f"task file: {clean(head.file_problem)}; the deck goes on as it was", "bad"))
    if head.paused:
        text = clean(head.paused)
        text = text if text.startswith("paused") else f"paused: {text}"
        said.append(Note(text, "warn", f"; {_key('pause')} {goes_on_text(head, halted=False)}"))
    if head.barred:
        said.append(Note(clean(head.barred), "warn", f"; {_key('edit')} edits the file" if head.spent else ""))
    if head.file_plan:
        changed = f"the task file has changed: {clean(head.file_plan)}"
        said.append(Note(changed, "running", f"; {_key('apply')} applies it"))
    # A round that is under way keeps the next one closed, and all is well.
    rest = [Note(_round_text(text), "warn" if text in head.shut_rounds else "muted") for text in head.rounds]
    rest += _about_flags(head, acting=link.live and not link.read_only)
    return said + sorted(rest, key=lambda note: note.tone != "warn")


def _round_text(text: str) -> str:
    return f"the next round {clean(text)}" if text.startswith("waits") else clean(text)


def _about_flags(head: DeckHead, *, acting: bool) -> list[Note]:
    """Finished tasks whose results are not of today: what runs again already bears no flag."""
    told = [f"{count(head.changed)} changed since {'it' if head.changed == 1 else 'they'} ran"] if head.changed else []
    told += [f"{count(head.stale)} stale"] if head.stale else []
    if not told:
        return []
    which = "it" if head.changed + head.stale == 1 else "them"
    again = f": {_key('retry_menu')} runs {which} again" if acting else ""
    return [Note(", ".join(told), "warn", again)]


def _about_link(link: Link) -> list[Note]:
    match link.kind:
        case "connecting" | "live":
            return []
        case "restarting":
            return [Note(clean(link.text), "warn")] if link.text else []
        case "silent":
            return [Note(clean(link.text), "bad")]
        case "files" | "over" | "failed":
            told = [Note(clean(line), "warn") for line in link.text.splitlines()]
            if told and link.kind != "files":
                again = f"; {_key('reconnect')} {'looks again' if link.read_only else 'starts it'}"
                told[0] = told[0]._replace(tone="bad", remedy=again)
            return told


def _key(action: str) -> str:
    return BY_ID[action].shown_key


def _noted(deck: DeckModel, width: int, limit: int) -> list[Line]:
    said = notes(deck)
    lines: list[Line] = []
    for place, note in enumerate(said[:limit]):
        more = len(said) - limit
        end = f"  +{more} more" if more > 0 and place == limit - 1 else ""
        room = max(0, width - len(end))
        text = cut(_NOTE + note.text, max(0, room - width_of(note.remedy)))
        lines.append([(cut(text + note.remedy, room), note.tone), (end, "muted")])
    return lines


def _told_in_full(deck: DeckModel, width: int) -> list[Line]:
    room = width - width_of(_NOTE)
    return [[(_NOTE + part, note.tone)] for note in notes(deck) for part in folded(note.text + note.remedy, room)]


def _ends(left: Line, right: Line, width: int) -> Line:
    """Both ends of a line; the left one is cut where they do not fit."""
    line = clipped(left, max(0, width - length(right) - 1))
    blank = max(1, width - length(right) - length(line))
    return [*line, (" " * blank, "plain"), *right]


_TONES = ("strong", "muted", "running", "good", "bad", "warn", "rest")
TALL = 30
"""Rows of the screen from which all notes are shown, not one."""


class DeckHeader(Widget):
    """As high as what it has to say."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"deckheader--{tone}" for tone in _TONES}
    DEFAULT_CSS = "DeckHeader { height: 2; }"
    ALLOW_SELECT = False

    class Grown(Message):
        """It takes more rows now, or fewer."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        """*now*: seconds since the epoch."""
        super().__init__()
        self._now = now
        self._deck = DeckModel()
        self._head: DeckHead | None = None
        self._told_s = 0.0
        """When the deck's head came: its ETA counts from then."""
        self._lines: list[Line] = []

    def show(self, deck: DeckModel) -> None:
        """The deck as it is now; draws what differs."""
        self._deck = deck
        if deck.head is not self._head:
            self._head, self._told_s = deck.head, self._now()
        self._redraw()

    def on_resize(self) -> None:
        self._redraw()

    def _redraw(self) -> None:
        before, self._lines = self._lines, self._made(self.size.width)
        if len(before) != len(self._lines):
            self.styles.height = self.rows
            self.post_message(self.Grown())
        if before != self._lines:
            self.refresh()

    def _made(self, width: int) -> list[Line]:
        shown_notes = 3 if self.screen.size.height >= TALL else 1
        return heading(self._deck, width, self._told_s, notes=shown_notes) if width else []

    @property
    def rows(self) -> int:
        """What it takes, also before the screen has been laid out anew."""
        return max(2, len(self._lines))

    def render_line(self, y: int) -> Strip:
        plain = self.rich_style
        line = self._lines[y] if y < len(self._lines) else []
        segments = [Segment(text, plain + self._style(tone)) for text, tone in line if text]
        return Strip(segments).adjust_cell_length(self.size.width, plain)

    def _style(self, tone: str) -> Style:
        if tone not in _TONES:
            return Style()
        style = self.get_component_rich_style(f"deckheader--{tone}")
        return Style(color=style.color, bold=style.bold or None, dim=style.dim or None)
