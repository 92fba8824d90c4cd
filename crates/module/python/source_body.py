"""Checks the statements of one function of a module candidate."""

import ast
import builtins
import re

from source_rules import (
    BUILTINS,
    DTYPES,
    FORBIDDEN_ATTRIBUTES,
    METHODS,
    PRIVATE,
    SCALAR_ATTRIBUTES,
    SCALAR_CALLS,
    SCALAR_METHODS,
    TORCH,
    Refused,
    annotation,
    dotted,
)
from source_triton import TYPES, Launches


# Methods of a module that give it a part by name.
REGISTERING = {"add_module", "register_buffer", "register_module", "register_parameter", "set_submodule"}


class Body(Launches):
    """The statements of one function. `building` is True in `__init__`, where parameters may be made with any initialisation."""

    STATEMENTS = (
        ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.If, ast.For, ast.While, ast.Assert, ast.Raise, ast.Pass, ast.With, ast.Break,
        ast.Continue, ast.Match, ast.FunctionDef,
    )

    def __init__(self, check, owner, node, building):
        self.all, self.owner, self.node, self.building = check, owner, node, building
        self.local, self.launches, self.calls = {}, False, set()
        # The names that a `lambda meta: …` has read so far.
        self.meta = set()
        # True in a comprehension or a `lambda`, whose names are not those of the function.
        self.within = False

    def refuse(self, rule, node, detail):
        raise Refused(rule, node, detail)

    def check(self):
        for decorator in self.node.decorator_list:
            called = isinstance(decorator, ast.Call) and not decorator.args and not decorator.keywords
            names = dotted(decorator.func if called else decorator) or [""]
            torch = self.all.modules.get(names[0]) == "torch" and names[1:] in (["no_grad"], ["inference_mode"])
            # PyTorch would call the value of a property by the name `forward`.
            reads = names == ["property"] and self.owner and self.node.name != "forward" and len(self.node.decorator_list) == 1
            of_python = not called and (names == ["staticmethod"] or reads)
            if not torch and not of_python:
                self.refuse("decorator", decorator, f"the decorator `{ast.unparse(decorator)}` is not permitted")
        if getattr(self.node, "type_params", None):
            self.refuse("expression", self.node, "parameters of types are not permitted")
        for part in ast.walk(self.node):
            # A branch that is never taken still says whose names these are.
            if isinstance(part, (ast.Global, ast.Nonlocal)):
                self.refuse("state", part, f"`{ast.unparse(part)}` is not permitted in a function")
            # Python gives such names other ones in a class, which may be those of something else.
            if isinstance(part, (ast.arg, ast.keyword)) and (part.arg or "").startswith("__"):
                self.refuse("rebinding", part, f"`{part.arg}` means another name in a class")
        arguments = self.node.args
        annotation(self.node.returns)
        defaults = arguments.defaults + [d for d in arguments.kw_defaults if d is not None]
        for default in defaults:
            self.all.constant(default)
        every = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
        for argument in every + [a for a in (arguments.vararg, arguments.kwarg) if a]:
            annotation(argument.annotation)
        for argument in every:
            scalar = self.counts_as_number(argument) if self.building else self.promises_number(argument)
            self.local[argument.arg] = "scalar" if scalar else "tensor"
        for extra in (arguments.vararg, arguments.kwarg):
            if extra:
                self.local[extra.arg] = "scalar" if self.building and self.counts_as_number(extra) else "tensor"
        if self.owner and every and "staticmethod" not in [ast.unparse(d) for d in self.node.decorator_list]:
            self.local[every[0].arg] = "self"
        self.local.update(self.given())
        # A loop may bring a tensor to a statement above the one that binds it, so the kinds of names must settle.
        before = None
        while before != self.local:
            before = dict(self.local)
            self.block(self.node.body)

    def given(self):
        """The kinds of parameters that are neither tensors nor numbers."""
        return {}

    def block(self, body):
        for statement in body:
            if not isinstance(statement, self.STATEMENTS):
                rule = {"Try": "fallback", "TryStar": "fallback", "Import": "import", "ImportFrom": "import", "Global": "state", "Nonlocal": "state"}
                kind = type(statement).__name__
                self.refuse(rule.get(kind, "statement"), statement, f"`{kind}` is not permitted in a function")
            getattr(self, "do_" + type(statement).__name__)(statement)

    def do_Pass(self, node):
        pass

    do_Break = do_Continue = do_Pass

    def do_Expr(self, node):
        if isinstance(node.value, ast.Call) and self.is_kernel(node.value.func):
            self.launch_kernel(node.value)
        elif not isinstance(node.value, ast.Constant):
            self.kind(node.value)

    def do_Return(self, node):
        if node.value is not None:
            self.kind(node.value)

    def do_Assert(self, node):
        self.kind(node.test)
        if node.msg is not None:
            self.kind(node.msg)

    def do_Raise(self, node):
        for part in (node.exc, node.cause):
            if part is not None:
                self.kind(part)

    def do_If(self, node):
        if isinstance(node.test, ast.Constant):
            return self.block(node.body if node.test.value else node.orelse)
        self.kind(node.test)
        self.block(node.body)
        self.block(node.orelse)

    def do_While(self, node):
        self.kind(node.test)
        if not (isinstance(node.test, ast.Constant) and not node.test.value):
            self.block(node.body)
        self.block(node.orelse)

    def do_For(self, node):
        for target, kind in self.parts(node.target, node.iter):
            self.target(target, kind)
        self.block(node.body)
        self.block(node.orelse)

    def do_Match(self, node):
        # A pattern compares the subject.
        if self.kind(node.subject) != "scalar":
            self.refuse("torch_operator", node.subject, f"`match {ast.unparse(node.subject)[:80]}` compares something else than numbers and text")
        for case in node.cases:
            self.pattern(case.pattern)
            if case.guard is not None:
                self.kind(case.guard)
            self.block(case.body)

    def pattern(self, node):
        if isinstance(node, ast.MatchValue):
            if self.kind(node.value) != "scalar":
                self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` is no number and no text")
        elif isinstance(node, (ast.MatchSequence, ast.MatchOr)):
            for each in node.patterns:
                self.pattern(each)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)):
            if isinstance(node, ast.MatchAs) and node.pattern is not None:
                self.pattern(node.pattern)
            if node.name is not None:
                self.target(ast.copy_location(ast.Name(node.name, ast.Store()), node), "scalar")
        elif not isinstance(node, ast.MatchSingleton):
            self.refuse("statement", node, f"the pattern `{ast.unparse(node)[:80]}` is not permitted")

    def do_FunctionDef(self, node):
        """A grid that is written as a function: `def grid(meta): return …`."""
        body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        plain = len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None
        if not plain or node.decorator_list or getattr(node, "type_params", None):
            self.refuse("closure", node, f"the function `{node.name}` in a function is no grid of one `return`")
        for each in (node.returns, *[argument.annotation for argument in node.args.args]):
            annotation(each)
            # Python evaluates these in each call of the function around it.
            if each is not None and any(isinstance(part, ast.Name) and part.id in self.local for part in ast.walk(each)):
                self.refuse("expression", node, f"an annotation of `{node.name}` reads variables")
        names = self.names_of(ast.copy_location(ast.Lambda(node.args, body[0].value), node))
        self.target(ast.copy_location(ast.Name(node.name, ast.Store()), node), ("grid", names))

    def do_With(self, node):
        for item in node.items:
            call = item.context_expr
            plain = isinstance(call, ast.Call) and not call.args and not call.keywords and item.optional_vars is None
            names = dotted(call.func) if plain else None
            if not names or names[0] in self.local or self.all.modules.get(names[0]) != "torch" or names[1:] not in (["no_grad"], ["inference_mode"]):
                self.refuse("statement", node, "`with` is permitted for torch.no_grad() and torch.inference_mode() only")
        self.block(node.body)

    def do_Assign(self, node):
        kind = self.kind(node.value)
        for target in node.targets:
            self.target(target, kind)

    def do_AnnAssign(self, node):
        annotation(node.annotation)
        if node.value is not None:
            self.target(node.target, self.kind(node.value))

    def do_AugAssign(self, node):
        if isinstance(node.target, ast.Name) and self.local.get(node.target.id) == "scalar" and self.kind(node.value) == "scalar":
            return
        self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` computes with a tensor outside of the extension")

    def parts(self, target, iterable):
        """The targets of a loop with their kinds. The parts of `enumerate` and `zip` have kinds of their own."""
        kind = self.kind(iterable)
        name = iterable.func.id if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) else None
        names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        given = iterable.args if name in ("enumerate", "zip") and not iterable.keywords else []
        if any(isinstance(part, ast.Starred) for part in [*names, *given]):
            given = []
        if name == "enumerate" and len(given) == 1 and len(names) == 2:
            return [(names[0], "scalar"), *self.parts(names[1], given[0])]
        if name == "zip" and given and len(given) == len(names):
            return [found for one, part in zip(names, given) for found in self.parts(one, part)]
        return [(target, "scalar" if kind == "scalar" else "tensor")]

    def target(self, target, kind):
        if isinstance(target, ast.Name):
            if target.id in self.all.names or target.id in BUILTINS or target.id.startswith("__"):
                self.refuse("rebinding", target, f"`{target.id}` hides a name of the file or of Python")
            if self.local.get(target.id, kind) == "self":
                self.refuse("rebinding", target, f"`{target.id}` is bound twice")
            # A name that holds a tensor anywhere counts as a tensor everywhere.
            self.local[target.id] = kind if self.local.get(target.id, kind) == kind else "tensor"
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self.target(each.value if isinstance(each, ast.Starred) else each, "scalar" if kind == "scalar" else "tensor")
        elif isinstance(target, ast.Attribute):
            mine = isinstance(target.value, ast.Name) and self.local.get(target.value.id) == "self"
            if not mine:
                self.refuse("monkey_patch", target, f"`{ast.unparse(target)}` changes an object that is not the module itself")
            if not self.building:
                self.refuse("state", target, f"`{ast.unparse(target)}` keeps something from one call to the next")
            # Methods of tensors may be called on everything, but a number cannot be called, so `self.dim = 1` is none of them.
            others = FORBIDDEN_ATTRIBUTES | {"forward"} | (set() if kind == "scalar" else METHODS | SCALAR_ATTRIBUTES)
            if PRIVATE.match(target.attr) or target.attr in others or target.attr in self.all.classes[self.owner].methods:
                self.refuse("monkey_patch", target, f"the attribute `{target.attr}` has a meaning of its own")
            attributes = self.all.classes[self.owner].attributes
            if attributes.get(target.attr, kind) != kind:
                self.refuse("rebinding", target, f"`{target.attr}` is bound to things of different kinds")
            attributes[target.attr] = kind
        else:
            self.refuse("torch_operator" if isinstance(target, ast.Subscript) else "statement", target, f"`{ast.unparse(target)[:80]}` cannot be assigned to")

    # Expressions: each returns the kind of its value

    def kind(self, node):
        method = getattr(self, "of_" + type(node).__name__, None)
        if method is None:
            rule = {"Yield": "statement", "Await": "statement"}.get(type(node).__name__, "expression")
            self.refuse(rule, node, f"`{ast.unparse(node)[:80]}` is not permitted")
        return method(node)

    def of_Constant(self, node):
        return "scalar"

    def of_NamedExpr(self, node):
        if self.within:
            self.refuse("statement", node, f"`{ast.unparse(node)[:80]}` is not permitted in a comprehension or a `lambda`")
        kind = self.kind(node.value)
        self.target(node.target, kind)
        return kind

    def of_JoinedStr(self, node):
        kinds = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                kinds.append(self.kind(part.value))
                if part.format_spec is not None:
                    kinds.append(self.kind(part.format_spec))
        return "scalar" if all(k == "scalar" for k in kinds) else "tensor"

    def of_Name(self, node):
        name = node.id
        if name in self.local:
            return self.local[name]
        if name in self.all.constants or name in BUILTINS:
            return "scalar"
        if name in self.all.extensions:
            return ("extension", name)
        if name in self.all.aliases:
            return self.all.aliases[name]
        if name in self.all.classes:
            return ("class", name)
        if self.all.modules.get(name) in ("annotation", "math_function"):
            # The methods of a class of tensors compute.
            return "scalar" if self.all.modules[name] == "math_function" else "tensor"
        if name in self.all.functions:
            return ("name", name)
        if name in self.all.modules or name in self.all.kernels:
            self.refuse("unknown_name", node, f"the module or kernel `{name}` is no value")
        rule = "forbidden_name" if hasattr(builtins, name) else "unknown_name"
        self.refuse(rule, node, f"the name `{name}` is not permitted here")

    def of_Tuple(self, node):
        kinds = [self.kind(e.value if isinstance(e, ast.Starred) else e) for e in node.elts]
        return "scalar" if all(k == "scalar" for k in kinds) else "tensor"

    of_List = of_Tuple

    def of_Dict(self, node):
        kinds = [self.kind(e) for e in node.keys + node.values if e is not None]
        return "scalar" if all(k == "scalar" for k in kinds) else "tensor"

    def of_Starred(self, node):
        return self.kind(node.value)

    def comprehension(self, node):
        outside, within = dict(self.local), self.within
        self.within = True
        for each in node.generators:
            found = self.parts(each.target, each.iter)
            # Names of a comprehension are its own, whatever the function calls by them.
            for part in ast.walk(each.target):
                if isinstance(part, ast.Name) and self.local.get(part.id) != "self":
                    self.local.pop(part.id, None)
            for target, kind in found:
                self.target(target, kind)
            for test in each.ifs:
                self.kind(test)
        kind = self.kind(node.elt)
        # Afterwards they are those of the function or of Python again.
        self.local, self.within = outside, within
        return kind

    of_ListComp = of_GeneratorExp = comprehension

    def of_IfExp(self, node):
        self.kind(node.test)
        kinds = {str(self.kind(e)) for e in (node.body, node.orelse)}
        return "scalar" if kinds == {"scalar"} else "tensor"

    def of_BoolOp(self, node):
        # The value is one of the operands.
        kinds = [self.kind(value) for value in node.values]
        return "scalar" if all(k == "scalar" for k in kinds) else "tensor"

    def of_UnaryOp(self, node):
        if self.kind(node.operand) == "scalar" or isinstance(node.op, ast.Not):
            return "scalar"
        if not self.free():
            self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` computes with a tensor outside of the extension")
        return "tensor"

    def of_BinOp(self, node):
        kinds = [self.kind(node.left), self.kind(node.right)]
        if all(k == "scalar" for k in kinds):
            return "scalar"
        if not self.free():
            self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` computes with a tensor outside of the extension")
        return "tensor"

    def of_Compare(self, node):
        kinds = [self.kind(e) for e in [node.left] + node.comparators]
        identity = all(isinstance(o, (ast.Is, ast.IsNot)) for o in node.ops)
        if not identity and any(k == "tensor" for k in kinds) and not self.free():
            self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` compares tensors outside of the extension")
        return "scalar" if identity or "tensor" not in kinds else "tensor"

    def of_Subscript(self, node):
        kind = self.kind(node.value)
        if kind == "meta":
            if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, str):
                self.refuse("closure", node, f"`{ast.unparse(node)[:80]}` reads an argument that this check does not know")
            self.meta.add(node.slice.value)
            return "scalar"
        index = self.kind(node.slice)
        if index != "scalar" and not self.free():
            self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` gathers by a tensor outside of the extension")
        return kind if kind in ("scalar", "tensor") else "tensor"

    def of_Slice(self, node):
        for part in (node.lower, node.upper, node.step):
            if part is not None and self.kind(part) != "scalar":
                return "tensor"
        return "scalar"

    def of_Attribute(self, node):
        self.attribute(node)
        names = dotted(node)
        if names and names[0] not in self.local:
            module = self.all.modules.get(names[0])
            if names[0] in self.all.extensions:
                return self.all.launched(names, node)
            if module == "torch" and len(names) == 2 and names[1] in DTYPES:
                return "scalar"
            if module == "math" and len(names) == 2 or module == "triton.language" and len(names) == 2 and names[1] in TYPES:
                return "scalar"
            if module == "torch" and names[1:] in (["Tensor"], ["nn", "Module"]) or module == "nn" and names[1:] == ["Module"]:
                return "tensor"
            if module is not None:
                self.refuse("torch_operator", node, f"`{'.'.join(names)}` is not permitted here")
        kind = self.kind(node.value)
        if isinstance(kind, tuple) and kind[0] == "extension":
            extension = self.all.extensions[kind[1]]
            if node.attr not in extension["functions"]:
                self.refuse("unknown_name", node, f"the extension has no function `{node.attr}`")
            return ("function", kind[1])
        if kind == "self":
            if self.is_property(node.attr):
                self.calls.add((self.owner, node.attr))
                return "tensor"
            found = self.all.classes[self.owner].attributes.get(node.attr)
            return found if found is not None else "scalar" if node.attr == "training" else "tensor"
        if isinstance(kind, tuple):
            # A module of this file may call anything of its own so.
            return "tensor"
        return "scalar" if node.attr in SCALAR_ATTRIBUTES or kind == "scalar" else "tensor"

    def attribute(self, node):
        # Another call of `__init__` could give numbers by name what is a tensor.
        initial = self.building and node.attr == "__init__" and self.super_call(node)
        special = node.attr.startswith("__") and not initial
        mine = isinstance(node.value, ast.Name) and self.local.get(node.value.id) == "self"
        if mine and not special and (self.own(node.attr) or self.building and node.attr == "eval"):
            return
        if special or node.attr in FORBIDDEN_ATTRIBUTES or node.attr.startswith("_") and node.attr != "__init__":
            self.refuse("forbidden_attribute", node, f"the attribute `{node.attr}` is not permitted")

    def is_property(self, name):
        method = self.all.classes[self.owner].methods.get(name)
        return method is not None and [ast.unparse(d) for d in method.decorator_list] == ["property"]

    def own(self, name):
        """True if the class itself defines an attribute or a method of this name."""
        found = self.all.classes[self.owner]
        return name in found.attributes or name in found.methods

    def free(self):
        """True where tensors may be computed by torch: in `__init__`, and in problems that permit it."""
        return self.building or self.all.permits_torch

    def of_Call(self, node):
        arguments = [a.value if isinstance(a, ast.Starred) else a for a in node.args] + [k.value for k in node.keywords]
        kinds = [self.kind(a) for a in arguments]
        function = node.func
        if isinstance(function, ast.Name):
            return self.call_name(function, node, kinds)
        if not isinstance(function, ast.Attribute):
            self.refuse("call", node, f"`{ast.unparse(function)[:80]}` cannot be called")
        if isinstance(function.value, ast.Name) and function.value.id in self.all.differentiable and function.value.id not in self.local:
            return self.apply(function.value.id, node)
        self.attribute(function)
        names = dotted(function)
        module = self.all.modules.get(names[0]) if names and names[0] not in self.local else None
        if module is not None:
            return self.call_module(module, names, node, kinds)
        if self.super_call(function) and self.building and function.attr == "__init__":
            return self.kind(function.value)
        if self.self_call(function):
            return self.call_own(function, node)
        if function.attr in REGISTERING:
            self.refuse("monkey_patch", node, f"`{ast.unparse(node)[:80]}` changes an object that is not the module itself")
        kind = self.kind(function)
        if isinstance(kind, tuple) and kind[0] == "function":
            return self.launch()
        if function.attr in METHODS or self.free():
            # A list or a text of numbers that got a tensor would count as a number.
            if self.plain(function.value) == "scalar" and any(k != "scalar" for k in kinds):
                if self.fills(function):
                    self.local[function.value.id] = "tensor"
                    return "tensor"
                self.refuse("torch_operator", node, f"`{ast.unparse(node)[:80]}` puts a tensor into something that has none")
            return "scalar" if function.attr in SCALAR_METHODS else self.plain(function.value)
        self.refuse("torch_operator", node, f"the method `{function.attr}` is not in the list for shapes and memory")

    def fills(self, function):
        """True where `__init__` appends to a list by its only name so far, which then counts as one of tensors."""
        local = isinstance(function.value, ast.Name) and function.value.id in self.local
        return local and self.building and not self.within and function.attr in ("append", "extend", "insert")

    @staticmethod
    def super_call(node):
        return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"

    def plain(self, node):
        return "scalar" if self.kind(node) == "scalar" else "tensor"

    def self_call(self, function):
        return isinstance(function.value, ast.Name) and self.local.get(function.value.id) == "self"

    def call_own(self, function, node):
        found = self.all.classes[self.owner]
        if self.is_property(function.attr):
            # The property gives a value, and that may be a module of PyTorch.
            self.refuse("call", node, f"`self.{function.attr}` is a property, whose value cannot be called")
        if function.attr in found.methods:
            self.passes(found.methods[function.attr], node, True)
            self.calls.add((self.owner, function.attr))
            return "tensor"
        kind = found.attributes.get(function.attr)
        if isinstance(kind, tuple) and kind[0] == "function":
            return self.launch()
        if isinstance(kind, tuple) and kind[0] == "instance":
            self.passes(self.all.classes[kind[1]].methods.get("forward"), node, True)
            self.calls.add((kind[1], "forward"))
            return "tensor"
        if function.attr in REGISTERING:
            named = node.args[0] if node.args else None
            # A dotted name would be that of a part of another module.
            if not self.building or not (isinstance(named, ast.Constant) and isinstance(named.value, str) and named.value.isidentifier()):
                self.refuse("monkey_patch", node, f"`{ast.unparse(node)[:80]}` needs a constant name as its first argument")
            self.target(ast.Attribute(function.value, named.value, ast.Store(), lineno=node.lineno), "tensor")
            return "tensor"
        if self.building and function.attr in ("eval", "train"):
            return "tensor"
        if self.free():
            return "tensor"
        self.refuse("torch_operator", node, f"`self.{function.attr}` is no function of the extension and no module of this file")

    def apply(self, name, node):
        """A call of a function that has its gradient beside it."""
        if node.func.attr != "apply" or node.keywords:
            self.refuse("call", node, f"`{name}` is called by `{name}.apply`, with arguments in order")
        # The first parameter comes from PyTorch.
        parameters, values = self.all.differentiable[name].methods["forward"].args.args[1:], node.args
        starred = any(isinstance(value, ast.Starred) for value in values)
        given = [(p, v) for p in parameters for v in values] if starred else zip(parameters, values)
        for parameter, value in given:
            if self.promises_number(parameter) and self.kind(value) != "scalar" and not self.free():
                self.refuse("torch_operator", node, f"`{parameter.arg}` is no tensor by its annotation, but gets one")
        self.calls.add((name, "forward"))
        return "tensor"

    def passes(self, callee, node, method):
        """Refuses a tensor for a parameter that the check of the callee takes for a number or text: it may compute with it."""
        makes = callee is not None and callee.name == "__init__"
        if callee is None or self.free() and not makes:
            return
        is_number = self.counts_as_number if makes else self.promises_number
        bound = method and "staticmethod" not in [ast.unparse(d) for d in callee.decorator_list]
        positional = (callee.args.posonlyargs + callee.args.args)[bound:]
        by_name = {a.arg: a for a in positional + callee.args.kwonlyargs}
        given = list(zip(positional, node.args)) + [(by_name.get(k.arg), k.value) for k in node.keywords]
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            given = [(parameter, value) for parameter in by_name.values() for value in node.args + [k.value for k in node.keywords]]
        if makes:
            extras = [extra for extra in (callee.args.vararg, callee.args.kwarg) if extra]
            given += [(extra, value) for extra in extras for value in node.args + [k.value for k in node.keywords]]
        for parameter, value in given:
            if parameter is not None and is_number(parameter) and self.kind(value) != "scalar":
                self.refuse("torch_operator", node, f"`{parameter.arg}` is no tensor and no module by its annotation, but gets one")

    @staticmethod
    def promises_number(argument):
        return argument.annotation is not None and ast.unparse(argument.annotation) in ("int", "float", "bool", "str")

    def counts_as_number(self, argument):
        """True for a parameter of `__init__`, unless its annotation says otherwise."""
        if argument.annotation is None:
            return True
        named = {self.all.modules.get(part.id, "") for part in ast.walk(argument.annotation) if isinstance(part, ast.Name)}
        of_modules = any(module.split(".")[0] == "nn" for module in named)
        return not of_modules and not re.search(r"Tensor|Module|Parameter|\bnn\.", ast.unparse(argument.annotation))

    def launch(self):
        self.launches = True
        return "tensor"

    def call_name(self, function, node, kinds):
        name = function.id
        if name in self.local and self.local[name] not in (("class", name),):
            kind = self.local[name]
            if isinstance(kind, tuple) and kind[0] == "function":
                return self.launch()
            self.refuse("call", node, f"`{name}` is a value that this check does not know")
        if name in self.all.aliases and self.all.aliases[name][0] == "function":
            return self.launch()
        if name in self.all.functions:
            self.passes(self.all.functions[name], node, False)
            self.calls.add((None, name))
            return "tensor"
        if name in self.all.classes:
            if not self.building:
                self.refuse("call", node, f"`{name}` is made in every call; make it in `__init__`")
            self.passes(self.all.classes[name].methods.get("__init__"), node, True)
            return ("instance", name)
        if name == "super":
            return "tensor"
        if name in BUILTINS:
            if any(k.arg == "key" for k in node.keywords) and name in ("max", "min"):
                self.refuse("call", node, f"`{name}` with a key calls a function that this check does not know")
            if name == "sum" and any(k != "scalar" for k in kinds) and not self.free():
                self.refuse("torch_operator", node, "`sum` of tensors computes outside of the extension")
            if name in SCALAR_CALLS:
                if name in ("float", "int", "bool", "abs", "max", "min", "range", "round", "str") and any(k != "scalar" for k in kinds) and not self.free():
                    self.refuse("torch_operator", node, f"`{name}` of a tensor computes outside of the extension")
                if name in ("float", "int", "bool", "len", "isinstance"):
                    return "scalar"
            return "scalar" if all(k == "scalar" for k in kinds) else "tensor"
        if self.all.modules.get(name) == "math_function":
            return self.call_module("math", [name], node, kinds)
        if self.all.modules.get(name) == "nn.Parameter" and self.building:
            return "tensor"
        rule = "forbidden_name" if hasattr(builtins, name) else "unknown_name"
        self.refuse(rule, node, f"the function `{name}` is not permitted")

    def call_module(self, module, names, node, kinds):
        if module == "math":
            # `math.prod` multiplies tensors.
            if any(k != "scalar" for k in kinds) and not self.free():
                self.refuse("torch_operator", node, f"`{'.'.join(names)}` of a tensor computes outside of the extension")
            return "scalar" if all(k == "scalar" for k in kinds) else "tensor"
        rest = names[1:]
        if module == "triton" and rest in (["cdiv"], ["next_power_of_2"]) and all(k == "scalar" for k in kinds):
            return "scalar"
        if module == "torch" and rest[:1] == ["nn"]:
            module, rest = "nn", rest[1:]
        # Modules hold other modules, up to those of the interpreter, so chains of names are those of known ones.
        if module == "nn" and rest[:1] == ["functional"]:
            module, rest = "functional", rest[1:]
        if module == "nn" and self.building and (len(rest) == 1 or len(rest) == 2 and rest[0] == "init"):
            return "tensor"
        if module == "functional" and self.building and len(rest) == 1:
            return "tensor"
        if module == "torch" and len(rest) == 1 and (rest[0] in TORCH or self.building):
            numbers = rest[0] in ("device", "Size") and all(k == "scalar" for k in kinds)
            return "scalar" if numbers or rest[0] in ("numel", "is_tensor") else "tensor"
        known = len(rest) == 1 or module == "torch" and len(rest) == 2 and rest[0] in ("fft", "linalg", "special")
        if self.all.permits_torch and module in ("torch", "nn", "functional") and known:
            return "tensor"
        self.refuse("torch_operator", node, f"`{'.'.join(names)}` is not in the list for shapes and memory")
