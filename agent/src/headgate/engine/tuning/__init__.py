"""How limits given as intervals follow the frequency of writes and the load of machines."""
