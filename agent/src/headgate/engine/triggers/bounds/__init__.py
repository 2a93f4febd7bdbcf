"""Bounds on time, on the number of updates and on the divergence of values (design: section 4)."""
