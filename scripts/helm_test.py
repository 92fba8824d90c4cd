#!/usr/bin/env python3
"""Tests the chart in helm/flopsmith: renders it with each file of examples/ and compares the result with golden/ and with Kubernetes'
schemas. It also checks that the chart refuses contradictory values with a message, and that nats-server accepts the chart's configuration.

  scripts/helm_test.py --helm helm            compare with the golden files
  scripts/helm_test.py --helm helm --bless    rewrite the golden files

Needs helm (or a program with the same arguments), and from PyPI kubernetes-validate and PyYAML."""

import argparse
import difflib
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "helm" / "flopsmith"
# The oldest and the newest version of Kubernetes whose schemas the test uses.
VERSIONS = ["1.31", "1.34"]
# Types of other projects, which Kubernetes' own schemas lack.
FOREIGN = {"keda.sh/v1alpha1", "monitoring.coreos.com/v1"}

STORE = ["--set", "store.url=s3://bucket/flopsmith"]
ELSEWHERE = ["--set", "nats.internal.enabled=false,nats.external.url=nats://elsewhere:4222"]
POOL = {"name": "a", "class": "local", "roles": ["timer"], "cores": 2, "memory": "1Gi"}
KEYS = {"nats": {"auth": {"keys": {"enabled": True, "users": "u", "init": "a", "archive": "b", "trainer": "c", "generator": "d"}}}}
REFUSED = [
    ([], "url"),
    (["--set", "store.url=/a/folder"], "store.url"),
    ([*STORE, "--set", "nats.internal.replicas=2"], "replicas"),
    ([*STORE, "--set", "nats.external.url=nats://elsewhere:4222"], "choose one"),
    ([*STORE, "--set", "nats.internal.enabled=false"], "external.url has to name"),
    ([*STORE, "--set", "nats.internal.enabled=false,nats.external.url=nats://me:secret@elsewhere"], "belong in the secret"),
    ([*STORE, {"pools": [POOL | {"cores": 1}]}], "two cores"),
    ([*STORE, {"pools": [POOL | {"roles": ["cook"]}]}], "roles"),
    ([*STORE, {"pools": [POOL, POOL]}], "two pools have the name a"),
    ([*STORE, {"pools": [POOL | {"autoscaling": {"enabled": True, "min": 9, "max": 3, "lag": 1}}]}], "min is above"),
    ([*STORE, {"pools": [POOL | {"autoscaling": {"enabled": True, "min": 1, "max": 3, "lag": 1}}]}, *ELSEWHERE], "external.monitoring"),
    ([*STORE, {"pools": [POOL | {"autoscaling": {"enabled": True, "min": 0, "max": 3, "lag": 1}}]}], "min"),
    ([*STORE, "--set", "trainers.replicas=2"], "trainers"),
    ([*STORE, "--set", "nats.auth.keys.enabled=true,nats.auth.keys.init=a"], "keys.users"),
    ([*STORE, "--set", "nats.auth.keys.enabled=true,nats.auth.keys.users=u"], "keys.init"),
    ([*STORE, "--set", "nats.auth.keys.enabled=true,nats.auth.keys.users=u,nats.auth.keys.init=a,nats.auth.keys.archive=b"], "its key"),
    ([*STORE, KEYS | {"pools": [POOL]}], "pool a: key has to name"),
    ([*STORE, {"pools": [POOL | {"key": "k"}]}], "keys.enabled is false"),
    ([*STORE, "--set", "store.env.PATH=/tmp"], "PATH"),
    ([*STORE, "--set", "trainer.temporarySpace=much"], "temporarySpace"),
]
GPU = {"resources": {"limits": {"memory": "64Gi", "nvidia.com/gpu": 1}}}
# Values, and the temporary space of the parts with them.
SPACES = [
    ({}, {"archive": "16Gi", "trainer": "16Gi", "generator": "16Gi", "pool-cpu": "4Gi"}),
    ({"trainer": GPU}, {"trainer": "80Gi", "generator": "16Gi"}),
    ({"trainer": GPU | {"temporarySpace": "200Gi"}, "generator": {"temporarySpace": "20Gi"}}, {"trainer": "200Gi", "generator": "20Gi"}),
]


