"""Checks Triton kernels, their decorators and their launches.

Triton's interpreter runs the body of a kernel as Python, so a kernel may only use what Triton's language has: the listed functions of
`triton.language`, arithmetic, branches, loops and constants. All else is refused, whether Triton would compile it or not.
"""

import ast
import copy

from source_rules import BUILTINS, Refused, dotted

LANGUAGE = {
    "abs", "advance", "arange", "argmax", "argmin", "associative_scan", "assume", "atomic_add", "atomic_and", "atomic_cas", "atomic_max",
    "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor", "broadcast", "broadcast_to", "cast", "cat", "cdiv", "ceil", "clamp", "constexpr",
    "cos", "cumprod", "cumsum", "debug_barrier", "device_assert", "div_rn", "dot", "erf", "exp", "exp2", "expand_dims", "fdiv", "flip",
    "floor", "fma", "full", "gather", "histogram", "interleave", "join", "load", "log", "log2", "make_block_ptr", "max", "max_constancy",
    "max_contiguous", "maximum", "min", "minimum", "multiple_of", "num_programs", "permute", "program_id", "ravel", "reduce", "reshape",
    "rsqrt", "sigmoid", "sin", "softmax", "sort", "split", "sqrt", "sqrt_rn", "static_assert", "store", "sum", "swizzle2d", "topk", "trans",
    "umulhi", "view", "where", "xor_sum", "zeros", "zeros_like",
}
MATH = {"abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2", "rsqrt", "sin", "sqrt", "sqrt_rn", "umulhi"}
TYPES = {
    "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "float8e4nv",
    "float8e5",
}
RANGES = {"range", "static_range"}
# Functions that take a kernel, which combines two values.
COMBINING = {"reduce", "associative_scan"}
FUNCTIONS = {"abs", "float", "int", "len", "max", "min", "range"}
ATTRIBUTES = {"T", "dtype", "element_ty", "primitive_bitwidth", "scalar", "shape", "type"}
METHODS = {
    "abs", "argmax", "argmin", "broadcast_to", "cast", "ceil", "cos", "cumprod", "cumsum", "erf", "exp", "exp2", "expand_dims", "flip", "floor",
    "gather", "is_bf16", "is_floating", "is_fp16", "is_fp32", "is_int", "log", "log2", "max", "min", "permute", "ravel", "reshape", "rsqrt",
    "sigmoid", "sin", "softmax", "sort", "split", "sqrt", "sum", "to", "trans", "view",
}
OPTIONS = {"num_warps", "num_stages", "num_ctas", "maxnreg"}
# All configurations of a kernel are verified and compiled.
MOST_CONFIGURATIONS = 16


