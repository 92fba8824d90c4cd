"""Detects the techniques of an accepted source: of its Triton kernels, and whether a kernel does the work of several operators.

A technique is seen in the syntax tree; nothing is executed. A wrong answer puts a program into the wrong cell of an archive and has no
effect on its verdict. C++ is read elsewhere.
"""

import ast

from source_rules import METHODS, SCALAR_ATTRIBUTES, SCALAR_METHODS, TORCH, dotted

# Functions of Triton's language that combine the elements of a block.
REDUCTIONS = {"argmax", "argmin", "max", "min", "reduce", "sum", "xor_sum"}
ATOMICS = {"atomic_add", "atomic_and", "atomic_max", "atomic_min", "atomic_or", "atomic_xor"}
# Functions that make a tensor of a shape alone.
FACTORIES = {"arange", "empty", "eye", "full", "linspace", "ones", "tensor", "zeros"}
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
# So deep are calls of one method of a reference by another followed.
DEEPEST = 8


def techniques(check, reference=None):
    """The names of the techniques of a source that was accepted, sorted."""
    host = Host(check)
    found = set()
    for kernel in host.kernels:
        found |= Device(check.kernels[kernel], host.stages > 1 or staged(check.kernels[kernel]), check).found
    # Fewer launches than operators: one kernel at least does the work of two.
    operators = count(reference) if reference is not None else 0
    if host.launches is not None and 0 < host.launches + host.operators < operators:
        found.add("fusion")
    return sorted(found)


def called(node, check):
    """The name of a function of Triton's language that is called; None for another call."""
    names = dotted(node.func) if isinstance(node, ast.Call) else None
    if names and check.modules.get(names[0]) == "triton.language" and len(names) > 1:
        return names[-1]
    return None


def mentions(node, names):
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


def number(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) else None


def staged(kernel):
    """True if a configuration of a kernel asks for a pipeline of several stages."""
    keywords = [k for d in kernel.node.decorator_list for part in ast.walk(d) if isinstance(part, ast.Call) for k in part.keywords]
    return any(k.arg == "num_stages" and (number(k.value) or 0) > 1 for k in keywords)


class Host:
    """The functions that `ModelNew.forward` reaches: their launches and the kernels that these start."""

    def __init__(self, check):
        self.check, self.launches, self.operators, self.stages = check, 0, 0, 1
        self.functions = {name for extension in check.extensions.values() for name in extension["functions"]}
        self.kernels, waiting, seen = set(), [("ModelNew", "forward")], set()
        while waiting:
            key = waiting.pop()
            if key in seen or key not in check.graph:
                continue
            seen.add(key)
            body = check.graph[key]
            self.block(body, body.node, False)
            waiting.extend(body.calls)
        if check.permits_torch:
            self.operators = count_in(check.tree)
        new = set(self.kernels)
        while new:
            used = {part.id for kernel in new for part in ast.walk(check.kernels[kernel].node) if isinstance(part, ast.Name)}
            new = (used & set(check.kernels)) - self.kernels
            self.kernels |= new

    def block(self, body, node, repeated):
        repeats = repeated or isinstance(node, (ast.For, ast.While, ast.ListComp, ast.GeneratorExp))
        if isinstance(node, ast.Call) and self.is_launch(body, node):
            # The number of turns of a loop is not known here.
            self.launches = None if repeats or self.launches is None else self.launches + 1
        for child in ast.iter_child_nodes(node):
            self.block(body, child, repeats)

    def is_launch(self, body, node):
        function, check = node.func, self.check
        if isinstance(function, ast.Subscript) and isinstance(function.value, ast.Name) and function.value.id in check.kernels:
            self.kernels.add(function.value.id)
            stages = [number(k.value) or 1 for k in node.keywords if k.arg == "num_stages"]
            self.stages = max([self.stages, *stages])
            return True
        names = dotted(function) or [""]
        kinds = [check.aliases.get(names[0]), body.local.get(names[0])] if len(names) == 1 else []
        if body.owner and len(names) == 2 and body.local.get(names[0]) == "self":
            kinds.append(check.classes[body.owner].attributes.get(names[1]))
        if any(isinstance(kind, tuple) and kind[0] == "function" for kind in kinds):
            return True
        return isinstance(function, ast.Attribute) and function.attr in self.functions and names[0] not in check.modules


