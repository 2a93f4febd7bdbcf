"""All formats that have samples, and the samples."""

from __future__ import annotations

from stored_formats import journal, messages

WITH_VERSIONS = (*messages.CASES, *journal.CASES)
BARE = (*messages.BARE,)
CASES = (*WITH_VERSIONS, *BARE)
