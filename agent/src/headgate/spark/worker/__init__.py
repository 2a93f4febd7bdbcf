"""The worker: a process that an agent keeps, with a Spark session in which steps run."""
