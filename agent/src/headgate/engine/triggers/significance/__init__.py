"""Limits that are found from the output that matters (Fluχ, Figure 4)."""
