"""Dataflow files: YAML in, a checked dataflow or every problem with its line and cure out."""

from headgate.flows.building import load_dataflow, parse_dataflow
from headgate.flows.dataflow import Dataflow, Launcher, SessionLauncher, WaveEnd, Waves
from headgate.flows.problems import DataflowErrors, Problem, Severity
from headgate.flows.schema import schema_text

__all__ = [
    "Dataflow",
    "DataflowErrors",
    "Launcher",
    "Problem",
    "SessionLauncher",
    "Severity",
    "WaveEnd",
    "Waves",
    "load_dataflow",
    "parse_dataflow",
    "schema_text",
]