class Device:
    """One kernel."""

    def __init__(self, kernel, staged, check):
        self.check, self.found = check, set()
        # Names whose values depend on the program's number, and names that hold neighbouring numbers.
        self.own, self.unit = set(), set()
        nodes = list(ast.walk(kernel.node))
        # A name may depend on another that is bound below it in a loop.
        for _ in range(2):
            for node in nodes:
                if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
                    self.bind(node)
        for node in nodes:
            name = called(node, check)
            if name is not None:
                self.call(node, name)
            if isinstance(node, ast.For):
                self.loop(node, kernel)
            if isinstance(node, ast.While) and mentions(node.test, self.own) and self.moves(node):
                self.found.add("persistent")
            if isinstance(node, (ast.For, ast.While)):
                self.sums(node, kernel.node)
                if staged or self.asks(node, "num_stages"):
                    self.found.add("shared_memory")
        if kernel.configurations > 1:
            self.found.add("autotuned")

    def bind(self, node):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        if self.is_own(node.value):
            self.own |= names
        if self.is_unit(node.value):
            self.unit |= names

    def is_own(self, node):
        return mentions(node, self.own) or any(called(part, self.check) == "program_id" for part in ast.walk(node))

    def is_unit(self, node):
        """True for numbers that grow by one from lane to lane along a dimension."""
        if isinstance(node, ast.Name):
            return node.id in self.unit
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, (ast.Add, ast.Sub)) and (self.is_unit(node.left) or self.is_unit(node.right))
        if isinstance(node, ast.Subscript):
            return self.is_unit(node.value)
        if isinstance(node, ast.Call):
            name = called(node, self.check)
            if name == "arange":
                return True
            if name in ("max_contiguous", "multiple_of", "expand_dims") and node.args:
                return self.is_unit(node.args[0])
            # A conversion keeps the numbers.
            return isinstance(node.func, ast.Attribute) and node.func.attr == "to" and self.is_unit(node.func.value)
        return False

    def call(self, node, name):
        if name in ("load", "store") and node.args and self.is_unit(node.args[0]):
            self.found.add("simd")
        elif name in ("make_block_ptr", "advance"):
            self.found |= {"shared_memory", "simd"}
        elif name == "dot":
            self.found.add("dot")
        elif name in ATOMICS:
            self.found.add("partial_sums")
        elif name == "static_range":
            self.found.add("unroll")

    def asks(self, node, keyword):
        """True if the range of a loop has a keyword with a value above one or with True."""
        if not isinstance(node, ast.For):
            return False
        given = [k.value for k in node.iter.keywords if k.arg == keyword]
        return any(isinstance(value, ast.Constant) and (value.value is True or (number(value) or 0) > 1) for value in given)

    def loop(self, node, kernel):
        if self.asks(node, "warp_specialize"):
            self.found.add("warp_specialized")
        if self.asks(node, "loop_unroll_factor"):
            self.found.add("unroll")
        arguments = node.iter.args
        steps = len(arguments) == 3 and number(arguments[2]) not in (1, -1)
        if steps and self.is_own(arguments[0]):
            # A share of the terms ends for each program elsewhere; a share of the blocks for all programs at the last one.
            self.found.add("partial_sums" if self.is_own(arguments[1]) else "persistent")
        body = [part for statement in node.body for part in ast.walk(statement)]
        blocks = any(called(part, self.check) == "advance" for part in body)
        times = any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult) and self.is_block(part, node.target.id, kernel) for part in body)
        if steps and not (self.is_own(arguments[0]) and not self.is_own(arguments[1])) or blocks or times:
            self.found.add("cache_blocking")

    def is_block(self, node, variable, kernel):
        """True for the product of a loop's variable and the length of a block."""
        sides = [node.left, node.right]
        if not any(isinstance(side, ast.Name) and side.id == variable for side in sides):
            return False
        return any(isinstance(side, ast.Name) and side.id in kernel.constants or (number(side) or 0) > 1 for side in sides)

    def moves(self, node):
        """True if a loop changes a name of its condition that depends on the program's number."""
        changed = {part.id for statement in node.body for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        return mentions(node.test, changed & self.own)

    def sums(self, loop, whole):
        """Lanes that each take terms of one result: a loop updates a block, and its elements are combined behind the loop."""
        updated = set()
        for part in ast.walk(loop):
            if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
                updated.add(part.target.id)
            elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name) and mentions(part.value, {part.targets[0].id}):
                updated.add(part.targets[0].id)
        # A name that takes its new value from one that was computed with it is updated, too.
        for part in ast.walk(loop):
            if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name) and isinstance(part.value, ast.Name):
                updated.add(part.targets[0].id)
        for part in ast.walk(whole):
            if called(part, self.check) in REDUCTIONS and part.lineno > loop.end_lineno and any(mentions(a, updated) for a in part.args):
                self.found.add("partial_sums")


