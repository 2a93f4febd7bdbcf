"""What increments of stages cost, beside Spark's own state; ``run`` measures all of it."""
