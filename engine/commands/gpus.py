"""`gpudeck gpus drain|enable|take N`: what the deck's engine does with a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from ..client.place import Place
from ..command import Command
from ..errors import EngineUnavailableError, UsageError
from ..text import field_text, ranges
from .screen import print_json

_SAID = {
    "drain": "what runs there ends, nothing new starts",
    "enable": "tasks start there again",
    "take": "tasks start there although others use it",
}

_MOST = 1024
"""GPUs that a range may name."""


def run(command: Command) -> int:
    """Do it to each GPU named, by index or UUID; "3,4" and "0-2" are several. Where none is, the deck's GPUs are shown
    if a task file is named, else the box's."""
    if not command.words:
        return _show(command)
    verb, *texts = command.words
    if verb not in _SAID:
        raise UsageError(f"gpus: {verb} is none of {', '.join(_SAID)}; alone it shows the GPUs of this box")
    wanted = [gpu for text in texts for gpu in named_gpus(text)]
    if not wanted:
        raise UsageError(f"gpus {verb} wants a GPU: `gpudeck gpus {verb} 3`")
    place = Place.of(command)
    existing = place.attach()
    if existing is None:
        refuse_other_gpus(place, wanted)
    else:
        place.tell_environment()
    with existing or place.start("act" if _under_way(place) else "note") as connection:
        answer = connection.request("gpu", verb=verb, gpus=wanted)
    if command.flag("json"):
        print_json({"verb": verb, "gpus": answer["gpus"]})
        return 0
    indices = [index for index in answer["gpus"] if index >= 0]
    print(f"{verb}: GPU {ranges(indices) if indices else field_text(', '.join(wanted))} ({_SAID[verb]})")
    return 0


def _show(command: Command) -> int:
    if (command.file or command.flag("runs")) and not command.given.get("gpus"):
        from . import deckgpus as shown
    else:
        from . import box as shown
    return shown.run(command)


def refuse_other_gpus(place: Place, wanted: Sequence[str]) -> None:
    """No engine is started for a GPU that the deck does not have. Raises UsageError."""
    from ..offline.look import offline_look
    from ..opening.box_gpus import look_at_gpus

    deck = offline_look(place, quiet=True).deck
    try:
        chosen = look_at_gpus(deck.file.settings, place.environ).chosen
    except EngineUnavailableError:
        return  # the engine tells what is wrong with the driver
    names = {name for gpu in chosen for name in (gpu.uuid, str(gpu.index))}
    for text in wanted:
        if text not in names:
            raise UsageError(f"GPU {text}: this deck uses {', '.join(str(gpu.index) for gpu in chosen) or 'no GPU'}")


def named_gpus(text: str) -> list[str]:
    """Of "3,4" or "0-2" each one. Raises UsageError for a range that is none."""
    found: list[str] = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            found += _range(part, int(first), int(last))
        else:
            found.append(part)
    return found


def _range(text: str, first: int, last: int) -> list[str]:
    if not 0 <= last - first < _MOST:
        raise UsageError(f"GPU {text}: a range goes from a lower number to a higher one, over {_MOST} GPUs at most")
    return [str(index) for index in range(first, last + 1)]


def _under_way(place: Place) -> bool:
    from ..offline.look import offline_look

    return offline_look(place, quiet=True).under_way
