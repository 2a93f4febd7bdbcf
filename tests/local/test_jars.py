"""Only jars with the pinned checksum come into the store, and whole ones only."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from jgo.maven import MavenContext

from headgate.local import ChecksumMismatchError, JarsUnavailableError, LocalStackError, Progress
from headgate.local import jars as jars_module
from headgate.local.jars import JarStore, PinnedJar, read_lock
from headgate.local.places import find_configuration

CONTENT = b"the jar's bytes"


def pinned(content: bytes = CONTENT, artifact: str = "thing") -> PinnedJar:
    return PinnedJar(
        group="org.example",
        artifact=artifact,
        version="1.0",
        classifier="",
        sha256=hashlib.sha256(content).hexdigest(),
    )


class Repository:
    """A Maven repository on this host, which the store takes its jars from."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.requests: list[str] = []

    def hold(self, jar: PinnedJar, content: bytes) -> None:
        place = self.folder / jar.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    folder = tmp_path / "repository"
    folder.mkdir()
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    served = Repository(folder, f"http://127.0.0.1:{server.server_port}")
    served.requests = asked
    monkeypatch.setattr(
        jars_module,
        "_context",
        lambda cache: MavenContext(repo_cache=cache, remote_repos={"here": served.address}),
    )
    monkeypatch.setattr(jars_module, "_BACKOFF_SECONDS", ())
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


def silent(_: Progress) -> None:
    pass


def files_of(cache: Path) -> list[str]:
    return sorted(each.name for each in cache.rglob("*") if each.suffix == ".jar")


def test_a_jar_is_fetched_once(tmp_path: Path, repository: Repository) -> None:
    repository.hold(pinned(), CONTENT)
    store = JarStore(tmp_path / "cache")
    (path,) = store.provide([pinned()], silent)
    assert path.read_bytes() == CONTENT
    asked = len(repository.requests)
    store.provide([pinned()], silent)
    assert len(repository.requests) == asked


def test_a_jar_with_another_checksum_is_refused_and_not_kept(
    tmp_path: Path, repository: Repository
) -> None:
    repository.hold(pinned(), b"something else")
    with pytest.raises(ChecksumMismatchError, match=r"org.example:thing:1.0.*It is not used"):
        JarStore(tmp_path / "cache").provide([pinned()], silent)
    assert files_of(tmp_path / "cache") == []


def test_a_jar_that_was_damaged_in_the_store_is_fetched_again(
    tmp_path: Path, repository: Repository
) -> None:
    repository.hold(pinned(), CONTENT)
    store = JarStore(tmp_path / "cache")
    (path,) = store.provide([pinned()], silent)
    path.write_bytes(b"damaged")
    store.provide([pinned()], silent)
    assert path.read_bytes() == CONTENT


def test_what_was_fetched_before_a_failure_is_kept(tmp_path: Path, repository: Repository) -> None:
    there, missing = pinned(), pinned(artifact="missing")
    repository.hold(there, CONTENT)
    store = JarStore(tmp_path / "cache")
    store.provide([there], silent)
    with pytest.raises(JarsUnavailableError, match=r"org.example:missing:1.0 could not be fetched"):
        store.provide([there, missing], silent)
    assert files_of(tmp_path / "cache") == ["thing-1.0.jar"]


def test_what_an_interrupted_download_left_is_cleared_away(
    tmp_path: Path, repository: Repository
) -> None:
    left = tmp_path / "cache" / "staging" / "x" / "thing-1.0.jar"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"the ja")
    repository.hold(pinned(), CONTENT)
    JarStore(tmp_path / "cache").provide([pinned()], silent)
    assert not left.exists()


def test_several_at_once_all_get_the_jar(tmp_path: Path, repository: Repository) -> None:
    repository.hold(pinned(), CONTENT)
    found: list[Path] = []

    def provide() -> None:
        found.extend(JarStore(tmp_path / "cache").provide([pinned()], silent))

    threads = [threading.Thread(target=provide) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [path.read_bytes() for path in found] == [CONTENT] * 4


def test_progress_is_counted(tmp_path: Path, repository: Repository) -> None:
    wanted = [pinned(artifact=name) for name in ("a", "b")]
    for each in wanted:
        repository.hold(each, CONTENT)
    told: list[Progress] = []
    JarStore(tmp_path / "cache").provide(wanted, told.append)
    assert [(each.done, each.total) for each in told] == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize("group", ["hbase", "kafka"])
def test_every_jar_of_the_stack_is_pinned(group: str) -> None:
    pins = read_lock(find_configuration() / group)
    assert pins
    assert all(len(bytes.fromhex(each.sha256)) == 32 for each in pins)
    assert len({each.path for each in pins}) == len(pins)


@pytest.mark.parametrize("group", ["hbase", "kafka"])
def test_no_pinned_jar_names_a_registry(group: str) -> None:
    folder = find_configuration() / group
    for name in ("jgo.toml", "jgo.lock.toml"):
        assert "://" not in (folder / name).read_text()


def test_jars_that_break_hbase_are_left_out() -> None:
    artifacts = {each.artifact for each in read_lock(find_configuration() / "hbase")}
    assert not artifacts & {"servlet-api", "jsp-api"}


def test_a_lock_that_is_older_than_its_toml_is_refused(tmp_path: Path) -> None:
    source = find_configuration() / "kafka"
    (tmp_path / "jgo.lock.toml").write_text((source / "jgo.lock.toml").read_text())
    (tmp_path / "jgo.toml").write_text((source / "jgo.toml").read_text() + "\n# changed\n")
    with pytest.raises(LocalStackError, match="has changed since it was locked"):
        read_lock(tmp_path)


def test_a_missing_lock_is_named_with_its_cure(tmp_path: Path) -> None:
    with pytest.raises(LocalStackError, match=r"python -m headgate.local.jars"):
        read_lock(tmp_path)
