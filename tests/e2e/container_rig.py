"""Real containers on this box: podman with a storage of its own, docker with a daemon of its own, and an image that is
made of two of the box's programs."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.decks import until

IMAGE = "localhost/gpudeck-test:1"
_BUSYBOX = ("sh", "sleep", "env", "id", "touch", "cat", "kill", "ps")


class NoContainersError(Exception):
    """What is missing here, in words."""


@dataclass(frozen=True, slots=True)
class Containers:
    program: str
    env: dict[str, str]
    """What makes the program use this rig's own storage."""

    def call(self, *words: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            [self.program, *words], env={**os.environ, **self.env}, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def there(self) -> list[str]:
        """Names of containers in whatever state."""
        return self.call("ps", "--all", "--format", "{{.Names}}").split()


@contextlib.contextmanager
def containers(program: str, folder: Path) -> Iterator[Containers]:
    """Raises NoContainersError."""
    if missing := [name for name in (program, "runc", "busybox", "bash") if not shutil.which(name)]:
        raise NoContainersError(f"{', '.join(missing)} is not installed")
    with _podman(folder) if program == "podman" else _docker(folder) as env:
        found = Containers(program, env)
        found.call("import", "-", IMAGE, stdin=_image())
        yield found


@contextlib.contextmanager
def _podman(folder: Path) -> Iterator[dict[str, str]]:
    """crun knows neither every layout of cgroups nor a root without CAP_SYS_RESOURCE, as CI has them."""
    limits = 'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]'
    engine = '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"'
    (folder / "containers.conf").write_text(f"[containers]\n{limits}\n{engine}\n")
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/data"\nrunroot = "{folder}/run"\n'
    )
    yield {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


@contextlib.contextmanager
def _docker(folder: Path) -> Iterator[dict[str, str]]:
    if os.geteuid() or not shutil.which("dockerd"):
        raise NoContainersError("no dockerd that could be started: it needs root")
    socket = folder / "socket"
    words = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    words += ["--iptables=false", "--bridge=none", "--storage-driver=vfs", f"--host=unix://{socket}"]
    with open(folder / "log", "wb") as log:
        daemon = subprocess.Popen(["dockerd", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until(lambda: socket.exists() or daemon.poll() is not None)
        env = {"DOCKER_HOST": f"unix://{socket}"}
        if subprocess.run(["docker", "info"], env={**os.environ, **env}, capture_output=True, check=False).returncode:
            raise NoContainersError(f"dockerd does not run here: {(folder / 'log').read_text()[-500:]}")
        yield env
    finally:
        daemon.terminate()
        daemon.wait()
        subprocess.run(["umount", f"{folder}/exec/netns/default"], capture_output=True, check=False)
        # It leaves the network namespace that all of its containers have shared.
        subprocess.run(["umount", f"{folder}/exec/netns/default"], capture_output=True, check=False)


def _image() -> bytes:
    """busybox and bash, with the libraries of the latter."""
    packed = io.BytesIO()
    bash = os.path.realpath(shutil.which("bash") or "")
    listed = subprocess.run(["ldd", bash], capture_output=True, check=False).stdout.decode()
    with tarfile.open(fileobj=packed, mode="w") as image:
        image.add(os.path.realpath(shutil.which("busybox") or ""), "bin/busybox")
        image.add(bash, "bin/bash")
        for library in re.findall(r"/\S+", listed):
            image.add(os.path.realpath(library), library.lstrip("/"))
        for name in _BUSYBOX:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            image.addfile(link)
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        image.addfile(folder)
    return packed.getvalue()
