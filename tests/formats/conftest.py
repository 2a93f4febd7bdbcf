"""Tests here import modules that stand beside them."""

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

pytest.register_assert_rewrite("stored_formats")
