"""Rewrites sources of the corpus mechanically and checks what comes out.

    python3 variants.py FOLDER_OF_CHECK

Standard input has a line for each variant: the name of a rewriting, a tab and a file. A line of JSON answers each: `applies` is false if
the rewriting has nothing to change in this file, else `refusals` are those of the variant. A rewriting keeps what a program does: an
attack stays one, and an honest module stays honest. The same input gives the same variants.
"""

import ast
import builtins
import io
import json
import re
import sys
import tokenize

sys.path.insert(0, sys.argv[1])

from source_check import check  # noqa: E402
from source_rules import BUILTINS, FORBIDDEN_ATTRIBUTES, METHODS, SCALAR_ATTRIBUTES  # noqa: E402


class Nothing(Exception):
    """The rewriting has nothing to change, or could change what the program does."""


def unparsed(tree):
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def parsed(text):
    tree = ast.parse(text)
    tree.taken = set()
    for node in ast.walk(tree):
        for field in ("id", "arg", "attr", "name", "asname"):
            tree.taken.add(getattr(node, field, None))
    return tree


def fresh(tree, name):
    """A name that the file does not use."""
    while name in tree.taken:
        name += "_"
    tree.taken.add(name)
    return name


def class_of(tree):
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "ModelNew":
            return node
    raise Nothing


def method_of(found, name):
    methods = [m for m in found.body if isinstance(m, ast.FunctionDef) and m.name == name]
    if len(methods) != 1:
        raise Nothing
    return methods[0]


def forward_of(tree):
    """`forward` with plain parameters and no decorators."""
    forward = method_of(class_of(tree), "forward")
    arguments = forward.args
    if forward.decorator_list or arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs or not arguments.args:
        raise Nothing
    return forward


def without_text(body):
    """The statements after the text that describes a function."""
    described = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return body[1:] if described else body


def statements(text):
    return ast.parse(text).body


# Layout


def layout(text):
    """Written anew: quotes, lines and parentheses change."""
    return unparsed(parsed(text))


def lines_in_strings(text):
    """Numbers of lines that begin within a text."""
    found, kinds = set(), {tokenize.STRING} | {getattr(tokenize, name) for name in ("FSTRING_MIDDLE",) if hasattr(tokenize, name)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            found.update(range(token.start[0] + 1, token.end[0] + 1))
    return found


def commented(text):
    """Comments after statements and between them."""
    text = unparsed(parsed(text))
    inside, out = lines_in_strings(text), []
    for number, line in enumerate(text.split("\n"), 1):
        # A line ends within a text if the next one begins there.
        if number + 1 in inside or number in inside or not line.strip():
            out.append(line)
            continue
        out.extend(["", "# import os; exec('x'); torch.softmax(x, -1)", line + "  # noqa  \"\"\""])
    return "\n".join(out)


def indented(text):
    """Tabs instead of four spaces."""
    text = unparsed(parsed(text))
    inside, out = lines_in_strings(text), []
    for number, line in enumerate(text.split("\n"), 1):
        depth = (len(line) - len(line.lstrip(" "))) // 4
        out.append(line if number in inside else "\t" * depth + line[4 * depth :])
    if out == text.split("\n"):
        raise Nothing
    return "\n".join(out)


def ended_otherwise(text):
    """Lines that end as on Windows."""
    text = unparsed(parsed(text))
    if lines_in_strings(text):
        raise Nothing
    return text.replace("\n", "\r\n")


# Names


class Rename(ast.NodeTransformer):
    def __init__(self, names):
        self.names = names

    def visit_Name(self, node):
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node):
        node.arg = self.names.get(node.arg, node.arg)
        self.generic_visit(node)
        return node

    def visit_alias(self, node):
        bound = node.asname or node.name
        if bound in self.names:
            node.asname = self.names[bound]
        return node

    def visit_MatchAs(self, node):
        node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node

    visit_MatchStar = visit_MatchAs

    def named(self, node):
        node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node

    visit_FunctionDef = visit_ClassDef = named


