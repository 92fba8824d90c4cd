//! Writes runs to look at, for the test of the window in a browser (`scripts/ui_test.py`) and for people who work on its pages.
//!
//! `sample_runs FOLDER` writes a folder of runs: two of a policy that differ in their seeds, one of an agent over two problems, and one
//! that has just begun. Names and paths are long, and some texts would take over a page that does not escape them. It prints the runs
//! and their special pages as a JSON object. `sample_runs FOLDER --append` adds a step to the first run, a line at a time as the
//! recorder does it, and prints the number of the step.
#![expect(clippy::print_stdout, reason = "a script reads its output")]

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use flopsmith_actors::pool::Shares;
use flopsmith_actors::role::recorder::{DeadLine, files};
use flopsmith_config::Settings;
use flopsmith_protocol::{
    ArtifactRef, CandidateFault, CandidateRef, Digest, InfrastructureCause, NodeId, Outcome,
    PolicyPublished, PolicyVersion, ProblemId, StageChanged, StepMetrics, TechniqueSet, Verdict,
};
use flopsmith_run::summary::{Certified, Facts};
use flopsmith_test_support::{
    ATTESTED, Measured, again, candidate, infrastructure, machine, measured, outcome, problem_id,
    rejected, run_id,
};
use serde::Serialize;

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The run that steps are appended to.
const LIVE: &str = "policy-on-dense-products-whose-name-fills-more-than-a-line-of-a-phone-0001";
/// The same with another seed.
const OTHER_SEED: &str =
    "policy-on-dense-products-whose-name-fills-more-than-a-line-of-a-phone-0002";
const AGENT: &str = "agent-on-two-problems";
const YOUNG: &str = "begun-a-moment-ago";

/// Steps of a run, numbered from 1.
const STEPS: u64 = 12;
const GROUPS: u32 = 2;
/// Samples of a group.
const SAMPLES: u32 = 4;
/// The time of the first outcome, milliseconds since 1970, and the time between two steps.
const BEGAN: u64 = 1_790_000_000_000;
const STEP_TIME: u64 = 60_000;

/// The part of [`HOSTILE`] that the page of its program has to show.
const SHOWN: &str = "<script>window.taken = 1</script>";
/// A program that takes over a page that does not escape it: it sets `window.taken`.
const HOSTILE: &str = "</pre></code></main><script>window.taken = 1</script>\n<img src=x onerror=\"window.taken = 2\">\n<svg onload='window.taken = 3'></svg> \" &amp; é\n";

fn main() -> Done {
    let mut words = std::env::args().skip(1);
    let folder = words.next().map(PathBuf::from);
    let folder = folder.ok_or("name the folder of runs")?;
    match words.next().as_deref() {
        None => {
            let written = write_all(&folder)?;
            println!("{written}");
        }
        Some("--append") => println!("{}", append(&folder.join(LIVE))?),
        Some(other) => return Err(format!("there is no option {other}").into()),
    }
    Ok(())
}

/// Writes the runs, and says what a test has to know of them.
fn write_all(folder: &Path) -> Done<serde_json::Value> {
    let outcomes: Vec<Outcome> = (1..=STEPS)
        .flat_map(|step| outcomes_of(step, &problem_id()))
        .collect();
    for (name, seed) in [(LIVE, 1), (OTHER_SEED, 2)] {
        let run = begin(&folder.join(name), seed)?;
        write_records(&run, &outcomes)?;
        for step in 1..=STEPS {
            write_line(&run.join(files::TRAINING), &trained(step, seed))?;
        }
        write_facts(&run, &outcomes)?;
        write_answers(&run, &outcomes)?;
    }
    write_agent(&begin(&folder.join(AGENT), 3)?)?;
    begin(&folder.join(YOUNG), 4)?;
    let number = |wanted: &dyn Fn(&Outcome) -> bool| {
        let found = outcomes.iter().position(wanted);
        found.ok_or("the runs lack a program")
    };
    let hostile = number(&|of| of.source == HOSTILE)?;
    let child = number(&|of| of.candidate.follows.is_some())?;
    Ok(serde_json::json!({
        "runs": [LIVE, OTHER_SEED, AGENT, YOUNG],
        "live": LIVE,
        "compared": [LIVE, OTHER_SEED],
        "hostile": format!("/runs/{LIVE}/programs/{hostile}"),
        "hostile_text": SHOWN,
        "child": format!("/runs/{LIVE}/programs/{child}"),
    }))
}

/// The folder of a run that has begun.
fn begin(run: &Path, seed: u64) -> Done<PathBuf> {
    std::fs::create_dir_all(run.join("certified"))?;
    let settings = Settings {
        seed,
        ..Settings::default()
    };
    std::fs::write(run.join("config.toml"), toml::to_string(&settings)?)?;
    Ok(run.to_owned())
}

