"""HBase's Thrift servers: which are well, what they speak, and connections to them."""
