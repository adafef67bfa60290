"""The folder of a sandbox: who owns it, whether its owner still lives, and its removal.

A sandbox's folder is removed with everything in it, so nothing that is not known to be one is ever touched:
the mark is a lock file that the keeper holds for life. A folder with that mark and nobody holding it is a
dead sandbox's, and is swept.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from alnair.sandbox.locks import file_lock, try_lock
from alnair.sandbox.versions import cache_folder

MARK = "keeper.lock"
PREFIX = "alnair-sandbox-"


class FolderTaken(Exception):
    """The folder is another sandbox's, or holds something that is not ours to remove."""


class Folder:
    """A folder claimed for one sandbox, for as long as this object is not removed."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def remove(self) -> None:
        """Removes the folder, the mark last, so that a removal that was cut short can be finished by a sweep."""
        _remove(self.path)
        os.close(self._lock)


def claim(path: Path | None) -> Folder:
    """The given folder, or a fresh one under the system's place for temporary files."""
    # One at a time on this machine: a folder just made must not look dead before its mark is locked.
    with file_lock(cache_folder() / "sandboxes.lock"):
        if path is None:
            _sweep()
            path = Path(tempfile.mkdtemp(prefix=PREFIX))
        else:
            path = path.absolute()
            _clear(path)
        lock = try_lock(path / MARK)
        if lock is None:
            raise FolderTaken(f"{path} was taken by another sandbox this moment; try again")
        os.write(lock, f"{os.getpid()}\n".encode())
    return Folder(path, lock)


def keeper_of(path: Path) -> int | None:
    """The process that keeps the sandbox in a folder; None when none lives there."""
    try:
        lock = try_lock(path / MARK, make=False)
        if lock is not None:
            os.close(lock)
            return None
        text = (path / MARK).read_text("ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None  # it may be removed while we look
    return int(text) if text.isdigit() else None


def _clear(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise FolderTaken(f"{path} is not a folder; choose another --directory")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (path / MARK).is_file():
        keeper = keeper_of(path)
        if keeper is not None:
            raise FolderTaken(
                f"a sandbox runs in {path} (process {keeper}); choose another --directory, or stop it with"
                f" `alnair cluster down --directory {path}`"
            )
        _remove(path)
        path.mkdir(mode=0o700, parents=True)
    elif any(path.iterdir()):
        raise FolderTaken(
            f"{path} is not empty and no sandbox made it; a sandbox removes its folder at the end, so it needs its own"
        )


def _sweep() -> None:
    """Removes this user's folders of sandboxes whose keeper died without a chance to do it."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            ours = path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid()
            if ours and (path / MARK).is_file() and keeper_of(path) is None:
                _remove(path)
        except OSError:
            continue  # somebody else removes it at the same time


def _remove(path: Path) -> None:
    for entry in path.iterdir():
        if entry.name == MARK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
