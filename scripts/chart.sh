#!/usr/bin/env bash
# The Helm chart against its golden files and Kubernetes' schemas, by the helm that HELM names or the one on the PATH. Python's packages for
# it are fetched into target/python. Left out, and said to be, where there is no helm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

helm=${HELM:-$(command -v helm || true)}
stand_in=../shared/tools/helm
if [ -z "$helm" ] && [ -d $stand_in ]; then
    # It builds itself where it lies.
    rm -rf target/helm
    mkdir -p target
    cp -r $stand_in target/helm
    helm="sh target/helm/helm"
fi
if [ -z "$helm" ]; then
    echo "skipped: the chart, as there is no helm here (HELM names one)" >&2
    exit
fi
python=$(scripts/python.sh kubernetes-validate==1.37.0 PyYAML==6.0.3)
PYTHONPATH=target/python "$python" scripts/helm_test.py --helm "$helm" "$@"
