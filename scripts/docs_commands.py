"""The tables of docs_run.py: how the commands of the pages become small, the files that pages take for granted, and what is left out and why.
`scripts/test_docs_run.py` demands that each entry fits a command of a page."""

# Variables of the commands: budgets where a command names none.
SETTINGS = {
    "FLOPSMITH_WAIT": "0",
    "FLOPSMITH_BUDGET": "60s",
    "FLOPSMITH_BENCH_PURPOSE": "screen",
    "FLOPSMITH_EVAL_PURPOSE": "screen",
    "FLOPSMITH_EVAL_SAMPLES": "2",
}

# The address of a page's broker.
BROKER = "nats://SECRET@127.0.0.1:4222"

# Patterns in commands, and what stands there instead. docs_run.py replaces the ports by free ones.
SMALL = [
    (r"\b(flopsmith search .*)--budget \S+", r"\1--budget 20s"),
    # Time for the evaluations before and after, and for a step at least between them.
    (r"\b(flopsmith train .*)--budget \S+", r"\1--budget 60s"),
    (r"--evaluations 300\b", "--evaluations 30"),
    (r"--examples 500\b", "--examples 120"),
    (r"--count 20\b", "--count 3"),
    (r"\b([mn])=64\.\.1024\b", r"\1=64..128"),
    # The reader's programs solve one problem.
    (r"\btries/ --problem dgemv\b", "tries_of_dgemv/ --problem dgemv"),
    # An answer that reports an error is one.
    (r"^curl -s(N?) ", r"curl -sSf\1 "),
    (r"\bflopsmith serve\b(?!.*--listen)(.*)$", r"flopsmith serve\1 --listen 127.0.0.1:8765"),
    (r"\bflopsmith ui\b(?!.*--listen)(.*)$", r"flopsmith ui\1 --listen 127.0.0.1:8766"),
    (r"\bflopsmith model serve\b(?!.*--port)(.*)$", r"flopsmith model serve\1 --port 8000"),
    (r"--runs /data/runs\b", "--runs runs"),
    (r"-sd /var/lib/nats --auth SECRET$", "-sd nats --auth SECRET -a 127.0.0.1 -p 4222"),
    (r"nats://(?:SECRET@)?broker:4222\b", BROKER),
    (r"s3://bucket/flopsmith\b", "$PWD/store"),
    (r"/run/secrets/flopsmith\b", "secret"),
    # A stand-in for a chat model, and not the server that a page starts.
    (r"http://127\.0\.0\.1:8000/v1#", "http://127.0.0.1:MODELPORT/v1#"),
    (r"^(flopsmith train examples/train-endpoint\.toml)$", r"\1 --set generator.endpoint.url=http://127.0.0.1:8000/v1"),
]

# Commands that run until they are stopped, the words which say that they have begun, and whether they stay for the commands behind them.
ENDLESS = [
    (r"\bflopsmith (serve|ui|model serve)\b", "http://", True),
    (r"\bflopsmith worker\b", "works for machine class", True),
    (r"\bnats-server\b", "Server is ready", True),
    (r"--watch\b", "ctrl-c ends it", False),
]

# Exit codes other than 0 that a command may have.
CODES = {
    # Two measurements of one program beside other work may differ.
    "flopsmith bench tries/ --problem dgemm --compare main": (0, 4),
    # A few answers of a small model may all be wrong.
    "flopsmith rlpf reinforce.toml --output models/trained": (0, 1),
}

# Programs that not every machine has, by the commands that need them.
NEEDS = [
    (r"--compiler clang\b", "clang"),
    (r"\.f90\b", "gfortran"),
    (r"\bopenssl rand\b", "openssl"),
    (r"^curl\b", "curl"),
]

