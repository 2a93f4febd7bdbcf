"""The section ``actions``: its grammar, how it is read and checked, and how it differs."""