def fixed(tree):
    """Names that mean something outside of the names of this file."""
    kept = {"ModelNew", "forward", "__init__", "self", *BUILTINS, *dir(builtins)}
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            kept.add(node.arg)
        elif isinstance(node, ast.Attribute):
            kept.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Texts name parameters: `key=["n"]`, annotations, code.
            kept.update(re.findall(r"\w+", node.value))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            kept.update(node.names)
        elif isinstance(node, ast.ClassDef):
            # Names of a class are attributes.
            for member in node.body:
                if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    kept.add(member.name)
                kept.update(t.id for t in ast.walk(member) if isinstance(member, (ast.Assign, ast.AnnAssign)) and isinstance(t, ast.Name))
    kept |= METHODS | SCALAR_ATTRIBUTES | FORBIDDEN_ATTRIBUTES
    return kept


def is_plain(name):
    # Triton's interpreter and Python look such names up.
    return name.isidentifier() and not name.startswith(("_", "interpreter_"))


def renamed_from(tree, bound, of):
    kept = fixed(tree)
    names = sorted(n for n in bound if n not in kept and is_plain(n))
    if not names:
        raise Nothing
    mapping = {name: fresh(tree, of(number, name)) for number, name in enumerate(names)}
    return unparsed(Rename(mapping).visit(tree))


def locals_of(tree):
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
    imported = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    return bound - imported


def renamed(text):
    """Other names for variables, parameters, functions, kernels and classes."""
    tree = parsed(text)
    return renamed_from(tree, locals_of(tree), lambda number, _: f"v{number}")


def renamed_alike(text):
    """Names that differ by one sign, as minimised code has them."""
    tree = parsed(text)
    return renamed_from(tree, locals_of(tree), lambda number, _: "l" + "".join("Il"[int(bit)] for bit in f"{number:06b}"))


def renamed_in_greek(text):
    """Names in other letters. Python takes some letters for others, and those that stay themselves are used here."""
    tree = parsed(text)
    return renamed_from(tree, locals_of(tree), lambda number, _: "αβγδεζηθικλ"[number % 11] + str(number))


