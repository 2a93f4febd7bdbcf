"""Models that agents have kept, for replays of what was decided by them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing
from typing import Final

from headgate.agent.configuration import HBase
from headgate.agent.state.rows import HBaseConnections, HBaseRows
from headgate.agent.state.sealed import Seals
from headgate.agent.training.knowledge import (
    FAMILIES,
    Knowledge,
    ModelMissing,
    ModelUnsigned,
)
from headgate.replay import ModelKey, UnknownModel
from headgate.settings import KeyRing, knowledge_table, parse_address

_PATIENCE: Final = 15.0
"""Seconds for an answer of HBase: somebody waits, and nothing else is kept up."""


def stored_models(
    hbase: HBase,
    keys: KeyRing,
    dataflow: str,
    wanted: Iterable[ModelKey],
    patience: float = _PATIENCE,
) -> dict[ModelKey, bytes]:
    """Return models from the knowledge table in HBase; nothing is written.

    Args:
        hbase: where the agents keep their state.
        keys: with which they sign.
        dataflow: its name.
        wanted: which.
        patience: seconds that HBase may take for each.

    Raises:
        UnknownModel: one is missing, damaged, or signed with another key.
        Unreachable: HBase does not answer.
    """
    table = knowledge_table(hbase.state_table)
    connections = HBaseConnections(*parse_address(hbase.thrift2), threading.Event(), patience)
    with closing(connections):
        if not connections.call(lambda connection: connection.table_exists(table)):
            raise UnknownModel(
                f"HBase at {hbase.thrift2} has no table {table}, in which agents keep the models "
                f"that decided on {dataflow!r}: name the HBase of its agents, and their "
                "hbase.state_table by --config with their TOML file where it is not the default"
            )
        seals = Seals(keys, table)
        rows = HBaseRows(connections, table, seals.proof, FAMILIES)
        return models_of(Knowledge(rows, seals, 1, 1), dataflow, wanted)


def models_of(
    knowledge: Knowledge, dataflow: str, wanted: Iterable[ModelKey]
) -> dict[ModelKey, bytes]:
    """Return models from a knowledge table.

    Raises:
        UnknownModel: one is missing, damaged, or signed with another key.
        Unreachable: HBase does not answer.
    """
    try:
        return {key: knowledge.model(dataflow, key.output, key.version) for key in wanted}
    except ModelUnsigned as error:
        raise UnknownModel(
            f"{error.what}, and it decided on {dataflow!r} while that was recorded; name the key "
            "that the agents share with --key-file"
        ) from error
    except ModelMissing as error:
        raise UnknownModel(
            f"{error.what}, and it decided on {dataflow!r} while that was recorded; to record "
            f"anew, remove and submit {dataflow}"
        ) from error
