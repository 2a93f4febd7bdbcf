"""Cells expire: they leave n and Σ|x′|, and nobody counts that as an update."""

from msgspec.structs import replace

from headgate.engine import (
    Bound,
    CellsRead,
    ContainerScanned,
    EngineTester,
    Metric,
    ReadCells,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    Tick,
    ValueBound,
    launched,
)
from headgate.events import VERSION, ContainerId, Origin, Outcome, RequestPart, UpdateBatch

IN = ContainerId("in")
DAY = 86_400.0
SHARE = Bound("s", IN, sequence=SequenceBound(50, SequenceUnit.PERCENT))


class Expiring:
    """A tester whose table lets cells expire, and that answers scans and reads as HBase would."""

    def __init__(self, tester: EngineTester, ttl: float) -> None:
        self.tester = tester
        self.ttl = ttl
        self.written: dict[tuple[bytes, bytes], tuple[float, bytes, float]] = {}
        self.runs = 0
        self.answer(tester.instructions)

    def answer(self, told) -> None:
        waiting = list(told)
        while waiting:
            one = waiting.pop(0)
            if isinstance(one, ScanContainer | ReadCells):
                waiting += self.tester.handle(self.found(one))
            elif "b" in launched([one]):
                self.runs += 1
                waiting += self.tester.finish("b")

    def found(self, question: ScanContainer | ReadCells) -> ContainerScanned | CellsRead:
        now = self.tester.now
        there = {key: one for key, one in self.written.items() if now <= one[0] + one[2]}
        self.tester.tables["in"] = {key: value for key, (_, value, _) in there.items()}
        answer = self.tester.answer(question)
        keys = zip(answer.rows, answer.columns, strict=True)
        stamps = [int(there[key][0] * 1000) if key in there else 0 for key in keys]
        if isinstance(answer, CellsRead):
            return replace(answer, timestamps=stamps)
        ttls = {b"f": int(self.ttl * 1000)} if self.ttl < 1e9 else {}
        return replace(answer, timestamps=stamps, ttls=ttls)

    def put(self, rows: range, *, ttl: float | None = None, origin: Origin | None = None) -> None:
        now = self.tester.now
        names = tuple(b"r%d" % row for row in rows)
        for name in names:
            self.written[name, b"f:x"] = now, b"1", min(self.ttl, ttl or self.ttl)
        ttls = () if ttl is None else (int(ttl * 1000),)
        intent = int(now * 10) + len(self.written)
        request = RequestPart(
            intent, "m", Outcome.APPLIED, now, len(names), ttls=ttls, origin=origin
        )
        cells = (names, (b"f:x",) * len(names), (-1,) * len(names), (b"1",) * len(names))
        batch = UpdateBatch(
            VERSION, "o", 1, intent, 0, "in", (request,), bytes(len(names)), *cells, recovered=True
        )
        self.answer(self.tester.publish("in", batch))

    def pass_time(self, seconds: float) -> None:
        self.answer(self.tester.pass_time(seconds))
        self.answer(self.tester.handle(Tick(self.tester.now)))

    @property
    def elements(self) -> int:
        return self.tester.engine.cells[IN, "in"].elements


def test_what_has_expired_leaves_the_number_of_elements(pair):
    one = Expiring(pair(SHARE, answering=False), ttl=2.5 * DAY)
    runs = []
    for day in range(12):
        before = one.runs
        for part in range(10):
            one.put(range(100 * day + 10 * part, 100 * day + 10 * part + 10))
            one.answer(one.tester.wave("a"))
            one.pass_time(DAY / 10)
        runs.append(one.runs - before)
    assert runs[11] == runs[10] == runs[9] > 0  # the same updates each day, the same runs
    assert one.elements <= 400
    assert one.tester.engine.actions["b"].updates_of(SHARE) == 1200  # none for what expired


def test_cells_with_a_time_to_live_of_their_own_move_values(pair):
    bound = Bound("k", IN, value=ValueBound(Metric.CHANGED, 0.5))
    one = Expiring(pair(bound, answering=False), ttl=1e12)
    one.put(range(10), ttl=9.0)
    one.answer(one.tester.wave("a"))
    assert one.runs == 1
    one.pass_time(60.0)
    one.answer(one.tester.wave("a"))
    assert (one.runs, one.elements) == (2, 0)
    one.put(range(10), ttl=9.0)  # the same values again are new
    one.answer(one.tester.wave("a"))
    assert one.runs == 3


def test_after_a_restart_what_has_expired_is_looked_for(pair):
    one = Expiring(pair(SHARE, answering=False), ttl=DAY)
    one.put(range(10))
    one.answer(one.tester.wave("a"))
    one.tester.now += 2 * DAY
    one.answer(one.tester.restart())
    assert one.elements == 0
    assert one.tester.engine.actions["b"].updates_of(SHARE) == 10


def test_in_isolation_what_has_expired_of_ones_own_leaves_the_number_of_elements(pair):
    spec = replace(pair(SHARE).spec, feeders=("feeder",))
    one = Expiring(EngineTester(spec, answering=False), ttl=DAY)
    feeder, stranger = (Origin("", "", "", 0, name) for name in ("feeder", "stranger"))
    one.put(range(10), origin=feeder)
    one.put(range(10, 30), origin=stranger)
    one.answer(one.tester.wave("a"))
    assert (one.runs, one.elements) == (1, 10)
    one.pass_time(2 * DAY)
    one.put(range(100, 104), origin=feeder)
    one.answer(one.tester.wave("a"))
    assert (one.runs, one.elements) == (2, 4)  # four of four, and not of fourteen
