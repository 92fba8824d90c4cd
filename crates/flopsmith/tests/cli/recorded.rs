//! Outcomes for trainings whose tests ask nothing about programs: the recorded evaluator replaces compiler, verifier and
//! timer, and the machine is not measured.

use std::path::Path;

use flopsmith_protocol::Outcome;
use flopsmith_test_support::{ATTESTED, Measured, candidate, machine, remeasured};

/// Writes an outcome for each sample of a training of this many steps, tasks and samples into a new folder in `place`.
/// Returns the setting that names the folder. No outcome has a source: processors round a policy's numbers in other
/// ways, so it writes other programs on another machine. Without differences in a group there would be nothing to learn.
pub fn setting(place: &Path, steps: u64, tasks: u32, samples: u32) -> String {
    let mut outcomes = String::new();
    // Step 0 evaluates the policy before the training, the step after the last one evaluates it after that.
    for step in 0..=steps + 1 {
        for (task, sample) in (0..tasks).flat_map(|t| (0..samples).map(move |s| (t, s))) {
            let first = candidate(step, task, sample);
            for of in [first.clone(), remeasured(&first, 1)] {
                let outcome = Outcome {
                    source: String::new(),
                    ..Measured::at(f64::from(sample + 1)).outcome(of)
                };
                outcomes.push_str(&serde_json::to_string(&outcome).unwrap());
                outcomes.push('\n');
            }
        }
    }
    let folder = place.join("recorded");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("outcomes.jsonl"), outcomes).unwrap();
    let machine = serde_json::to_string(&machine(ATTESTED)).unwrap();
    std::fs::write(folder.join("machines.jsonl"), machine + "\n").unwrap();
    format!("evaluate.recorded={}", folder.display())
}
