"""``python -m headgate.cli`` is the command ``headgate``."""

from headgate.cli import main

main()
