"""Kinds of values: each knows how to read one, what to say of a wrong one, and its JSON Schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from ..core.spec import Progress
from . import units
from .problems import BadValueError, did_you_mean, inside
from .values import as_text, is_list, is_table, kind_of, shown

Read = Callable[[object], object]
T = TypeVar("T")

LARGEST = 2**53
"""Of all whole numbers, and below zero: the journal, and every reader of JSON, keeps it as it is."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value."""

    words: str
    """For the reference."""
    read: Read
    """The value as the engine keeps it. Raises BadValueError."""
    schema: Mapping[str, object]
    textual: bool = False
    """Made of text: a placeholder in it stands for its value's text, whatever that value's type."""
    choices: tuple[str, ...] = ()
    """The words that it knows, where it knows no others."""


_BY_FIELD = Kind("", lambda value: value, {})
"""That of the core's field, see `keys_of`."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table."""

    words: str
    """What it means, one line."""
    kind: Kind = _BY_FIELD
    default: str = ""
    """As the reference shows it; where none is said, that of the core's field."""


Table = Mapping[str, Key]


def keys_of(*records: type, **made: Key) -> Table:
    """A table, with kinds and defaults of the fields that its keys are named after in the core's *records*."""
    for record in records:
        types = get_type_hints(record)
        defaults = {each.name: each.default for each in fields(record)}
        for name, key in _keys_of(record):
            if key in made:
                kind = made[key].kind if made[key].kind is not _BY_FIELD else _kind_of(types[name])
                default = made[key].default or _default(kind, name, defaults[name])
                made[key] = Key(made[key].words, kind, default)
    return made


def _kind_of(hint: object) -> Kind:
    """Of a flag, of one of some words, or of several of them."""
    inside = get_args(hint)
    return (
        flag() if hint is bool else choice(*inside) if get_origin(hint) is Literal else words_of(*get_args(inside[0]))
    )


def _default(kind: Kind, name: str, value: object) -> str:
    """The TOML that *kind* reads as *value*; "" where there is none."""
    said: list[object] = [value]
    if value is None:
        said = ["none", "never", {}]
    elif isinstance(value, float) and name.endswith("_s"):
        said = [units.duration_text(value)]
    elif isinstance(value, int) and name.endswith("_mib"):
        said = [f"{value / 1024:g}GiB"]
    elif isinstance(value, tuple):
        said = [list(cast("tuple[object, ...]", value)), {}]
    elif isinstance(value, frozenset):
        words = cast("frozenset[str]", value)
        said = [[word for word in kind.choices if word in words] or sorted(words)]
    for each in said:
        try:
            if kind.read(each) == value:
                return json.dumps(each)
        except BadValueError:
            continue
    return ""


def read_table(value: object, known: Table) -> dict[str, object]:
    """Every key read. Raises BadValueError inside the first key that is wrong."""
    found: dict[str, object] = {}
    for key, item in table(value).items():
        if key not in known:
            hint = did_you_mean(key, list(known)) or "it knows " + ", ".join(known)
            raise BadValueError(f'has the unknown key "{key}": {hint}')
        with inside(key):
            found[key] = known[key].kind.read(item)
    return found


def record(made: Callable[..., T], said: Mapping[str, object], **more: object) -> T:
    """One of the core's records: of the keys that its fields are named after (`timeout_s` of timeout), and of *more*.
    What is not said is as the record has it."""
    found = {name: said[key] for name, key in _keys_of(made) if key in said}
    return made(**{**found, **more})


def keys_read_by(made: Callable[..., object]) -> frozenset[str]:
    """Which keys say what the fields of a record are."""
    return frozenset(key for _, key in _keys_of(made))


@lru_cache(maxsize=64)
def _keys_of(made: Callable[..., object]) -> tuple[tuple[str, str], ...]:
    names = [field.name for field in fields(cast("Any", made))]
    return tuple((name, name.removesuffix("_mib").removesuffix("_s")) for name in names)


