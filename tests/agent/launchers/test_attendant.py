"""What an attendant notes of a job that has failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.agent.launchers import attendant
from headgate.agent.launchers.attendant import Attendant
from headgate.flows import CommandLauncher
from headgate.spark import Ending


class Ledger:
    """Stands for a connection to the state table."""

    cell: bytes | None = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get(self, _table: str, _row: bytes, columns: Iterable[bytes]) -> dict[bytes, bytes]:
        return {} if self.cell is None else dict.fromkeys(columns, self.cell)

    def check_and_put(self, *at: object, **_: object) -> bool:
        put = at[4]
        assert isinstance(put, dict)
        (Ledger.cell,) = put.values()
        return True


def test_of_its_log_the_end_is_shown_however_long_the_lines(
    make_job: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendant, "Thrift2Connection", lambda *_: Ledger())
    files, job = make_job(CommandLauncher(("false",)))
    files.log.write_text("\n".join("x" * 100_000 for _ in range(50)) + "\nit failed")
    work = SimpleNamespace(start=lambda: None, outcome=lambda: "status 1", stop=lambda: None)
    Attendant(files, job, lambda: work).attend()
    ended = files.ended()
    assert ended is not None
    assert (ended.ending, ended.reason) == (Ending.FAILED, "status 1")
    assert ended.detail.endswith("\nit failed")
    assert len(ended.detail) <= 1 << 16
