"""The sections that name data: containers in tables, and the files and topics of stages."""
