"""The pinned jars: fetched through jgo, kept once per user, trusted only by their checksums.

``hbase-conf/<group>/jgo.toml`` says what is wanted and ``jgo.lock.toml`` beside it every jar with
its SHA-256. Resolution starts from the lock, so no POM is read. ``python -m headgate.local.jars
FOLDER`` writes the lock of a folder anew after its ``jgo.toml`` has changed.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec
import requests
from jgo.config import GlobalSettings
from jgo.env import EnvironmentBuilder, EnvironmentSpec, LockFile, compute_spec_hash
from jgo.maven import Artifact, MavenContext

from headgate.local.checksums import sha256_of
from headgate.local.errors import ChecksumMismatchError, JarsUnavailableError, LocalStackError
from headgate.local.processes.locks import exclusive
from headgate.local.progress import Listener, Progress

_TIMEOUT_SECONDS = 30  # of one request's silence
_BACKOFF_SECONDS = (1.0, 4.0)  # between the attempts of one jar: three in all
_DOWNLOADS = 8  # at once: a registry's latency, not its bandwidth, is what costs
_LOCK_SECONDS = 900.0  # another stack of the user downloads the same jars: wait for it


class PinnedJar(msgspec.Struct, frozen=True):
    """One jar of a lock.

    Attributes:
        coordinate: ``group:artifact:version`` with the classifier, if any.
        path: Its place in a repository's layout, relative.
        sha256: The checksum that it must have, hexadecimal.
    """

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """Return what people call it."""
        suffix = f":{self.classifier}" if self.classifier else ""
        return f"{self.group}:{self.artifact}:{self.version}{suffix}"

    @property
    def path(self) -> Path:
        """Return its place in the layout of a Maven repository."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        name = f"{self.artifact}-{self.version}{suffix}.jar"
        return Path(*self.group.split("."), self.artifact, self.version, name)


def read_lock(folder: Path) -> list[PinnedJar]:
    """Return the jars that a folder's ``jgo.lock.toml`` pins, in class path order.

    Raises:
        LocalStackError: If the lock is missing, belongs to another ``jgo.toml``, or pins a jar
            without a checksum.
    """
    cure = f"run: python -m headgate.local.jars {folder}"
    try:
        lock = LockFile.load(folder / "jgo.lock.toml")
    except (OSError, ValueError, KeyError) as error:
        raise LocalStackError(
            f"{folder / 'jgo.lock.toml'} cannot be read ({error}); {cure}"
        ) from error
    if lock.spec_hash != compute_spec_hash(folder / "jgo.toml"):
        raise LocalStackError(f"{folder / 'jgo.toml'} has changed since it was locked; {cure}")
    jars = []
    for locked in lock.dependencies:
        if not locked.sha256:
            raise LocalStackError(
                f"{folder / 'jgo.lock.toml'} pins {locked.artifactId} without sha256; {cure}"
            )
        jars.append(
            PinnedJar(
                group=locked.groupId,
                artifact=locked.artifactId,
                version=locked.version,
                classifier=locked.classifier or "",
                sha256=locked.sha256,
            )
        )
    return jars