class Kernel:
    """A function with `triton.jit`."""

    def __init__(self, check, node):
        self.all, self.node = check, node
        arguments = node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
            raise Refused("triton_kernel", node, "a kernel takes plain parameters only")
        self.parameters = [a.arg for a in arguments.args]
        self.constants = {a.arg for a in arguments.args if self.annotated(a.annotation)}
        for default in arguments.defaults:
            check.constant(default)
        if node.returns is not None or getattr(node, "type_params", None):
            raise Refused("triton_kernel", node, "a kernel has no annotation of its result and no parameters of types")
        # Names of parameters that functions of its decorators read on the host.
        self.read, self.configurations = set(), 1
        for position, decorator in enumerate(node.decorator_list):
            self.decorator(decorator, position + 1 == len(node.decorator_list))

    def refuse(self, node, detail):
        raise Refused("triton_kernel", node, detail)

    def annotated(self, annotation):
        """True for `tl.constexpr`; there may be no other annotation, because the interpreter would ignore it."""
        if annotation is None:
            return False
        names = dotted(annotation) or [""]
        if self.all.modules.get(names[0]) != "triton.language" or names[1:] != ["constexpr"]:
            self.refuse(annotation, f"the annotation `{ast.unparse(annotation)[:80]}` of a kernel is not permitted")
        return True

    # Decorators

    def decorator(self, node, last):
        called = isinstance(node, ast.Call)
        names = dotted(node.func if called else node) or [""]
        triton = self.all.modules.get(names[0]) == "triton" and len(names) == 2
        if triton and last and names[1] == "jit" and not called:
            return
        if not (triton and called and not last and names[1] in ("autotune", "heuristics")):
            raise Refused("decorator", node, f"the decorator `{ast.unparse(node)[:80]}` of a kernel is not permitted")
        order = ["configs", "key"] if names[1] == "autotune" else ["values"]
        if len(node.args) > len(order) or any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise Refused("decorator", node, f"the arguments of `triton.{names[1]}` cannot be read without running the program")
        given = dict(zip(order, node.args))
        given.update({k.arg: k.value for k in node.keywords})
        if names[1] == "autotune":
            self.autotune(node, given)
        else:
            self.heuristics(node, given.pop("values", None), given)

    def autotune(self, node, given):
        configurations = given.pop("configs", None)
        if not isinstance(configurations, ast.List) or not 1 <= len(configurations.elts) <= MOST_CONFIGURATIONS:
            raise Refused("not_constant", node, f"`configs` must be a list of 1 to {MOST_CONFIGURATIONS} calls of `triton.Config`")
        for each in configurations.elts:
            self.configuration(each)
        self.configurations = len(configurations.elts)
        for name, value in given.items():
            listed = self.all.constant(value) if name in ("key", "reset_to_zero", "restore_value") else None
            if not isinstance(listed, list) or not all(n in self.parameters for n in listed):
                raise Refused("decorator", node, f"`{name}` of `triton.autotune` is not permitted, or names no parameters")

    def configuration(self, node):
        names = dotted(node.func) if isinstance(node, ast.Call) else None
        if not names or self.all.modules.get(names[0]) != "triton" or names[1:] != ["Config"] or len(node.args) > 1:
            raise Refused("not_constant", node, f"`{ast.unparse(node)[:80]}` is no call of `triton.Config` that can be read")
        given = {k.arg: k.value for k in node.keywords}
        values = self.all.constant(node.args[0] if node.args else given.pop("kwargs", node))
        if not isinstance(values, dict) or not set(values) <= self.constants:
            raise Refused("not_constant", node, "`triton.Config` may give values to parameters of the kind `tl.constexpr` only")
        for name, value in given.items():
            if name not in OPTIONS or not isinstance(self.all.constant(value), int):
                raise Refused("not_constant", node, f"`{name}` of `triton.Config` is not permitted")

    def heuristics(self, node, values, others):
        if others or not isinstance(values, ast.Dict):
            raise Refused("decorator", node, "`triton.heuristics` takes a dictionary here")
        for key, value in zip(values.keys, values.values):
            if not isinstance(key, ast.Constant) or key.value not in self.constants or not isinstance(value, ast.Lambda):
                raise Refused("decorator", node, "`triton.heuristics` needs a `lambda` for parameters of the kind `tl.constexpr`")
            self.read.update(self.all.host(self.node).names_of(value))

    # The body

    def check(self):
        self.local = set(self.parameters)
        for name in self.parameters:
            self.own(name, self.node)
        for part in ast.walk(self.node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                if part.id in self.all.names:
                    raise Refused("rebinding", part, f"`{part.id}` hides a name of the file")
                self.own(part.id, part)
                self.local.add(part.id)
        self.block(self.node.body)

    @staticmethod
    def own(name, node):
        """Refuses a name that Python or Triton's interpreter looks up while it runs the kernel."""
        if name in BUILTINS or name.startswith(("__", "interpreter_")):
            raise Refused("rebinding", node, f"`{name}` hides a name of Python or of Triton's interpreter")

    def block(self, body):
        for statement in body:
            self.statement(statement)

    def statement(self, node):
        if isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                self.value(node.value)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            plain = target.elts if isinstance(target, ast.Tuple) else [target]
            if not all(isinstance(name, ast.Name) for name in plain):
                self.refuse(node, f"`{ast.unparse(target)[:80]}` cannot be assigned to in a kernel")
            self.value(node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and isinstance(node.target, ast.Name) and node.value is not None:
            if isinstance(node, ast.AnnAssign):
                self.annotated(node.annotation)
            self.value(node.value)
        elif isinstance(node, ast.Return):
            if node.value is not None:
                self.value(node.value)
        elif isinstance(node, (ast.If, ast.While)):
            self.value(node.test)
            self.block(node.body)
            self.block(node.orelse)
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and not node.orelse:
            names = dotted(node.iter.func) if isinstance(node.iter, ast.Call) else None
            if names != ["range"] and not (names and self.language(names) and names[1:] in [[r] for r in RANGES]):
                self.refuse(node, "a loop in a kernel runs over `range`, `tl.range` or `tl.static_range`")
            self.arguments(node.iter)
            self.block(node.body)
        elif not isinstance(node, ast.Pass):
            self.refuse(node, f"`{type(node).__name__}` is not permitted in a kernel")

    def language(self, names):
        """True if a chain of names begins at `triton.language`."""
        return names[0] not in self.local and self.all.modules.get(names[0]) == "triton.language"

    def value(self, node):
        if isinstance(node, ast.Constant):
            if not (node.value is None or isinstance(node.value, (bool, int, float, str))):
                self.refuse(node, f"the constant `{ast.unparse(node)[:80]}` is not permitted in a kernel")
        elif isinstance(node, ast.Name):
            if node.id not in self.local and node.id not in self.all.constants:
                self.refuse(node, f"the name `{node.id}` is not permitted in a kernel")
        elif isinstance(node, (ast.Tuple, ast.List)):
            for each in node.elts:
                self.value(each)
        elif isinstance(node, ast.UnaryOp):
            self.value(node.operand)
        elif isinstance(node, ast.BinOp):
            self.value(node.left)
            self.value(node.right)
        elif isinstance(node, ast.BoolOp):
            for each in node.values:
                self.value(each)
        elif isinstance(node, ast.Compare):
            for each in [node.left, *node.comparators]:
                self.value(each)
        elif isinstance(node, ast.IfExp):
            for each in (node.test, node.body, node.orelse):
                self.value(each)
        elif isinstance(node, ast.Subscript):
            self.value(node.value)
            self.value(node.slice)
        elif isinstance(node, ast.Slice) and node.lower is None and node.upper is None and node.step is None:
            pass
        elif isinstance(node, ast.Attribute):
            self.attribute(node)
        elif isinstance(node, ast.Call):
            self.call(node)
        else:
            self.refuse(node, f"`{ast.unparse(node)[:80]}` is not permitted in a kernel")

    def attribute(self, node):
        names = dotted(node)
        if names and self.language(names):
            if len(names) != 2 or names[1] not in TYPES:
                self.refuse(node, f"`{'.'.join(names)}` is no type of Triton's language")
            return
        if node.attr not in ATTRIBUTES:
            self.refuse(node, f"the attribute `{node.attr}` is not permitted in a kernel")
        self.value(node.value)

    def call(self, node):
        names = dotted(node.func)
        combines = False
        if names and self.language(names):
            if not (len(names) == 2 and names[1] in LANGUAGE or len(names) == 3 and names[1] == "math" and names[2] in MATH):
                self.refuse(node, f"`{'.'.join(names)}` is not in the list of Triton's functions that a kernel may use")
            combines = names[-1] in COMBINING
        elif isinstance(node.func, ast.Name):
            mine = node.func.id in self.all.kernels or node.func.id in FUNCTIONS
            if not mine or node.func.id in self.local:
                self.refuse(node, f"the function `{node.func.id}` is not permitted in a kernel")
            # Python's own `float` of a text: infinity and not-a-number.
        elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            self.value(node.func.value)
        else:
            self.refuse(node, f"`{ast.unparse(node.func)[:80]}` cannot be called in a kernel")
        self.arguments(node, combines)

    def arguments(self, node, combines=False):
        for keyword in node.keywords:
            # Triton's interpreter gives its functions arguments of its own by name.
            if keyword.arg is None or keyword.arg.startswith("_") or keyword.arg == "member":
                self.refuse(node, f"`{keyword.arg or '**'}` is no keyword that a kernel may use")
        for value in [*node.args, *[k.value for k in node.keywords]]:
            if combines and isinstance(value, ast.Name) and value.id in self.all.kernels and value.id not in self.local:
                continue
            self.value(value)


class Launches:
    """The part of a function's check that is about launches: a kernel is called by `kernel[grid](…)`, as a statement."""

    def is_kernel(self, node):
        launched = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id not in self.local
        return launched and node.value.id in self.all.kernels

    def names_of(self, node):
        """The arguments of a kernel that `lambda meta: …` reads; its value must be numbers."""
        arguments = node.args
        others = arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg or arguments.defaults
        # `__init__` may compute with tensors, and what it leaves behind for a launch may not.
        if self.building or "triton" not in self.all.modules.values() or others or len(arguments.args) != 1:
            self.refuse("closure", node, f"`{ast.unparse(node)[:80]}` is not permitted")
        name = arguments.args[0].arg
        if name in self.all.names or name in BUILTINS or name in self.local:
            self.refuse("rebinding", node, f"`{name}` hides another name")
        before, self.meta = self.meta, set()
        within, self.within = self.within, True
        self.local[name] = "meta"
        kind = self.kind(node.body)
        del self.local[name]
        self.within = within
        found, self.meta = self.meta, before
        if kind != "scalar":
            self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` gives something else than numbers")
        return tuple(sorted(found))

    def of_Lambda(self, node):
        return ("grid", self.names_of(node))

    def launch_kernel(self, node):
        kernel = self.all.kernels[node.func.value.id]
        grid = self.kind(node.func.slice)
        if grid != "scalar" and not (isinstance(grid, tuple) and grid[0] == "grid"):
            self.refuse("torch_operator", node, "a grid is a tuple of numbers, or a `lambda` that gives one")
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            self.refuse("call", node, "`*` and `**` are not permitted in a launch")
        if len(node.args) > len(kernel.parameters):
            self.refuse("call", node, f"`{node.func.value.id}` has {len(kernel.parameters)} parameters")
        given = list(zip(kernel.parameters, node.args)) + [(k.arg, k.value) for k in node.keywords]
        names = [name for name, _ in given]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            self.refuse("call", node, f"`{twice}` of `{node.func.value.id}` has two values")
        # The host could compute with a tensor, so values that it may read must be numbers.
        numbers = kernel.constants | kernel.read | OPTIONS | set(grid[1] if isinstance(grid, tuple) else ())
        for name, value in given:
            if name not in kernel.parameters and name not in OPTIONS:
                self.refuse("call", node, f"the kernel `{node.func.value.id}` has no parameter `{name}`")
            kind = self.kind(value)
            if kind not in ("scalar", "tensor") or name in numbers and kind != "scalar":
                self.refuse("torch_operator", node, f"`{ast.unparse(value)[:60]}` is no number, but the host computes with `{name}`")
        self.launches = True


def normalised(tree, check):
    """The program and its kernels as texts that have one reading.

    Triton reads kernels from the text of their file by lines: a text within a kernel might pass for its definition. So the
    executed text is written anew from the syntax tree that was checked, without descriptions in kernels.
    """
    tree = copy.deepcopy(tree)
    kernels = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in check.kernels]
    for kernel in kernels:
        for part in ast.walk(kernel):
            for field in ("body", "orelse"):
                block = getattr(part, field, None)
                if isinstance(block, list):
                    kept = [s for s in block if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
                    setattr(part, field, kept or ([ast.Pass()] if field == "body" else []))
    whole = text_of(tree)
    known = {name for name, kind in check.modules.items() if kind in ("triton", "triton.language", "math")}
    lines = [f"import {check.modules[name]} as {name}" for name in sorted(known)]
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            if names <= known | set(check.constants) | {"float"}:
                lines.append(text_of(node))
        elif node in kernels:
            node.decorator_list = node.decorator_list[-1:]
            lines.append(text_of(node))
    return whole, "\n".join(lines) + "\n"


def text_of(node):
    text = ast.unparse(ast.fix_missing_locations(node)) + "\n"
    again = ast.parse(text)
    again = again if isinstance(node, ast.Module) else again.body[0]
    if ast.dump(again) != ast.dump(node):
        raise Refused("syntax", node, "the source reads differently when it is written anew")
    return text