/// The programs of a step: most of them right and faster from step to step, some refused, and in every third step one that is measured
/// again. The first of each group continues the first of the step before.
fn outcomes_of(step: u64, problem: &ProblemId) -> Vec<Outcome> {
    let sets: Vec<TechniqueSet> = (0..=8)
        .flat_map(|size| TechniqueSet::general().subsets_of_size(size))
        .collect();
    let mut made = Vec::new();
    for number in 0..GROUPS * SAMPLES {
        let (group, sample) = (number / SAMPLES, number % SAMPLES);
        let mut of = CandidateRef {
            tasks_in_step: GROUPS,
            group_size: SAMPLES,
            problem: problem.clone(),
            permitted: TechniqueSet::all(),
            stage: (step / 5) as u32,
            ..candidate(step, group, sample)
        };
        if sample == 0 && step > 1 {
            of.follows = Some(candidate(step - 1, group, sample).id);
        }
        let mut one = outcome(of, verdict(step, group, sample));
        let place = (37 * step as usize + 11 * number as usize) % sets.len();
        one.techniques = one.verdict.measurement().map(|_| sets[place]);
        one.vector_bits = one.verdict.measurement().map(|_| 256);
        one.source = source(step, group, sample);
        one.stage_seconds = [0.4, 1.25, 3.5];
        one.decided_unix_ms = BEGAN + step * STEP_TIME + 1000 * u64::from(number);
        if sample % 2 == 1 {
            one.node = NodeId::new("a-second-node-with-a-long-name").expect("an id");
        }
        made.push(one);
    }
    if step.is_multiple_of(3) {
        let second = again(&made[0], measured(speed(step, 0) - 0.5));
        made.push(second);
    }
    made
}

/// The speed of a right program, 10⁹ operations a second.
fn speed(step: u64, sample: u32) -> f64 {
    4.0 + 2.5 * step as f64 + 1.5 * f64::from(sample)
}

fn verdict(step: u64, group: u32, sample: u32) -> Verdict {
    match (sample, step % 4) {
        (2, 0 | 2) => rejected(CandidateFault::WrongResult),
        (2, _) => Verdict::Rejected {
            fault: CandidateFault::CompileError,
            detail: format!("candidate.c:4:7: error: expected ';' before '}}' token\n{HOSTILE}"),
        },
        (3, 0) => infrastructure(InfrastructureCause::Jail),
        (3, 1) => Measured::at(speed(step, sample)).unconverged().verdict(),
        _ => measured(speed(step, sample) + 0.3 * f64::from(group)),
    }
}

/// A program. Those of neighbouring steps differ in a line, and the one that no compiler takes is hostile.
fn source(step: u64, group: u32, sample: u32) -> String {
    if (step, group, sample) == (3, 0, 2) {
        return HOSTILE.to_owned();
    }
    format!(
        "// group {group}, sample {sample}: a comment that is longer than the line of a phone, so the program has to scroll within its frame
#include <stddef.h>
void kernel(size_t n, const double *restrict a, const double *restrict b, double *restrict c)
{{
#pragma GCC unroll {step}
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += 1.0 * a[i * n + k] * b[k * n + j];
}}
"
    )
}

/// The learner's step.
fn trained(step: u64, seed: u64) -> PolicyPublished {
    PolicyPublished {
        run: run_id(),
        version: PolicyVersion(step),
        step,
        weights: ArtifactRef {
            digest: Digest::of(b"weights"),
            size: 1,
        },
        metrics: Some(StepMetrics {
            mean_reward: 0.05 * step as f64 + 0.02 * seed as f64,
            ..StepMetrics::default()
        }),
    }
}

fn write_records(run: &Path, outcomes: &[Outcome]) -> Done {
    for one in outcomes {
        write_line(&run.join(files::OUTCOMES), one)?;
    }
    for to in 1..=2 {
        let change = StageChanged {
            run: run_id(),
            problem: problem_id(),
            step: 5 * u64::from(to),
            from: to - 1,
            to,
            reason: format!("the rate of the stage is above its bar {HOSTILE}"),
        };
        write_line(&run.join(files::STAGES), &change)?;
    }
    let state = |threads: u32| {
        let state = serde_json::json!({ "cpu_model": "A processor with a long name", "threads": threads, "note": HOSTILE });
        machine(&state.to_string())
    };
    for facts in [machine(ATTESTED), state(2), state(4)] {
        write_line(&run.join(files::MACHINES), &facts)?;
    }
    let letter = DeadLine {
        sequence: 4,
        id: Some(outcomes[0].candidate.id.to_string()),
        subject: "fs.v1.work.compile.local.r".into(),
        reason: HOSTILE.into(),
        attempts: 3,
    };
    write_line(&run.join(files::DEAD), &letter)
}