def count(source):
    """The number of operators that the `forward` of a reference's `Model` calls; 0 for a source that cannot be read."""
    try:
        return Operators(ast.parse(source), "Model").count("forward")
    except (SyntaxError, RecursionError, ValueError):
        return 0


def count_in(tree):
    return Operators(tree, "ModelNew").count("forward")


class Operators:
    """Counts operators on tensors: functions of torch, layers, methods that compute, and arithmetic."""

    def __init__(self, tree, name):
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.modules, self.imported, self.numbers = set(), set(), set()
        for node in tree.body:
            if isinstance(node, ast.Import):
                self.modules |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                taken = {alias.asname or alias.name for alias in node.names}
                # A module that was imported from a package begins chains of names, as `nn` does.
                modules = {name for name in taken if name in ("nn", "functional", "F")}
                self.modules |= modules
                self.imported |= taken - modules if (node.module or "").startswith("torch") else set()
            elif isinstance(node, ast.Assign):
                self.numbers |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
        members = found[0].body if found else []
        self.methods = {node.name: node for node in members if isinstance(node, ast.FunctionDef)}
        self.layers, self.attributes = {}, set()
        if "__init__" in self.methods:
            self.initial(self.methods["__init__"])

    def initial(self, node):
        """Notes how many layers an attribute has, and which attributes are numbers."""
        parameters = {a.arg for a in node.args.args + node.args.kwonlyargs} | self.numbers
        for part in ast.walk(node):
            if not isinstance(part, ast.Assign):
                continue
            for target in part.targets:
                if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)):
                    continue
                calls = [c for c in ast.walk(part.value) if isinstance(c, ast.Call)]
                names = dotted(part.value.func) if isinstance(part.value, ast.Call) else None
                if names and names[-1] == "Sequential":
                    self.layers[target.attr] = max(1, len(part.value.args))
                plain = all(part.id in parameters for part in ast.walk(part.value) if isinstance(part, ast.Name))
                if not calls and plain:
                    self.attributes.add(target.attr)

    def count(self, method, depth=0):
        node = self.methods.get(method)
        return self.of_function(node, depth) if node is not None and depth < DEEPEST else 0

    def of_function(self, node, depth):
        numbers = set(self.numbers)
        for part in ast.walk(node):
            if isinstance(part, ast.Assign) and self.is_number(part.value, numbers):
                numbers |= {name.id for target in part.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        return sum(self.of(part, numbers, depth) for statement in node.body for part in ast.walk(statement))

    def is_number(self, node, numbers):
        """True for a value that is no tensor: constants, shapes and what is computed of them."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return node.id in numbers
        if isinstance(node, (ast.Tuple, ast.List)):
            return all(self.is_number(e, numbers) for e in node.elts)
        if isinstance(node, ast.BinOp):
            return self.is_number(node.left, numbers) and self.is_number(node.right, numbers)
        if isinstance(node, ast.UnaryOp):
            return self.is_number(node.operand, numbers)
        if isinstance(node, ast.Subscript):
            return self.is_number(node.value, numbers)
        if isinstance(node, ast.Attribute):
            mine = isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in self.attributes
            return mine or node.attr in SCALAR_ATTRIBUTES
        if isinstance(node, ast.Call):
            names = dotted(node.func) or [""]
            return names[0] == "math" or len(names) == 1 and names[0] in ("len", "int", "float") or isinstance(node.func, ast.Attribute) and node.func.attr in SCALAR_METHODS
        return False

    def of(self, node, numbers, depth):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
            return not self.is_number(node, numbers)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return not self.is_number(node, numbers)
        if isinstance(node, ast.Compare):
            return not all(self.is_number(e, numbers) for e in [node.left, *node.comparators])
        if not isinstance(node, ast.Call) or self.is_number(node, numbers):
            return 0
        names = dotted(node.func)
        if names and names[0] == "self" and len(names) == 2:
            if names[1] in self.methods:
                return self.count(names[1], depth + 1)
            return self.layers.get(names[1], 1)
        if names and len(names) == 1:
            if names[0] in self.functions:
                return self.of_function(self.functions[names[0]], depth + 1) if depth < DEEPEST else 0
            return names[0] in self.imported
        if names and names[0] in self.modules:
            return names[-1] not in TORCH | FACTORIES
        return isinstance(node.func, ast.Attribute) and node.func.attr not in METHODS