def template(helm, *more):
    """Renders the chart with arguments; a dict among them is a file of values."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = []
        for argument in more:
            if isinstance(argument, dict):
                path = pathlib.Path(folder) / "values.yaml"
                # JSON is YAML.
                path.write_text(json.dumps(argument))
                arguments += ["-f", str(path)]
            else:
                arguments.append(argument)
        return subprocess.run([*helm, "template", "demo", str(CHART), "-n", "speed", *arguments], text=True, capture_output=True)


def documents(text):
    import yaml

    return [document for document in yaml.safe_load_all(text) if document]


def valid(text):
    """The documents' errors by Kubernetes' schemas."""
    import kubernetes_validate

    wrong = []
    for document in documents(text):
        if document["apiVersion"] in FOREIGN:
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                wrong.append(f"{document['kind']} {document['metadata']['name']} ({version}): {error.message}")
    return wrong


def sound(text):
    """Checks that no schema expresses: permissions of pods, and references between documents."""
    wrong = []
    all_documents = documents(text)
    pods = {}
    for document in all_documents:
        name = document["metadata"]["name"]
        if document["kind"] in ("Deployment", "StatefulSet", "Job"):
            pods[name] = (document, document["spec"]["template"])
    for name, (document, pod) in pods.items():
        spec = pod["spec"]
        if not spec["securityContext"]["runAsNonRoot"] or spec["securityContext"]["seccompProfile"]["type"] != "RuntimeDefault":
            wrong.append(f"{name}: its pod exceeds the restricted profile")
        for container in spec["containers"]:
            security = container["securityContext"]
            if security["capabilities"]["drop"] != ["ALL"] or security["allowPrivilegeEscalation"] or not security["readOnlyRootFilesystem"]:
                wrong.append(f"{name}: a container is not confined")
            if "seccompProfile" in security and "-pool-" not in name:
                wrong.append(f"{name}: only pools may have the jail's exceptions")
            if "-pool-" in name and not spec["serviceAccountName"].endswith("-pool"):
                wrong.append(f"{name}: it must have the service account of pools")
            if "-pool-" not in name and spec.get("serviceAccountName", "").endswith("-pool"):
                wrong.append(f"{name}: it must not have the service account of pools")
            if "-pool-" in name:
                resources = container["resources"]
                if resources["requests"] != resources["limits"] or not str(resources["requests"]["cpu"]).isdigit():
                    wrong.append(f"{name}: its requests and limits are not equal and whole cores")
        secrets = {volume["secret"]["secretName"]: volume["secret"].get("items") for volume in spec["volumes"] if "secret" in volume}
        if not name.endswith("-nats") and any(items not in ([{"key": "nkey", "path": "nkey"}], [{"key": "ca.crt", "path": "ca.crt"}]) for items in secrets.values()):
            wrong.append(f"{name}: it gets more of a secret than its own key and the certificate of the authority")
        if document["kind"] != "Job":
            wanted = document["spec"]["selector"]["matchLabels"].items()
            if not wanted <= pod["metadata"]["labels"].items():
                wrong.append(f"{name}: its selector does not match its own pods")
    for document in all_documents:
        if document["kind"] == "PodDisruptionBudget":
            wanted = document["spec"]["selector"]["matchLabels"].items()
            if sum(wanted <= pod["metadata"]["labels"].items() for _, pod in pods.values()) != 1:
                wrong.append(f"{document['metadata']['name']}: its selector matches no pods, or several kinds")
        if document["kind"] == "NetworkPolicy":
            open_to_all = [rule for rule in document["spec"].get("egress") or [] if not rule.get("to")]
            if open_to_all:
                wrong.append(f"{document['metadata']['name']}: it lets pods reach any address by {open_to_all[0].get('ports')}")
        if document["kind"] == "ScaledObject" and document["spec"]["scaleTargetRef"]["name"] not in pods:
            wrong.append(f"{document['metadata']['name']}: its scale target does not exist")
    return wrong


def spacious(helm):
    """Checks the size of the temporary space of each part."""
    wrong = []
    for values, wanted in SPACES:
        rendered = template(helm, *STORE, values)
        if rendered.returncode != 0:
            wrong.append(f"the chart cannot be rendered with {values}: {rendered.stderr[-600:]}")
            continue
        parts = {document["metadata"]["name"].removeprefix("demo-flopsmith-"): document for document in documents(rendered.stdout) if document["kind"] == "Deployment"}
        for part, space in wanted.items():
            volumes = {volume["name"]: volume for volume in parts[part]["spec"]["template"]["spec"]["volumes"]}
            found = volumes["tmp"]["emptyDir"]["sizeLimit"]
            if found != space:
                wrong.append(f"the temporary space of {part} with {values} is {found} instead of {space}")
    return wrong


def understood(text, server, flopsmith):
    """Checks that nats-server accepts the configuration, with files in place of the secrets."""
    wrong = []
    for document in documents(text):
        config = document.get("data", {}).get("nats.conf") if document["kind"] == "ConfigMap" else None
        if not config:
            continue
        with tempfile.TemporaryDirectory() as folder:
            # The folders lie beside each other, as in the pod.
            place = pathlib.Path(folder)
            for part in ("nats", "nats-users", "nats-tls", "data"):
                (place / part).mkdir()
            keys = [subprocess.run([flopsmith, "cluster", "key", f"{folder}/{role}.nk", "--roles", role], text=True, capture_output=True, check=True).stdout
                    for role in ("admin", "archive,learner,generator", "compiler,verifier,timer")]
            (place / "nats-users" / "users.conf").write_text("users: [\n" + "".join(keys) + "]\n")
            tls = place / "nats-tls"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=broker",
                            "-keyout", tls / "tls.key", "-out", tls / "tls.crt"], capture_output=True, check=True)
            (tls / "ca.crt").write_bytes((tls / "tls.crt").read_bytes())
            config = config.replace("/etc/nats-tls", str(tls)).replace("/data", str(place / "data"))
            (place / "nats" / "nats.conf").write_text(config)
            tried = subprocess.run([server, "-t", "-c", place / "nats" / "nats.conf"], text=True, capture_output=True, env={"POD_NAME": "nats-0", "FLOPSMITH_TOKEN": "token", "FLOPSMITH_ROUTES": "secret",
                                                                                                                           **{f"FLOPSMITH_ROUTE_{i}": f"nats://routes:secret@127.0.0.{i + 1}:6222" for i in range(3)}})
            if tried.returncode != 0:
                wrong.append(f"nats-server refuses its configuration: {tried.stdout}{tried.stderr}")
    return wrong


def table():
    """A table of the values with their defaults and their comments in values.yaml."""
    import yaml

    rows = ["| value | default | |", "|---|---|---|"]
    path, said = [], []
    for line in (CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            said.append(text.lstrip("# "))
            continue
        if not text:
            said = []
            continue
        depth = len(line) - len(line.lstrip())
        listed = text.startswith("- ")
        text = text.removeprefix("- ")
        key, _, rest = text.partition(":")
        path = [(d, k) for d, k in path if d < depth]
        name = ".".join([k for _, k in path] + [key]).replace("pools.", "pools[].")
        path.append((depth, key))
        if listed:
            # The first key of a list entry has the depth of the keys after it.
            path[-1] = (depth + 2, key)
        if rest.strip() or said:
            default = "" if not rest.strip() else f"`{json.dumps(yaml.safe_load(rest))}`"
            rows.append(f"| `{name}` | {default} | {' '.join(said)} |")
        said = []
    return "\n".join(rows)


def readme(bless):
    """Checks that the chart's README has the current table, or writes it."""
    path = CHART / "README.md"
    text = path.read_text()
    begin, end = text.index("-->\n", text.index("values: begin")) + 4, text.index("<!-- values: end")
    now = text[:begin] + table() + "\n" + text[end:]
    if bless:
        path.write_text(now)
    return [] if now == text or bless else ["the table of values in README.md differs from values.yaml: --bless writes it anew"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--helm", default="helm", help="helm, or a program with the same arguments")
    parser.add_argument("--bless", action="store_true", help="rewrite the golden files")
    given = parser.parse_args()
    helm = given.helm.split()
    wrong = readme(given.bless)
    built = [ROOT / ".flopsmith" / "bin" / "nats-server", ROOT / "target" / "release" / "flopsmith"]
    if not all(path.exists() for path in built):
        print("skipped: whether nats-server accepts its configuration, since nats-server or flopsmith is missing", file=sys.stderr)
        built = None
    examples = sorted((CHART / "examples").glob("*.yaml"))
    if len(examples) < 4:
        sys.exit("the examples are missing")
    for example in examples:
        rendered = template(helm, "-f", str(example))
        if rendered.returncode != 0:
            wrong.append(f"{example.name} cannot be rendered: {rendered.stderr[-2000:]}")
            continue
        golden = CHART / "golden" / example.name
        if given.bless:
            golden.write_text(rendered.stdout)
        before = golden.read_text() if golden.exists() else ""
        difference = list(difflib.unified_diff(before.splitlines(), rendered.stdout.splitlines(), "golden", "rendered", lineterm="", n=2))
        if difference:
            wrong.append(f"{example.name} differs from its golden file (--bless, if this is intended):\n" + "\n".join(difference[:60]))
        wrong += [f"{example.name}: {what}" for what in valid(rendered.stdout) + sound(rendered.stdout)]
        if built:
            wrong += [f"{example.name}: {what}" for what in understood(rendered.stdout, *built)]
        linted = subprocess.run([*helm, "lint", str(CHART), "-f", str(example)], text=True, capture_output=True)
        if linted.returncode != 0:
            wrong.append(f"{example.name}: {linted.stdout}{linted.stderr}")
    for values, words in REFUSED:
        rendered = template(helm, *values)
        if rendered.returncode == 0 or words not in rendered.stderr:
            wrong.append(f"the chart has to refuse {values} with `{words}`, and does not: {rendered.stderr[-600:]}")
    wrong += spacious(helm)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(examples)} sets of values are right, for Kubernetes {', '.join(VERSIONS)}; the chart refused {len(REFUSED)} contradictions")


if __name__ == "__main__":
    main()
