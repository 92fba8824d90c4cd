//! Precision and recall by technique.

use std::collections::BTreeMap;
use std::fmt::Write;

use flopsmith_protocol::{Technique, TechniqueSet};

use super::Program;

/// Precision and recall of techniques with fewer programs of a kind are judged over all kinds only.
const ENOUGH: u32 = 30;

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    right: u32,
    wrong: u32,
    missed: u32,
    /// Programs without the technique in which it is not found.
    absent: u32,
}

impl Counts {
    fn precision(self) -> f64 {
        share(self.right, self.wrong)
    }

    fn recall(self) -> f64 {
        share(self.right, self.missed)
    }

    /// True if precision and recall mean something.
    fn has_enough(self) -> bool {
        self.right + self.missed >= ENOUGH
    }
}

fn share(right: u32, other: u32) -> f64 {
    if right + other == 0 {
        1.0
    } else {
        f64::from(right) / f64::from(right + other)
    }
}

#[derive(Debug, Default)]
pub struct Score {
    /// By technique, and kind or language.
    counts: BTreeMap<(Technique, String), Counts>,
    mistakes: Vec<String>,
}

impl Score {
    pub fn count(&mut self, program: &Program, found: TechniqueSet) {
        let groups = [
            "all".to_owned(),
            program.kind.clone(),
            program.language.name().to_owned(),
        ];
        for technique in Technique::ALL {
            let (is, seen) = (
                program.labels.contains(technique),
                found.contains(technique),
            );
            for group in &groups {
                let counts = self.counts.entry((technique, group.clone())).or_default();
                counts.right += u32::from(is && seen);
                counts.wrong += u32::from(!is && seen);
                counts.missed += u32::from(is && !seen);
                counts.absent += u32::from(!is && !seen);
            }
        }
        if found != program.labels {
            self.mistakes.push(format!(
                "{}: has {}, found {found}",
                program.name, program.labels
            ));
        }
    }

    /// The groups in which precision or recall of a technique is below the limit, with examples.
    pub fn below(&self, limit: f64) -> Vec<String> {
        let mut bad = Vec::new();
        for ((technique, group), counts) in &self.counts {
            let enough = counts.has_enough();
            if enough && (counts.precision() < limit || counts.recall() < limit) {
                bad.push(format!(
                    "{technique} in {group}: precision {:.3}, recall {:.3}",
                    counts.precision(),
                    counts.recall()
                ));
            }
        }
        if !bad.is_empty() {
            bad.extend(self.mistakes.iter().take(200).cloned());
        }
        bad
    }

    /// The groups with too few programs for precision and recall in which a technique is found where it is not: in more than one
    /// program, and in more than this share of the programs without it.
    pub fn found_falsely(&self, most: f64) -> Vec<String> {
        let few = self.counts.iter().filter(|(_, of)| !of.has_enough());
        let bad = few.filter(|(_, of)| of.wrong > 1 && share(of.wrong, of.absent) > most);
        let lines = bad.map(|((technique, group), of)| {
            let without = of.wrong + of.absent;
            format!(
                "{technique} in {group}: found in {} of {without} programs without it",
                of.wrong
            )
        });
        let mut lines: Vec<String> = lines.collect();
        if !lines.is_empty() {
            lines.extend(self.mistakes.iter().take(200).cloned());
        }
        lines
    }

    /// The table in Markdown, by technique, and kind or language.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| technique | group | with it | without it | found falsely | missed | precision | recall |\n|---|---|---:|---:|---:|---:|---:|---:|\n",
        );
        for ((technique, group), of) in &self.counts {
            let (with, without) = (of.right + of.missed, of.wrong + of.absent);
            if with + of.wrong == 0 {
                continue;
            }
            let _ = writeln!(
                text,
                "| `{technique}` | {group} | {with} | {without} | {} | {} | {:.3} | {:.3} |",
                of.wrong,
                of.missed,
                of.precision(),
                of.recall()
            );
        }
        text
    }

    pub fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:<18} {:<14} {:>6} {:>6} {:>6} {:>10} {:>7}",
            "technique", "group", "right", "wrong", "missed", "precision", "recall"
        );
        for ((technique, group), c) in &self.counts {
            if c.right + c.wrong + c.missed == 0 {
                continue;
            }
            let _ = writeln!(
                text,
                "{:<18} {group:<14} {:>6} {:>6} {:>6} {:>10.4} {:>7.4}",
                technique.name(),
                c.right,
                c.wrong,
                c.missed,
                c.precision(),
                c.recall()
            );
        }
        text
    }
}
