"""What a stage remembers, in files: sorted runs per bucket, named by one manifest per epoch."""

from headgate.incremental.state.batches import BatchFile, write_batches
from headgate.incremental.state.buckets import (
    WHOLE,
    Bucket,
    bucket_numbers,
    even_buckets,
    split,
)
from headgate.incremental.state.cache import FileCache
from headgate.incremental.state.compaction import (
    Merge,
    Tiers,
    base_is_due,
    merge_runs,
    plan,
    plan_runs,
)
from headgate.incremental.state.errors import (
    ChangedStage,
    DamagedState,
    DifferentColumns,
    NewerState,
    StateError,
    UnsortedRows,
    UnusableKey,
    UnusableName,
    UnwrittenFile,
)
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.hashing import hashes
from headgate.incremental.state.keys import (
    Key,
    key_bytes,
    key_column,
    key_type,
    key_value,
    key_values,
)
from headgate.incremental.state.manifest import (
    BucketState,
    Manifest,
    read_manifest,
    unneeded,
    write_manifest,
)
from headgate.incremental.state.names import Writer
from headgate.incremental.state.readers import BucketReader, FoundRows
from headgate.incremental.state.rows import Match, sort_rows, state_rows, state_schema
from headgate.incremental.state.runs import Run, write_run

__all__ = [
    "WHOLE",
    "BatchFile",
    "Bucket",
    "BucketReader",
    "BucketState",
    "ChangedStage",
    "DamagedState",
    "DifferentColumns",
    "FileCache",
    "FileRef",
    "FileStore",
    "FoundRows",
    "Key",
    "Manifest",
    "Match",
    "Merge",
    "NewerState",
    "Run",
    "StateError",
    "Tiers",
    "UnsortedRows",
    "UnusableKey",
    "UnusableName",
    "UnwrittenFile",
    "Writer",
    "base_is_due",
    "bucket_numbers",
    "even_buckets",
    "hashes",
    "key_bytes",
    "key_column",
    "key_type",
    "key_value",
    "key_values",
    "merge_runs",
    "plan",
    "plan_runs",
    "read_manifest",
    "sort_rows",
    "split",
    "state_rows",
    "state_schema",
    "unneeded",
    "write_batches",
    "write_manifest",
    "write_run",
]
