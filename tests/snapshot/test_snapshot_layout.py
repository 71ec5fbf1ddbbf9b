"""What of a repository is copied, and what is a link to the real one."""

from __future__ import annotations

from collections.abc import Collection

from tests.inside.snapshot import MANY, MOST_BYTES, MOST_FILE_BYTES, Layout, layout_of


def layout(
    tracked: tuple[str, ...] = ("train.py",),
    untracked: tuple[tuple[str, int], ...] = (),
    ignored: tuple[str, ...] = (),
    linked: tuple[str, ...] = (),
    absent: Collection[str] = (),
) -> Layout:
    return layout_of(tracked, untracked, ignored, linked, absent)


def test_ignored_folders_are_links_and_caches_are_neither() -> None:
    found = layout(ignored=("data/", "src/__pycache__/", "a.pyc", "src/big.bin"))
    assert found.links == ("data", "src/big.bin")


def test_untracked_files_are_copied_up_to_a_size_each_and_all_together() -> None:
    most = MOST_BYTES // MOST_FILE_BYTES
    files = [("new.py", 10), ("model.pt", MOST_FILE_BYTES + 1)]
    files += [(f"data/{number:03}.bin", MOST_FILE_BYTES) for number in range(most + 1)]
    found = layout(untracked=tuple(files))
    assert "new.py" in found.added
    assert len(found.added) == most, "the small file takes the place of the last large one"
    assert found.left_out == (f"data/{most - 1:03}.bin", f"data/{most:03}.bin", "model.pt")
    assert set(found.left_out) == set(found.links)


def test_many_files_that_are_left_out_are_one_link_for_their_folder() -> None:
    files = tuple((f"new/set/{number}.bin", MOST_FILE_BYTES + 1) for number in range(MANY + 1))
    assert layout(untracked=files).links == ("new",)


def test_folders_that_tasks_write_to_are_links_and_what_is_tracked_there_is_named() -> None:
    found = layout(("train.py", "out/old.txt", "out/.gitkeep"), (("out/new.txt", 1),), linked=("out", "out/deep"))
    assert (found.links, found.added, found.unfrozen) == (("out",), (), ("out/old.txt",))


def test_a_folder_that_git_only_keeps_is_a_link() -> None:
    assert layout(("train.py", "ckpt/.gitkeep", "src/.gitkeep", "src/a.py")).links == ("ckpt",)


def test_submodules_and_repositories_inside_are_links_and_the_deck_s_state_is_not_there() -> None:
    found = layout(("train.py", "lib"), (("own/", 0),), (".gpudeck/",), ("lib",), {".gpudeck"})
    assert found.links == ("lib", "own")
