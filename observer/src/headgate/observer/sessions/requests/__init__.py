"""A client's requests: read, judged, held or refused, and forwarded."""
