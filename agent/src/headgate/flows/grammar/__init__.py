"""The language of dataflow files: kinds of values, trees with positions, and how they match."""
