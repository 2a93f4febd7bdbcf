"""One dataflow on its agent: stimuli to its engine, and instructions out."""
