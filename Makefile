# `make` alone lists the targets. Each target first sets up and builds its needs; a second run does not repeat that.
SHELL := /bin/bash
# rustup's folder, for shells that were open before Rust was installed.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# Only a target's result goes to stdout, as in `make search > best.c`: its preparation prints to stderr, and make echoes no commands.
FLOPSMITH := target/release/flopsmith
# Further arguments of the program, e.g. make train ARGS="--budget 20m --seed 3"
ARGS ?=
# Arguments of cargo-nextest, e.g. make test TESTS="--workspace --test corpus". The default leaves the examples out, which are
# benchmarks: `make lint` compiles them.
TESTS ?= --workspace --tests
WHOLE = $$(scripts/setup.sh --tool cargo-nextest) nextest run --profile whole --release --locked

.DEFAULT_GOAL := help
.PHONY: help setup build node package docs train train-suite search test verify long variants nests fuzz starter starter-nests bench lint format doctor images-offline test-cluster test-chart test-slurm test-dashboard test-ui test-traces test-clients test-modules test-docs test-packages test-harbor gpu-check faults audit parity clean distclean

help: ## list the targets
	@printf 'make TARGET [ARGS="..."]\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r t d; do printf '  %-14s %s\n' "$$t" "$$d"; done

setup: ## install what is missing of compiler, jail, libtorch and nats-server (takes seconds if nothing is)
	@scripts/setup.sh >&2

build: setup ## build target/release/flopsmith and the harness beside it
	@cargo build --release --workspace --locked >&2

# Its own folder keeps the results of `make build` in target/release. It needs less of the set-up.
node: ## build target/node/release/flopsmith for benchmark nodes: everything but training and models, without libtorch
	@scripts/setup.sh --without-torch >&2
	@cargo build --release -p flopsmith -p flopsmith-harness --no-default-features --locked --target-dir target/node >&2
	@echo target/node/release/flopsmith

package: ## make a Debian package of everything but training and models, in target/package (scripts/package.sh static: a tarball)
	@scripts/setup.sh --without-torch >&2
	@scripts/package.sh deb

docs: ## build the documentation site in target/site (the first run builds mdbook, which takes minutes)
	@mdbook=$$(scripts/setup.sh --tool mdbook) && scripts/docs.py "$$mdbook"

train: build ## train the starter model to write fast matrix multiplication (ten minutes; ARGS="--resume" continues)
	@$(FLOPSMITH) train examples/dgemm.toml $(ARGS)

# The evaluation takes minutes, lies in the run's folder, and continues where it was interrupted (ARGS="--resume").
train-suite: build ## train models/nests on twelve problems and fresh random nests, and evaluate eight held-out problems before and after (half an hour; first make starter-nests)
	@test -f models/nests/model.safetensors || { echo "there is no model in models/nests; run make starter-nests first" >&2; exit 2; }
	@scripts/train-suite.sh $(ARGS)

search: build ## the same machinery without a model: the fastest verified dgemm of 256 x 256 matrices in five minutes, on stdout
	@$(FLOPSMITH) search --problem dgemm --workload n=256 $(ARGS)

doctor: build ## report this machine's tools, its jail and its timing precision
	@$(FLOPSMITH) doctor $(ARGS)

test: build ## build and run all tests in the program's profile
	@scripts/test.sh $(TESTS)

verify: setup ## run every check, part by part, and write docs/results/verify.json (hours; ARGS="--resume" continues, ARGS="--only PART", ARGS="--list")
	@python3 scripts/verify.py $(ARGS)

long: build ## run the tests of minutes that `make test` leaves out: ten kills of a training, each resumed; figures of this machine
	@$(WHOLE) --workspace --test cli --run-ignored only --no-capture

variants: build ## try the whole corpus, its thousands of variants and all cheats for each problem (an hour; `make test` tries the commit's part)
	@FLOPSMITH_SAMPLE=all $(WHOLE) --workspace --test corpus --test module --no-capture

nests: build ## compile and check every loop nest of the schedule space, and programs of all affine problems (minutes; `make test` tries the commit's part)
	@FLOPSMITH_SAMPLE=all $(WHOLE) --workspace --test generator --test emitted --no-capture -E 'binary(emitted) + test(nests_of_the_space)'

fuzz: ## fuzz for an hour, twenty minutes for each parser (scripts/fuzz.sh SECONDS TARGET for less)
	@scripts/fuzz.sh $(ARGS)

starter: build ## train the starter model anew from its recipe
	@$(FLOPSMITH) sft models/starter/recipe.toml $(ARGS)