# A short training, which is made once for all pages.
SHORT = "test -d ../short || flopsmith train examples/dgemm.toml --runs ../short"
FORTRAN = r"""printf '%s\n' 'subroutine dgemm(n, a, b, c) bind(C, name="dgemm")' 'use, intrinsic :: iso_c_binding' \
  'integer(c_int), value :: n' 'real(c_double), intent(in) :: a(n, n), b(n, n)' 'real(c_double), intent(out) :: c(n, n)' \
  'integer :: i, k' 'do i = 1, n' 'c(:, i) = 0' 'do k = 1, n' 'c(:, i) = c(:, i) + b(:, k) * a(k, i)' 'end do' 'end do' 'end subroutine' >b.f90"""
ANSWERS = """python3 -c 'import json
for name in ("baseline", "reference"):
    print(json.dumps({"problem": "dot", "program": open(f"problems/dot/{name}.c").read()}))' >answers.jsonl"""

# Files that the reader of a page has: the pages (None: all), the file as commands name it, and the command that makes it. Later entries replace
# the files of earlier ones.
GIVEN = [
    (None, "kernel.c", "cp problems/dgemm/baseline.c kernel.c"),
    (("docs/reference/problems.md",), "kernel.c", "cp problems/dot/baseline.c kernel.c"),
    (("docs/how-to/compare-programs.md",), "best.c", "cp problems/dgemm/reference.c best.c"),
    (("docs/how-to/compare-programs.md",), "tries/", "mkdir tries && cp problems/dgemm/baseline.c tries/one.c && cp problems/dgemm/reference.c tries/two.c"),
    (("docs/how-to/compare-programs.md",), "tries_of_dgemv/", "mkdir tries_of_dgemv && cp problems/dgemv/baseline.c tries_of_dgemv/one.c"),
    (("docs/how-to/compare-programs.md",), "a.cpp", "(echo 'extern \"C\"' && cat problems/dgemm/reference.c) >a.cpp"),
    (("docs/how-to/compare-programs.md",), "b.f90", FORTRAN),
    (("docs/reference/polybench.md",), "tries/", "mkdir tries && cp problems/polybench/polybench_gemm/baseline.c tries/one.c && cp problems/polybench/polybench_gemm/reference.c tries/two.c"),
    (("docs/tutorials/your-kernel.md",), "tries/", "flopsmith problem new other/my_kernel && mkdir tries && cp other/my_kernel/baseline.c tries/one.c && cp other/my_kernel/reference.c tries/two.c"),
    (("docs/how-to/export-tasks.md",), "my_problems/my_kernel", "flopsmith problem new my_problems/my_kernel"),
    (("docs/how-to/compare-models.md",), "answers.jsonl", ANSWERS),
    (("docs/how-to/tune-your-kernel.md",), "mine/sort64", "mkdir mine && cp -r problems/sort64 mine/sort64"),
    (("docs/how-to/tune-your-kernel.md",), "mine.c", "cp problems/sort64/baseline.c mine.c"),
    (("docs/how-to/install.md",), "~/.zfunc/_flopsmith", "mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc ~/.config/fish/completions"),
    (("docs/how-to/reward-other-trainers.md", "docs/how-to/serve-a-model.md"), "secret", f"(umask 077 && echo {32 * '5a'} >secret)"),
    (("docs/how-to/serve-a-model.md",), "models/mine", "cp -rL models/starter models/mine"),
    # A cluster whose store is new, and for the list of all commands also its broker.
    (("docs/tutorials/cluster.md", "docs/reference/commands.md"), "$PWD/store", "mkdir store"),
    (("docs/reference/commands.md",), BROKER, "nats-server -js -sd nats --auth SECRET -a 127.0.0.1 -p 4222"),
    (("docs/reference/commands.md",), BROKER, f"flopsmith cluster init --nats {BROKER}"),
    (("docs/how-to/repeat-a-run.md",), "flopsmith", SHORT),
    (("docs/how-to/repeat-a-run.md",), "dgemm-20260101-120000", "mkdir runs && cp -r ../short/dgemm-* runs/dgemm-20260101-120000"),
    (("docs/how-to/show-curves.md",), "flopsmith", SHORT),
    (("docs/how-to/show-curves.md",), "dgemm-20260101-120000", "mkdir runs && for run in dgemm-20260101-120000 first second; do cp -r ../short/dgemm-* runs/$run; done"),
    (("docs/how-to/troubleshoot.md", "docs/how-to/watch-runs-in-a-browser.md", "docs/tutorials/first-run.md"), "flopsmith", f"{SHORT}; mkdir runs && cp -r ../short/dgemm-* runs"),
    # A few updates each. The pages show longer recipes, or `--help` does.
    (("docs/how-to/learn-from-files.md", "docs/tutorials/your-model.md"), "tune.toml",
     r"""printf 'model = "models/starter"\nexamples = "data/sft.jsonl"\n[sft]\nlearning_rate = 1e-4\nsteps = 3\n' >tune.toml"""),
    (("docs/how-to/learn-from-files.md",), "reward.toml",
     r"""printf 'model = "models/tuned"\npairs = "data/reward_model.jsonl"\n[reward_model]\nlearning_rate = 1e-4\nsteps = 3\n' >reward.toml"""),
    (("docs/how-to/learn-from-files.md",), "align.toml",
     r"""printf 'model = "models/tuned"\npairs = "data/dpa.jsonl"\n[dpa]\nlearning_rate = 1e-5\nsteps = 3\n' >align.toml"""),
    (("docs/how-to/learn-from-files.md",), "reinforce.toml",
     r"""printf 'model = "models/tuned"\nexercises = "data/rl.jsonl"\nreward_model = "models/reward"\nsteps = 2\nprompts = 2\nsamples = 3\nmax_tokens = 300\n[ppo]\nlearning_rate = 1e-5\nepochs = 1\n' >reinforce.toml"""),
]

