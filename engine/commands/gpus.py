"""`gpudeck gpus drain|enable|take N`: what the deck's engine does with a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from ..command import Command
from ..errors import EngineUnavailableError, UsageError
from ..headless.text import field_text, ranges
from .place import Place

_SAID = {
    "drain": "what runs there ends, nothing new starts",
    "enable": "tasks start there again",
    "take": "tasks start there although others use it",
}


def run(command: Command) -> int:
    """Do it to each GPU named, by index or UUID; "3,4" and "0-2" are several."""
    verb, *texts = command.words
    if verb not in _SAID:
        raise UsageError(f"gpus: {verb} is none of {', '.join(_SAID)}; alone it shows the GPUs of this box")
    wanted = [gpu for text in texts for gpu in _several(text)]
    if not wanted:
        raise UsageError(f"gpus {verb} wants a GPU: gpudeck gpus {verb} 3")
    place = Place.of(command)
    existing = place.attach()
    if existing is None:
        _check(place, wanted)
    else:
        place.tell_environment()
    with existing or place.start(asks_first=True) as connection:
        answer = connection.request("gpu", verb=verb, gpus=wanted)
    indices = [index for index in answer["gpus"] if index >= 0]
    print(f"{verb}: GPU {ranges(indices) if indices else field_text(', '.join(wanted))} ({_SAID[verb]})")
    return 0


def _check(place: Place, wanted: Sequence[str]) -> None:
    """No engine is started for a GPU that the deck does not have. Raises UsageError."""
    from ..box_gpus import look_at_gpus
    from .offline import offline_look

    deck = offline_look(place, quiet=True).deck
    try:
        chosen = look_at_gpus(deck.file.settings, place.environ).chosen
    except EngineUnavailableError:
        return  # the engine tells what is wrong with the driver
    names = {name for gpu in chosen for name in (gpu.uuid, str(gpu.index))}
    for text in wanted:
        if text not in names:
            raise UsageError(f"GPU {text}: this deck uses {', '.join(str(gpu.index) for gpu in chosen) or 'no GPU'}")


def _several(text: str) -> list[str]:
    found: list[str] = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            found += [str(index) for index in range(int(first), int(last) + 1)]
        else:
            found.append(part)
    return found
