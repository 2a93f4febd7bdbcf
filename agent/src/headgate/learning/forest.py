"""Decision forests as arrays: what was fitted elsewhere is kept, sent and applied as plain numbers.

Nothing is ever unpickled. A forest predicts of each output the probability that skipping violates
its bound (SmartFlux, section 3: one model, many labels), or the logarithm of the error that
skipping would leave, which serves any bound.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Final, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning.envelope import UnusableModel, seal, unseal

VERSION: Final = 2
"""1: probabilities only."""
_KIND: Final = "forest"
_LARGEST_MODEL = 256 * 1024 * 1024  # bytes, unpacked: beyond what any training here makes
_NODES = np.dtype("<i4")
_NUMBERS = np.dtype("<f8")


class Predicted(StrEnum):
    """What the values of a forest are."""

    PROBABILITY = "probability"
    """Of a violation, in [0, 1]."""
    LOG_ERROR = "log error"
    """Natural logarithm of ε, in whatever way its training has kept it finite."""


class _Walk(Struct, frozen=True, eq=False):
    """The nodes of all trees one after the other, as a prediction passes through them."""

    roots: npt.NDArray[np.intp]
    """Of each tree, shape (trees,)."""
    feature: npt.NDArray[np.intp]
    """Asked at each node, shape (trees · nodes,)."""
    threshold: npt.NDArray[np.float64]
    branches: npt.NDArray[np.intp]
    """The node to the right of each and that to its left, shape (2 · trees · nodes,)."""
    values: npt.NDArray[np.float64]
    """Shape (trees · nodes, labels)."""


class Forest(Struct, frozen=True, eq=False, dict=True):
    """Fitted trees, padded to one length; shape (trees, nodes) each, ``values`` with the labels.

    A node sends an input to ``left`` where its feature is at most the threshold, in float32. A leaf
    leads to itself.
    """

    features: tuple[str, ...]
    """Names of the columns of inputs."""
    labels: tuple[str, ...]
    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float64]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]
    """What is predicted of each label at each node, shape (trees, nodes, labels)."""
    depth: int
    """Steps from the root to the deepest leaf."""
    predicted: Predicted = Predicted.PROBABILITY

    def predict(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the mean of all trees for each label, shape (rows, labels).

        Raises:
            ValueError: the rows have another number of features.
        """
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            message = f"rows of shape {rows.shape} are not of {len(self.features)} features"
            raise ValueError(message)
        walk, inputs = self._walk, rows.astype(np.float32, copy=False).ravel()
        nodes = np.tile(walk.roots, (len(rows), 1))
        starts = np.arange(len(rows))[:, None] * len(self.features)
        for _ in range(self.depth):
            asked = inputs.take(walk.feature.take(nodes) + starts)
            nodes = walk.branches.take(2 * nodes + (asked <= walk.threshold.take(nodes)))
        means: npt.NDArray[np.float64] = walk.values.take(nodes, 0).mean(1)
        return means

    @cached_property
    def _walk(self) -> _Walk:
        trees, nodes = self.feature.shape
        roots = np.arange(trees, dtype=np.intp) * nodes
        branches = np.stack([self.right, self.left], 2) + roots[:, None, None]
        return _Walk(
            roots,
            self.feature.ravel().astype(np.intp),
            self.threshold.ravel(),
            branches.ravel(),
            self.values.reshape(trees * nodes, -1),
        )

    def contributions(self, row: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return what each feature adds to a prediction, shape (features, labels).

        With the mean of the roots' values they sum up to what ``predict`` returns: at each node of
        a tree the difference that the branch makes counts for the feature that chose it (Palczewska
        and others, "Interpreting random forest models using a feature contribution method", 2013).

        Args:
            row: of one input, shape (features,).

        Raises:
            ValueError: the row has another number of features.
        """
        if row.shape != (len(self.features),):
            message = f"a row of shape {row.shape} is not of {len(self.features)} features"
            raise ValueError(message)
        trees = np.arange(len(self.feature))
        nodes = np.zeros(len(trees), np.int32)
        added = np.zeros((len(self.features), len(self.labels)))
        for _ in range(self.depth):
            asked = self.feature[trees, nodes]
            goes_left = row[asked] <= self.threshold[trees, nodes]
            branch = np.where(goes_left, self.left[trees, nodes], self.right[trees, nodes])
            np.add.at(added, asked, self.values[trees, branch] - self.values[trees, nodes])
            nodes = branch
        return added / len(trees)


class FittedTree(Protocol):
    """The arrays of one fitted tree, as scikit-learn has them in ``estimator.tree_``."""

    node_count: int
    max_depth: int
    children_left: npt.NDArray[np.int64]
    children_right: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    threshold: npt.NDArray[np.float64]
    value: npt.NDArray[np.float64]
    """Weights of both classes of each label, shape (nodes, labels, 2), or its mean, (…, 1)."""


def forest_of(
    trees: Sequence[FittedTree],
    features: Sequence[str],
    labels: Sequence[str],
    predicted: Predicted = Predicted.PROBABILITY,
) -> Forest:
    """Return fitted trees as one forest.

    Args:
        trees: of a classifier for probabilities, of a regressor for logarithms of errors.
        features: names of the columns that they were fitted to.
        labels: names of what they predict.
        predicted: what that is.

    Raises:
        ValueError: there is no tree, or one is of another number of labels or of more classes than
            no and yes.
    """
    if not trees:
        message = "a forest has a tree at least"
        raise ValueError(message)
    shape = len(trees), max(tree.node_count for tree in trees)
    feature, left, right = (np.zeros(shape, np.int32) for _ in range(3))
    threshold, values = np.zeros(shape), np.zeros((*shape, len(labels)))
    for at, tree in enumerate(trees):
        count = tree.node_count
        own = np.arange(count)
        leaf = tree.children_left < 0
        left[at, :count] = np.where(leaf, own, tree.children_left)
        right[at, :count] = np.where(leaf, own, tree.children_right)
        feature[at, :count] = np.where(leaf, 0, tree.feature)
        threshold[at, :count] = np.where(leaf, 0.0, tree.threshold)
        values[at, :count] = _values(tree, len(labels), predicted, at)
    depth = max(tree.max_depth for tree in trees)
    return Forest(
        tuple(features), tuple(labels), feature, threshold, left, right, values, depth, predicted
    )


def _values(
    tree: FittedTree, labels: int, predicted: Predicted, at: int
) -> npt.NDArray[np.float64]:
    if predicted is Predicted.LOG_ERROR:
        if tree.value.shape[1:] != (labels, 1):
            message = (
                f"tree {at} is of {tree.value.shape[1:]} labels and values, not of {(labels, 1)}: "
                "fit a regressor to one column for each label"
            )
            raise ValueError(message)
        means: npt.NDArray[np.float64] = tree.value[:, :, 0]
        return means
    if tree.value.shape[1:] != (labels, 2):
        message = (
            f"tree {at} is of {tree.value.shape[1:]} labels and classes, not of {(labels, 2)}: "
            "fit it to examples of both classes of each label"
        )
        raise ValueError(message)
    shares: npt.NDArray[np.float64] = tree.value[:, :, 1] / tree.value.sum(2)
    return shares


class _Body(Struct, frozen=True, array_like=True):
    features: tuple[str, ...]
    labels: tuple[str, ...]
    trees: int
    nodes: int
    depth: int
    arrays: bytes
    """Compressed: feature, left, right as int32, threshold and values as float64, little-endian."""
    predicted: Predicted = Predicted.PROBABILITY


def encode_forest(forest: Forest) -> bytes:
    """Return a forest as bytes that say what they are and whether they are whole."""
    arrays = b"".join(
        np.ascontiguousarray(array, kind).tobytes()
        for array, kind in (
            (forest.feature, _NODES),
            (forest.left, _NODES),
            (forest.right, _NODES),
            (forest.threshold, _NUMBERS),
            (forest.values, _NUMBERS),
        )
    )
    trees, nodes = forest.feature.shape
    body = msgspec.msgpack.encode(
        _Body(
            forest.features,
            forest.labels,
            trees,
            nodes,
            forest.depth,
            zlib.compress(arrays),
            forest.predicted,
        )
    )
    return seal(_KIND, VERSION, body)


def decode_forest(data: bytes) -> Forest:
    """Return a forest from its bytes.

    Raises:
        UnusableModel: they are no forest, are damaged, or were written by a newer program.
    """
    body = unseal(data, _KIND, VERSION)
    try:
        return _unpacked(msgspec.msgpack.decode(body, type=_Body))
    except (msgspec.MsgspecError, zlib.error, ValueError) as error:
        message = f"the model is not what it says ({error}); train the dataflow again"
        raise UnusableModel(message) from error


def _unpacked(body: _Body) -> Forest:
    shape, labels = (body.trees, body.nodes), len(body.labels)
    cells = body.trees * body.nodes
    sizes = [cells * _NODES.itemsize] * 3 + [
        cells * _NUMBERS.itemsize,
        cells * labels * _NUMBERS.itemsize,
    ]
    if min(*shape, labels) < 1 or body.depth < 0 or sum(sizes) > _LARGEST_MODEL:
        message = f"{body.trees} trees of {body.nodes} nodes and {labels} labels"
        raise ValueError(message)
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(body.arrays, sum(sizes) + 1)
    if len(raw) != sum(sizes) or not unpacker.eof:
        message = f"{len(raw)} bytes of trees, not {sum(sizes)}"
        raise ValueError(message)
    edges = np.cumsum([0, *sizes])
    parts = [raw[a:b] for a, b in pairwise(edges)]
    feature, left, right = (np.frombuffer(part, _NODES).reshape(shape) for part in parts[:3])
    threshold = np.frombuffer(parts[3], _NUMBERS).reshape(shape)
    values = np.frombuffer(parts[4], _NUMBERS).reshape((*shape, labels))
    for array, limit in ((feature, len(body.features)), (left, body.nodes), (right, body.nodes)):
        if array.min() < 0 or array.max() >= limit:
            message = "a node leads out of its tree"
            raise ValueError(message)
    return Forest(
        body.features,
        body.labels,
        feature,
        threshold,
        left,
        right,
        values,
        body.depth,
        body.predicted,
    )
