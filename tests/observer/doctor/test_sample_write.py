"""The cell that ``headgate doctor`` writes and reads back."""

from __future__ import annotations

from headgate.observer.doctor.recognition import Reply
from headgate.observer.doctor.sample_write import newest


def test_timestamps_are_found_in_the_replies_of_both_dialects() -> None:
    thrift1 = Reply({0: [{1: b"v", 2: 2000}, {1: b"v", 2: 3000}]}, exception=False)
    thrift2 = Reply({0: {1: b"row", 2: [{1: b"f", 2: b"q", 3: b"v", 4: 5000}]}}, exception=False)
    nothing = Reply({0: []}, exception=False)
    assert (newest(thrift1), newest(thrift2), newest(nothing)) == (3.0, 5.0, None)
