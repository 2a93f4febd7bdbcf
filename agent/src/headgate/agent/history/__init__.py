"""What Kafka still has of the past of dataflows, and replays of it."""
