"""Variable tolling of an expressway, the Linear Road of SmartFlux's Figure 5: steps 1 to 5b.

``steps`` is what a dataflow runs; ``model`` holds the formulas, ``records`` what vehicles report
and the reader of recorded input, ``traffic`` the seeded input, ``all_waves`` what all containers
hold after each wave, ``histories`` the same as learned triggers take it. ``demo`` is what
``headgate demo linear-road`` runs, ``savings`` what it finds.
"""
