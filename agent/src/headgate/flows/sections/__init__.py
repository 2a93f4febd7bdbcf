"""What each section of a dataflow file may say, and how it is read."""
