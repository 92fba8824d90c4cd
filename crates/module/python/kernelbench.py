"""Describes files in KernelBench's contract without executing any of them.

Reads one JSON document on standard input: `paths`, the folders of packages; `later`, the packages that need not be there yet; and
`sources`, the texts. Prints a line for each text, in order: `problem`, the reason why it cannot be used, or `constants`, the numbers and
truth values that it assigns once at its top.
"""

import ast
import importlib.machinery
import json
import math
import signal
import sys

# No file of a benchmark takes as long to parse; the kernel ends this process then.
signal.alarm(60)
CONTRACT = ("Model", "get_inputs", "get_init_inputs")


def bound(statement):
    """The names that a statement at the top binds."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    names = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.extend((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return names


def imported(node):
    """The imports that a run of the file needs: those in a `try` have a substitute."""
    if isinstance(node, ast.Import):
        yield from (alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module.split(".")[0] if node.level == 0 else ""
    elif not isinstance(node, ast.Try):
        for child in ast.iter_child_nodes(node):
            yield from imported(child)


def is_there(package, paths):
    return package in sys.builtin_module_names or importlib.machinery.PathFinder.find_spec(package, paths) is not None


def literal(node):
    """A number or a truth value that TOML and JSON can hold; None for all else."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        node, sign = node.operand, -1
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool):
        return value if sign == 1 else None
    fits = isinstance(value, int) and abs(value) < 2**63 or isinstance(value, float) and math.isfinite(value)
    return sign * value if fits else None


def constants(tree):
    times, found = {}, {}
    for statement in tree.body:
        for name in bound(statement):
            times[name] = times.get(name, 0) + 1
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            value = literal(statement.value)
            if value is not None:
                found[statement.targets[0].id] = value
    return {name: value for name, value in found.items() if times[name] == 1 and name.isascii()}


def described(source, paths, later):
    try:
        tree = ast.parse(source)
        names = {name for statement in tree.body for name in bound(statement)}
        missing = [name for name in CONTRACT if name not in names]
        packages = sorted(set(imported(tree)))
        found = constants(tree)
    except SyntaxError as error:
        return {"problem": f"it cannot be parsed: line {error.lineno or 1}: {error.msg}"}
    except (RecursionError, MemoryError, ValueError) as error:
        return {"problem": f"it cannot be parsed: {error}"}
    if missing:
        return {"problem": f"it defines no `{missing[0]}`"}
    if "" in packages:
        return {"problem": "it imports another file of its folder"}
    absent = [package for package in packages if package not in later and not is_there(package, paths)]
    if absent:
        return {"problem": f"it needs the package `{absent[0]}`, which this Python does not have"}
    return {"constants": found}


def main():
    asked = json.loads(sys.stdin.buffer.read())
    for source in asked["sources"]:
        print(json.dumps(described(source, asked["paths"] + sys.path, asked["later"])), flush=True)


main()
