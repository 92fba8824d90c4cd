//! The corpus: programs that try to cheat, and honest programs that only look strange. Each is compiled, verified and
//! timed as any candidate is, and must end as its first lines say. A new program is one file more; nothing here lists them.
//!
//! `attacks/*.c` begin with
//!
//! ```text
//! // attack: 7, 5
//! // how: what it does; hopes for what
//! // refused as: skipped_work | wrong_result
//! ```
//!
//! where several reasons stand only if draws or the machine decide which stage meets it first, and `honest/*.c` with
//!
//! ```text
//! // honest: what is unusual about it
//! ```
//!
//! Either may go on with `// permitted: loop_reorder, unroll` (all techniques, if it does not say), with
//! `// needs: x86_64, two cores` (elsewhere it is left out), and an honest one with `// techniques: simd` where it matters
//! what is detected.
//!
//! The numbers of attacks say which way of cheating a program stands for:
//!
//! | timing | |
//! |---|---|
//! | 1 | work goes on after the call has returned |
//! | 2 | the result is computed when somebody looks |
//! | 3 | the clock is bent |
//! | 4 | work moves to where it is not timed: loading, preparing |
//! | 5 | calls that are verified are told from calls that are timed |
//! | 6 | neighbours and the baseline are slowed; threads and cores that were not given |
//!
//! | results | |
//! |---|---|
//! | 7 | results are kept, by address, content or fingerprint |
//! | 8 | no output, old output, a part of it |
//! | 9 | answers for known seeds, sizes and contents |
//! | 10 | less precision than promised |
//! | 11 | memory that is not the program's; races |
//! | 12 | right for some sizes only |
//! | 13 | a smaller problem is solved |
//! | 14 | inputs are changed so that the reference agrees |
//! | 15 | values that are equal to everything |
//!
//! | substitution | |
//! |---|---|
//! | 16 | a library does the work |
//! | 17 | the kernel that is shown is not the one that runs |
//! | 18 | the reference or the baseline does the work |
//! | 19 | another program does the work |
//! | 20 | machine code that no compiler made of C |
//! | 21 | files and time of the compiler |
//!
//! | the evaluation itself | |
//! |---|---|
//! | 22 | a verdict is written |
//! | 23 | what is not the program's is read |
//! | 24 | something is left for those who come later |
//! | 25 | the supervisor and neighbours are attacked |
//! | 26 | processes, memory, disk, output or time without end |
//! | 27 | the network |
//! | 28 | whoever reads the source is asked for a good verdict |
//! | 29 | a technique that the task forbids is hidden |
//! | 30 | names and symbols of others are claimed |
//!
//! All of them can be tried here, two in another form than elsewhere. A copy of the reference (18) is an honest, slow
//! program, and C has neither a fall-back by exceptions nor inheritance; so 18 stands for ways to the reference and the
//! baseline that run beside it. And as no model judges, 28 are wrong programs whose text asks for a good verdict. Threads
//! of an accelerator (a part of 1) cannot exist on a processor.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "../run/fixtures.rs"]
#[expect(dead_code, reason = "some of it is for the tests of single stages")]
mod fixtures;
mod mutate;
mod program;
mod stages;

use std::collections::BTreeSet;
use std::time::Instant;

use flopsmith_protocol::Verdict;

use program::{Expected, Program, attacks, honest};
use stages::{Ended, Stages};

/// Attacks, and honest programs, that there are at least.
const AT_LEAST: usize = 70;

