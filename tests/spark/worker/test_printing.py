"""What threads print goes to the stream of each."""

from __future__ import annotations

import io
import threading

from headgate.spark.worker.printing import PrintedLines


def test_a_thread_prints_to_its_own_stream_and_others_to_the_common_one() -> None:
    common, own = io.StringIO(), io.StringIO()
    printed = PrintedLines(common)

    def step() -> None:
        with printed.to(own):
            print("step", file=printed)
        print("after", file=printed)

    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
    print("worker", file=printed)

    assert own.getvalue() == "step\n"
    assert common.getvalue() == "after\nworker\n"
