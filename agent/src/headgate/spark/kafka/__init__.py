"""What steps and stages read of Kafka, and what all of its clients have in common."""
