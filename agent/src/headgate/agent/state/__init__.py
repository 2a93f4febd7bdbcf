"""What agents keep in their table in HBase, and what each remembers on its disk."""
