"""Hours of the whole product on the real stack, while everything is disturbed that can be."""
