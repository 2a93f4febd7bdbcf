"""How drawings on pages about evaluations look, dark and light."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 9.6
"""Inches: the page's column at 96 pixels an inch."""
COLOURS = ("#2f80d0", "#e08a00", "#12a17c", "#c25b9b", "#8a7cf0", "#5c7a29", "#b0483a")
INK = "#010203"
"""Drawn in this colour, then replaced by the page's own text colour, dark or light."""
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "aqhi",
    "font.family": "sans-serif",
    "font.sans-serif": ["system-ui", "Segoe UI", "Roboto", "Helvetica", "Arial", "DejaVu Sans"],
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}
"""Settings for ``matplotlib.rc_context``."""
PAGE_STYLE = Path(__file__).with_name("page.css")
"""The style sheet of the pages."""


def axes_of_page() -> tuple[Figure, Axes]:
    """Return a figure as wide as the page, and its axes."""
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    return figure, figure.subplots()


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element for a page, in the page's own text colour."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None}, dpi=60)
    text = stream.getvalue()
    drawing = text[text.index("<svg") :]
    return drawing.replace(INK, "currentColor").replace("<svg ", '<svg role="img" ', 1)
