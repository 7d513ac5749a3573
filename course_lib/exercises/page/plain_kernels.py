"""Of a page with a kernel the part that a compiler needs, and that can do nothing else: imports, constants, functions under @triton.jit.

Triton's interpreter runs a kernel as Python, in the process that watches its loads and stores. So what a kernel may say is held
to what Triton compiles: no attribute of an attribute, no name with an underscore before it, no built-in function that a GPU lacks.
"""

import ast
import builtins
import functools
from collections.abc import Iterator
from typing import Any

from course_lib.kernels import tl, triton

OWN = {"triton": "triton", "tl": "triton.language", "math": "math"}  # names that a page does not give to anything else
BUILT_IN = {
    "range", "len", "int", "float", "bool", "min", "max", "abs", "sum", "print", "round", "pow",
}  # fmt: skip
CALLED = {"math", "int", "float", "bool", "min", "max", "abs", "round", "pow", "len", "range", "tuple", "list", "dict"}
CALLED |= {"tl.constexpr", "triton.cdiv", "triton.next_power_of_2", "triton.Config", "tl.cdiv"}
BARE = {*OWN, "torch", "np", "numpy"}
MODULES = (*OWN.values(), "torch", "numpy")
FROM = {"math", "triton.language", "triton.language.math"}  # what a kernel imports names from
FROM |= {"triton.language.extra", "triton.language.extra.cuda", "triton.language.extra.libdevice"}
DECORATORS = {"triton.jit", "triton.autotune", "triton.heuristics", "jit"}
BETWEEN = {"math", "extra", "cuda", "libdevice", "language"}  # tl.math.exp
LANGUAGE = ("triton.language.", "triton.runtime.interpreter")
OF_TRITON = {"jit", "autotune", "heuristics", "Config", "cdiv", "next_power_of_2"}  # triton.cdiv
WITHIN = {
    "core", "semantic", "standard", "random", "target_info", "runtime", "compiler", "knobs", "testing", "tools", "backends",
}  # fmt: skip
HIDDEN = {"handle", "data", "numpy", "builder", "fn", "src"}  # of a block in the interpreter
FORBIDDEN = (
    ast.Import, ast.ImportFrom, ast.ClassDef, ast.Lambda, ast.Try, ast.With, ast.Global, ast.Nonlocal, ast.Await, ast.Yield,
    ast.YieldFrom, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.NamedExpr, ast.GeneratorExp, ast.Delete, ast.Raise,
    ast.Match, ast.TryStar, ast.ListComp, ast.SetComp, ast.DictComp,
)  # fmt: skip
CONSTANT = (
    ast.Constant, ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Dict,
    ast.Subscript, ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.Slice, ast.Set,
)  # fmt: skip


def plain(text: str) -> tuple[str, str]:
    """The statements of a page that are kept, and of the first one that is not its line and why, '' if all are.

    Raises SyntaxError for what is no Python.
    """
    kept, left_out = [], ""
    nodes = ast.parse(text).body
    bound = {name for node in nodes for name in _bound(node)}
    foreign = {name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for name in _foreign(node)}
    for node in nodes:
        words = next(_against(node, bound), "") or next(_uses(node, foreign), "")
        if not words:
            kept.append(node)
        elif not left_out and not _harmless(node):
            left_out = f"{ast.unparse(node).splitlines()[0][:100]} ({words})"
    return ast.unparse(ast.Module(kept, [])), left_out


def _harmless(node: ast.stmt) -> bool:
    """Whether a kernel does not miss it: the call of check, say."""
    return isinstance(node, ast.Expr)


def _bound(node: ast.stmt) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            yield part.id
        elif isinstance(part, ast.FunctionDef | ast.ClassDef):
            yield part.name
        elif isinstance(part, ast.alias):
            yield part.asname or part.name.partition(".")[0]


