"""The fire risk of a forest, SmartFlux's Figure 2: steps 1 to 5 over HBase tables.

``steps`` is what a dataflow runs; ``fwi`` holds the formulas of the fire weather index, ``weather``
the hours of a generated or a recorded season, ``forest`` what sensors and a satellite see of them,
``demo`` what ``headgate demo fire-risk`` sends, measures and reports.
"""