starter-nests: build ## train models/nests, which reads loop nests, from its recipe (two to four hours; ARGS="--resume" continues)
	@$(FLOPSMITH) sft models/nests/recipe.toml $(ARGS)

bench: build ## measure Flopsmith itself: bus, evaluation, repeatability, sampling, training (ten quiet minutes)
	@cargo build --release --workspace --locked --examples >&2
	@for b in throughput compile_speed "self_ratio 100 rank busy" "sample_speed models/starter/config.json" "train_speed models/starter/config.json"; do \
	  echo "== $$b"; target/release/examples/$$b || exit 1; done
	@echo "== evaluation"; python3 scripts/bench/evaluation.py --steps 4

images-offline: setup ## make the images of docker-compose.yml without an image registry (needs Docker, debootstrap and root)
	@scripts/images.sh

test-cluster: ## train on the compose cluster while containers are killed and cut off (first make images-offline or docker compose build)
	@python3 scripts/cluster_test.py $(ARGS)

test-chart: ## compare the Helm chart with its golden files and Kubernetes' schemas (needs helm, kubernetes-validate and PyYAML; ARGS=--bless)
	@python3 scripts/helm_test.py $(ARGS)

test-slurm: build ## run the batch scripts of slurm/ without Slurm: two clusters one after the other, and a worker that follows the broker
	@python3 scripts/slurm_test.py $(ARGS)

# Its own folder: a build with `steady` reports numbers that are no measurements.
STEADY := --release --locked --target-dir target/steady
faults: setup ## inject two hundred faults into a cluster and compare its searches with undisturbed ones (over an hour; ARGS="--faults 20")
	@cargo build $(STEADY) -p flopsmith -p flopsmith-harness --no-default-features --features flopsmith/steady >&2
	@cargo build $(STEADY) -p flopsmith-store --example s3_server >&2
	@case "$(ARGS)" in *--train*) cargo build --release --workspace --locked >&2;; esac
	@python3 scripts/faults.py $(ARGS)

parity: setup ## compare models, sampling and learner with transformers, TRL and torch (the first run fetches them from PyPI)
	@scripts/parity.sh

test-dashboard: build ## evaluate the dashboard's queries and the alerts on a real Prometheus (needs prometheus)
	@python3 scripts/dashboard_test.py $(ARGS)

test-ui: build ## look at the pages of flopsmith ui in a browser: themes, phone, keyboard, contrast, live steps (needs chromium; ARGS=--large: judges times and memory at a million outcomes)
	@cargo build --release --workspace --locked --example sample_runs --example million >&2
	@python3 scripts/ui_test.py $(ARGS)

test-traces: build ## send the traces of a search to a third-party collector (needs rotel from PyPI)
	@python3 scripts/otlp_test.py $(ARGS)

test-clients: build ## run TRL, verl, OpenRLHF, OpenEnv, OpenEvolve, ShinkaEvolve, mcp, openai, transformers, TensorBoard, MLflow and Harbor with the program (the first run fetches them from PyPI; ARGS="mcp openai": only these)
	@scripts/clients.sh $(ARGS)

test-modules: build ## install PyTorch into target/torch and run all tests of modules that need it (half an hour; fails if one is skipped for lack of it)
	@python3 scripts/torch_tests.py $(ARGS)

test-docs: build ## run the commands that README.md and docs/ show, with small budgets (hours; ARGS=--list lists those that it leaves out, with reasons)
	@python3 scripts/docs_run.py $(ARGS)

test-packages: ## build what users install (by cargo, static, Debian), install each outside the repository, and run its program (minutes; ARGS="--only deb")
	@scripts/setup.sh --without-torch >&2
	@python3 scripts/packages_check.py $(ARGS)

test-harbor: build ## judge the oracle, and an agent that does nothing, by the verifier of every exported task of Harbor (measures for an hour; ARGS="--problem dgemm")
	@python3 scripts/harbor_check.py $(ARGS)

gpu-check: ## run on an NVIDIA GPU what only a GPU runs, and write docs/results/gpu.json (refused without a GPU)
	@python3 scripts/gpu_check.py $(ARGS)

lint: setup ## check formatting, clippy (warnings are errors) and the build without libtorch
	@cargo fmt --all --check
	@scripts/features.py
	@cargo clippy --release --workspace --all-targets --locked -- -D warnings
	@cargo check --release --workspace --no-default-features --locked

audit: ## check licences, sources and known weaknesses of all dependencies by cargo-deny
	@scripts/audit.sh

format: ## format all Rust code
	@cargo fmt --all

clean: ## remove build outputs (target/); keep downloads and all runs
	@cargo clean

distclean: clean ## remove also the set-up's downloads (.flopsmith/); keep all runs
	@rm -rf .flopsmith