def whole(minimum: int = -LARGEST, maximum: int = LARGEST, *, words: Sequence[str] = ()) -> Kind:
    """A whole number within limits, or one of *words*."""

    def read(value: object) -> object:
        if isinstance(value, str) and value in words:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadValueError(f"must be a whole number{_or(words)}, got {shown(value)}")
        if value < minimum:
            raise BadValueError(f"must be at least {minimum}, got {value}")
        if value > maximum:
            raise BadValueError(f"must be at most {maximum}, got {value}")
        return value

    number: dict[str, object] = {"type": "integer"}
    if minimum != -LARGEST:
        number["minimum"] = minimum
    if maximum != LARGEST:
        number["maximum"] = maximum
    schema = {"anyOf": [number, {"enum": list(words)}]} if words else number
    return Kind(" or ".join(["whole number", *(f'"{word}"' for word in words)]), read, schema)


def flag() -> Kind:
    def read(value: object) -> object:
        if not isinstance(value, bool):
            raise BadValueError(f"must be true or false, got {shown(value)}")
        return value

    return Kind("true or false", read, {"type": "boolean"})


def choice(*words: str) -> Kind:
    quoted = ", ".join(f'"{word}"' for word in words[:-1]) + f' or "{words[-1]}"'

    def read(value: object) -> object:
        if value not in words or not isinstance(value, str):
            hint = did_you_mean(value, words, form='"{}"') if isinstance(value, str) else ""
            raise BadValueError(f"must be {quoted}, got {shown(value)}" + (f": {hint}" if hint else ""))
        return value

    return Kind(quoted, read, {"enum": list(words)}, choices=words)


def text(*, what: str = "text", empty: bool = False) -> Kind:
    def read(value: object) -> object:
        if not isinstance(value, str):
            raise BadValueError(f"must be {what}, got {shown(value)}")
        if not value and not empty:
            raise BadValueError("must not be empty")
        return value

    return Kind(what, read, {"type": "string"} if empty else {"type": "string", "minLength": 1}, textual=True)


def texts(*, what: str = "list of text", example: str = "a") -> Kind:
    """A list of text, none empty."""

    def read(value: object) -> object:
        if isinstance(value, str):
            raise BadValueError(f'must be a list: write ["{value or example}"]')
        if not is_list(value):
            raise BadValueError(f'must be a list such as ["{example}"], got {shown(value)}')
        for item in value:
            if not isinstance(item, str) or not item:
                raise BadValueError(f"must hold only text, got {shown(item)}")
        return tuple(cast("Sequence[str]", value))

    schema = {"type": "array", "items": {"type": "string", "minLength": 1}}
    return Kind(what, read, schema, textual=True)


def secrets() -> Kind:
    """A list of text, none empty, of which no message shows anything: each may hold a key."""

    def read(value: object) -> object:
        if isinstance(value, str) or not is_list(value):
            raise BadValueError(f'must be a list such as ["{{env.NAME}}"], got {kind_of(value)}')
        for number, item in enumerate(value, 1):
            if not isinstance(item, str) or not item.strip():
                raise BadValueError(f"must hold only text: number {number} is {kind_of(item) if item else 'empty'}")
        return tuple(cast("Sequence[str]", value))

    schema = {"type": "array", "items": {"type": "string", "minLength": 1}}
    return Kind("list of URLs", read, schema)


def words_of(*known: str) -> Kind:
    """A list whose items are all among *known*, as a frozenset."""

    def read(value: object) -> object:
        for item in cast("tuple[str, ...]", texts(example=known[0]).read(value)):
            if item not in known:
                hint = did_you_mean(item, known, form='"{}"') or "it knows " + ", ".join(known)
                raise BadValueError(f"has {shown(item)}, which is none of its words: {hint}")
        return frozenset(cast("Sequence[str]", value))

    schema = {"type": "array", "items": {"enum": list(known)}}
    return Kind("list of " + ", ".join(known), read, schema, choices=known)


