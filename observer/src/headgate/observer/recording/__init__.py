"""Watched writes: written down before they are forwarded, kept until Kafka has what they did."""
