"""Slurm's programs as scripts over files: a cluster that does what a test says, and nothing by itself."""

from __future__ import annotations

import os
from pathlib import Path

_SBATCH = """
script=$(readlink /proc/$$/fd/0)
if [ ! -f "$script" ]; then script=${!#}; exec <"$script"; fi
exec 9>$here/lock
flock 9
echo "$script" >>$here/sbatch.calls
echo "$*" >>$here/sbatch.words
mapfile -t calls <$here/sbatch.calls
did=${#calls[@]}
flock -u 9
hang() { exec 9>&-; while [ -d $here/hangs ]; do sleep 0.05; done; exit 1; }
[ ! -e $here/sbatch.does ] || . $here/sbatch.does
flock 9
read -r id <$here/ids
id=$((id + 1))
echo $id >$here/ids
while IFS= read -r line; do
    case $line in
        "#SBATCH --comment="*) comment=${line#*=} ;;
        "#SBATCH --job-name="*) name=${line#*=} ;;
        "#SBATCH --array="*) last=${line#*=} ;;
    esac
done
row() { echo "$1|PENDING|Priority|N/A||${comment//\\"/}|${name//\\"/}" >$here/queue/$1; }
if [ -z "${last-}" ]; then row $id; else for i in $(seq 0 ${last#0-}); do row ${id}_$i; done; fi
[ -z "${mute-}" ] || exit 1
echo $id
"""
_SQUEUE = r"""
shopt -s nullglob
for job in $here/queue/*; do
    IFS= read -r line 2>/dev/null <$job || continue
    case "$* $line" in
        *"-t all"* | *"|PENDING|"* | *"|CONFIGURING|"* | *"|RUNNING|"* | *"|COMPLETING|"*) ;;
        *) continue ;;
    esac
    IFS='|' read -r id state _ _ _ _ name <<<"$line"
    case "$*" in *"%i %T %j"*) echo "$id $state $name" ;; *) echo "$line" ;; esac
done
rc=0
[ ! -e $here/squeue.fails ] || { echo "squeue: error: Unable to contact slurm controller" >&2; rc=1; }
echo >>$here/squeue.calls
exit $rc
"""
_SCANCEL = """
printf '%s\\n' "$@" >>$here/scancel.calls
[ -e $here/scancel.ignored ] || (cd $here/queue && rm -f -- "$@")
"""
_SACCT = """
if [ -e $here/sacct.says ]; then says=$(<$here/sacct.says); else off=1; fi
echo "$*" >>$here/sacct.calls  # after it was read: whoever sees one call more than before knows what it has found
[ -z "${off-}" ] || { echo "Slurm accounting storage is disabled" >&2; exit 1; }
[ -z "$says" ] || echo "$says"
"""
_SCONTROL = """
case "$1 $2" in
    "show config") cat $here/config 2>/dev/null ;;
    "show job")
        echo "$3" >>$here/shown.calls
        if [ -e $here/squeue.fails ]; then
            echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2
            exit 1
        fi
        for job in $here/queue/$3 $here/unlisted/$3; do
            [ -e $job ] || continue
            IFS='|' read -r id state _ _ nodes comment name <$job
            echo "JobId=$id JobName=$name"
            echo "   JobState=$state Reason=None Dependency=(null)"
            echo "   Comment=$comment"
            exit 0
        done
        case $3 in *_*) echo "Job $3 not found" ;; *) echo "slurm_load_jobs error: Invalid job id specified" >&2 ;; esac
        exit 1
        ;;
esac
"""


class PaperSlurm:
    """What its programs were asked, and what they answer. Jobs stay as they are until somebody says otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = {
            "sbatch": _SBATCH, "squeue": _SQUEUE, "scancel": _SCANCEL, "sacct": _SACCT, "scontrol": _SCONTROL,
        }  # fmt: skip
        (folder / "bin").mkdir(parents=True)
        (folder / "queue").mkdir()
        (folder / "hangs").mkdir()
        (folder / "ids").write_text("100\n")
        for name, text in programs.items():
            path = folder / "bin" / name
            path.write_text(f"#!/bin/bash\nhere={folder}\n{text}")
            path.chmod(0o755)
        self.env = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}

    def calls(self, program: str) -> list[str]:
        """What it was asked, a line for each thing."""
        path = self.folder / f"{program}.calls"
        return path.read_text().splitlines() if path.exists() else []

    def words(self) -> list[str]:
        """All words of each sbatch."""
        path = self.folder / "sbatch.words"
        return path.read_text().splitlines() if path.exists() else []

    def sbatch(self, text: str) -> None:
        """Shell that each sbatch runs before it takes the job; `$did`: the calls until now; `mute=1`: it takes the job
        and answers nothing; `hang`: it answers nothing until `close`."""
        (self.folder / "sbatch.does").write_text(text + "\n")

    def refuse(self, words: str, *, times: int = 1000) -> None:
        """sbatch takes nothing, and says so."""
        self.sbatch(f"[ $did -gt {times} ] || {{ echo 'sbatch: error: {words}' >&2; exit 1; }}")

    def silence(self, *, silent: bool = True) -> None:
        """squeue fails, having printed what it knows."""
        mark = self.folder / "squeue.fails"
        mark.touch() if silent else mark.unlink()

    def close(self) -> None:
        """Programs that hang end."""
        (self.folder / "hangs").rmdir()

    def keep(self) -> None:
        """scancel changes nothing."""
        (self.folder / "scancel.ignored").touch()

    def accounts(self, *lines: str) -> None:
        """What sacct says; the accounting is off until this."""
        (self.folder / "sacct.says").write_text("".join(f"{line}\n" for line in lines))

    def row(self, job: str, state: str, *, reason: str = "None", start: str = "N/A", nodes: str = "", text: str = "",
            name: str = "x") -> None:  # fmt: skip
        """A line of the queue. *text*: the job's comment, that which it has where it is listed."""
        path = self.folder / "queue" / job
        text = text or path.read_text().split("|")[5]
        new = path.with_name(f".{job}")
        new.write_text(f"{job}|{state}|{reason}|{start}|{nodes}|{text}|{name}\n")
        new.replace(path)

    def drop(self, job: str) -> None:
        """The queue forgets it."""
        (self.folder / "queue" / job).unlink()

    def unlist(self, job: str) -> None:
        """squeue does not show it any more, the controller still does."""
        (self.folder / "unlisted").mkdir(exist_ok=True)
        (self.folder / "queue" / job).rename(self.folder / "unlisted" / job)

    def states(self, token: str) -> list[str]:
        """Of the jobs whose comment names it."""
        lines = [path.read_text() for path in sorted((self.folder / "queue").glob("[0-9]*"))]
        return [line.split("|")[1] for line in lines if token in line]