class JarStore:
    """A user's jars below ``cache/jars``, shared by all instances and safe for several at once.

    A jar comes into the store by one rename after its checksum was found right, so an
    interrupted download leaves nothing that is taken for a jar.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._jars = cache / "jars"
        self._staging = cache / "staging"

    def provide(self, jars: Sequence[PinnedJar], listen: Listener) -> list[Path]:
        """Return the jars' files, in their order, each verified now; fetch those missing.

        Raises:
            JarsUnavailableError: If no repository delivers one of them.
            ChecksumMismatchError: If what was delivered is not what is pinned.
        """
        missing = self._missing(jars)
        if missing:
            with exclusive(
                self._cache / "jars.lock",
                _LOCK_SECONDS,
                lambda text: listen(Progress(subject="jars", text=text)),
            ):
                # Another process may have fetched them while this one waited.
                self._fetch_all(self._missing(jars), listen)
        return [self._jars / jar.path for jar in jars]

    def _missing(self, jars: Sequence[PinnedJar]) -> list[PinnedJar]:
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            sums = list(pool.map(lambda jar: sha256_of(self._jars / jar.path), jars))
        return [jar for jar, found in zip(jars, sums, strict=True) if found != jar.sha256]

    def _fetch_all(self, jars: Sequence[PinnedJar], listen: Listener) -> None:
        if not jars:
            return
        total = len(jars)
        listen(Progress(subject="jars", text="fetching", done=0, total=total))
        with self._fresh_staging() as staging, ThreadPoolExecutor(_DOWNLOADS) as pool:
            context = _context(staging)
            fetches = [pool.submit(self._fetch, jar, context) for jar in jars]
            try:
                for done, fetch in enumerate(as_completed(fetches), start=1):
                    fetch.result()
                    listen(Progress(subject="jars", text="fetching", done=done, total=total))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    @contextlib.contextmanager
    def _fresh_staging(self) -> Iterator[Path]:
        # The lock is held: whatever lies here was left by a process that was killed.
        shutil.rmtree(self._staging, ignore_errors=True)
        self._staging.mkdir(mode=0o700, parents=True)
        try:
            yield Path(tempfile.mkdtemp(dir=self._staging))
        finally:
            shutil.rmtree(self._staging, ignore_errors=True)

    def _fetch(self, jar: PinnedJar, context: MavenContext) -> None:
        artifact = (
            context.project(jar.group, jar.artifact)
            .at_version(jar.version)
            .artifact(jar.classifier)
        )
        fetched = _download(jar, artifact)
        found = sha256_of(fetched)
        if found != jar.sha256:
            raise ChecksumMismatchError(
                f"{jar.coordinate} was delivered with sha256 {found}, but the lock pins "
                f"{jar.sha256}. It is not used. Either the repository or a mirror on the way "
                "changed it, or the lock is wrong: compare both with the publisher's checksum"
            )
        place = self._jars / jar.path
        place.parent.mkdir(parents=True, exist_ok=True)
        fetched.replace(place)


def _context(cache: Path) -> MavenContext:
    """Return jgo's context with the repositories of the user's own jgo settings first."""
    context = MavenContext(repo_cache=cache, timeout=_TIMEOUT_SECONDS)
    context.remote_repos = {**GlobalSettings.load().repositories, **context.remote_repos}
    return context


def _download(jar: PinnedJar, artifact: Artifact) -> Path:
    for pause in (*_BACKOFF_SECONDS, None):
        try:
            return Path(artifact.resolve())
        except (requests.RequestException, RuntimeError, OSError) as error:
            partial = artifact.cached_path
            if partial is not None:
                partial.unlink(missing_ok=True)
            if pause is None:
                raise JarsUnavailableError(
                    f"{jar.coordinate} could not be fetched: {error}. Check the network, or name a "
                    "mirror under [repositories] in jgo's settings (~/.config/jgo.conf), and try "
                    "again; what has been fetched is kept"
                ) from error
            time.sleep(pause)
    raise AssertionError("unreachable: the last attempt returns or raises")


def write_lock(folder: Path) -> LockFile:
    """Resolve a folder's ``jgo.toml`` anew, with its POMs, and write ``jgo.lock.toml``."""
    spec = EnvironmentSpec.load_or_error(folder / "jgo.toml")
    with tempfile.TemporaryDirectory() as cache:
        context = _context(Path(cache))
        wanted = EnvironmentBuilder(context=context).spec_to_dependencies(spec)
        inputs, transitive = context.resolver.resolve(wanted)
        runtime = [each for each in transitive if each.scope in ("compile", "runtime")]
        lock = LockFile.from_resolved_dependencies(
            [*inputs, *runtime],
            environment_name=spec.name,
            spec_hash=compute_spec_hash(folder / "jgo.toml"),
        )
    lock.save(folder / "jgo.lock.toml")
    return lock


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {len(write_lock(Path(argument)).dependencies)} jars\n")
