# `make` alone lists the targets. What a target needs is set up and built first; a second run does not repeat it.
SHELL := /bin/bash
# rustup's folder, for shells that were open before Rust was installed.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# What a target prints on stdout is its result, as in `make search > best.c`: what prepares it speaks on stderr and is not echoed.
FLOPSMITH := target/release/flopsmith
# What is given to the program behind its own arguments, e.g. make train ARGS="--budget 20m --seed 3"
ARGS ?=
# What is given to cargo-nextest, e.g. make test TESTS="--workspace --test corpus". Without the examples, which are benchmarks:
# `make lint` sees that they compile.
TESTS ?= --workspace --tests
WHOLE = $$(scripts/setup.sh --tool cargo-nextest) nextest run --profile whole --release --locked

.DEFAULT_GOAL := help
.PHONY: help setup build node train search test verify long variants nests fuzz starter bench lint format doctor images-offline test-cluster test-chart test-slurm test-dashboard test-traces faults audit parity clean distclean

help: ## list the targets
	@printf 'make TARGET [ARGS="..."]\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r t d; do printf '  %-14s %s\n' "$$t" "$$d"; done

setup: ## fetch what is missing: compiler, jail, libtorch, nats-server (seconds when all is there)
	@scripts/setup.sh >&2

build: setup ## build target/release/flopsmith and the harness beside it
	@cargo build --release --workspace --locked >&2

# A folder of its own: target/release stays what `make build` has made. It needs less of the set-up.
node: ## build target/node/release/flopsmith for benchmark nodes: no training, no models, no libtorch, all else
	@scripts/setup.sh --without-torch >&2
	@cargo build --release -p flopsmith -p flopsmith-harness --no-default-features --locked --target-dir target/node >&2
	@echo target/node/release/flopsmith

train: build ## the main job: teach the starter model to write fast matrix multiplication (ten minutes; ARGS="--resume" goes on)
	@$(FLOPSMITH) train examples/dgemm.toml $(ARGS)

search: build ## the same machinery without a model: the fastest verified dgemm of 256 x 256 matrices in five minutes, on stdout
	@$(FLOPSMITH) search --problem dgemm --workload n=256 $(ARGS)

doctor: build ## what is there, what is missing, how well this machine protects and times
	@$(FLOPSMITH) doctor $(ARGS)

test: build ## build and run all tests, in the same profile as the program
	@scripts/test.sh $(TESTS)

verify: setup ## everything that can be checked here, part by part, into docs/results/verify.json (hours; ARGS="--resume" goes on, ARGS="--only PART", ARGS="--list")
	@python3 scripts/verify.py $(ARGS)

long: build ## what takes minutes, so `make test` leaves it out: ten kills of a training, each resumed; figures of this machine
	@$(WHOLE) --workspace --test cli --run-ignored only --no-capture

variants: build ## the whole corpus, its thousands of variants and all cheats for each problem; an hour, so `make test` tries a part, by the commit
	@FLOPSMITH_SAMPLE=all $(WHOLE) --workspace --test corpus --no-capture

nests: build ## every loop nest of the schedule space, compiled and checked; minutes, so `make test` tries a part, by the commit
	@FLOPSMITH_SAMPLE=all $(WHOLE) --workspace --test schedules --no-capture nests_of_the_space

fuzz: ## an hour of fuzzing, twenty minutes for each parser; needs a nightly compiler (scripts/fuzz.sh SECONDS TARGET for less)
	@scripts/fuzz.sh $(ARGS)

starter: build ## make the starter model anew from its recipe
	@$(FLOPSMITH) sft models/starter/recipe.toml $(ARGS)

bench: build ## measure Flopsmith itself: bus, evaluation, repeatability, sampling, training (ten quiet minutes)
	@cargo build --release --workspace --locked --examples >&2
	@for b in throughput compile_speed "self_ratio 100 rank busy" "sample_speed models/starter/config.json" "train_speed models/starter/config.json"; do \
	  echo "== $$b"; target/release/examples/$$b || exit 1; done
	@echo "== evaluation"; python3 scripts/bench/evaluation.py --steps 4

images-offline: setup ## the images of docker-compose.yml where no image registry can be reached (needs Docker, debootstrap and root)
	@scripts/images.sh

test-cluster: ## a short training on the compose cluster, with containers killed and cut off (make images-offline, or docker compose build, first)
	@python3 scripts/cluster_test.py $(ARGS)

test-chart: ## the Helm chart against its golden files and Kubernetes' schemas (needs helm, and kubernetes-validate and PyYAML for Python; ARGS=--bless)
	@python3 scripts/helm_test.py $(ARGS)

test-slurm: build ## the batch scripts of slurm/, without Slurm: two clusters one after the other, and a worker that follows
	@python3 scripts/slurm_test.py $(ARGS)

# A folder of its own: such a build says numbers that are no measurements.
STEADY := --release --locked --target-dir target/steady
faults: setup ## two hundred faults on a cluster of processes, and whether its searches end as undisturbed ones (an hour and more; ARGS="--faults 20")
	@cargo build $(STEADY) -p flopsmith -p flopsmith-harness --no-default-features --features flopsmith/steady >&2
	@cargo build $(STEADY) -p flopsmith-store --example s3_server >&2
	@case "$(ARGS)" in *--train*) cargo build --release --workspace --locked >&2;; esac
	@python3 scripts/faults.py $(ARGS)

parity: setup ## models, sampling and learner beside transformers, TRL and torch, computed anew (fetches them from PyPI the first time)
	@scripts/parity.sh

test-dashboard: build ## the dashboard's queries and the alerts on a real Prometheus that scrapes nodes of this machine (needs prometheus)
	@python3 scripts/dashboard_test.py $(ARGS)

test-traces: build ## the traces of a search at a collector of somebody else's (needs rotel from PyPI)
	@python3 scripts/otlp_test.py $(ARGS)

lint: setup ## formatting and clippy, warnings are errors; the build without libtorch compiles
	@cargo fmt --all --check
	@scripts/features.py
	@cargo clippy --release --workspace --all-targets --locked -- -D warnings
	@cargo check --release --workspace --no-default-features --locked

audit: ## licences, sources and known weaknesses of everything that is built in, by cargo-deny
	@scripts/audit.sh

format: ## format all Rust code
	@cargo fmt --all

clean: ## remove what was built (target/), keep what was fetched and all runs
	@cargo clean

distclean: clean ## remove also what the set-up fetched (.flopsmith/), keep all runs
	@rm -rf .flopsmith
