"""What the tests of tests/snapshot use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.snapshot import git as gitstate
from gpudeck.engine.snapshot.copy import MANY, MOST_BYTES, MOST_FILE_BYTES, Layout, Snapshot, layout_of, make
from gpudeck.engine.snapshot.fit import check_snapshot
from gpudeck.engine.snapshot.git import GitError, GitStates, git, git_state
from gpudeck.engine.snapshot.remove import discard, written_in
from gpudeck.engine.snapshot.repository import Repository
