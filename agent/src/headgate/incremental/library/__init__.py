"""Ready stages: relational operators, windows, the median and the data cube, by tables."""

from headgate.incremental.library.aggregating import Aggregate, Function, aggregate
from headgate.incremental.library.aligning import aligned
from headgate.incremental.library.container_rows import to_container
from headgate.incremental.library.counting import count, distinct
from headgate.incremental.library.cube import (
    cube_update,
    data_cube,
    input_split,
    query_preprocessor,
    result,
)
from headgate.incremental.library.joining import join
from headgate.incremental.library.median import histogram, histogram_and_value, locate, value
from headgate.incremental.library.ranking import top_k
from headgate.incremental.library.upserts import Operation, differences, relation
from headgate.incremental.library.windows import hopping, landmark, sliding

__all__ = [
    "Aggregate",
    "Function",
    "Operation",
    "aggregate",
    "aligned",
    "count",
    "cube_update",
    "data_cube",
    "differences",
    "distinct",
    "histogram",
    "histogram_and_value",
    "hopping",
    "input_split",
    "join",
    "landmark",
    "locate",
    "query_preprocessor",
    "relation",
    "result",
    "sliding",
    "to_container",
    "top_k",
    "value",
]
