"""Who may ask the agent's API for what, and what is taken from nobody."""

from headgate.agent.api.access.connections import IdentifiedConnection, RenewedContext, follow_files
from headgate.agent.api.access.crowd import Crowd, CrowdLimits
from headgate.agent.api.access.guard import CALLER, SAFE_METHODS, Guard, GuardSettings, Note, note
from headgate.agent.api.access.peers import FORWARDED, Peers
from headgate.agent.api.access.tokens import (
    OwnTokens,
    TokenEntry,
    TokenFile,
    find_token,
    hash_of,
    new_token,
    read_entries,
    user_token_file,
)
from headgate.agent.configuration import CertificateGrant
from headgate.agent.roles import Caller, Role

__all__ = [
    "CALLER",
    "FORWARDED",
    "SAFE_METHODS",
    "Caller",
    "CertificateGrant",
    "Crowd",
    "CrowdLimits",
    "Guard",
    "GuardSettings",
    "IdentifiedConnection",
    "Note",
    "OwnTokens",
    "Peers",
    "RenewedContext",
    "Role",
    "TokenEntry",
    "TokenFile",
    "find_token",
    "follow_files",
    "hash_of",
    "new_token",
    "note",
    "read_entries",
    "user_token_file",
]
