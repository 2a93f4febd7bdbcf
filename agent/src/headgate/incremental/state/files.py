"""Files of state, wherever they are: each is written once, and checked when it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs
from msgspec import Struct
from xxhash import xxh3_128

from headgate.incremental.state.cache import FileCache
from headgate.incremental.state.errors import DamagedState, UnwrittenFile

_PORTION = 1 << 22
"""Bytes read at a time where all of a file is read: memory, against calls over a network."""
_WITHOUT_FOLDERS = frozenset({"s3", "gcs", "abfs"})
"""File systems that keep objects: what looks like a folder is a part of a name."""


class FileRef(Struct, frozen=True, array_like=True):
    """What a manifest says of a file: enough to know it again, and to read only parts of it."""

    name: str
    length: int
    """Bytes."""
    checksum: bytes
    """xxHash3, 128 bits, of the whole content."""
    rows: int = 0
    first: int = 0
    """The smallest hash; of a file without rows, or of rows without hashes, above ``last``."""
    last: int = -1
    """The largest hash."""
    marks: tuple[int, ...] = ()
    """The smallest hash of each record batch: which of them a look-up has to read."""


class Sink:
    """A file that is being written: counts and checks what goes into it."""

    def __init__(self, file: BinaryIO | pa.NativeFile) -> None:
        self._file = file
        self._checksum = xxh3_128()
        self.length = 0
        self.closed = False

    @property
    def checksum(self) -> bytes:
        """Of what was written so far."""
        return self._checksum.digest()

    def write(self, data: bytes) -> int:
        """Write bytes, or whatever has them as a buffer."""
        self._file.write(data)
        self._checksum.update(data)
        size = memoryview(data).nbytes
        self.length += size
        return size

    def writable(self) -> bool:
        """Say that it can be written, as Arrow asks."""
        return True

    def flush(self) -> None:
        """Leave what is written where it is: it counts once the file is whole."""

    def close(self) -> None:
        """Leave the file open: whoever opened it closes it."""
        self.closed = True


class FileStore:
    """Files of state below a root. Instances can be pickled: tasks of Spark open their own.

    Args:
        filesystem: any of ``pyarrow.fs``.
        root: the path in it below which all files are.
        cache: where copies go of files that cannot be mapped; without one they are read by ranges.
    """

    def __init__(
        self, filesystem: pafs.FileSystem, root: str, cache: FileCache | None = None
    ) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._cache = cache
        self._local = isinstance(filesystem, pafs.LocalFileSystem)

    @classmethod
    def at(cls, location: str | Path, cache: FileCache | None = None) -> FileStore:
        """Return the store at a path of this machine, or at any URI that ``pyarrow.fs`` knows.

        Raises:
            ValueError: nothing of the kind.
        """
        if "://" in str(location):
            filesystem, root = pafs.FileSystem.from_uri(str(location))
            return cls(filesystem, root, cache)
        return cls(pafs.LocalFileSystem(), str(Path(location).absolute()), cache)

    def path(self, name: str) -> str:
        """Return where a file is: what errors name."""
        return f"{self._root}/{name}"

    @contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        """Write a new file; it lasts, once the block has ended.

        If the block or the disk fails, nothing is left of the file.

        Raises:
            UnwrittenFile: there is a file of this name, or it could not be written.
        """
        try:
            file = self._created(name)
        except OSError as error:
            raise self._unwritten(name, error) from error
        try:
            sink = Sink(file)
            yield sink
            if self._local:
                file.flush()
                os.fsync(file.fileno())
                _settle(Path(self.path(name)).parent)
            file.close()
        except BaseException as error:
            self._give_up(name, file)
            if isinstance(error, OSError):
                raise self._unwritten(name, error) from error
            raise

    def _created(self, name: str) -> BinaryIO | pa.NativeFile:
        path = self.path(name)
        parent = path.rpartition("/")[0]
        if self._local:
            Path(parent).mkdir(parents=True, exist_ok=True)
            return Path(path).open("xb")
        if self._filesystem.type_name not in _WITHOUT_FOLDERS:
            self._filesystem.create_dir(parent)
        if self._filesystem.get_file_info(path).type != pafs.FileType.NotFound:
            message = "there is a file of this name"
            raise FileExistsError(message)
        return self._filesystem.open_output_stream(path)

    def _give_up(self, name: str, file: BinaryIO | pa.NativeFile) -> None:
        """Remove what was written of a file; what stands in the way of that is not the fault."""
        for step in (file.close, lambda: self.remove(name)):
            try:
                step()
            except OSError:
                continue  # the fault is being raised already; collection finds what is left

    def _unwritten(self, name: str, error: OSError) -> UnwrittenFile:
        message = (
            f"{self.path(name)} could not be written ({error}); the last epoch stands: "
            "make room, or mend the file system, and run the stage again"
        )
        return UnwrittenFile(message)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a new file of these bytes.

        Raises:
            UnwrittenFile: there is a file of this name, or it could not be written.
        """
        with self.writing(name) as sink:
            sink.write(data)

    def place_bytes(self, name: str, data: bytes) -> None:
        """Have a file hold these bytes, of which nobody sees a part; one that is there stays.

        Several may do it at one time with the same bytes.

        Raises:
            UnwrittenFile: it could not be written.
        """
        if self.has(name):
            return
        whole_at_once = self._filesystem.type_name in _WITHOUT_FOLDERS
        parent, _, last = name.rpartition("/")
        written = name if whole_at_once else f"{parent}/.{last}.{uuid4().hex}"
        try:
            self.write_bytes(written, data)
            if not whole_at_once:
                self._move(written, name)
        except OSError as error:
            if written != name:
                self.remove(written)
            if self.has(name):
                return  # somebody else was first
            raise self._unwritten(name, error) from error

    def _move(self, written: str, name: str) -> None:
        if self._local:
            Path(self.path(written)).replace(self.path(name))
            _settle(Path(self.path(name)).parent)
        else:
            self._filesystem.move(self.path(written), self.path(name))

    def has(self, name: str) -> bool:
        """Return whether there is a file of a name."""
        found = self._filesystem.get_file_info(self.path(name))
        return found.type is pafs.FileType.File

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all that is in it; it may be gone already."""
        try:
            self._filesystem.delete_dir(self.path(name))
        except FileNotFoundError:
            return

    def listed(self) -> list[pafs.FileInfo]:
        """Return all files below the root with their times and lengths; none where it is missing.

        Raises:
            OSError: the file system does not say.
        """
        selector = pafs.FileSelector(self._root, allow_not_found=True, recursive=True)
        found = self._filesystem.get_file_info(selector)
        return [info for info in found if info.type is pafs.FileType.File]

    def read_bytes(self, name: str) -> bytes:
        """Return all that is in a file.

        Raises:
            DamagedState: it is missing.
        """
        try:
            with self._filesystem.open_input_file(self.path(name)) as file:
                data: bytes = file.read()
        except FileNotFoundError as error:
            raise DamagedState(self.path(name), "is missing") from error
        return data

    def open_input(self, name: str) -> pa.NativeFile:
        """Return a file for reading, of which nothing is known but its name.

        Raises:
            OSError: it is missing, or cannot be read.
        """
        return self._filesystem.open_input_file(self.path(name))

    def length(self, name: str) -> int:
        """Return how many bytes a file has.

        Raises:
            DamagedState: it is missing.
        """
        return int(self._info(name).size or 0)

    def open(self, ref: FileRef) -> pa.NativeFile:
        """Return a file for reading: mapped if it is here or in the cache, else read by ranges.

        Raises:
            DamagedState: it is missing, or has not the length that the manifest says.
        """
        try:
            file = self._opened(ref)
        except FileNotFoundError as error:
            raise DamagedState(self.path(ref.name), "is missing") from error
        length = file.size()
        if length != ref.length:
            file.close()
            raise self._cut_short(ref, length)
        return file

    def _opened(self, ref: FileRef) -> pa.NativeFile:
        path = self.path(ref.name)
        if self._local:
            if not Path(path).stat().st_size:
                return pa.BufferReader(b"")  # nothing can be mapped
            return pa.memory_map(path)
        if self._cache is not None and self._cache.takes(ref.length):
            name = xxh3_128(f"{self._filesystem.type_name}:{path}".encode()).hexdigest()
            try:
                return self._cache.find(name) or self._cache.add(name, self.portions(ref))
            except OSError:
                pass  # a full disk here is no reason not to read what is elsewhere
        return self._filesystem.open_input_file(path)

    def check(self, ref: FileRef) -> None:
        """Check that a file that is open is still in its place; a copy of it needs none.

        Raises:
            DamagedState: it is missing, or has not the length that the manifest says.
        """
        if not self._local:
            return
        path = self.path(ref.name)
        try:
            length = os.stat(path).st_size  # noqa: PTH116 - a third of the time, for each file
        except FileNotFoundError as error:
            raise DamagedState(path, "is missing") from error
        if length != ref.length:
            raise self._cut_short(ref, length)

    def _cut_short(self, ref: FileRef, length: int) -> DamagedState:
        wrong = f"has {length} bytes instead of the manifest's {ref.length}"
        return DamagedState(self.path(ref.name), wrong)

    def portions(self, ref: FileRef) -> Iterator[bytes]:
        """Yield all of a file, and check in the end that it is what was written.

        Raises:
            DamagedState: it is missing, or differs from what was written.
        """
        checksum, length = xxh3_128(), 0
        try:
            with self._filesystem.open_input_file(self.path(ref.name)) as file:
                while portion := file.read(_PORTION):
                    checksum.update(portion)
                    length += len(portion)
                    yield portion
        except FileNotFoundError as error:
            raise DamagedState(self.path(ref.name), "is missing") from error
        if length != ref.length:
            raise self._cut_short(ref, length)
        if checksum.digest() != ref.checksum:
            raise DamagedState(self.path(ref.name), "was altered: its checksum differs")

    def verify(self, ref: FileRef) -> None:
        """Read all of a file, and check that it is what was written.

        Raises:
            DamagedState: it is missing, or differs from what was written.
        """
        for _ in self.portions(ref):
            pass

    def modified(self, name: str) -> int:
        """Return when a file was written, in nanoseconds of Unix time.

        Raises:
            DamagedState: it is missing.
        """
        return int(self._info(name).mtime_ns or 0)

    def _info(self, name: str) -> pafs.FileInfo:
        info = self._filesystem.get_file_info(self.path(name))
        if info.type is not pafs.FileType.File:
            raise DamagedState(self.path(name), "is missing")
        return info

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all files that begin with a prefix, sorted."""
        parent = prefix.rpartition("/")[0]
        selector = pafs.FileSelector(
            self.path(parent).rstrip("/"), allow_not_found=True, recursive=True
        )
        start = len(self._root) + 1
        names = (
            info.path[start:]
            for info in self._filesystem.get_file_info(selector)
            if info.type == pafs.FileType.File
        )
        return sorted(name for name in names if name.startswith(prefix))

    def remove(self, name: str) -> None:
        """Remove a file; it may be gone already."""
        try:
            self._filesystem.delete_file(self.path(name))
        except FileNotFoundError:
            return  # two collections at once


def _settle(folder: Path) -> None:
    """Have the disk know which files a folder has."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
