"""Facts as rows. A body is a msgpack map of the fact's fields, so that fields added later take their defaults; the
crc covers body, sequence number, kind and version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast
from zlib import crc32

import msgspec

from ...core.events import FACTS, Fact

Fields = dict[str, Any]
Lift = Callable[[Fields], Fields]
Row = tuple[int, bytes, int, bytes, int]
"""seq, kind, version, body, crc32."""
Encoded = tuple[str, int, int, bytes]
"""kind, version, crc seed, body: a fact that has no place in the sequence yet."""

_MASK = 0xFFFFFFFF


class UnknownFactError(Exception):
    """A sound row that this code cannot read: another version wrote it."""


def _seed(kind: bytes, version: int) -> int:
    return crc32(b"%s %d" % (kind, version))


class FactCodec:
    """Encodes facts at their current version and reads all earlier ones.

    *lifts* turns the fields of (kind, version) into those of the next version; the current version of a kind is one
    above its last lift. A field that is only added, with a default, needs none.
    """

    def __init__(
        self, kinds: Sequence[type[Fact]] = FACTS, lifts: Mapping[tuple[str, int], Lift] | None = None
    ) -> None:
        self._lifts = dict(lifts or {})
        self._encode = msgspec.msgpack.Encoder().encode
        self._heads: dict[type[Fact], tuple[str, int, int]] = {}
        self._readers: dict[tuple[bytes, int], tuple[int, Callable[[bytes], Fact]]] = {}
        for kind in kinds:
            name = kind.__name__
            current = 1 + max((version for lifted, version in self._lifts if lifted == name), default=0)
            self._heads[kind] = (name, current, _seed(name.encode(), current))
            for version in range(1, current + 1):
                reader = (
                    msgspec.msgpack.Decoder(kind).decode if version == current else self._old(kind, version, current)
                )
                self._readers[name.encode(), version] = (_seed(name.encode(), version), reader)

    def encode(self, facts: Iterable[Fact]) -> list[Encoded]:
        """Encode *facts*; text that is no valid Unicode (undecodable file names) is kept with U+FFFD in place."""
        encode, heads = self._encode, self._heads
        try:
            return [(*heads[type(fact)], encode(fact)) for fact in facts]
        except UnicodeEncodeError:
            return [(*heads[type(fact)], encode(_valid(fact))) for fact in facts]

    def decode(self, rows: Iterable[Row], facts: list[Fact]) -> str:
        """Append the facts of *rows* to *facts*, whose length is the last sequence number read. Stops at the first
        damaged row and says which; "" when all are sound. Raises UnknownFactError."""
        readers, take, last = self._readers, facts.append, len(facts)
        for seq, kind, version, body, crc in rows:
            last += 1
            if seq != last:
                return f"fact {last} is missing"
            seed, read = readers.get((kind, version), (None, None))
            try:
                if seed is None:
                    seed = _seed(kind, version)
                if crc32(body, (seed + seq) & _MASK) != crc:
                    return f"fact {seq} is damaged"
            except TypeError:
                return f"fact {seq} is damaged"
            if read is None:
                raise UnknownFactError(f"fact {seq} ({kind.decode(errors='replace')}, version {version}) is unknown")
            try:
                take(read(body))
            except msgspec.MsgspecError as error:
                raise UnknownFactError(f"fact {seq} ({kind.decode()}): {error}") from error
        return ""

    def _old(self, kind: type[Fact], version: int, current: int) -> Callable[[bytes], Fact]:
        lifts = [self._lifts[kind.__name__, step] for step in range(version, current)]

        def read(body: bytes) -> Fact:
            raw = cast("Fields", msgspec.msgpack.decode(body))
            for lift in lifts:
                raw = lift(raw)
            return msgspec.convert(raw, kind)

        return read


def place(encoded: Iterable[Encoded], last: int) -> list[int | str | bytes]:
    """The rows of *encoded* behind sequence number *last*, flat, as an INSERT takes them."""
    flat: list[int | str | bytes] = []
    seq = last
    for kind, version, seed, body in encoded:
        seq += 1
        flat += (seq, kind, version, body, crc32(body, (seed + seq) & _MASK))
    return flat


def _valid(value: Any) -> Any:
    """*value* with lone surrogates replaced in all its text."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, tuple):
        return tuple(_valid(item) for item in cast("tuple[Any, ...]", value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _valid(getattr(value, field.name)) for field in fields(value)})
    return value