def _foreign(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The names that an import binds to something that a kernel has no use for: a kernel of the library, say, or torch by another name."""
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        if isinstance(node, ast.ImportFrom):
            of_triton = node.module in FROM and alias.name not in WITHIN
            known = name in OWN or (of_triton and (alias.name in BETWEEN or _useful(str(node.module), alias.name)))
            known |= node.module == "course_lib.kernels" and alias.name in ("LOG2E", "*")
        else:
            known = name in BARE and (alias.name if alias.asname else name) in MODULES
        if not known:
            yield name


def _uses(node: ast.stmt, foreign: set[str]) -> Iterator[str]:
    """The foreign names that are used; another name for one, for a kernel from a module of the student's own, is as foreign."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in foreign:
        foreign |= {x.id for x in node.targets if isinstance(x, ast.Name)}
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in foreign:
            yield f"no {part.id} beside or in a kernel"


def _against(node: ast.stmt, bound: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _import(node)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [x for t in targets for x in (t.elts if isinstance(t, ast.Tuple) else [t])]
        if not all(isinstance(x, ast.Name) and x.id not in OWN and not hasattr(builtins, x.id) for x in names):
            yield "only names of its own are given a value beside a kernel"
        for part in (node.value, getattr(node, "annotation", None)):
            yield from _constant(part)
    elif isinstance(node, ast.FunctionDef):
        yield from _kernel(node, bound)
    else:
        yield "only imports, constants and functions under @triton.jit are read beside a kernel"


def _import(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    module = getattr(node, "module", None)
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        meant = alias.name if isinstance(node, ast.Import) and alias.asname else name
        if module is not None:
            meant = f"{module}.{alias.name}"
        own = OWN.get(name)
        if own and meant not in (own, f"course_lib.kernels.{name}"):
            yield f"{name} is {own} beside a kernel"
        if hasattr(builtins, name) or (name in ("jit", "cdiv") and not (module or "").startswith("triton")):
            yield f"{name} is a name of Python or Triton"
        if name == "*" and module not in ("course_lib.kernels", "triton.language", "math"):
            yield "import the names that are needed"


def _constant(node: ast.AST | None) -> Iterator[str]:
    parts = [] if node is None else list(ast.walk(node))
    within = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
    for part in parts:
        if not isinstance(part, CONSTANT):
            yield "a constant beside a kernel is an expression"
        elif isinstance(part, ast.Call) and not {_dotted(part.func), _dotted(part.func).partition(".")[0]} & CALLED:
            yield f"{_dotted(part.func) or 'a function'} is not called beside a kernel"
        elif isinstance(part, ast.Attribute) and part.attr == "__name__":
            continue
        elif isinstance(part, ast.Attribute) and (part.attr.startswith("_") or not _dotted(part)):
            yield f"{part.attr} is not asked for beside a kernel"
        elif isinstance(part, ast.Attribute) and _dotted(part).partition(".")[0] not in OWN:
            yield f"{_dotted(part)} is not used beside a kernel"
        elif isinstance(part, ast.Attribute):
            yield from _of_triton(part, _dotted(part).split("."), inner=True)
        elif isinstance(part, ast.Name) and (part.id.startswith("__") or (part.id in BARE and id(part) not in within)):
            yield f"{part.id} itself is not used beside a kernel"


def _kernel(node: ast.FunctionDef, bound: set[str]) -> Iterator[str]:
    decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    names = {_dotted(d) for d in decorators}
    missing = {
        name for name in names if name.isidentifier() and name not in bound and not hasattr(builtins, name)
    }  # raises
    if not names or not names - missing <= DECORATORS or node.name in {*OWN, *dir(builtins)}:
        yield "a function beside a kernel needs @triton.jit"
    given = [
        value
        for d in node.decorator_list
        if isinstance(d, ast.Call)
        for value in (*d.args, *(k.value for k in d.keywords))
    ]
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    for part in (*given, *node.args.defaults, *node.args.kw_defaults, node.returns, *(a.annotation for a in arguments)):
        yield from _constant(part)
    if any(
        isinstance(x, ast.List)
        for value in (*node.args.defaults, *node.args.kw_defaults)
        if value
        for x in ast.walk(value)
    ):
        yield "no list is an argument's default in a kernel"
    for statement in node.body:
        yield from _body(statement)


def _body(statement: ast.stmt) -> Iterator[str]:
    within = {id(part.value) for part in ast.walk(statement) if isinstance(part, ast.Attribute)}
    yield from _as_compiled(statement)
    for part in ast.walk(statement):
        if isinstance(part, FORBIDDEN) or (isinstance(part, ast.FunctionDef) and part is not statement):
            yield f"no {type(part).__name__} in a kernel"
        elif isinstance(part, ast.Attribute):
            dotted = _dotted(part).split(".")
            if part.attr.startswith("_") or (dotted[0] not in BARE and part.attr not in _methods()):
                yield f"no .{part.attr} in a kernel"
            yield from _of_triton(part, dotted, inner=id(part) in within)
            if dotted[0] in ("torch", "np", "numpy", "math") and (len(dotted) > 2 or dotted[1] in ("os", "sys")):
                yield f"no {'.'.join(dotted)} in a kernel"
        elif isinstance(part, ast.Name) and (
            part.id.startswith("__") or (hasattr(builtins, part.id) and part.id not in BUILT_IN)
        ):
            yield f"no {part.id} in a kernel"
        elif isinstance(part, ast.Name) and part.id in BARE and id(part) not in within:
            yield f"{part.id} itself in a kernel"


def _as_compiled(statement: ast.stmt) -> Iterator[str]:
    """What the compiler takes for something else than Python does, so that a kernel could tell which of the two it is read by.

    A list is a tuple to the compiler: it is given to Triton's functions, and nothing else is done with it. What print gives back differs.
    """
    parts = list(ast.walk(statement))
    given = {
        id(x) for part in parts if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
        for x in (*part.args, *(keyword.value for keyword in part.keywords))
    }  # fmt: skip
    printing = {
        id(part.value.func) for part in parts if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call)
    }
    for part in parts:
        if isinstance(part, ast.List) and id(part) not in given:
            yield "a list is only given to Triton's functions in a kernel"
        elif isinstance(part, ast.Name) and part.id == "print" and id(part) not in printing:
            yield "print is a statement in a kernel"


@functools.cache
def _methods() -> frozenset[str]:
    """What Triton's blocks, constants and descriptors have, without what the interpreter keeps its numbers in."""
    kinds = [
        getattr(tl, name)
        for name in ("tensor", "constexpr", "tensor_descriptor", "tensor_descriptor_base", "dtype")
        if hasattr(tl, name)
    ]
    return frozenset(
        {name for kind in kinds for name in dir(kind)} - HIDDEN | {"shape", "dtype", "type", "element_ty", "value"}
    )


def _of_triton(part: ast.Attribute, dotted: list[str], inner: bool) -> Iterator[str]:
    """Of Triton's modules only what a kernel says: tl.exp, tl.math.exp."""
    if dotted[0] not in ("tl", "triton") or (inner and dotted[-1] in BETWEEN):
        return
    module = ".".join([OWN[dotted[0]], *dotted[1:-1]])
    if not set(dotted[1:-1]) <= BETWEEN or dotted[-1] in {*WITHIN, *BETWEEN} or not _useful(module, dotted[-1]):
        yield f"no {'.'.join(dotted)} in a kernel"


def _useful(module: str, name: str) -> bool:
    """Whether what a module of Triton's, or ``math``, has by a name is Triton's language, or a number: these modules import others."""
    if module == "math" or name == "*":
        return True
    if module == "triton":
        return name in OF_TRITON
    found: Any = triton
    for step in (*module.split(".")[1:], name):
        found = getattr(found, step, None)
    if isinstance(found, int | tl.dtype | tl.constexpr) or found is None:  # None: there is no such thing, which raises
        return True
    return str(getattr(found, "__module__", "")).startswith(LANGUAGE) and callable(found)


def _dotted(node: ast.AST) -> str:
    """'a.b.c' of names and attributes; '' for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    before = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{before}.{node.attr}" if before and isinstance(node, ast.Attribute) else ""
