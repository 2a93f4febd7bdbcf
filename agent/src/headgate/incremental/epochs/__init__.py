"""Epochs: what an increment makes of the state, in the driver or as a Spark job."""
