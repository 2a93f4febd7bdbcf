"""Records of vehicles: their minutes, how they are put, and the reader of recorded ones."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from linear_road.model import FEET_PER_SEGMENT
from linear_road.records import Field, Kind, Minute, RecordDataError, minutes_of, recorded
from road_scenes import journey, minute, report

REAL = Path(__file__).parents[4] / "shared/data/linear_road"
LINE = "0,{time},107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1"


def lines(*times):
    return "".join(LINE.format(time=time) + "\n" for time in times)


def test_a_minute_has_reports_and_queries_apart():
    both = minute(report(car=1, time=70, feet=5), journey(query=3, time=65, start=1, end=2))
    assert both.reports[:, Field.CAR].tolist() == [1]
    assert both.queries[:, Field.QUERY].tolist() == [3]
    assert both.label == "minute 1"


def test_records_are_put_as_the_lines_that_they_were_read_from(tmp_path):
    path = tmp_path / "two.dat"
    path.write_text(lines(60, 61))
    (read,) = recorded(path)
    assert list(read.puts()) == [
        (b"1-000000", {b"i:record": LINE.format(time=60).encode()}),
        (b"1-000001", {b"i:record": LINE.format(time=61).encode()}),
    ]


def test_rows_are_written_over_after_ten_minutes_and_not_before():
    one = minute(report(car=1, time=0, feet=5))
    rows = {next(Minute(number, one.records).puts())[0] for number in range(10)}
    assert len(rows) == 10
    assert {next(Minute(number, one.records).puts())[0] for number in range(10, 20)} == rows


def test_minutes_follow_each_other_and_quiet_ones_are_empty():
    times = [185, 59, 60, 0]
    found = list(minutes_of(np.array([report(car=1, time=t, feet=5) for t in times], np.int32)))
    assert [m.number for m in found] == [0, 1, 2, 3]
    assert [m.records[:, Field.TIME].tolist() for m in found] == [[0, 59], [60], [], [185]]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_record_is_read_plain_or_gzipped(tmp_path, compressed):
    path = tmp_path / ("record.dat.gz" if compressed else "record.dat")
    data = lines(5, 3).encode() + b"4,7,9,-1,0,-1,-1,-1,-1,6,20,10,2,100,-1\n"
    path.write_bytes(gzip.compress(data) if compressed else data)
    (read,) = recorded(path)
    assert read.records[:, Field.TIME].tolist() == [3, 5, 7]
    assert read.records[0].tolist() == [int(part) for part in LINE.format(time=3).split(",")]
    assert read.queries[0, [Field.QUERY, Field.START, Field.END]].tolist() == [6, 20, 10]


def wrong(old, new):
    return lines(0, 1) + LINE.format(time=2).replace(old, new, 1) + "\n" + lines(3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected lines of 15 whole numbers"),
        (wrong(",-1", ""), "Row #3: Expected 15 columns, got 14"),
        (wrong("107", "1o7"), "Row #3.*'1o7'|'1o7'.*Row #3"),
        (wrong("107", ""), "expected lines of 15 whole numbers"),
        (wrong("0,2", "1,2"), "line 3, '1,2,107.*type must be one of 0, 2, 3, 4"),
        (wrong("0,2", "0,-2"), "line 3.*time must not be negative"),
        (wrong(",32,", ",-32,"), "line 3.*expressway, speed and position of a report must not"),
        (wrong(",0,0,10", ",0,2,10"), "line 3.*direction of a report must be 0 or 1"),
        (wrong(",10,", ",100,"), "line 3.*segment of a report must be 0 to 99"),
        (wrong("0,2", "4,2"), "line 3.*a journey must be on an expressway, within segments"),
    ],
)
def test_what_is_no_record_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "record.dat"
    path.write_text(text)
    with pytest.raises(RecordDataError, match=message) as raised:
        list(recorded(path))
    assert str(raised.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RecordDataError, match=r"absent\.dat: not found; name a file of"):
        list(recorded(tmp_path / "absent.dat"))


def test_a_file_that_is_no_gzip_is_named(tmp_path):
    path = tmp_path / "record.dat.gz"
    path.write_text(lines(0))
    with pytest.raises(RecordDataError, match=r"record\.dat\.gz: "):
        list(recorded(path))


@pytest.mark.parametrize(
    ("name", "records", "minutes"),
    [
        ("datafile20seconds.dat", 280, 1),
        ("mitsim_1xway_first_seconds.csv.gz", 20_711, 6),
        ("lr_1xway_10800s_base1.dat.gz", 1_208_773, 180),
    ],
)
def test_real_records_can_be_read(name, records, minutes):
    if not REAL.is_dir():
        pytest.skip(f"{REAL} is not on this machine")
    read = list(recorded(REAL / name))
    assert len(read) == minutes
    assert sum(len(one.records) for one in read) == records
    for one in read:
        assert (one.records[:, Field.TIME] // 60 == one.number).all()
        reports = one.reports
        assert (reports[:, Field.POSITION] // FEET_PER_SEGMENT == reports[:, Field.SEGMENT]).all()
    assert set(np.concatenate([one.queries[:, Field.KIND] for one in read])) <= set(Kind)
