"""SmartFlux's evaluation, with learned triggers over tables of all synchronous waves.

``run`` is all of it, ``engine_replay`` holds an engine to the same decisions, and ``beijing`` has
recorded years. ``drawn`` asks of dataflows that are drawn at random whether promises are kept;
``oracles`` say what could be saved.
"""