def aliased(text):
    """Other names for the modules that are imported."""
    tree = parsed(text)
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if "." in alias.name and not alias.asname:
                    raise Nothing
                bound.add(alias.asname or alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            bound.update(alias.asname or alias.name for alias in node.names)
    # Texts and attributes may have the word `torch`, and a name of a module is looked up by name alone. Annotations may be texts.
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    quoted = {word for text in texts if len(text) < 80 for word in re.findall(r"\w+", text)}
    attributes = {n.arg for n in ast.walk(tree) if isinstance(n, ast.keyword)}
    names = sorted(n for n in bound if is_plain(n) and n not in quoted | attributes)
    if not names:
        raise Nothing
    mapping = {name: fresh(tree, f"m{number}") for number, name in enumerate(names)}
    tree = Rename(mapping).visit(tree)
    return unparsed(tree)


def imported_otherwise(text):
    """`from torch import nn` for `import torch.nn as nn`, and the other way round."""
    tree, out, changed = parsed(text), [], False
    moved = None
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                package, _, last = alias.name.rpartition(".")
                if (alias.name, package) in [("torch.nn", "torch"), ("triton.language", "triton"), ("torch.nn.functional", "torch.nn")] and alias.asname:
                    changed = True
                    out.append(ast.ImportFrom(package, [ast.alias(last, alias.asname)], 0))
                else:
                    out.append(ast.Import([alias]))
        elif isinstance(node, ast.ImportFrom) and node.module == "torch.utils.cpp_extension" and len(node.names) == 1 and moved is None:
            changed = True
            moved = (node.names[0].asname or node.names[0].name, node.names[0].name, fresh(tree, "building"))
            out.append(ast.Import([ast.alias("torch.utils.cpp_extension", moved[2])]))
        else:
            out.append(node)
    if not changed:
        raise Nothing
    tree.body = out
    if moved:
        bound, name, module = moved

        class Move(ast.NodeTransformer):
            def visit_Name(self, node):
                return ast.Attribute(ast.Name(module, ast.Load()), name, ast.Load()) if node.id == bound else node

        tree = Move().visit(tree)
    return unparsed(tree)


# Order


def reordered(text):
    """Methods in the opposite order, and functions without decorators and defaults after the classes."""
    tree, changed = parsed(text), False
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            named = [m.name for m in node.body if isinstance(m, ast.FunctionDef)]
            plain = all(isinstance(m, ast.FunctionDef) and not m.decorator_list and not m.args.defaults for m in without_text(node.body))
            if plain and len(named) == len(set(named)) > 1 and not any(isinstance(a, ast.Name) and a.id in named for a in ast.walk(node)):
                node.body = node.body[: len(node.body) - len(named)] + without_text(node.body)[::-1]
                changed = True
    moved = [
        n
        for n in tree.body
        if isinstance(n, ast.FunctionDef) and not n.decorator_list and not n.args.defaults and not [d for d in n.args.kw_defaults if d]
    ]
    names = [n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    # A decorator runs when the file is read.
    used = {name.id for n in ast.walk(tree) for d in getattr(n, "decorator_list", []) for name in ast.walk(d) if isinstance(name, ast.Name)}
    if moved and len(names) == len(set(names)) and not used & {n.name for n in moved}:
        tree.body = [n for n in tree.body if n not in moved] + moved[::-1]
        changed = True
    if not changed:
        raise Nothing
    return unparsed(tree)


# Texts


def at_top(tree):
    """The assignments at the top of the file."""
    return [n for n in tree.body if isinstance(n, ast.Assign)]


class Strings(ast.NodeTransformer):
    """Replaces texts; those of dictionaries' keys and of formatted texts stay."""

    def __init__(self, make):
        self.make, self.changed = make, False

    def visit_JoinedStr(self, node):
        return node

    def visit_Constant(self, node):
        if not isinstance(node.value, str) or len(node.value) < 4:
            return node
        self.changed = True
        return ast.copy_location(self.make(node.value), node)


def with_strings(text, make):
    tree = parsed(text)
    strings = Strings(make)
    for node in at_top(tree):
        node.value = strings.visit(node.value)
    if not strings.changed:
        raise Nothing
    return unparsed(tree)


def added(value, pieces):
    """A sum of so many pieces."""
    size = -(-len(value) // pieces)
    parts = [ast.Constant(value[at : at + size]) for at in range(0, len(value), size)]
    whole = parts[0]
    for part in parts[1:]:
        whole = ast.BinOp(whole, ast.Add(), part)
    return whole


def joined(text):
    """Texts as sums of two pieces."""
    return with_strings(text, lambda value: added(value, 2))


def shredded(text):
    """Texts as sums of many pieces, so that no word stays whole."""
    return with_strings(text, lambda value: added(value, min(48, len(value) // 2)))


def pieces_of(text, whole):
    """Pieces of texts as constants of the file; `whole` puts the names of two pieces together."""
    tree, out = parsed(text), []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            before = []

            def make(value):
                names = []
                for piece in (value[: len(value) // 3], value[len(value) // 3 :]):
                    names.append(ast.Name(fresh(tree, "PIECE"), ast.Load()))
                    before.append(ast.Assign([ast.Name(names[-1].id, ast.Store())], ast.Constant(piece)))
                return whole(*names)

            node.value = Strings(make).visit(node.value)
            out.extend(before)
        out.append(node)
    if len(out) == len(tree.body):
        raise Nothing
    tree.body = out
    return unparsed(tree)


def kept_apart(text):
    """Texts as sums of constants."""
    return pieces_of(text, lambda first, second: ast.BinOp(first, ast.Add(), second))


def formatted(text):
    """Texts as formatted texts of constants."""
    return pieces_of(text, lambda first, second: ast.JoinedStr([ast.FormattedValue(first, -1), ast.FormattedValue(second, -1)]))


# C++


def cpp(text, change):
    """The file with changed texts of `cpp_sources` and `cuda_sources`, where these are plain texts."""
    tree = parsed(text)
    named = {n.targets[0].id: n for n in at_top(tree) if len(n.targets) == 1 and isinstance(n.targets[0], ast.Name)}
    found = False
    for call in [n for n in ast.walk(tree) if isinstance(n, ast.Call)]:
        for keyword in call.keywords:
            if keyword.arg not in ("cpp_sources", "cuda_sources"):
                continue
            holder, field = keyword, "value"
            if isinstance(keyword.value, ast.Name) and keyword.value.id in named:
                holder = named[keyword.value.id]
            value = getattr(holder, field)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                changed = change(value.value)
                found = found or changed != value.value
                setattr(holder, field, ast.Constant(changed))
    if not found:
        raise Nothing
    return unparsed(tree)


def cpp_lines(text):
    """C++ as a list of lines."""
    tree, changed = parsed(text), False
    for call in [n for n in ast.walk(tree) if isinstance(n, ast.Call)]:
        for keyword in call.keywords:
            value = keyword.value
            if keyword.arg in ("cpp_sources", "cuda_sources") and isinstance(value, ast.Constant) and isinstance(value.value, str):
                keyword.value = ast.List([ast.Constant(line) for line in value.value.split("\n")], ast.Load())
                changed = True
    if not changed:
        raise Nothing
    return unparsed(tree)


def is_simple(code):
    """True for C++ without directives of several lines and comments over lines, in which lines may be changed one by one."""
    return "\\\n" not in code and "/*" not in code and "asm" not in code


def cpp_commented(text):
    """Comments in C++ whose words a check must not see."""

    def change(code):
        return code.replace(";\n", "; /* fork(); asm */ // system(\"x\")\n").replace(" {\n", " {  // open(file)\n") if is_simple(code) else code

    return cpp(text, change)


def cpp_continued(text):
    """Calls in C++ over two lines."""

    def change(code):
        lines = code.split("\n")
        return "\n".join(line if line.lstrip().startswith("#") or '"' in line else re.sub(r"(\w)\(", "\\1\\\n(", line) for line in lines)

    return cpp(text, lambda code: change(code) if is_simple(code) else code)


def cpp_spaced(text):
    """Comments and spaces before the parentheses of C++."""

    def change(code):
        lines = code.split("\n")
        return "\n".join(line if line.lstrip().startswith("#") or '"' in line or "//" in line else re.sub(r"(\w)\(", r"\1 /**/\t(", line) for line in lines)

    return cpp(text, lambda code: change(code) if is_simple(code) else code)


# Structure


def named_result(text):
    """Results that get a name before they are returned."""
    tree = parsed(text)
    name = fresh(tree, "result")
    changed = False

    class Name(ast.NodeTransformer):
        def visit_Return(self, node):
            nonlocal changed
            if node.value is None or isinstance(node.value, (ast.Constant, ast.Name)):
                return node
            changed = True
            return [ast.Assign([ast.Name(name, ast.Store())], node.value), ast.Return(ast.Name(name, ast.Load()))]

        def visit_FunctionDef(self, node):
            return node

        def visit_Lambda(self, node):
            return node

    forward = method_of(class_of(tree), "forward")
    forward.body = [s for statement in forward.body for s in as_list(Name().visit(statement))]
    if not changed:
        raise Nothing
    return unparsed(tree)


def as_list(visited):
    return visited if isinstance(visited, list) else [visited]


def moved_into_method(text):
    """`forward` calls another method that does the work."""
    tree = parsed(text)
    forward = forward_of(tree)
    names = [a.arg for a in forward.args.args]
    name = fresh(tree, "work")
    own = class_of(tree)
    position = own.body.index(forward)
    inner = ast.FunctionDef(name, forward.args, forward.body, [], forward.returns, lineno=1, type_params=[])
    call = f"return {names[0]}.{name}({', '.join(names[1:])})"
    outer = ast.FunctionDef("forward", forward.args, statements(call), [], forward.returns, lineno=1, type_params=[])
    own.body[position : position + 1] = [inner, outer]
    return unparsed(tree)


def moved_into_class(text):
    """`ModelNew` holds a module that does the work."""
    tree = parsed(text)
    forward = forward_of(tree)
    own = class_of(tree)
    if own.decorator_list or own.keywords or len(own.bases) != 1:
        raise Nothing
    inits = [m for m in own.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
    if len(inits) > 1 or "ModelNew" in {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}:
        raise Nothing
    arguments = inits[0].args if inits else statements("def f(self): pass")[0].args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs or not arguments.args:
        raise Nothing
    inner, attribute = fresh(tree, "Work"), fresh(tree, "work")
    base = ast.unparse(own.bases[0])
    tree = Rename({"ModelNew": inner}).visit(tree)
    given = ", ".join([a.arg for a in arguments.args[1:]] + [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs])
    me, names = arguments.args[0].arg, [a.arg for a in forward.args.args]
    outer = f"class ModelNew({base}):\n    def __init__({ast.unparse(arguments)}):\n        super().__init__()\n        {me}.{attribute} = {inner}({given})\n"
    returns = f" -> {ast.unparse(forward.returns)}" if forward.returns else ""
    outer += f"    def forward({ast.unparse(forward.args)}){returns}:\n        return {names[0]}.{attribute}({', '.join(names[1:])})\n"
    # Decorators and defaults are read where the class stands.
    tree.body.insert(tree.body.index(own) + 1, statements(outer)[0])
    return unparsed(tree)


def moved_into_loop(text):
    """The work of `forward` in a loop that ends in its first round."""
    tree = parsed(text)
    forward = method_of(class_of(tree), "forward")
    own = [n for s in forward.body for n in ast.walk(s)]
    if any(isinstance(n, (ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)) for n in own) or not without_text(forward.body):
        raise Nothing
    forward.body = [ast.While(ast.Constant(True), [*forward.body, ast.Break()], [])]
    return unparsed(tree)


def moved_into_branch(text):
    """The work of `forward` in a branch that is always taken."""
    tree = parsed(text)
    forward = method_of(class_of(tree), "forward")
    test = ast.parse("1 + 1 == 2", mode="eval").body
    forward.body = [ast.If(test, forward.body, statements("raise RuntimeError('never')"))]
    return unparsed(tree)


def padded(text):
    """Statements and functions without an effect."""
    tree = parsed(text)
    forward = method_of(class_of(tree), "forward")
    number = fresh(tree, "unused")
    forward.body = statements(f"{number} = 1\n{number} += 2\nassert {number} == 3, 'a number'\npass") + forward.body
    function, parameter = fresh(tree, "idle"), fresh(tree, "given")
    tree.body.extend(statements(f"def {function}({parameter}: int) -> int:\n    'Does nothing.'\n    return {parameter} + 1"))
    return unparsed(tree)


def hidden_by_names(text):
    """Arguments of `forward` by other names in its first lines."""
    tree = parsed(text)
    forward = forward_of(tree)
    if any(isinstance(n, (ast.Global, ast.Nonlocal)) for n in ast.walk(forward)):
        raise Nothing
    given = [a.arg for a in forward.args.args[1:] if a.arg.isidentifier() and not a.arg.startswith("_")]
    if not given or len(given) != len(forward.args.args) - 1:
        raise Nothing
    names = {name: fresh(tree, f"{name}_0") for name in given}
    body = [Rename(names).visit(statement) for statement in forward.body]
    forward.body = [ast.Assign([ast.Name(new, ast.Store())], ast.Name(old, ast.Load())) for old, new in names.items()] + body
    return unparsed(tree)


# Forms that no honest module has


def by_getattr(text):
    """`getattr(a, "b")` for each `a.b` in functions."""
    tree, changed = parsed(text), False

    class Get(ast.NodeTransformer):
        def visit_MatchClass(self, node):
            # A pattern has no calls.
            return node

        def visit_MatchValue(self, node):
            return node

        def visit_Attribute(self, node):
            nonlocal changed
            self.generic_visit(node)
            if not isinstance(node.ctx, ast.Load):
                return node
            changed = True
            half = len(node.attr) // 2
            name = ast.BinOp(ast.Constant(node.attr[:half]), ast.Add(), ast.Constant(node.attr[half:]))
            return ast.Call(ast.Name("getattr", ast.Load()), [node.value, name], [])

    forward = method_of(class_of(tree), "forward")
    forward.body = [Get().visit(s) for s in forward.body]
    if not changed:
        raise Nothing
    return unparsed(tree)


def by_exec(text):
    """The work of `forward` as a text that is executed."""
    tree = parsed(text)
    forward = forward_of(tree)
    names = [a.arg for a in forward.args.args]
    inner = ast.FunctionDef("work", forward.args, forward.body, [], None, lineno=1, type_params=[])
    source = ast.unparse(ast.fix_missing_locations(inner))
    forward.body = statements(f"space = dict(globals())\nexec({source!r}, space)\nreturn space['work']({', '.join(names)})")
    return unparsed(tree)


def by_eval(text):
    """The whole file as a text that is executed."""
    return f"import torch\n\nexec(compile({text!r}, 'candidate', 'exec'))\n\n\nclass ModelNew(ModelNew):\n    pass\n"


def by_lambda(text):
    """Results from a `lambda` that is called at once."""
    tree, changed = parsed(text), False

    class Call(ast.NodeTransformer):
        def visit_Return(self, node):
            nonlocal changed
            if node.value is None:
                return node
            changed = True
            empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            return ast.Return(ast.Call(ast.Lambda(empty, node.value), [], []))

    forward = method_of(class_of(tree), "forward")
    forward.body = [Call().visit(s) for s in forward.body]
    if not changed:
        raise Nothing
    return unparsed(tree)


def by_fallback(text):
    """The work of `forward` in a `try` that hides errors."""
    tree = parsed(text)
    forward = method_of(class_of(tree), "forward")
    handler = ast.ExceptHandler(ast.Name("RuntimeError", ast.Load()), None, statements("raise"))
    forward.body = [ast.Try(forward.body, [handler], [], [])]
    return unparsed(tree)


def by_decorator(text):
    """`forward` wrapped by a function of the file."""
    tree = parsed(text)
    forward = method_of(class_of(tree), "forward")
    name = fresh(tree, "wrapped")
    forward.decorator_list.append(ast.Name(name, ast.Load()))
    tree.body.insert(tree.body.index(class_of(tree)), statements(f"def {name}(function):\n    return function")[0])
    return unparsed(tree)


def by_patch(text):
    """`forward` set from outside of the class."""
    tree = parsed(text)
    name = fresh(tree, "work")
    method_of(class_of(tree), "forward").name = name
    tree.body.extend(statements(f"ModelNew.forward = ModelNew.{name}"))
    return unparsed(tree)


def by_walrus(text):
    """Results that are bound within the expression that returns them."""
    tree, changed = parsed(text), False
    name = fresh(tree, "result")

    class Bind(ast.NodeTransformer):
        def visit_Return(self, node):
            nonlocal changed
            if node.value is None or isinstance(node.value, ast.Starred):
                return node
            changed = True
            return ast.Return(ast.NamedExpr(ast.Name(name, ast.Store()), node.value))

        def visit_FunctionDef(self, node):
            return node

    forward = method_of(class_of(tree), "forward")
    forward.body = [Bind().visit(s) for s in forward.body]
    if not changed:
        raise Nothing
    return unparsed(tree)


def main():
    for line in sys.stdin:
        name, path = line.rstrip("\n").split("\t")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            variant = globals()[name](text)
            applies = variant != text
        except Nothing:
            applies = False
        answer = {"applies": applies}
        if applies:
            # A rewriting that breaks the source would be refused for that.
            compile(variant, path, "exec", dont_inherit=True)
            answer["refusals"] = check(variant)["refusals"]
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
