"""The sections of a dataflow file: one module for each key, or for keys that belong together."""