# Commands that are left out, by reason. An entry is a command as the page shows it without its comment, or `PAGE: COMMAND` for that of one page.
LEFT_OUT = {
    "it builds or checks the whole product, for minutes to hours; `make verify` has these parts": [
        "cargo test -p flopsmith-inspect --test shapes -- --nocapture",
        "make node",
        "target/node/release/flopsmith doctor",
        "cargo install --path crates/flopsmith --no-default-features --locked",
        "cargo install --path crates/harness --locked",
        "make package",
        "scripts/package.sh static",
        "make test",
        'make test TESTS="--workspace --test bus"',
        "make lint",
        ".ci/run",
        "make verify",
        "make parity",
        "make build",
        "cargo build --release --workspace --examples",
    ],
    "make builds first, and its command of flopsmith is run on other pages": [
        "make train",
        "make search",
        "make doctor",
        "make search > best.c",
    ],
    "make builds first; `make long` kills a training ten times and resumes it": [
        'make train ARGS="--resume"',
        'make train ARGS="--resume --budget 20m"',
    ],
    "it installs a package on this machine": [
        "apt-get install ./target/package/flopsmith_*.deb",
        "tar -xzf target/package/flopsmith-*.tar.gz -C /opt",
    ],
    "it needs PyTorch, which `make test-modules` installs for the tests of modules": [
        "flopsmith bench problems/modules/rms_norm/solution_cpp.py --problem modules/rms_norm",
        "flopsmith bench mine.py other.py --problem modules/softmax --purpose rank --format jsonl",
        "flopsmith bench mine.py --problem modules/softmax --workload wide",
        "flopsmith bench problems/modules/softmax/solution_triton.py --problem modules/softmax",
        "flopsmith bench mine.py --problem modules/rms_norm --architectures 80,90,120 --format json",
        "flopsmith bench problems/modules/softmax/solution_cuda.py --problem modules/softmax",
        "flopsmith bench mine.py --problem modules/rms_norm --architectures 90 --format json",
        "flopsmith bench problems/modules/gated_silu/solution_cpp.py --problem modules/gated_silu",
        "flopsmith serve --reward examples/modules.toml",
        "curl -s http://127.0.0.1:8765/v1/problems/modules%2Fsoftmax",
        "flopsmith search --problem modules/softmax --agent --output best.py",
        "flopsmith search --problem modules/softmax --agent --start mine.py --budget 30m --output best.py",
        "flopsmith eval answers.jsonl --problem modules/softmax --output softmax",
        "flopsmith bench mine.py --problem kernelbench/level1_19_relu",
        "flopsmith bench runs/mine --problem kernelbench --export kernelbench=runs/mine/eval_results.json",
        "flopsmith bench solution.json --problem modules/softmax --export flashinfer=traces.jsonl",
        "scripts/bench/kernelbench.py --kernelbench KernelBench --language cpp",
    ],
    "it fetches packages from PyPI; `make test-modules` does so": [
        "scripts/python.sh --venv target/torch torch==2.11.0 numpy==2.4.6",
    ],
    "it fetches packages from PyPI, and no test does so": [
        "scripts/cuda.sh",
        "pip download --no-deps --only-binary=:all: --python-version 3.11 --platform PLATFORM PROJECT==VERSION",
    ],
    "it needs a checkout of KernelBench from the network": [
        "git clone https://github.com/ScalingIntelligence/KernelBench",
        "flopsmith problem import kernelbench KernelBench --level 1 --level 2",
        "flopsmith problem check kernelbench/level1_19_relu",
        "flopsmith problem import kernelbench KernelBench --level 1",
    ],
    "it needs a GPU": [
        "make gpu-check",
    ],
    "it needs weights that are not shipped": [
        "flopsmith train my.toml --set generator.prompt=full --set turns.most=4 --set turns.prompt=agent",
        "flopsmith model serve models/mine --adapter tuned=runs/NAME/model --dtype auto",
        "flopsmith model plan models/qwen2.5-coder-14b-instruct --gpu 79GiB --context 8192",
        "flopsmith train examples/qwen2.5-coder-14b.toml --set generator.model=models/qwen2.5-coder-14b-instruct",
        "flopsmith train examples/many-problems.toml --set generator.model=models/mine",
        "flopsmith config check examples/modules.toml --set generator.model=models/mine",
        "flopsmith train examples/modules.toml --set generator.model=models/mine",
        "flopsmith eval models/mine --suite modules --samples 5 --output modules",
        "flopsmith eval models/nests --problem dgemv --prompt nest --max-tokens 640",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve models/qwen2.5-coder-1.5b-instruct --served-model-name qwen --enable-lora --max-lora-rank 16 --max-loras 2 --port 8000",
    ],
    "the stand-in for a chat model answers with a program for dgemm, whatever the problem is": [
        "flopsmith eval gpt=endpoint:gpt.toml models/starter --suite polybench --max-tokens 8192 --output both",
        "flopsmith search --problem polybench_adi --endpoint gpt.toml --budget 1h",
        "flopsmith search --problem modules/softmax --endpoint http://127.0.0.1:8000/v1#Qwen/Qwen2.5-Coder-7B-Instruct",
    ],
    "the stand-in for a chat model answers with one program, and this takes a slow and a fast one; crates/flopsmith/tests/cli/endpoints.rs has another stand-in": [
        "flopsmith dataset synthesize --endpoint http://127.0.0.1:8000/v1#MODEL --problem dgemm --count 50 --output written",
        "flopsmith dataset synthesize --endpoint endpoint.toml --snippets ~/code --count 500 --output tasks",
        "flopsmith dataset split written/programs.jsonl tasks/programs.jsonl --output data",
        "flopsmith dataset synthesize --endpoint http://127.0.0.1:8000/v1#MODEL --problem dgemm --output written",
    ],
    "full prompts are longer than the starter model's positions": [
        "flopsmith model sample models/starter --problem dgemm --full --stream",
    ],
    "it takes an hour or more": [
        "flopsmith align examples/performance-alignment.toml --output alignment",
        "flopsmith align examples/performance-alignment.toml --output alignment --resume",
        "flopsmith sft models/nests/recipe.toml",
        "flopsmith sft models/nests/recipe.toml --resume",
        "flopsmith sft models/starter/recipe.toml",
        "flopsmith eval models/starter --suite polybench --output polybench",
        "flopsmith eval models/starter --suite all --workload first --output all",
    ],
    "it takes the result of a training over many problems": [
        "flopsmith eval before=models/starter after=runs/NAME --suite polybench --output both",
        "flopsmith eval compare both#before both#after",
        "flopsmith eval before=models/mine after=runs/many-problems-20260501-120000/model --problem polybench_lu",
        "flopsmith eval compare evaluation#before evaluation#after",
    ],
    "docs/how-to/learn-from-files.md and docs/tutorials/your-model.md run it, with the files that they make for it": [
        "docs/reference/commands.md: flopsmith model merge runs/NAME/model whole",
        "docs/reference/commands.md: flopsmith reward-model reward.toml --output models/reward",
        "docs/reference/commands.md: flopsmith dpa align.toml --output models/aligned",
        "docs/reference/commands.md: flopsmith rlpf reinforce.toml --output models/trained",
        "docs/reference/commands.md: flopsmith dataset split programs.jsonl --output data",
    ],
    "it needs a message that no role could process; crates/flopsmith/tests/cli/dead.rs makes some": [
        "flopsmith dead show 3",
        "flopsmith dead retry 3",
        "flopsmith dead retry 3 4 7",
    ],
    "it needs Docker; `make test-cluster` runs the compose cluster": [
        "docker compose up --build -d && docker compose run --rm flopsmith train examples/dgemm.toml",
        "FLOPSMITH_OTLP_ENDPOINT=http://otel:4318 docker compose --profile observability up -d",
        "docker compose --profile observability up -d --no-build archive trainer worker prometheus jaeger otel",
        "docker compose up --build -d",
        "docker compose run --rm flopsmith train examples/dgemm.toml",
        "docker compose up -d --scale worker=4",
        "docker compose down",
        "make images-offline",
        "docker compose up -d",
        "docker compose run --rm flopsmith runs",
        "docker compose run --rm -T --no-deps --entrypoint cat flopsmith /runs/NAME/report.html > report.html",
        "docker compose run --rm flopsmith top --once",
    ],
    "it needs a worker of its machine class; docs/tutorials/cluster.md runs it with one": [
        "flopsmith train examples/dgemm.toml --cluster --nats nats://broker:4222 --store s3://bucket/flopsmith",
    ],
    "it needs a cluster with a worker of the class; crates/flopsmith/tests/cli/worker.rs has one": [
        "flopsmith serve --cluster --nats nats://broker:4222 --store s3://bucket/flopsmith --machine-class zen5",
    ],
    "docs/how-to/operate-a-cluster.md runs it with a class": [
        "flopsmith worker --nats nats://broker:4222 --store s3://bucket/flopsmith",
    ],
    "it needs a broker with TLS and keys; crates/flopsmith/tests/cli/keys.rs starts one": [
        "FLOPSMITH_NATS_NKEY=admin.nk FLOPSMITH_NATS_CA=ca.pem flopsmith cluster init --nats tls://broker:4222",
        "export FLOPSMITH_NATS_NKEY=bench.nk FLOPSMITH_NATS_CA=ca.pem",
        "flopsmith worker --nats tls://broker:4222 --store s3://bucket/flopsmith --class zen5",
    ],
    "it needs three brokers": [
        "flopsmith cluster init --nats nats://broker:4222 --copies 3 --keep-logs 30d",
    ],
    "it needs a run under way on a cluster, or a worker with --listen": [
        "flopsmith cluster stop dgemm-20260501-120000 --nats nats://broker:4222",
        "flopsmith cluster ready",
    ],
    "it needs Slurm and a shared folder; `make test-slurm` runs the batch scripts": [
        "make setup",
        "scripts/dist.sh",
        "cp slurm/site.env ~/site.env",
        ". ~/site.env",
        "mkdir -p $SHARED",
        "cp -r target/dist/trainer $BUILD",
        "cp .flopsmith/bin/nats-server $BUILD/bin",
        "export LD_LIBRARY_PATH=$BUILD/lib",
        "FLOPSMITH_MACHINE_CLASS=zen5 slurm/keys.sh ~/site.env node001 node002",
        "sbatch --export=ALL,FLOPSMITH_SITE=$HOME/site.env slurm/cluster.sbatch",
        "sbatch --export=ALL,FLOPSMITH_SITE=$HOME/site.env,FLOPSMITH_MACHINE_CLASS=zen5 --constraint=zen5 slurm/workers.sbatch",
        "export FLOPSMITH_NATS=$(cat $SHARED/address) FLOPSMITH_NATS_CA=$KEYS/ca.pem",
        "export FLOPSMITH_NATS_NKEY=$KEYS/client.nk FLOPSMITH_STORE=$SHARED/store",
        "$BUILD/bin/flopsmith train $BUILD/examples/dgemm.toml --cluster --set machine_class=zen5",
    ],
    "`make test-clients` runs it with the packages of PyPI that it needs": [
        "pip install ./clients/python",
        "export FLOPSMITH_PROBLEM=dot",
        "evaluator=$(python3 -c 'import flopsmith.evaluators.for_openevolve as file; print(file.__file__)')",
        'openevolve-run start.c "$evaluator" --config config.yaml --iterations 6 --output found --api-base "$MODEL_URL" --primary-model policy',
        "mkdir -p task",
        "cp start.cpp task/initial.cpp",
        "echo 'from flopsmith.evaluators.for_shinka import main; main()' >task/evaluate.py",
        "shinka_run --task-dir task --results_dir found --num_generations 4 --max-evaluation-jobs 1 --set evo.llm_models=\"[\\\"local/policy@$MODEL_URL\\\"]\" --set evo.embedding_model=none --set evo.patch_types='[\"full\"]' --set evo.patch_type_probs='[1.0]'",
    ],
    "it shows pages by a package of PyPI; `make test-clients` reads the same files by that package": [
        "tensorboard --logdir runs",
        "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri ./mlruns",
    ],
    "it needs a package of PyPI, and wandb an account; scripts/bridge_test.py runs it with a stand-in for the package": [
        "python3 scripts/bridge.py trackio runs/first",
        "python3 scripts/bridge.py wandb runs/first --project kernels --follow",
    ],
    "it needs an agent; `make test-clients` speaks with the same servers by the package `mcp`": [
        "claude mcp add flopsmith -- flopsmith mcp --max-evaluations 200",
        "claude mcp add --transport http flopsmith http://127.0.0.1:8765/mcp",
    ],
    "it needs another machine": [
        "ssh -L 8766:127.0.0.1:8766 machine",
    ],
    "it measures this machine alone, for minutes to hours": [
        "python3 scripts/bench/learning.py --seeds 1 2 3 --name examples/dgemm.toml",
        "python3 scripts/bench/learning.py --seeds 1 2 3 --name 'no self-imitation' -- --set advantage.self_imitation=0",
        "python3 scripts/bench/learning.py --seeds 1 --name 'no SQD' -- --set sqd.enabled=false",
        "python3 scripts/bench/learning.py --config examples/train-suite.toml --budget 22m --variant suite --variant 'suite without SQD' sqd.enabled=false",
        "python3 scripts/bench/learning.py --search --seeds 1 --budget 8m --name search -- --evaluations 4113 --set evaluate.again=screen",
        "target/release/examples/sample_speed models/starter/config.json",
        "target/release/examples/train_speed models/starter/config.json",
        "python3 scripts/bench/against_torch.py --peer FILE.py",
        "target/release/examples/repeat --json repeat.json",
        "target/release/examples/repeat --busy --json repeat-busy.json",
        "target/release/examples/order --json order.json",
        "target/release/examples/layouts --json layouts.json",
        "target/release/examples/screening --json screening.json",
        "scripts/bench/ranking.py --json ranking.json",
        "target/release/examples/overhead --json overhead.json",
        "target/release/examples/overhead --jobs 10000 --json leaks.json",
        "python3 scripts/bench/tuners.py",
        "python3 scripts/bench/tuners.py --resume --problems all",
        "python3 scripts/bench/tuners.py --problems dgemm --peers gcc,clang,flopsmith --minutes 1",
    ],
}
