"""The papers' evaluations: learned triggers, incremental stages, and bounds on the AQHI.

``aqhi`` is what ``headgate demo evaluation`` and ``headgate demo beijing`` run, ``learned`` and
``incremental`` are programs: ``python -m evaluation.learned.run``, from the folder above. What they
found is in ``docs/evaluation``. ``drawing`` says how drawings on their pages look.
"""

import sys
from pathlib import Path

_EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
if _EXAMPLES.is_dir() and str(_EXAMPLES) not in sys.path:  # an installed package has them beside it
    sys.path.insert(0, str(_EXAMPLES))
