"""The first paper's evaluation of bounds, on the air quality index of ``examples/aqhi``.

``paper`` is ``headgate demo evaluation``, ``beijing`` the command of that name; ``trial`` has both
run on services. ``figures`` holds the settings and what follows from a record, ``record`` makes one
of what ``synchronous`` or ``all_waves`` say that all steps show, ``seeds`` has the engine alone
decide. ``findings`` are sentences about the figures, ``report`` is the page.
"""
