"""The paper's evaluation: settings and figures, what all steps show, and the page about it.

``figures`` holds the settings and what follows from a record, ``synchronous`` and ``all_waves``
what all steps show after each wave, ``findings`` sentences about the figures, ``report`` the page.
"""
