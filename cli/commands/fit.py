"""`gpudeck fit`: the largest value of a variable that a task runs with, by short trials on a GPU."""

from __future__ import annotations

import os

from ...engine.client.files import fit_home
from ...engine.client.place import say
from ...engine.command import Command
from ...engine.fit.search import Found, Search, answer, as_json, trial_line
from ...engine.fit.target import Subject, subject_of
from ...engine.fit.trial import Trial, Trials
from ...engine.hints import Hints
from ...engine.runs.book import Book
from ...engine.runs.engines import Asked, Engines
from .screen import out, print_json


def run(command: Command) -> int:
    """Returns 0 where the value was found, 1 where none fits or a trial failed otherwise, 128+n after a signal. Raises
    DeckError."""
    subject = subject_of(command, os.environ)
    as_root = command.flag("as_root")
    home = fit_home(subject.path, as_root=as_root)
    engines = Engines(home, os.environ, simulated=subject.simulated, as_root=as_root)
    quiet = command.flag("json")
    with Asked() as asked:
        engines.tidy()
        found = _search(subject, Book(home), Trials(engines, asked, say, steps=subject.steps), asked, quiet=quiet)
    if quiet:
        print_json(as_json(found))
    else:
        out(command, Hints.of(command)).show(answer(found))
    return found.exit_code if asked.first is None else 128 + asked.first


def _search(subject: Subject, book: Book, trials: Trials, asked: Asked, *, quiet: bool) -> Found:
    search, done = Search(subject.values), list[Trial]()
    while (value := search.next()) is not None and asked.first is None:
        trial = _try(subject, value, book, trials)
        done.append(trial)
        if not quiet:
            out().show([trial_line(trial, subject.var, subject.values[-1])])
        if trial.verdict not in ("fits", "oom"):
            break
        search = search.told(value, fits=trial.verdict == "fits")
    return Found(subject.task, subject.var, search, done, simulated=subject.simulated is not None)


def _try(subject: Subject, value: int, book: Book, trials: Trials) -> Trial:
    """Nothing of it stays but its logs."""
    entry, environment = subject.entry(value)
    name = book.enter(entry, f"{subject.task}/{subject.var}={value}", environment)
    try:
        return trials.run(name, value)
    finally:
        book.drop([name])