def wholes(minimum: int, maximum: int) -> Kind:
    def read(value: object) -> object:
        if not is_list(value) or not value:
            raise BadValueError(f"must be a list of whole numbers such as [{minimum}], got {shown(value)}")
        for item in value:
            if isinstance(item, bool) or not isinstance(item, int) or not minimum <= item <= maximum:
                raise BadValueError(f"must hold whole numbers from {minimum} to {maximum}, got {shown(item)}")
        return frozenset(cast("Sequence[int]", value))

    item = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return Kind("list of whole numbers", read, {"type": "array", "items": item, "minItems": 1})


def duration(*, zero: bool = True, none: bool = False) -> Kind:
    """Seconds; "none" reads as None where it is allowed."""

    def read(value: object) -> object:
        if none and value == "none":
            return None
        seconds = units.duration_s(value)
        if not zero and not seconds:
            raise BadValueError("must be more than 0 seconds")
        return seconds

    pattern = r"^((\d+(\.\d+)?(ms|s|m|h|d))+|\d+(\.\d+)?" + ("|none)$" if none else ")$")
    schema = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": pattern}]}
    return Kind("duration" + (' or "none"' if none else ""), read, schema)


def sbatch_time() -> Kind:
    """Seconds, read as sbatch reads --time."""

    def read(value: object) -> object:
        seconds = units.sbatch_time_s(value)
        if not seconds:
            raise BadValueError("must be more than 0")
        return seconds

    pattern = r"^((\d+(\.\d+)?(ms|s|m|h|d))+|(\d+-)?\d+(:\d+){0,2})$"
    return Kind(
        "duration, or as --time",
        read,
        {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": pattern}]},
    )


def size(*words: str) -> Kind:
    """MiB, or one of *words*; "none" reads as None."""

    def read(value: object) -> object:
        if isinstance(value, str) and value in words:
            return None if value == "none" else value
        mib = units.size_mib(value)
        if not mib:
            raise BadValueError("must be more than 0")
        return mib

    pattern = "|".join([r"\d+(\.\d+)?\s*([kKmMgGtT]([iI]?[bB])?)", *words])
    schema = {"type": "string", "pattern": f"^({pattern})$"}
    return Kind(" or ".join(["size", *(f'"{word}"' for word in words)]), read, schema)


def signal_name(*, none: bool = False) -> Kind:
    def read(value: object) -> object:
        return None if none and value == "none" else units.signal_name(value)

    return Kind("signal" + (' or "none"' if none else ""), read, {"type": "string", "pattern": "^[A-Za-z0-9]+$"})


def regex() -> Kind:
    def read(value: object) -> object:
        pattern = cast("str", text(what="a regular expression").read(value))
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise BadValueError(f"is no regular expression: {error}") from None
        return pattern

    return Kind("regular expression", read, {"type": "string", "minLength": 1, "format": "regex"})


def progress() -> Kind:
    """A regular expression, or a table of one and the total of what it counts."""
    keys = {"regex": Key("", regex()), "total": Key("", whole(1))}

    def read(value: object) -> object:
        if not is_table(value):
            return Progress(cast("str", keys["regex"].kind.read(value)))
        found = read_table(value, keys)
        if "regex" not in value:
            raise BadValueError("needs regex: progress = { regex = 'iter (\\d+):', total = 5000 }")
        return record(Progress, found)

    schema: dict[str, object] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["regex"],
        "properties": {
            "regex": keys["regex"].kind.schema,
            "total": {"anyOf": [keys["total"].kind.schema, {"type": "string", "pattern": r"\{\w+\}"}]},
        },
    }
    return Kind("regular expression, or { regex, total }", read, {"anyOf": [keys["regex"].kind.schema, schema]})


def command() -> Kind:
    """A list is executed as it is, text runs in a shell. Numbers in a list become text as written."""

    def read(value: object) -> object:
        if isinstance(value, str):
            if not value.strip():
                raise BadValueError("must not be empty")
            return value
        if not is_list(value):
            raise BadValueError(f'must be text or a list such as ["python", "train.py"], got {shown(value)}')
        if not value or value[0] == "":
            raise BadValueError("must not be empty")
        return tuple(map(_word, value))

    words: dict[str, object] = {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1}
    return Kind("text or list", read, {"anyOf": [{"type": "string", "minLength": 1}, words]}, textual=True)


