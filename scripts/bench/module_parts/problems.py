"""The shipped modules, copies of them with other keys, and candidates for those."""

import ast
import json
import re
import shutil
import tomllib

from peers.cases import ROOT

MODULES = ROOT / "problems/modules"
EAGER, INDUCTOR = "eager", "inductor"


def definition(name):
    return tomllib.loads((MODULES / name / "problem.toml").read_text())


def solution(name):
    """The file of the shipped C++ solution."""
    return MODULES / name / "solution_cpp.py"


def keyed(text, **keys):
    """A definition with other values of top-level keys, which have one line each."""
    whole, *workloads = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    for key, value in keys.items():
        whole = re.sub(rf"^{key}\s*=.*\n", "", whole, flags=re.MULTILINE)
        whole = f"{key} = {json.dumps(value)}\n{whole}"
    return whole + "".join(workloads)


def as_candidate(reference):
    """The text of a candidate that does the same as a reference: its `Model` under the name `ModelNew`."""
    tree = ast.parse(reference)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"))]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            node.name = "ModelNew"
    return ast.unparse(tree) + "\n"


def variant(folder, name, **keys):
    """A copy of a problem with other values of top-level keys. Its folder has the problem's name."""
    made = folder / name
    made.mkdir(parents=True)
    shutil.copy(MODULES / name / "reference.py", made)
    (made / "problem.toml").write_text(keyed((MODULES / name / "problem.toml").read_text(), **keys))
    return made


def copies(folder, text, number):
    """Copies of one candidate: `flopsmith bench` measures a file that is named twice once only."""
    folder.mkdir(parents=True)
    files = [folder / f"copy_{at:03}.py" for at in range(1, number + 1)]
    for file in files:
        file.write_text(text)
    return files
