"""The one way this package writes files: whole or not at all, and never over what is no file.

A regular file is written beside its place, forced to disk and renamed, so that whoever is killed
or out of disk leaves the old file as it was. A symbolic link stays a link: its target is replaced.
What is no regular file (a pipe, a device, the terminal) is written to, never replaced.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write; it stands under `path` once the block has ended without an error.

    Its folder must exist. Permissions are those of the file replaced, or what `open` would give. An
    OSError names `path`.
    """
    try:
        old = _stat(path)
        plain = _plainly(path, old)
        if plain is not None:
            with open(plain, "wb") as file:
                yield file
            return
        with _replacing(os.path.realpath(path), old) as file:
            yield file
    except OSError as error:
        if error.errno is None:
            raise
        # Errors of writing name no file, those of opening the temporary one.
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that is there whole or not at all; see `whole_file`."""
    with whole_file(path) as file:
        file.write(content)


def make_writable(folder: Path) -> None:
    """Create a folder unless it is there, and raise the OSError that a later write would.

    For what is computed for hours before it is stored. Says which folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))  # a full disk may still take an empty file
    except OSError as error:
        number = errno.ENOTDIR if error.errno == errno.EEXIST else error.errno or errno.EIO
        raise OSError(number, os.strerror(number), str(folder)) from error


def remove_leftovers(root: Path) -> int:
    """Delete the unfinished files below `root` of writers killed on this host; returns how many.

    Such a file names its writer, so two writers may share a folder: files of the living, of other
    hosts and of other programs are left alone.
    """
    ours = re.compile(rf"\..+@(\d{{1,9}})@{re.escape(socket.gethostname())}\.tmp")
    removed = 0
    for path in root.rglob(".*.tmp"):
        name = ours.fullmatch(path.name)
        if name and not _alive(int(name[1])):
            with suppress(OSError):  # not ours after all, or not ours to delete
                path.unlink()
                removed += 1
    return removed


def _stat(path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _plainly(
    path: str | os.PathLike[str], found: os.stat_result | None
) -> str | os.PathLike[str] | int | None:
    """What to open to write without replacing, or None if the file can be replaced."""
    if found is None:
        return None
    if not stat.S_ISREG(found.st_mode):
        return path
    # `--json /dev/stdout > file`: a new file under that name would not have what is printed, and
    # a second opening would overwrite it.
    for standard in (1, 2):
        with suppress(OSError):  # closed
            if os.path.samestat(os.fstat(standard), found):
                return os.dup(standard)
    return None


@contextmanager
def _replacing(path: str, old: os.stat_result | None) -> Iterator[IO[bytes]]:
    if old is not None and not os.access(path, os.W_OK):  # a rename would not ask
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    folder = os.path.dirname(path)
    # Not made from the file's own name, which may be as long as names can be.
    name = f".sibling-replay-{secrets.token_hex(4)}@{os.getpid()}@{socket.gethostname()}.tmp"
    temporary = os.path.join(folder, name)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            if old is not None:
                with suppress(PermissionError):  # only root may give files away
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)  # the rename itself must survive a power cut
    finally:
        os.close(directory)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's process, but a process
    return True
