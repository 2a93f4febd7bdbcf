"""A publisher that has the topic of its table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # for ``published``


@pytest.fixture
def ready(bench):
    from published import PARTITIONS

    bench.publisher.prepare("t", values=True)
    bench.publisher.topic_ready("t", PARTITIONS)
    return bench
