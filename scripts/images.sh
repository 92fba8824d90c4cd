#!/usr/bin/env bash
# Makes all images of docker-compose.yml on a machine that reaches Debian's packages but no image registry: the base from packages, the
# binaries built on the host, and stand-ins for third-party images under the names that the compose file gives.
# It replaces Flopsmith's own images and earlier stand-ins, and keeps all other images.
#
#   scripts/images.sh                     the images of the cluster
#   scripts/images.sh --base              only the base image of the others
#   scripts/images.sh --worker            broker, store and worker, without the trainer
#   scripts/images.sh --observability     also stand-ins for the profile `observability` (a gigabyte more), except Grafana
#
# --observability needs pip and access to PyPI.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."
stand_ins=(nats minio/minio)
images="worker trainer"
case "${1:-}" in
"") ;;
--base | --worker) images=worker ;;
--observability) stand_ins+=(prom/prometheus otel/opentelemetry-collector-contrib jaegertracing/jaeger) ;;
*)
    echo "usage: scripts/images.sh [--base | --worker | --observability]" >&2
    exit 2
    ;;
esac
base=debian:bookworm-slim
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

there() { docker image inspect "$1" >/dev/null 2>&1; }
# The name of a third-party image in the compose file, e.g. `image_of nats`.
image_of() { sed -n "s|^ *image: \($1:.*\)$|\1|p" docker-compose.yml | head -1; }

if ! there $base; then
    echo "== $base, from Debian's packages" >&2
    command -v debootstrap >/dev/null || {
        echo "debootstrap not found: apt-get install debootstrap" >&2
        exit 1
    }
    debootstrap --variant=minbase bookworm "$work/root" >"$work/log" 2>&1 || {
        tail -20 "$work/log" >&2
        exit 1
    }
    rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/*
    tar -C "$work/root" -c . | docker import --change 'CMD ["bash"]' - $base >/dev/null
    rm -rf "$work/root"
fi

# Replaces the build stage of the Dockerfile by one that copies.
mkdir "$work/nothing"
sed -e '/^# build: begin/,/^# build: end/c FROM scratch AS build\nCOPY . /dist' docker/Dockerfile >"$work/Dockerfile"
if [ "${1:-}" = --base ]; then
    # Installs the Debian packages of all images; Docker caches these steps for the images themselves.
    docker build --quiet -f "$work/Dockerfile" --target base "$work/nothing" >&2
    exit
fi

echo "== binaries" >&2
scripts/dist.sh "$images"
cargo build --release --locked --workspace --example s3_server

echo "== images of Flopsmith: $images" >&2
for target in $images; do
    docker build --quiet -f "$work/Dockerfile" --target $target -t flopsmith-$target target/dist
done

mkdir "$work/stand-ins"
strip -o "$work/stand-ins/s3_server" target/release/examples/s3_server
cp "${FLOPSMITH_HOME:-.flopsmith}/bin/nats-server" "$work/stand-ins/"
cp docker/stand-ins/* "$work/stand-ins/"
# Fetches Python packages for the Python of Debian 12, whatever the host has.
wheels() {
    python3 -m pip install --quiet --no-compile --only-binary=:all: --python-version 3.11 --implementation cp \
        --platform manylinux_2_34_x86_64 --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 --target "$work/stand-ins/$1" "${@:2}"
}
for named in "${stand_ins[@]}"; do
    image=$(image_of "$named")
    name=${named##*/}
    if there "$image" && [ -z "$(docker image inspect -f '{{index .Config.Labels "org.flopsmith.stand-in"}}' "$image")" ]; then
        echo "== $image exists" >&2
        continue
    fi
    echo "== a stand-in for $image" >&2
    case $name in
    opentelemetry-collector-contrib) wheels python --no-deps rotel==0.0.1a15 ;;
    jaeger) wheels phoenix arize-phoenix==20.26.1 ;;
    esac
    docker build --quiet -f docker/stand-ins.Dockerfile --target "$name" -t "$image" "$work/stand-ins"
done
