"""What a deck is opened for, and the run options that hold then: those that a run was started with go on to hold while
it is unfinished, whoever continues it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from ..errors import UsageError
from ..taskfile.options import RunOptions

if TYPE_CHECKING:
    from ..core.recorded import Recorded  # slow to load, and who only asks an engine needs none of it

Purpose = Literal["headless", "start", "look", "resume", "act", "note", "stop"]
"""headless, start: the deck is to run; where its last run has ended, the next one begins. look: a screen; what never
ran starts. resume: in the place of an engine that has vanished; a run goes on, none begins. act: a command on some
tasks; nothing starts before that is taken, and then nothing that is new in the file. note: the same, and the engine
ends then. stop: what runs is to be ended, whatever has become of the task file."""

BEGINS: frozenset[Purpose] = frozenset({"headless", "start"})
"""After a run has ended they begin another: the file and what is given now rule it."""
ASKED_ONLY: frozenset[Purpose] = frozenset({"act", "note", "stop"})
"""Nothing starts that was not asked for."""
AS_TAKEN: frozenset[Purpose] = frozenset({"resume", *ASKED_ONLY})
"""Nobody has asked for the file as it is now: a run that goes on does so with the file as the deck took it last, and
edits wait to be applied, as they do while an engine lives."""

_CHANGEABLE = frozenset({"gpus", "slots_per_gpu", "halt", "fail_fast", "skip_existing", "backend"})
"""What may differ when a run is continued: it changes what runs where, not what the tasks are."""
_NAMES_THE_STATE = frozenset({"profile", "name"})
_OF_A_LIVE_DECK = frozenset({"gpus", "slots_per_gpu", "only", "with_needs"})
"""What may differ from what an engine runs with: it takes it as a change."""
_NEVER_TYPED = frozenset({"also", "retried"})
_OF_EACH_START = frozenset({"only", "exclude", "limit", "with_needs", "also"})
"""Which tasks: said anew each time. A start that names none means all, or an earlier --limit would pass for success."""


def encode(options: RunOptions) -> str:
    """What differs from the defaults, as JSON; "" for nothing."""
    given = _given(options)
    return json.dumps(given, sort_keys=True) if given else ""


def _given(options: RunOptions) -> dict[str, Any]:
    """What differs from the defaults, by name."""
    default = RunOptions()
    said = {field.name: getattr(options, field.name) for field in fields(RunOptions)}
    return {name: value for name, value in said.items() if value != getattr(default, name)}


def decode(text: str) -> RunOptions:
    """The options that `encode` wrote; keys that this version does not know are passed over."""
    said: dict[str, Any] = json.loads(text) if text else {}
    known = {field.name: said[field.name] for field in fields(RunOptions) if field.name in said}
    for name in ("only", "exclude", "also"):
        if name in known:
            known[name] = tuple(known[name])
    return RunOptions(**known)


def holding(purpose: Purpose, journal: Recorded, given: RunOptions) -> RunOptions:
    """The options that hold where a deck with this *journal* is opened and *given* is said.

    An unfinished run goes on as it was started, whoever goes on with it; a headless one says its tasks anew. After a
    run has ended, what begins the next one has the file, what is given now and what `retry --set` has given; what only
    looks or acts sees the deck as that run did, so that nothing counts as changed, or starts, that it had otherwise.
    Raises UsageError where *given* would make other tasks of an unfinished run's.
    """
    before = decode(journal.options)
    if not journal.unfinished:
        return replace(given, retried=before.retried) if purpose in BEGINS else as_before(before, given)
    return continued(before, given if purpose == "headless" else replace(given, **_selection(as_before(before, given))))


def held(options: RunOptions, given: RunOptions, *, unfinished: bool) -> str:
    """What to say of options that hold and that nobody has given now; "" where there are none. *unfinished*: the run
    that they were said for goes on."""
    left = {name: value for name, value in _given(options).items() if value != getattr(given, name)}
    left["retried"] = {}  # told by task
    left["set"] = {key: value for key, value in options.set.items() if given.set.get(key) != value}
    said = describe(RunOptions(**left))
    if not said:
        return ""
    if unfinished:
        return f"the run goes on as it was started: {said}; the next one that `gpudeck start` begins is without"
    return f"{said} of the ended run still holds: the next run that `gpudeck start` begins is without"


def reselected(before: RunOptions, now: RunOptions) -> str:
    """What to say where a run goes on with other tasks than it was begun with; "" where it does not."""
    was, which_now = (describe(which(options)) or "all tasks" for options in (before, now))
    return "" if was == which_now else f"the run was begun with {was}, and goes on with {which_now}"


def continued(kept: RunOptions, given: RunOptions) -> RunOptions:
    """The options of a run that goes on: as it was started, with what is given now in the place of what was, and with
    the selection of tasks that is given now.

    Raises UsageError where what is given would make other tasks of the same ones (--set, --log-dir).
    """
    for name, _, old in _others(kept, given):
        if name not in _CHANGEABLE | _OF_EACH_START:
            raise UsageError(
                f"{_flag(name)}: the run that goes on was started with {_said(name, old)}; "
                f"let it end first, or give a second one a --name"
            )
    return replace(as_before(kept, given), **_selection(given))


def _others(before: RunOptions, given: RunOptions) -> Iterator[tuple[str, Any, Any]]:
    """What is given now and was not before: its name, and its values now and before."""
    default = RunOptions()
    for field in fields(RunOptions):
        name, new, old = field.name, getattr(given, field.name), getattr(before, field.name)
        if name == "set":
            new = {**before.set, **given.set}
        if name not in _NAMES_THE_STATE and new not in (getattr(default, name), old):
            yield name, new, old


def as_before(kept: RunOptions, given: RunOptions) -> RunOptions:
    """The options that the newest run was started with, with what is given now in the place of what was."""
    changes = _given(given) | {
        "set": {**kept.set, **given.set},
        "also": tuple(dict.fromkeys((*kept.also, *given.also))),
    }
    if given.only not in ((), kept.only):
        changes |= {"with_needs": given.with_needs, "also": given.also}
    return replace(kept, **{"profile": given.profile, "name": given.name, **_one_halt(changes)})


def _one_halt(changes: dict[str, Any]) -> dict[str, Any]:
    """--fail-fast is a --halt: the one that is given now takes the place of the other."""
    if "halt" in changes:
        return {"fail_fast": False, **changes}
    return {"halt": None, **changes} if "fail_fast" in changes else changes


def refuse_other(running: RunOptions, given: RunOptions) -> None:
    """Raises UsageError where an engine runs the deck with other options than are given now. What comes along with a
    start is asked of it later."""
    for name, new, old in _others(running, replace(given, also=())):
        raise UsageError(
            f"{_said(name, new)}: the engine that runs this deck was started with {_said(name, old)}; "
            f"`gpudeck stop` ends it and no task, then start the deck with other options"
        )


def changed(running: RunOptions, given: RunOptions) -> RunOptions:
    """What an engine that runs with *running* is to run with when *given* is asked of it; the same where nothing
    differs. Raises UsageError for what it cannot change."""
    default = RunOptions()
    fixed: dict[str, Any] = {name: getattr(default, name) for name in _OF_A_LIVE_DECK}
    refuse_other(running, replace(given, **fixed))
    given = replace(given, profile=running.profile, name=running.name)
    return as_before(running, given)


def has_selection(options: RunOptions) -> bool:
    """Whether they choose some tasks of the file."""
    return bool(options.only or options.exclude) or options.limit is not None


def taking_in(options: RunOptions, names: Iterable[str]) -> RunOptions:
    """The same selection, and these tasks as well."""
    if not has_selection(options):
        return options
    return replace(options, also=tuple(dict.fromkeys((*options.also, *names))))


def difference(before: RunOptions, now: RunOptions) -> str:
    """What has become of options, as they would be typed: "--slots-per-gpu 2 (before: as in the file)"."""
    found: list[str] = []
    for field in fields(RunOptions):
        old, new = getattr(before, field.name), getattr(now, field.name)
        if new and new != old and field.name not in _NEVER_TYPED:
            was = _said(field.name, old) if old else "all tasks" if field.name == "only" else "as in the file"
            found.append(_said(field.name, new) if new is True else f"{_said(field.name, new)} (before: {was})")
    return ", ".join(found)


def which(options: RunOptions) -> RunOptions:
    """Of these only what says which tasks."""
    return replace(RunOptions(), **_selection(options))


def _selection(options: RunOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in _OF_EACH_START}


def describe(options: RunOptions) -> str:
    """The options as they would be typed."""
    return " ".join(_said(name, value) for name, value in _given(options).items() if name not in _NEVER_TYPED)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _said(name: str, value: object) -> str:
    if value is False and name == "skip_existing":
        return _flag(f"no_{name}")
    if not value:
        return f"no {_flag(name)}"
    if isinstance(value, Mapping):
        return " ".join(f"{_flag(name)} {key}={text}" for key, text in cast("Mapping[str, str]", value).items())
    if isinstance(value, tuple):
        return " ".join(f"{_flag(name)} {item}" for item in cast("tuple[str, ...]", value))
    return _flag(name) if value is True else f"{_flag(name)} {value}"
