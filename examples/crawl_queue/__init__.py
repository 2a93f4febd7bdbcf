"""What a crawler should fetch next: the paper's running example, as stages with a state."""
