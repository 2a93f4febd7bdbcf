"""Identity of a run, as files say it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import structs

from headgate.flows import RunIdentity, declared_identity, parse_dataflow
from headgate.spark import StepEnded, StepRequest, Thrift2Address, file_digests, run_identity
from headgate.spark.messages import decode_message, decode_reply, encode_line
from headgate.spark.worker.identities import DependencyError, code_in, identity_on_disk

FLOW = parse_dataflow(
    """
name: air
containers: {a: t f:a}
actions:
  clean: {step: "steps:clean", reads: a, depends: [model.json, /etc/rates]}
""",
    "air.yaml",
)
REQUEST = StepRequest("air", "clean", "r", 1, 1, "steps:clean", Thrift2Address("h", 1), "k")


def test_files_count_by_what_they_contain(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    file.write_bytes(b"1")

    assert file_digests({"model.json": str(file)}) == {"model.json": sha256(b"1").hexdigest()}


@pytest.mark.parametrize(
    ("path", "reason"), [("gone", "cannot be read: No such file"), (".", "is a directory")]
)
def test_a_file_that_is_not_there_is_named_with_the_cure(
    path: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(DependencyError, match=f"`depends` names `model.json`.*{reason}.*put the"):
        file_digests({"model.json": str(tmp_path / path)})


def test_a_run_has_an_identity_where_its_agent_says_what_it_computes() -> None:
    declared = declared_identity(FLOW, "clean")
    asked = decode_message(encode_line(structs.replace(REQUEST, computes=declared)))
    assert isinstance(asked, StepRequest)

    known = run_identity(asked, {"steps": "1"}, {})

    assert run_identity(REQUEST, {"steps": "1"}, {}) == RunIdentity()
    assert known.differing(run_identity(asked, {"steps": "2"}, {})) == ("code",)
    assert known.differing(run_identity(asked, {"steps": "1"}, {"model.json": "1"})) == ("files",)
    assert known.hash != run_identity(asked, {"steps": "2"}, {}).hash


def test_messages_of_a_worker_of_before_have_no_identity() -> None:
    line = b'{"type":"ended","run":"r","attempt":1,"ending":"committed","seconds":1.0}\n'

    ended = decode_reply(line)

    assert isinstance(ended, StepEnded)
    assert ended.identity == RunIdentity()


def test_code_on_disk_is_found_in_modules_and_packages(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("from tools import scale\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("scale = 1\n")
    before = identity_on_disk(FLOW, "clean", tmp_path)

    (tmp_path / "tools" / "__init__.py").write_text("scale = 2  # doubled\n")

    assert list(code_in("steps:clean", [str(tmp_path)])) == ["steps", "tools"]
    assert identity_on_disk(FLOW, "clean", tmp_path).differing(before) == ("code",)
