//! Files of exercises, as far as a model has room for them.

use std::path::Path;

use anyhow::Result;
use flopsmith_generator::measured::exercises::Exercise;
use flopsmith_run::console::{say, usage};
use flopsmith_run::jsonl;

use crate::Reader;

/// Positions and the longest answer, which limit prompts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Positions of the model.
    pub positions: i64,
    /// Longest answer, tokens.
    pub max_tokens: u32,
}

impl Limits {
    /// The exercises whose prompts leave room for an answer, and the token ids of their prompts. Others are left out and
    /// counted on stderr.
    ///
    /// # Errors
    /// Wrong usage: no exercise fits.
    pub fn fitting(
        self,
        exercises: Vec<Exercise>,
        reader: &Reader,
    ) -> Result<(Vec<Exercise>, Vec<Vec<u32>>)> {
        let Self {
            positions,
            max_tokens,
        } = self;
        let count = exercises.len();
        let (mut kept, mut prompts) = (Vec::new(), Vec::new());
        let mut shortest = usize::MAX;
        for exercise in exercises {
            let ids = reader.prompt(&exercise.prompt)?;
            shortest = shortest.min(ids.len());
            if ids.len() as i64 + i64::from(max_tokens) <= positions {
                kept.push(exercise);
                prompts.push(ids);
            }
        }
        if kept.is_empty() {
            return Err(usage(format!(
                "the shortest prompt of the exercises takes {shortest} tokens and `max_tokens` is {max_tokens}: the model has {positions} positions for both together"
            )));
        }
        if kept.len() < count {
            say(&format!(
                "{} of {count} exercises are left out: their prompts leave no room for an answer of {max_tokens} tokens in the model's {positions} positions",
                count - kept.len()
            ));
        }
        Ok((kept, prompts))
    }
}

/// Reads a file of exercises, of which there must be some.
///
/// # Errors
/// Wrong usage: there is none, or a line cannot be read.
pub fn read(file: &Path) -> Result<Vec<Exercise>> {
    let exercises = read_any(file)?;
    match exercises.is_empty() {
        true => Err(usage(format!(
            "there are no exercises in {}",
            file.display()
        ))),
        false => Ok(exercises),
    }
}

/// Reads a file of exercises, which may be empty.
///
/// # Errors
/// Wrong usage: a line cannot be read.
pub fn read_any(file: &Path) -> Result<Vec<Exercise>> {
    jsonl::read(file, |exercise: &Exercise| {
        if exercise.problem.trim().is_empty() || exercise.prompt.trim().is_empty() {
            return Err("`problem` or `prompt` is empty".to_owned());
        }
        match exercise.median_s {
            Some(seconds) if !(seconds > 0.0 && seconds.is_finite()) => Err(format!(
                "`median_s` is {seconds}: it must be a positive number of seconds, or null"
            )),
            _ => Ok(()),
        }
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn exercises_without_room_for_an_answer_are_left_out() {
        let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/starter");
        let at = crate::Placement::of(flopsmith_config::Device::Cpu, None).unwrap();
        let (_, reader) = crate::open(Path::new(""), &starter, false, at).unwrap();
        let exercise = |prompt: &str| Exercise {
            problem: "dgemm".into(),
            workloads: Vec::new(),
            kind: None,
            prompt: prompt.into(),
            median_s: Some(1.0),
        };
        let (short, long) = (
            exercise("// dgemm: simd\n"),
            exercise(&"int x;\n".repeat(400)),
        );
        let limits = |max_tokens| Limits {
            positions: 100,
            max_tokens,
        };
        let both = vec![long.clone(), short.clone()];
        let (kept, prompts) = limits(20).fitting(both.clone(), &reader).unwrap();
        assert_eq!((kept, prompts.len()), (vec![short], 1));
        assert_eq!(prompts[0], reader.prompt("// dgemm: simd\n").unwrap());
        let error = limits(100).fitting(both, &reader).unwrap_err();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        assert!(error.to_string().contains("100 positions"), "{error:#}");
    }

    #[test]
    fn a_file_without_exercises_is_refused_where_there_must_be_some() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.jsonl");
        std::fs::write(&file, "").unwrap();
        assert!(read_any(&file).unwrap().is_empty());
        assert!(
            read(&file)
                .unwrap_err()
                .to_string()
                .contains("no exercises")
        );
        let line = "{\"problem\": \"p\", \"prompt\": \"q\", \"median_s\": -1.0}\n";
        std::fs::write(&file, line).unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("`median_s` is -1"), "{error}");
    }
}
