"""Topics of updates read as they grow, and shown as people read them."""
