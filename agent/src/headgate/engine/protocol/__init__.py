"""What the engine is told, and what it wants done."""
