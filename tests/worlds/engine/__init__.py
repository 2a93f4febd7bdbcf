"""A world around one engine: hostile happenings, and what must be true of it."""
