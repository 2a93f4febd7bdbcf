"""Stages: what waits on their flows, who waits for whom, and what their runs take."""
