"""Facts of every kind, for Hypothesis."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass

from hypothesis import strategies as st

from gpudeck.engine.core.events import FACTS, Fact


def facts_of(kind: type[Fact]) -> st.SearchStrategy[Fact]:
    """Every fact of a kind that its field types allow."""
    return typing.cast("st.SearchStrategy[Fact]", _values(kind))


any_fact: st.SearchStrategy[Fact] = st.sampled_from(FACTS).flatmap(facts_of)


def _values(hint: typing.Any) -> st.SearchStrategy[typing.Any]:
    if isinstance(hint, type) and is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return st.builds(hint, **{field.name: _values(hints[field.name]) for field in fields(hint)})
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return st.tuples(*(_values(argument) for argument in arguments))
    if origin is tuple:
        return st.lists(_values(arguments[0]), max_size=4).map(tuple)
    if origin is frozenset:
        return st.frozensets(_values(arguments[0]), max_size=4)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(_values(argument) for argument in arguments))
    plain: dict[typing.Any, st.SearchStrategy[typing.Any]] = {
        int: st.integers(-(2**63), 2**64 - 1),
        float: st.floats(allow_nan=False),
        str: st.text(max_size=40),
        bool: st.booleans(),
        types.NoneType: st.none(),
    }
    return plain[hint] if hint in plain else st.from_type(hint)
