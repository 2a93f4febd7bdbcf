"""Tables and updates as frames: Spark's data sources, and columns to cells and back."""
