"""Charts and pages: described once, drawn as inline SVG without any dependency, or as PNG and PDF through matplotlib.

>>> from discreet.report import Chart, Line, Page
>>> chart = Chart("Error against n", [Line([10, 100, 1000], [0.3, 0.1, 0.03], "Laplace")], log_x=True, log_y=True)
>>> chart.svg()[:4], "<svg" in Page("Report", [chart]).html()
('<svg', True)
"""

from discreet.report.chart import Chart
from discreet.report.marks import Bars, Heat, Intervals, Line, Mark, Places, Points
from discreet.report.page import Facts, Grid, Heading, Html, Page, Part, Text, Tiles, Verdict, embedded

__all__ = [
    "Bars",
    "Chart",
    "Facts",
    "Grid",
    "Heading",
    "Heat",
    "Html",
    "Intervals",
    "Line",
    "Mark",
    "Page",
    "Part",
    "Places",
    "Points",
    "Text",
    "Tiles",
    "Verdict",
    "embedded",
]
