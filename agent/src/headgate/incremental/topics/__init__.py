"""Topics of Kafka as flows of a stage: what of them is read, and how increments are sent there."""