def _word(item: object) -> str:
    if isinstance(item, str):
        return item
    if is_list(item) or is_table(item):
        raise BadValueError(f"must hold only text and numbers, got {kind_of(item)}: {shown(item)}")
    return as_text(item)


def number(above: float | None = None) -> Kind:
    words = "number" if above is None else f"number above {above:g}"

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise BadValueError(f"must be a {words}, got {shown(value)}")
        if above is not None and value <= above:
            raise BadValueError(f"must be a {words}, got {shown(value)}")
        return float(value)

    schema = {"type": "number"} if above is None else {"type": "number", "exclusiveMinimum": above}
    return Kind(words, read, schema)


def shares() -> Kind:
    """Numbers between 0 and 1, rising, each once; one alone may stand without a list."""

    def read(value: object) -> object:
        items = value if is_list(value) else [value]
        for item in items or [value]:
            if isinstance(item, bool) or not isinstance(item, (int, float)) or not 0 < item < 1:
                raise BadValueError(f"must hold numbers between 0 and 1 such as [0.25, 0.5], got {shown(item)}")
        return tuple(sorted({float(cast("float", item)) for item in items}))

    item = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    return Kind(
        "list of numbers between 0 and 1", read, {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}
    )


def _or(words: Sequence[str]) -> str:
    return "".join(f' or "{word}"' for word in words)


IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

OWN_VARIABLES = frozenset({
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPUDECK_TASK", "GPUDECK_ATTEMPT", "GPUDECK_DECK", "GPUDECK_TOKEN",
    "GPUDECK_LOG", "GPUDECK_RUN_DIR", "GPUDECK_GPU_MEM_MIB", "GPUDECK_SHARD", "GPUDECK_SHARDS",
    "GPUDECK_SNAPSHOT",
})  # fmt: skip
"""Variables that an attempt gets from gpudeck, which a file may not set."""
RUN_VARIABLE = "GPUDECK_RUN"
"""In the tasks of `gpudeck run`: which run it is, and in which boot of the box it was typed."""


def table(value: object, form: str = "") -> Mapping[str, object]:
    """*form*: how it is written."""
    if not is_table(value):
        raise BadValueError(f"must be a table, got {kind_of(value)}: {f'write {form}' if form else shown(value)}")
    return value


def env(value: object) -> dict[str, str | None]:
    """Variables by name; None unsets. Written as text, or false to unset."""
    return {name: _variable(name, item) for name, item in table(value).items()}


def _variable(name: str, value: object) -> str | None:
    if not name or "=" in name:
        raise BadValueError(f"has {shown(name)}, which cannot be the name of a variable")
    refuse_own(name)
    if value is False:
        return None
    if not isinstance(value, str):
        raise BadValueError(f'must be text, or false to unset it: write "{as_text(value)}"', name)
    return value


def refuse_own(name: str) -> None:
    """Raises BadValueError for a variable that only gpudeck may set."""
    if name in OWN_VARIABLES:
        hint = ": gpus and gpu_ids say which GPUs a task gets" if name.startswith("CUDA") else ""
        raise BadValueError(f"may not set {name}, gpudeck does{hint}")


def identifiers(value: object) -> Mapping[str, object]:
    """A table whose keys can be placeholders."""
    items = table(value)
    for key in items:
        if not IDENTIFIER.fullmatch(key):
            fixed = re.sub(r"[^A-Za-z0-9_]+", "_", key).strip("_") or "x"
            fixed = f"_{fixed}" if fixed[0].isdigit() else fixed
            raise BadValueError(f'has "{key}", which cannot stand in braces: call it {fixed}')
    return items


def tables(value: object) -> Sequence[Mapping[str, object]]:
    """A list of tables."""
    if not is_list(value) or not all(map(is_table, value)):
        raise BadValueError(f"must be a list of tables, got {shown(value)}")
    return cast("Sequence[Mapping[str, object]]", value)
