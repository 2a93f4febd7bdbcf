"""What a stage remembers, in files: sorted runs per bucket, named by one manifest per epoch."""
