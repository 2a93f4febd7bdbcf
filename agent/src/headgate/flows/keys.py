"""The grammar of a dataflow file: every key, what it may hold, and what it means.

This is the one source of both the checks and the JSON Schema; what a grammar can't say (names that
must exist, cycles, intervals the right way round) is checked in ``building``.
"""

from __future__ import annotations

from headgate.flows.grammar.kinds import (
    ANY_TEXT,
    Either,
    Key,
    ListOf,
    MapOf,
    Numbers,
    RecordOf,
    Single,
)
from headgate.flows.grammar.quantities import DURATION
from headgate.flows.grammar.values import NAME, name_value, text_value
from headgate.flows.sections.actions import ACTION
from headgate.flows.sections.adjustment import ADJUSTMENT
from headgate.flows.sections.bound_keys import OVERRIDE
from headgate.flows.sections.files import FILES
from headgate.flows.sections.learned import LEARNED_TRIGGERS
from headgate.flows.sections.modes import MODE_KEYS
from headgate.flows.sections.places import CONTAINER
from headgate.flows.sections.significance import SIGNIFICANCE
from headgate.flows.sections.topics import TOPIC

_PATHS = Either(
    "a directory or a list of directories",
    (text_value("a directory"), ListOf(text_value("a directory"), "a list of directories")),
)

DATAFLOW = RecordOf(
    "a dataflow",
    {
        "name": Key(
            name_value("the dataflow"), "the dataflow's name, unique in the cluster", required=True
        ),
        "description": Key(text_value("a text"), "for people"),
        "waves": Key(
            Single(
                "`mark`, `every 5 min` or `quiet 30 s`",
                pattern=rf"(?:every|quiet) {DURATION}",
                words=("mark",),
            ),
            "what ends a wave of input: `headgate flow mark` (default), a period, or a quiet time",
        ),
        **MODE_KEYS,
        "containers": Key(
            MapOf(
                CONTAINER,
                "containers by name",
                NAME,
                "container",
            ),
            "parts of tables that actions read, write and watch",
        ),
        "files": Key(
            MapOf(FILES, "files by name", NAME, "files"),
            "directories of files that stages read or write, named in `reads` and `writes`",
        ),
        "topics": Key(
            MapOf(TOPIC, "topics by name", NAME, "topic"),
            "topics of Kafka that stages read or write, named in `reads` and `writes`",
        ),
        "actions": Key(
            MapOf(ACTION, "actions by name", NAME, "action", at_least=1),
            "the steps, in any order",
            required=True,
        ),
        "profiles": Key(
            MapOf(
                MapOf(
                    MapOf(OVERRIDE, "bounds by name", NAME, "bound", at_least=1),
                    "actions by name",
                    NAME,
                    "action",
                    at_least=1,
                ),
                "profiles by name",
                NAME,
                "profile",
            ),
            "other limits for the same bounds, chosen when the dataflow is submitted",
        ),
        "adjustment": Key(
            ADJUSTMENT, "how limits that are intervals follow the writes and the machines' load"
        ),
        "concurrency": Key(
            Single("a number of attempts", numbers=Numbers(above=0, at_most=1000, whole=True)),
            "how many steps may run at a time; default 4",
        ),
        "priority": Key(
            Single("a whole number", numbers=Numbers(whole=True)),
            "over other dataflows where an agent has more to run than it may; default 0",
        ),
        "significance": Key(
            SIGNIFICANCE, "the change of the output that matters, from which limits are found"
        ),
        "learned": Key(
            LEARNED_TRIGGERS,
            "errors that outputs may have, from which it is learned which waves can be skipped",
        ),
        "spark": Key(
            MapOf(
                Single(
                    "a text, a number, true or false",
                    pattern=ANY_TEXT,
                    numbers=Numbers(),
                    truth=True,
                ),
                "Spark settings",
                ANY_TEXT,
                "setting",
            ),
            "settings of the Spark session, such as `spark.sql.shuffle.partitions: 4`",
        ),
        "spark_pool": Key(
            name_value("a pool"),
            "dataflows that name the same pool, with equal `spark` and `python_path`, share one "
            "Spark session on each agent",
        ),
        "state": Key(
            text_value("a directory or a URI"),
            "where its stages keep their files: a directory, relative to this file, or a URI such "
            "as `hdfs://…` or `s3://…`; default a directory of the agent, for one machine only",
        ),
        "oozie": Key(
            RecordOf(
                "the workflow",
                {
                    "workflow": Key(
                        text_value("the XML of a workflow"),
                        "the Oozie workflow that this was imported from, without its bounds",
                        required=True,
                    ),
                    "decisions": Key(
                        MapOf(name_value("a branch"), "branches by decision", NAME, "decision"),
                        "by decision, the branch that was taken at the import, or `all`",
                    ),
                },
            ),
            "written by `headgate flow import`, read by `headgate flow export`",
        ),
        "python_path": Key(
            _PATHS, "where the steps' modules are, relative to this file; default its own directory"
        ),
    },
)
"""The whole file."""
