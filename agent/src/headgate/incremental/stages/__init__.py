"""What people write of a stage, and how its translation is called."""
