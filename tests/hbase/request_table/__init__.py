"""One table of requests: each as an independent encoder writes it, with what it says to HBase."""

from request_table import thrift1, thrift2
from request_table.case import Case
from request_table.encoder import ONE, SERVICES, TWO, Encoder

CASES = [*thrift1.CASES, *thrift2.CASES]

__all__ = ["CASES", "ONE", "SERVICES", "TWO", "Case", "Encoder"]
