"""Which kind of file system a path is on."""

from __future__ import annotations

import os
from collections.abc import Iterator

MOUNTS = "/proc/self/mountinfo"

NETWORK_FILE_SYSTEMS = frozenset(
    (
        "nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "afs", "panfs",
        "pvfs2", "orangefs", "wekafs", "9p", "ocfs2", "gfs2", "davfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph",
        "fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.beegfs", "fuse.moosefs", "fuse.mfs",
        "fuse.goofys", "fuse.davfs",
    )
)  # fmt: skip
"""Where SQLite's WAL and kernel locks do not hold between hosts."""


def on_network(path: str) -> bool:
    """Whether a file server is behind *path*: it may answer nothing for minutes."""
    return file_system(path) in NETWORK_FILE_SYSTEMS


def file_system(path: str, mounts: str = MOUNTS) -> str:
    """The kernel's name for the kind of file system that *path*, which need not exist, is or would be on; "" when it
    cannot be told."""
    target = os.path.realpath(path)
    best, kind = "", ""
    for point, candidate in _mount_points(mounts):
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, candidate
    return kind


def _mount_points(mounts: str) -> Iterator[tuple[str, str]]:
    try:
        with open(mounts, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(b" - ")
        columns = before.split()
        if len(columns) > 4 and after:
            # The kernel writes blanks and backslashes of a path in octal.
            yield os.fsdecode(columns[4].decode("unicode_escape").encode("latin-1")), after.split()[0].decode()
