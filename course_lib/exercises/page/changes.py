"""Which statements of a page change what a name holds, without binding it: ``TABLE.append(1)``, ``CONFIG["b"] = 2``, ``fill(TABLE)``.

The rule, read off the code alone. A statement, with all that is inside it, changes a name
- by assigning to, or deleting, a part of it (``x[0] = 1``, ``x.y += 1``, ``del x[0]``);
- by calling a method of it (or of a part of it) as a statement of its own, or one that changes what it belongs to (``x.pop()``,
  ``map(x.append, …)``) anywhere; methods of modules and functions do not count;
- by handing it to a function of the page that changes an argument in one of these ways, or to one of ``CHANGE_ARGUMENTS``,
  or as ``out=``;
- by calling as a statement, or for an assignment's value, a function of the page that changes it as a global;
- by doing so to another name for it or for a part of it (``row = x[0]``, ``for row in x``).
Handing it to anything else, such as a plot, does not.
"""

import ast
from collections.abc import Iterator, Sequence

METHODS = frozenset(
    [
        "append", "appendleft", "extend", "extendleft", "insert", "pop", "popleft", "popitem", "remove", "clear", "update",
        "setdefault", "add", "discard", "sort", "reverse", "fill", "put", "resize", "itemset", "intersection_update",
        "difference_update", "symmetric_difference_update", "subtract", "rotate", "send",
    ]
)  # fmt: skip
CHANGE_ARGUMENTS = frozenset(
    [
        "setattr", "delattr", "shuffle", "heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort", "insort_left",
        "insort_right", "copyto", "put", "put_along_axis", "setitem", "at", "place", "fill_diagonal",
    ]
)  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef
_OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Changes:
    """What the statements of a page change; ``of(statement)``."""

    def __init__(self, nodes: Sequence[ast.stmt]) -> None:
        self._functions: dict[str, Function] = {}
        self._modules: set[str] = set()
        self._aliases: dict[str, set[str]] = {}
        self._globals: dict[str, set[str]] = {}  # that a function of the page changes
        self._arguments: set[str] = set()  # functions of the page that change an argument
        for part in (part for node in nodes for part in _inside(node)):
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions[part.name] = part
            elif isinstance(part, ast.Import | ast.ImportFrom):
                self._modules |= {(alias.asname or alias.name).partition(".")[0] for alias in part.names}
            else:
                self._alias(part)
        for _ in range(3):  # functions that call functions
            for name, function in self._functions.items():
                self._effects(name, function)

    def of(self, node: ast.stmt) -> frozenset[str]:
        """The names that a statement changes."""
        found = self._changed(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):  # @register.add, @note_down
            roots = {_root(part) for part in node.decorator_list} - {""}
            found |= {root for root in roots if self._holds_data(root)}.union(
                *(self._globals.get(x, ()) for x in roots)
            )
        size = -1
        while len(found) != size:
            size = len(found)
            found |= {other for name in found for other in self._aliases.get(name, ())}
        return frozenset(found)

    def _holds_data(self, name: str) -> bool:
        return name not in self._modules and name not in self._functions

    def _changed(self, node: ast.AST) -> set[str]:
        found: set[str] = set()
        for part in _inside(node):
            if isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store | ast.Del):
                found.add(_root(part))
            elif isinstance(part, ast.Attribute) and part.attr in METHODS:
                found |= {root} if self._holds_data(root := _root(part)) else set()
            elif isinstance(part, ast.Expr | ast.Assign) and isinstance(call := _awaited(part.value), ast.Call):
                if isinstance(part, ast.Expr) and isinstance(call.func, ast.Attribute):
                    found |= {root} if self._holds_data(root := _root(call.func)) else set()
                found |= self._globals.get(call.func.id, set()) if isinstance(call.func, ast.Name) else set()
            if isinstance(part, ast.Call):
                name = getattr(part.func, "attr", getattr(part.func, "id", ""))
                of_data = isinstance(part.func, ast.Attribute) and self._holds_data(_root(part.func))
                if of_data and _in_place(name):
                    found.add(_root(part.func))
                found |= {_root(keyword.value) for keyword in part.keywords if keyword.arg == "out"}
                of_page = isinstance(part.func, ast.Name) and name in self._arguments
                if of_page or (not of_data and (name in CHANGE_ARGUMENTS or _in_place(name))):
                    given = [*part.args, *(keyword.value for keyword in part.keywords)]
                    found |= {root for x in given if (root := _root(x)) and self._holds_data(root)}
        return found - {""}

    def _effects(self, name: str, function: Function) -> None:
        given = function.args
        parameters = {
            a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if a
        }
        parts = [part for statement in function.body for part in _inside(statement)]
        stated = {n for part in parts if isinstance(part, ast.Global) for n in part.names}
        stored = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        stored |= {part.name for part in parts if isinstance(part, ast.FunctionDef | ast.ClassDef)}
        changed = {n for statement in function.body for n in self._changed(statement)}
        changed |= {other for n in changed for other in self._aliases.get(n, ())}
        if changed & parameters:
            self._arguments.add(name)
        self._globals[name] = (changed | (stored & stated)) - parameters - (stored - stated)

    def _alias(self, part: ast.AST) -> None:
        """Note names that are other names for a thing or for a part of it."""
        if isinstance(part, ast.Assign):
            targets, roots = part.targets, {_root(part.value)}
            if isinstance(part.value, ast.Tuple | ast.List | ast.Dict):
                held = part.value.values if isinstance(part.value, ast.Dict) else part.value.elts
                roots = {_root(value) for value in held}
            roots |= {target.id for target in targets if isinstance(target, ast.Name)}  # a = b = []
        elif isinstance(part, ast.For | ast.AsyncFor):
            targets = [part.target]
            roots = {x.id for x in ast.walk(part.iter) if isinstance(x, ast.Name) and self._holds_data(x.id)}
        elif isinstance(part, ast.withitem) and part.optional_vars:
            targets, roots = [part.optional_vars], {_root(part.context_expr)}
        else:
            return
        for target in (x for t in targets for x in ast.walk(t) if isinstance(x, ast.Name)):
            if isinstance(target.ctx, ast.Store):
                self._aliases.setdefault(target.id, set()).update(roots - {"", target.id})


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all inside it that runs with it: not the bodies of functions and classes."""
    yield node
    if not isinstance(node, _OWN):
        for child in ast.iter_child_nodes(node):
            yield from _inside(child)


def _root(node: ast.AST) -> str:
    """The name at the start of ``name.a[0].b`` or of ``name.method().method``; '' if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _awaited(node: ast.AST | None) -> ast.AST | None:
    return node.value if isinstance(node, ast.Await) else node


def _in_place(name: str) -> bool:
    """Whether a method or function of PyTorch is one that works in place."""
    return name.endswith("_") and not name.endswith("__")
