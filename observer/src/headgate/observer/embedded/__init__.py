"""An observer inside a program that writes to HBase itself."""