/// The facts of a run that has ended, with a certificate.
fn write_facts(run: &Path, outcomes: &[Outcome]) -> Done {
    let measurement = |one: &Outcome| one.verdict.measurement().cloned();
    let found = outcomes.iter().rev();
    let mut found = found.filter(|one| one.candidate.remeasures.is_none());
    let best = found.find_map(|one| Some((one, measurement(one)?)));
    let (best, measurement) = best.ok_or("no program was measured")?;
    let id = best.candidate.id.clone();
    let file = format!("certified/{id}.json");
    let record = serde_json::json!({
        "source": best.source, "measurement": measurement, "samples": {"candidate": []}, "attestation_json": ATTESTED,
    });
    std::fs::write(run.join(&file), record.to_string())?;
    let mut shares = Shares {
        idle: 0.25,
        seconds: 720.0,
        ..Shares::default()
    };
    shares.by_role.insert("timer".into(), 0.5);
    shares.by_role.insert("learner".into(), 0.25);
    let facts = Facts {
        job: "train".into(),
        problem: "dgemm".into(),
        started_unix_ms: BEGAN,
        seconds: 720.0,
        sessions: 1,
        shares,
        finished: true,
        concluded: true,
        certified: vec![Certified {
            candidate: id,
            measurement,
            record: Some(file),
            machine_busy: Some("other processes took 12 % of a core".into()),
        }],
        ..Facts::default()
    };
    Ok(std::fs::write(
        run.join("run.json"),
        serde_json::to_string(&facts)?,
    )?)
}

/// The prompts and answers of the first steps.
fn write_answers(run: &Path, outcomes: &[Outcome]) -> Done {
    for one in outcomes.iter().filter(|one| one.candidate.step <= 4) {
        let answer = serde_json::json!({
            "task": one.candidate.task, "sample": one.candidate.sample, "seed": 1,
            "prompt": format!("Write a fast product of matrices. {HOSTILE}"),
            "answer": format!("Here it is:\n```c\n{}```\n", one.source),
        });
        write_line(&run.join(files::ANSWERS), &answer)?;
    }
    Ok(())
}

/// A run of an agent over two problems: each program was made from the first one of its problem's step before.
fn write_agent(run: &Path) -> Done {
    let problems = [
        problem_id(),
        ProblemId::new("a-problem-with-a-name-longer-than-a-column")?,
    ];
    let mut all = Vec::new();
    for step in 1..=STEPS {
        let problem = &problems[usize::from(step.is_multiple_of(2))];
        let mut outcomes = outcomes_of(step, problem);
        for one in &mut outcomes {
            one.candidate.follows = None;
        }
        let is_new = |one: &&Outcome| step > 2 && one.candidate.remeasures.is_none();
        for one in outcomes.iter().filter(is_new) {
            let parent = candidate(step - 2, one.candidate.sample % GROUPS, 0).id;
            for turn in 0..2 {
                let attempt = serde_json::json!({
                    "candidate": one.candidate.id, "turn": turn, "island": 0, "parent": parent,
                    "prompt": format!("Turn {turn}: make it faster. {HOSTILE}"), "answer": one.source, "difference": "",
                });
                write_line(&run.join(files::ATTEMPTS), &attempt)?;
            }
        }
        all.extend(outcomes);
    }
    for one in &all {
        write_line(&run.join(files::OUTCOMES), one)?;
    }
    let facts = Facts {
        job: "search".into(),
        problems: problems.to_vec(),
        started_unix_ms: BEGAN,
        seconds: 720.0,
        sessions: 1,
        ..Facts::default()
    };
    Ok(std::fs::write(
        run.join("run.json"),
        serde_json::to_string(&facts)?,
    )?)
}

/// Adds the next step to a run, and returns its number.
fn append(run: &Path) -> Done<u64> {
    let steps = std::fs::read_to_string(run.join(files::TRAINING))?;
    let step = steps.lines().count() as u64 + 1;
    for one in outcomes_of(step, &problem_id()) {
        write_line(&run.join(files::OUTCOMES), &one)?;
    }
    write_line(&run.join(files::TRAINING), &trained(step, 1))?;
    Ok(step)
}

/// Appends a whole line by one call, as the recorder does.
fn write_line(path: &Path, item: &impl Serialize) -> Done {
    let mut line = serde_json::to_vec(item)?;
    line.push(b'\n');
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).open(path)?;
    Ok(file.write_all(&line)?)
}