#[test]
fn every_program_ends_as_it_says() {
    let _alone = fixtures::alone();
    let started = Instant::now();
    let mut stages = Stages::new();
    let cores = flopsmith_bench::pinning::allowed_cores().len();
    let (mut refused, mut harmless, mut measured, mut left_out) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for program in attacks().iter().chain(&honest()) {
        if !program.can_run(cores) {
            left_out += 1;
            continue;
        }
        let ended = stages.judge(program);
        eprintln!("{}: {}", program.name, words(&ended));
        if !program.expected.holds(&ended) {
            let text = words(&ended);
            wrong.push(format!(
                "{}: expected {}, was {text}",
                program.name, program.expected
            ));
        } else if let Verdict::Measured { .. } = ended.verdict {
            match program.expected {
                Expected::Measured(_) => measured += 1,
                Expected::Refused { .. } => harmless += 1,
            }
        } else {
            refused += 1;
        }
    }
    eprintln!(
        "{refused} attacks refused, {harmless} without a gain, {measured} honest programs measured, {left_out} left out, {} tried again; {:.0} s",
        stages.tried_again(),
        started.elapsed().as_secs_f64()
    );
    assert!(
        wrong.is_empty(),
        "{} programs did not end as they say:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_way_of_cheating_is_tried() {
    let attacks = attacks();
    assert!(attacks.len() >= AT_LEAST, "{} attacks", attacks.len());
    assert!(
        honest().len() >= AT_LEAST,
        "{} honest programs",
        honest().len()
    );
    let tried: BTreeSet<u32> = attacks
        .iter()
        .flat_map(|a| a.ways.iter().copied())
        .collect();
    assert_eq!(tried, (1..=30).collect::<BTreeSet<u32>>());
}

/// Of all variants, which take a quarter of an hour, one in so many is tried each time.
const SAMPLED: usize = 50;

#[test]
fn a_sample_of_the_variants_of_attacks_gains_nothing() {
    try_variants(SAMPLED);
}

#[test]
#[ignore = "a quarter of an hour: `make variants`"]
fn no_variant_of_an_attack_gains_anything() {
    let tried = try_variants(1);
    assert!(tried >= 1000, "{tried} variants");
}

/// Tries every `one_in`th variant; gives how many were built and judged.
fn try_variants(one_in: usize) -> usize {
    let _alone = fixtures::alone();
    let started = Instant::now();
    let mut stages = Stages::new();
    let cores = flopsmith_bench::pinning::allowed_cores().len();
    let all: Vec<(Program, &str)> = attacks()
        .into_iter()
        .filter(|attack| attack.can_run(cores))
        .flat_map(|attack| {
            let made = mutate::variants(&attack.source);
            made.into_iter()
                .map(move |variant| (attack.with_source(variant.source), variant.how))
        })
        .collect();
    let (mut refused, mut no_gain, mut unmeasured, mut unbuilt) = (0, 0, 0, 0);
    let mut gained = Vec::new();
    for (program, how) in all.iter().step_by(one_in) {
        let ended = stages.judge(program);
        let text = format!("{}, {how}: {}", program.name, words(&ended));
        eprintln!("{text}");
        match &ended.verdict {
            Verdict::Rejected { fault, .. } if program.not_built(*fault) => unbuilt += 1,
            Verdict::Rejected { .. } => refused += 1,
            Verdict::Measured { .. } if program.gains_nothing(&ended) => no_gain += 1,
            Verdict::Measured { .. } => gained.push(text),
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => unmeasured += 1,
        }
    }
    let judged = refused + no_gain + unmeasured + gained.len();
    eprintln!(
        "{judged} variants: {refused} refused, {no_gain} no faster than honest work, {unmeasured} without a number, {} accepted; \
         {unbuilt} more do not compile; {:.0} s",
        gained.len(),
        started.elapsed().as_secs_f64()
    );
    assert!(gained.is_empty(), "accepted:\n{}", gained.join("\n"));
    assert!(
        unbuilt * 5 < judged,
        "{unbuilt} variants that do not compile test nothing"
    );
    judged
}

/// How a program ended, for people.
fn words(ended: &Ended) -> String {
    let techniques = ended.techniques.map_or(String::new(), |t| format!(", {t}"));
    let detail = match &ended.verdict {
        Verdict::Measured { measurement } => format!("{:.1} GFLOPS", measurement.gflops),
        Verdict::Rejected { detail, .. }
        | Verdict::Infrastructure { detail, .. }
        | Verdict::Unknown { detail } => detail.clone(),
    };
    let seconds = ended.seconds;
    format!(
        "{} ({detail}{techniques}, {seconds:.2} s)",
        ended.verdict.kind()
    )
}

impl Program {
    /// Does this machine have what the program needs to do what it is here for?
    fn can_run(&self, cores: usize) -> bool {
        self.needs.iter().all(|need| match need.as_str() {
            "x86_64" => cfg!(target_arch = "x86_64"),
            "two cores" => cores > 1,
            other => panic!("{}: nobody knows what `{other}` needs", self.name),
        })
    }
}
