"""happybase's own test suite: directly, through the observer, and with the drop-in.

The suite comes from happybase's source distribution, as requirements.lock pins it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from headgate.events import UpdateBatch
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack

ROOT = Path(__file__).resolve().parents[3]
PINNED = re.compile(r"^happybase==.*?(?=^\S)", re.MULTILINE | re.DOTALL)
TABLE = "happybase_tests_tmp_test1"

# The suite takes its port as text and uses a name that its release did not define; both were
# mended after it.
SURROUNDINGS = """
import builtins, os
import happybase.connection
import pytest

happybase.connection.DEFAULT_PORT = int(os.environ["THRIFT1_PORT"])
builtins.assert_raises = pytest.raises
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the suite."""
    folder = tmp_path_factory.mktemp("happybase")
    pinned = PINNED.search((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    assert pinned is not None
    (folder / "pinned.txt").write_text(pinned[0], encoding="utf-8")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    build = ["--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder)]
    fetched = subprocess.run(
        [*fetch, *build, "-r", str(folder / "pinned.txt")],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode:
        pytest.skip(f"happybase's source cannot be had: {fetched.stderr.strip()[-300:]}")
    (archive,) = folder.glob("happybase-*.tar.gz")
    shutil.unpack_archive(archive, folder)
    (tests,) = folder.glob("happybase-*/tests")
    (tests / "conftest.py").write_text(SURROUNDINGS, encoding="utf-8")
    return tests


def run_suite(
    suite: Path, address: tuple[str, int], report: Path, *through: str, **variables: str
) -> dict[str, str]:
    """Run it against a Thrift1 server; return the outcome of each test."""
    host, port = address
    pytest_words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", "."]
    environment = {**os.environ, "HAPPYBASE_HOST": host, "THRIFT1_PORT": str(port), **variables}
    ran = subprocess.run(
        [sys.executable, *through, *pytest_words],
        cwd=suite,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.is_file(), ran.stdout + ran.stderr
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failed = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcomes[f"{case.get('classname')}.{case.get('name')}"] = failed[0] if failed else "passed"
    return outcomes


@pytest.fixture(scope="module")
def direct(suite: Path, stack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    outcomes = run_suite(suite, stack.thrift1, tmp_path_factory.mktemp("direct") / "report.xml")
    assert len(outcomes) >= 27
    assert "failure" not in outcomes.values()
    return outcomes


def test_it_passes_through_the_observer_as_it_does_directly(
    suite: Path, stack, subscriber, direct, programs, tmp_path: Path
) -> None:
    name = f"o-{subscriber.control_topic[-6:]}"
    config = ObserverConfig(
        name=name,
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    programs.watch(TABLE)
    with ObserverProcess(config, tmp_path / "o1") as observer:
        assert run_suite(suite, observer.thrift1, tmp_path / "report.xml") == direct
    assert _events(programs, name)


def test_it_passes_with_the_drop_in_as_it_does_directly(
    suite: Path, stack, direct, programs, tmp_path: Path
) -> None:
    programs.watch(TABLE)
    through = ("-m", "headgate.cli", "exec")
    report = tmp_path / "report.xml"
    assert run_suite(suite, stack.thrift1, report, *through, **programs.variables) == direct
    assert _events(programs, programs.variables["HEADGATE_CLIENT_NAME"])


def _events(programs, observer: str) -> int:
    """Return how many cells the observer has told of."""
    return sum(
        len(message.rows)
        for message in programs.messages(TABLE)
        if isinstance(message, UpdateBatch) and message.observer.startswith(observer)
    )
