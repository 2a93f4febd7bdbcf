"""Reading tables: for the engine, and for writes that went round the observers."""
