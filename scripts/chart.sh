#!/usr/bin/env bash
# Compares the Helm chart with its golden files and Kubernetes' schemas, by the helm that HELM names or the one on the PATH. Fetches Python's
# packages for this into target/python. Without helm it reports that it skips the check.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

helm=${HELM:-$(command -v helm || true)}
stand_in=../shared/tools/helm
if [ -z "$helm" ] && [ -d $stand_in ]; then
    # The stand-in builds itself in its own folder.
    rm -rf target/helm
    mkdir -p target
    cp -r $stand_in target/helm
    helm="sh target/helm/helm"
fi
if [ -z "$helm" ]; then
    echo "skipped: the chart, since helm was not found (set HELM to its path)" >&2
    exit
fi
python=$(scripts/python.sh kubernetes-validate==1.37.0 PyYAML==6.0.3)
PYTHONPATH=target/python "$python" scripts/helm_test.py --helm "$helm" "$@"
