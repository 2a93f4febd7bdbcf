"""The state of an engine as bytes: a head, and a log of what changes."""
