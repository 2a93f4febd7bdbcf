"""The record of a synchronous dataflow that is made from its outputs, and replays of it."""

from pathlib import Path

import numpy as np
import pytest
from aqhi.generator import CALM, Trend, generate
from aqhi.grid import Grid
from aqhi.readings import Readings
from aqhi.variants import City, dataflow
from evaluation.aqhi.figures import shown
from evaluation.aqhi.record import SynchronousRecord
from evaluation.aqhi.synchronous import synchronous

from headgate.flows import parse_dataflow
from headgate.replay import Candidate

GRID = Grid(8)
REFERENCE = 52.0
WAVES = 24
SILENT = 11  # a wave in which nobody reports
CITY = City(GRID.side, REFERENCE, Path("charts"))
STEPS = {"combine", "zones", "city-map", "hotspots", "index"}


def readings():
    waves = list(generate(GRID, WAVES, 2, Trend.UNIFORM, CALM))
    nobody = waves[SILENT].detectors[:0]
    waves[SILENT] = Readings("silence", nobody, waves[SILENT].values[:0])
    return waves


@pytest.fixture(scope="module")
def report():
    waves = readings()
    outputs, concentrations = synchronous(waves, GRID, REFERENCE)
    specs = {
        str(sigma): parse_dataflow(dataflow("made", CITY, sigma), "made").spec
        for sigma in (None, 20, 80)
    }
    record = SynchronousRecord(specs["None"], GRID, waves, concentrations, outputs)
    replayed = record.replay([Candidate(label, spec) for label, spec in specs.items()])
    return {one.label: one for one in replayed.replays}


def test_without_bounds_every_step_runs_in_every_wave_and_nothing_is_off(report):
    synchronous_replay = report["None"]
    assert {step.action for step in synchronous_replay.steps} == STEPS
    for step in synchronous_replay.steps:
        assert [run.wave for run in step.runs] == list(range(1, WAVES + 1))
        assert step.recorded == WAVES
        assert all(output.worst == 0 for output in step.outputs)


@pytest.mark.parametrize("sigma", [20, 80])
def test_c_runs_whenever_so_many_detectors_were_written(report, sigma):
    pending, waiting, expected = 0, set(), []
    for number, wave in enumerate(readings(), 1):
        waiting |= set(wave.detectors.tolist())
        if 100 * len(waiting) >= 5 * GRID.detectors:  # B's own bound
            pending, waiting = pending + len(waiting), set()
        if 100 * pending >= sigma * GRID.detectors:
            pending = 0
            expected.append(number)
    assert [run.wave for run in report[str(sigma)].step("zones").runs] == expected


def test_the_error_of_the_index_is_that_of_its_last_run(report):
    index = synchronous(readings(), GRID, REFERENCE)[0].index
    for sigma in ("20", "80"):
        step = report[sigma].step("index")
        seen = shown(index, [run.wave for run in step.runs])
        [now] = [output for output in step.outputs if output.container == "now"]
        apart = [error.largest for error in now.errors[:WAVES]]
        assert apart == pytest.approx(np.abs(index - seen).tolist())
