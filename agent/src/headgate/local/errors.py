"""What can go wrong with the local stack, each with its cure."""

from __future__ import annotations


class LocalStackError(Exception):
    """The local stack cannot do what was asked; the message says why and what to do."""


class JavaUnfitError(LocalStackError):
    """No Java that HBase and Spark run on was found."""


class JarsUnavailableError(LocalStackError):
    """A pinned jar could not be had from any repository."""


class ChecksumMismatchError(LocalStackError):
    """A jar that a repository delivered is not the one that the lock pins."""


class NoFreePortError(LocalStackError):
    """Every port that a part may take is taken by something else."""


class PartFailedError(LocalStackError):
    """A part ended, or did not answer in time; the message holds the end of its log."""


class InstanceBusyError(LocalStackError):
    """Another command works on the same instance and did not finish in time."""


class ConfigurationMissingError(LocalStackError):
    """The folder ``hbase-conf`` is neither in the checkout nor in the installed package."""


class InstanceNameError(LocalStackError):
    """An instance name that cannot be a folder's name."""


class RecordDamagedError(LocalStackError):
    """The instance's record of its ports cannot be read."""
