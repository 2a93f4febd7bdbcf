"""The first paper's evaluation of bounds, on the air quality index of ``examples/aqhi``.

``figures`` holds the settings and what follows from a record, ``synchronous`` and ``all_waves``
what all steps show after each wave, ``findings`` sentences about the figures, ``report`` the page.
"""
