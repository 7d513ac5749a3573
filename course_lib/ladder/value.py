"""A scalar that remembers where it came from: reverse-mode differentiation in a screen of Python.

Each operation makes a new Value with its parents and the local derivative for each; ``backward`` walks them in reverse.
Source of the design: micrograd (Karpathy, 2020).
"""

import math
from typing import ClassVar


class Value:
    """A number in a graph: ``data``, and after ``backward()`` of a later Value, its ``grad``."""

    __slots__ = ("data", "grad", "parents", "slopes")
    created: ClassVar[int] = 0  # all Values ever made, to count what a computation allocates

    def __init__(self, data: float, parents: tuple["Value", ...] = (), slopes: tuple[float, ...] = ()):
        self.data, self.grad, self.parents, self.slopes = data, 0.0, parents, slopes
        Value.created += 1

    def __add__(self, other: "Value") -> "Value":
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    def __sub__(self, other: "Value") -> "Value":
        return Value(self.data - other.data, (self, other), (1.0, -1.0))

    def __mul__(self, other: "Value") -> "Value":
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def __truediv__(self, other: "Value") -> "Value":
        ratio = self.data / other.data
        return Value(ratio, (self, other), (1 / other.data, -ratio / other.data))

    def exp(self) -> "Value":
        """e to the power of this Value."""
        e = math.exp(self.data)
        return Value(e, (self,), (e,))

    def backward(self) -> None:
        """Add to the ``grad`` of every Value that this one was computed from."""
        order: list[Value] = []
        seen: set[int] = set()
        stack = [(self, False)]
        while stack:  # not recursive: a graph can be deeper than Python's stack
            node, parents_done = stack.pop()
            if parents_done:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((parent, False) for parent in node.parents)
        self.grad = 1.0
        for node in reversed(order):
            for parent, slope in zip(node.parents, node.slopes):
                parent.grad += slope * node.grad
