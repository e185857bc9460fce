"""The atomic writer: only files are replaced, as a whole, and all else is written to."""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sibling_replay import files
from sibling_replay.files import make_writable, remove_leftovers, whole_file, write_whole


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "far" / "target"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to("far/target")
    second = tmp_path / "second"
    second.symlink_to(link)
    write_whole(second, b"new")
    assert second.is_symlink() and link.is_symlink() and not target.is_symlink()
    assert target.read_bytes() == b"new"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_link_to_nothing_yet_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("target")
    write_whole(link, b"new")
    assert os.readlink(link) == "target" and (tmp_path / "target").read_bytes() == b"new"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match=r"a'$") as caught:
        write_whole(tmp_path / "a", b"new")
    assert caught.value.errno == errno.ELOOP
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"through")
    reader.join()
    assert got == [b"through"] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # as root it could be replaced
        null.write_bytes(b"x")
    except OSError:
        pytest.skip("may not make device nodes here")
    write_whole(null, b"nowhere")
    assert stat.S_ISCHR(null.stat().st_mode) and null.read_bytes() == b""


@pytest.mark.parametrize("to", ["pipe", "file"])
def test_standard_output_gets_what_is_written_and_what_is_printed(tmp_path: Path, to: str) -> None:
    """A file that standard output was redirected to must not be replaced under the printer."""
    code = (
        "from sibling_replay.files import write_whole\n"
        "print('before', flush=True)\n"
        "write_whole('/dev/stdout', b'written\\n')\n"
        "print('after', flush=True)"
    )
    if to == "pipe":
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
        said = out.stdout
    else:
        with open(tmp_path / "out", "wb") as file:
            subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
        said = (tmp_path / "out").read_bytes()
    assert said == b"before\nwritten\nafter\n"


def test_a_folder_is_refused_and_stays(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [230, 255])
def test_names_as_long_as_names_can_be(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("n" * length)
    for content in (b"first", b"second"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_of_a_plain_file_or_of_the_one_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for umask in (0o022, 0o027, 0o077):
        before = os.umask(umask)
        try:
            write_whole(path, b"new")
        finally:
            os.umask(before)
        assert mode(path) == 0o666 & ~umask
        path.unlink()
    path.touch()
    path.chmod(0o640)
    write_whole(path, b"new")
    assert mode(path) == 0o640


def as_nobody(code: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    """Run code without root's rights, which no permission would stop."""
    rights = "import os, sys\nif os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
    imports = "from sibling_replay.files import make_writable, write_whole\nimport pathlib\n"
    return subprocess.run(
        [sys.executable, "-c", imports + rights + code, *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def open_place() -> Path:
    """A folder that other users can reach; pytest's own are for one user."""
    import shutil
    import tempfile

    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def test_a_file_that_may_not_be_written_is_not_replaced(open_place: Path) -> None:
    place = open_place / "open"
    place.mkdir()
    place.chmod(0o777)
    path = place / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    done = as_nobody("write_whole(sys.argv[1], b'new')", path)
    assert f"PermissionError: [Errno 13] Permission denied: '{path}'" in done.stderr
    assert path.read_bytes() == b"old" and list(place.iterdir()) == [path]


def test_a_folder_that_may_not_be_written_is_found_at_once(open_place: Path) -> None:
    place = open_place / "closed"
    place.mkdir(mode=0o555)
    done = as_nobody("make_writable(pathlib.Path(sys.argv[1]))", place)
    assert f"PermissionError: [Errno 13] Permission denied: '{place}'" in done.stderr
    done = as_nobody("write_whole(pathlib.Path(sys.argv[1]), b'new')", place / "file")
    assert f"Permission denied: '{place / 'file'}'" in done.stderr


def test_make_writable_makes_folders_and_leaves_nothing_in_them(tmp_path: Path) -> None:
    make_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotADirectoryError, match="Not a directory"):
            make_writable(path)


def test_a_file_that_grows_too_large_leaves_the_old_one_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match=r"file'$") as caught:
            write_whole(path, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG and caught.value.filename == str(path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_an_error_of_the_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_the_folder_is_forced_to_disk_after_the_rename(tmp_path: Path, monkeypatch) -> None:
    order: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        order.append(kind)
        real_fsync(descriptor)

    def replace(source: str, target: str) -> None:
        order.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files.os, "replace", replace)
    write_whole(tmp_path / "file", b"new")
    assert order == ["file", "rename", "folder"]


def test_leftovers_of_the_dead_go_and_all_else_stays(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = socket.gethostname()
    left = {f".x@{dead.pid}@{host}.tmp", f".sibling-replay-0a1b2c3d@{dead.pid}@{host}.tmp"}
    kept = {
        f".x@{os.getpid()}@{host}.tmp",
        f".x@{dead.pid}@another-{host}.tmp",
        f".x@abc@{host}.tmp",  # somebody else's
        f".x@{10**30}@{host}.tmp",
        f".x@-1@{host}.tmp",
        f"x@{dead.pid}@{host}.tmp",
        ".tmp",
        ".x.tmp",
    }
    folder = f".folder@{dead.pid}@{host}.tmp"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / folder).mkdir()
    for name in left | kept:
        (tmp_path / "a" / name).touch()
    assert remove_leftovers(tmp_path) == len(left)
    assert {path.name for path in (tmp_path / "a").iterdir()} == kept | {folder}


def test_a_killed_writer_leaves_a_file_that_is_known_as_its(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from sibling_replay.files import whole_file\n"
        "with whole_file(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "file"
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert len(list(tmp_path.iterdir())) == 1 and not path.exists()
    assert remove_leftovers(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []
