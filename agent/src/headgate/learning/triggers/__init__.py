"""The trigger policy of steps above bounded outputs, in a running engine."""
