"""The cell that ``headgate doctor`` writes and reads back."""

from __future__ import annotations

from headgate.observer.doctor.sample_write import newest


def test_timestamps_are_found_in_the_replies_of_both_dialects() -> None:
    thrift1 = {0: [{1: b"v", 2: 2000}, {1: b"v", 2: 3000}]}
    thrift2 = {0: {1: b"row", 2: [{1: b"f", 2: b"q", 3: b"v", 4: 5000}]}}
    assert (newest(thrift1), newest(thrift2), newest({0: []})) == (3.0, 5.0, None)
