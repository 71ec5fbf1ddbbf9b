"""The state of a deck, found as its own: a file `tasks@x.toml`, a profile x and a name x all mean the same folder."""

from __future__ import annotations

import os

from ..adapters.state.folder import StateDir, find_state_dir
from ..adapters.state.home import Owner, owner_in
from ..errors import UsageError
from ..taskfile.find import stem_of
from ..taskfile.options import RunOptions


def find_own_state(path: str, state_dir: str, options: RunOptions) -> StateDir | None:
    """Where the deck's state lies; None: there is none yet. Raises DeckError, where it is another deck's, too."""
    state = find_state_dir(path, state_dir, stem_of(path, options))
    if state is not None:
        refuse_other(path, state.path, options)
    return state


def owner_of(path: str, options: RunOptions) -> Owner:
    """As the state notes it."""
    return Owner(os.path.basename(path), options.profile or "", options.name or "")


def refuse_other(path: str, state_dir: str, options: RunOptions) -> None:
    """Raises UsageError where the state that lies there is that of another file, profile or name. A file that was
    renamed, and one that was moved with its state, keeps it."""
    found = owner_in(state_dir)
    if found is None:
        return
    owner, theirs = found
    mine = owner_of(path, options)
    if (owner.profile, owner.name) != (mine.profile, mine.name) or _are_two(theirs, path):
        raise UsageError(
            f"{path}: its state would be {state_dir}, which is that of `{owner}` in {os.path.dirname(theirs)}: give it "
            "another name, profile or state_dir"
        )


def is_own(path: str, state_dir: str, options: RunOptions) -> bool:
    """Whether `refuse_other` has nothing against it."""
    try:
        refuse_other(path, state_dir, options)
    except UsageError:
        return False
    return True


def _are_two(one: str, other: str) -> bool:
    """Two files that are both there."""
    try:
        return not os.path.samefile(one, other)
    except OSError:
        return False
