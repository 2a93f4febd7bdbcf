"""What agents believe of the state table: definitions and leases that one of them has signed.

Whoever may write the table may put anything there. A definition says which program is run, and a
lease where requests are sent; so both carry the signature of a key that only agents have, over the
table, the row and the bytes as they stand. What has none, or is older than what was seen already,
is listed and never obeyed.
"""

from headgate.agent.state.sealed.definitions import (
    Definition,
    DefinitionCells,
    RowSetAside,
    RowState,
    SetAside,
    check_name,
    sign,
    unsigned,
)
from headgate.agent.state.sealed.leases import Lease, LeaseRows, Owner
from headgate.agent.state.sealed.revisions import RememberedRevisions, Revisions, SavedRevisions
from headgate.agent.state.sealed.seals import Seals

__all__ = [
    "Definition",
    "DefinitionCells",
    "Lease",
    "LeaseRows",
    "Owner",
    "RememberedRevisions",
    "Revisions",
    "RowSetAside",
    "RowState",
    "SavedRevisions",
    "Seals",
    "SetAside",
    "check_name",
    "sign",
    "unsigned",
]
