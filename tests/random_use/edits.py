"""Edits of the task file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .deck import UsedDeck


def _add(deck: UsedDeck, words: Sequence[str]) -> None:
    deck.file.add(*words)
    deck.save()


def _set(deck: UsedDeck, words: Sequence[str]) -> None:
    if words[0] in deck.file.tasks:
        deck.file.set(*words)
        deck.save()


def _change(deck: UsedDeck, words: Sequence[str]) -> None:
    if words[0] in deck.file.tasks:
        deck.file.tasks[words[0]].version += 1
        deck.save()


def _remove(deck: UsedDeck, words: Sequence[str]) -> None:
    if len(deck.file.tasks) > 1 and deck.file.tasks.pop(words[0], None):
        deck.save()


def _rename(deck: UsedDeck, words: Sequence[str]) -> None:
    old, new = words
    tasks = deck.file.tasks
    if old in tasks and new not in tasks:
        deck.file.tasks = {new if name == old else name: entry for name, entry in tasks.items()}
        deck.save()


def _break(deck: UsedDeck, _: Sequence[str]) -> None:
    deck.file.broken = True
    deck.save()


def _mend(deck: UsedDeck, _: Sequence[str]) -> None:
    deck.file.broken = False
    deck.save()


def _deck(deck: UsedDeck, words: Sequence[str]) -> None:
    key, _, value = words[0].partition("=")
    deck.file.deck[key] = int(value) if value.isdecimal() and key != "gpus" else value
    deck.shared |= words[0] == "slots_per_gpu=2"
    deck.save()


def _reload(deck: UsedDeck, words: Sequence[str]) -> None:
    deck.file.deck["reload"] = words[0]
    deck.save()


def _tear(deck: UsedDeck, _: Sequence[str]) -> None:
    """An editor that writes in place has written half."""
    text = deck.file.text()
    (deck.folder / "tasks.toml").write_text(text[: len(text) * 2 // 3])
    deck.unapplied = True


def _delete(deck: UsedDeck, _: Sequence[str]) -> None:
    (deck.folder / "tasks.toml").unlink(missing_ok=True)
    deck.unapplied = True


EDITS: Mapping[str, Callable[[UsedDeck, Sequence[str]], None]] = {
    "add": _add,
    "set": _set,
    "change": _change,
    "remove": _remove,
    "rename": _rename,
    "break": _break,
    "mend": _mend,
    "tear": _tear,
    "delete": _delete,
    "touch": lambda deck, _: deck.save(),
    "deck": _deck,
    "reload": _reload,
}
