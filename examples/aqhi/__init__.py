"""The Air Quality Health Index of Fluχ's evaluation: steps A to F over HBase tables.

``steps`` is what a dataflow runs; ``model`` holds the formulas, ``generator`` and ``stations`` the
two inputs, ``variants`` the dataflow under other bounds, ``outputs`` what its tables hold,
``comparison`` how two runs over the same waves differ, ``report`` the page about it, ``demo`` what
``headgate demo aqhi`` runs. What the paper itself evaluates is in ``evaluation/aqhi``.
"""
