"""What tests of the command line have in common."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from typer.main import get_command


@pytest.fixture(scope="session", autouse=True)
def _commands() -> Iterator[None]:
    """Have commands made once: to make them anew for each call is half of what it costs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield
