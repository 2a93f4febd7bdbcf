"""An index of the web, Fluχ's Figure 1: steps A to D over HBase tables.

``steps`` is what a dataflow runs; ``web`` holds generated or linked documents, and what a crawler
brings of them, round by round, ``demo`` what ``headgate demo crawl`` runs.
"""
