"""The wheel of ``make wheel`` does what the sources do: their own tests say so."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Compiled classes take no doubles of each other, and their methods cannot be replaced.
FILES_WITH_DOUBLES = (
    "incoming/test_guarded_sessions.py",
    "connections/test_session_stages.py",
)
LISTENING = "connections/test_listening.py::"
WITH_DOUBLES = (
    "writes/test_notify_cells.py::test_the_journal_keeps_a_request_as_the_client_sent_it",
    "writes/test_full_journal.py::test_once_a_gap_is_over_it_is_written_down_no_more",
    f"{LISTENING}test_an_address_that_others_have_is_named",
    f"{LISTENING}test_a_client_whose_host_vanishes_is_found_by_the_kernel",
    f"{LISTENING}test_a_listener_with_rules_is_guarded_by_them",
    f"{LISTENING}test_a_listener_with_tls_shakes_hands_with_hosts_of_its_networks",
    f"{LISTENING}test_other_limits_hold_for_clients_that_are_there",
    f"{LISTENING}test_other_rules_hold_for_clients_that_are_there",
)
SESSIONS = "tests/observer/sessions"


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("cc") is None, reason="compiling needs a C compiler")
def test_the_compiled_modules_pass_the_tests_of_their_sources(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    build += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(build, env={**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "package")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "package")}
    where = "import headgate.observer.sessions.session as s; print(s.__file__)"
    run = [sys.executable, "-c", where]
    found = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
    assert found.stdout.strip().endswith(".so")
    tests = ["tests/wire", "tests/hbase", "tests/observer"]
    run = [sys.executable, "-m", "pytest", "-q", "-m", "not stack and not soak"]
    run += [f"--ignore={SESSIONS}/{name}" for name in FILES_WITH_DOUBLES]
    run += [f"--deselect={SESSIONS}/{name}" for name in WITH_DOUBLES]
    run += tests
    subprocess.run(run, env=environment, cwd=ROOT, check=True)
