"""The table of requests, and the encoder that it is written with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.hbase import Dialect

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # for ``request_table``

from request_table import CASES, SERVICES, Case, Encoder  # noqa: E402


@pytest.fixture(params=CASES, ids=lambda case: f"{case.dialect.value} {case.method}: {case.name}")
def case(request: pytest.FixtureRequest) -> Case:
    """Every request of the table, one after the other."""
    found: Case = request.param
    return found


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    """The whole table."""
    return CASES


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return Encoder()


@pytest.fixture
def services() -> dict[Dialect, Any]:
    """The interfaces as HBase defines them."""
    return dict(SERVICES)
