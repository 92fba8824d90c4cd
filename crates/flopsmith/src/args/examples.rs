//! The ends of the help of commands whose options stand in [`super`].

/// Shown under the options of `train`.
pub const TRAIN: &str = "\
Examples:
  flopsmith train examples/dgemm.toml
  flopsmith train examples/dgemm.toml --budget 30m --seed 2
  flopsmith train examples/dgemm.toml --resume
  flopsmith config check examples/dgemm.toml     # every setting, before the run

Results are in a folder of their own in runs: outcomes.jsonl, report.html, the model. `flopsmith
ui` shows them while the run goes on.

Exit codes: 0 done, 1 no program was right, 2 wrong usage, 3 this machine could not go on,
130 interrupted (--resume continues).";

/// Shown under the options of `search`.
pub const SEARCH: &str = "\
Examples:
  flopsmith search --problem dgemm --budget 60s
  flopsmith search --problem dgemm --workload n=256 --budget 5m -o best.c
  flopsmith search --problem dgemm --start mine.c          # begins with your own kernel
  flopsmith search --problem stencil2d --agent             # a population on islands
  flopsmith search --problem dgemm --agent --endpoint endpoint.toml
  flopsmith search --problem dgemm --resume --budget 5m

The best program goes to stdout, or into the file of --output, and everything else to stderr.

Exit codes: 0 done, 1 no program was right, 2 wrong usage, 3 this machine could not judge any
program or the endpoint did not answer, 130 interrupted (--resume continues).";

/// Shown under the options of `report`.
pub const REPORT: &str = "\
Examples:
  flopsmith report                    # the newest run
  flopsmith report RUN -o report.html";

/// Shown under the options of `doctor`.
pub const DOCTOR: &str = "\
Exit codes: 0 everything is there, 3 something is missing that Flopsmith needs, or the jail is
weaker than untrusted programs require.";
