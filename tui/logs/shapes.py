"""Which words a block of a log may hold, told by the letters of its lines: most lines of a training log differ in
numbers alone, so that few have to be looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_KEPT = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:_\n\r"
_DROPPED = bytes(code for code in range(256) if code not in _KEPT)
_FRAMES = bytes.maketrans(b"\r", b"\n")
_MOST = 20_000
"""Shapes that are remembered."""
_MANY = 1_000
"""So many new ones in a block, and it is not that kind of log."""
_REST = 32
"""Blocks that are then searched without."""


class Shapes:
    """Of one search."""

    def __init__(self, words: Iterable[bytes]) -> None:
        self._words = {word: word.translate(None, _DROPPED) for word in words}
        self._known: dict[bytes, tuple[bytes, ...]] = {}
        """What lines of that shape may hold."""
        self._rest = 0

    def words_in(self, block: bytes) -> Collection[bytes]:
        """Those that may be in it; the others are not."""
        if self._rest:
            self._rest -= 1
            return self._words
        shapes = set(block.translate(_FRAMES, _DROPPED).split(b"\n"))
        new = shapes - self._known.keys()
        if len(new) > _MANY:
            self._rest = _REST
            return self._words
        if len(self._known) > _MOST:
            self._known, new = {}, shapes
        self._learn(new)
        return {word for shape in shapes for word in self._known[shape]}

    def _learn(self, shapes: Collection[bytes]) -> None:
        together = b"\n".join(shapes)
        there = [(word, letters) for word, letters in self._words.items() if letters in together]
        for shape in shapes:
            self._known[shape] = tuple(word for word, letters in there if letters in shape)
