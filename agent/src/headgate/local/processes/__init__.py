"""The stack's processes: what they are, how they start, and how they are watched and ended."""
