//! A language model as a source.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_policy::{Detour, Extras, Handle, Request, Tokenizer};
use flopsmith_problem::{Problem, prompt};
use flopsmith_protocol::{ArtifactRef, PolicyVersion, Sampling, Task};
use flopsmith_store::Store;
use rand::{RngCore as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::reading::{Asked, Reading, failed, seed_of};
use crate::answer::{Answer, Answers, Sampled, Source, problem_of};
use crate::error::Error;
use crate::memory;
use flopsmith_config::{Generator, Turns};

/// Samples programs from a policy that lives on a thread of its own.
pub struct PolicySource {
    handle: Handle,
    reading: Reading,
    number_tokens: Arc<[bool]>,
    store: Store,
    repeats: u32,
    version: Option<PolicyVersion>,
}

/// An exploration sample mutates one of its first `NUMBER_TOKENS` number tokens, each equally likely. In a program of the
/// schedule space these reach from the declarations through the first loops.
const NUMBER_TOKENS: usize = 12;

/// Random numbers that decide what an exploration sample mutates. All bits of its seed matter, because the seeds of a
/// step's tasks differ in the lowest bits alone. The sampler draws tokens from other streams of the same seed.
fn random(seed: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(u64::MAX);
    random
}

/// A whole number below `count`, which is above 0.
fn below(count: usize, random: &mut ChaCha8Rng) -> usize {
    (random.next_u64() % count as u64) as usize
}

/// One in this many mutations of a program takes any number token; the others take one that occurs in the program.
const ANY_NUMBER: u32 = 4;

/// The beginning of an exploration sample that mutates a program: its tokens up to one of its number tokens, and another
/// number token in the place of that one. The policy continues from there. None for a program without a number.
///
/// The other number mostly occurs in the program as well: numbers of one program are of one sort, such as powers of two,
/// and with most others the policy writes no program.
fn mutated(program: &[u32], is_number: &[bool], mut random: ChaCha8Rng) -> Option<Vec<u32>> {
    let mut one_of = |items: Vec<u32>| {
        let at = below(items.len().max(1), &mut random);
        items.get(at).copied()
    };
    let numbers = (0u32..).zip(is_number).filter(|(_, is)| **is);
    let numbers: BTreeSet<u32> = numbers.map(|(token, _)| token).collect();
    let places = (0u32..)
        .zip(program)
        .filter(|(_, token)| numbers.contains(token))
        .map(|(at, _)| at)
        .take(NUMBER_TOKENS);
    let at = one_of(places.collect())? as usize;
    let mut others = numbers;
    others.remove(&program[at]);
    let own = others.iter().filter(|token| program.contains(token));
    let own: Vec<u32> = own.copied().collect();
    let any = one_of((0..ANY_NUMBER).collect()) == Some(0);
    let other = one_of(match any || own.is_empty() {
        true => others.into_iter().collect(),
        false => own,
    })?;
    Some([&program[..at], &[other]].concat())
}

impl PolicySource {
    /// A source of `handle`'s samples, within the memory limits of the settings; weights come from `store`.
    pub fn new(
        handle: Handle,
        tokenizer: Arc<Tokenizer>,
        store: Store,
        settings: &Generator,
    ) -> Self {
        let mut bounds = handle.bounds();
        if let Some(rows) = settings.rows {
            bounds.rows = rows as usize;
        }
        if let Some(mib) = settings.cache_mib {
            bounds.cache_bytes = (mib as usize) << 20;
        }
        handle.set_bounds(bounds);
        let positions = handle.config().max_position_embeddings;
        Self {
            handle,
            repeats: settings.repeats,
            number_tokens: tokenizer.number_tokens().into(),
            reading: Reading::new(tokenizer, positions, settings),
            store,
            version: None,
        }
    }

    /// The same source, with conversations as these settings say.
    #[must_use]
    pub fn conversing(self, turns: &Turns) -> Self {
        Self {
            reading: self.reading.conversing(turns),
            ..self
        }
    }
}

impl PolicySource {
    /// The beginning of a sample that mutates an elite; none of any other sample.
    fn beginning(
        &self,
        problem: &Problem,
        task: &Task,
        sample: u32,
        seed: u64,
    ) -> Result<Option<Vec<u32>>, Error> {
        let Some(parent) = task.parent(sample) else {
            return Ok(None);
        };
        let reading = &self.reading;
        let fence = reading.style.is_chat().then(|| problem.language.fence());
        let program = prompt::answer(&parent.source, fence);
        let program = reading.tokenizer.encode(&program).map_err(failed)?;
        Ok(mutated(&program, &self.number_tokens, random(seed)))
    }
}

/// The error for a batch that does not fit into memory.
fn too_much(error: &flopsmith_policy::Error, tasks: usize, requests: &[Request]) -> Error {
    let longest = requests.iter().map(|request| request.prompt.len());
    let most = requests.iter().map(|request| request.sampling.max_tokens);
    let batch = memory::Answers {
        tasks,
        answers: requests.len(),
        longest_prompt: longest.max().unwrap_or_default(),
        max_tokens: most.max().unwrap_or_default() as usize,
    };
    Error::Memory {
        role: "generator",
        detail: memory::sampling(&crate::supervisor::words(error), batch),
    }
}

#[async_trait]
impl Source for PolicySource {
    fn version(&self) -> Option<PolicyVersion> {
        self.version
    }

    async fn update(&mut self, version: PolicyVersion, weights: &ArtifactRef) -> Result<(), Error> {
        let bytes = self.store.get(weights).await?;
        self.handle
            .set_weights(version, bytes.to_vec())
            .await
            .map_err(failed)?;
        self.version = Some(version);
        Ok(())
    }

    fn set_cores(&mut self, cores: u32) {
        self.handle.set_threads(cores as usize);
    }

    async fn answer_each(
        &mut self,
        problems: &[&Problem],
        tasks: &[Task],
        ended: &Answers,
    ) -> Result<(), Error> {
        let mut requests = Vec::new();
        let mut forms = Vec::new();
        // For each request the number of its prompt's tokens, and the place of its form; tokens behind begin the answer.
        let mut prompts = Vec::new();
        for task in tasks {
            let problem = problem_of(problems, task)?;
            let Asked {
                ids,
                sampling,
                form,
            } = self.reading.prompt(problem, task)?;
            for sample in 0..task.group_size {
                let seed = seed_of(task, sample);
                let begun = self.beginning(problem, task, sample, seed)?;
                let begun = begun.filter(|begun| begun.len() < sampling.max_tokens as usize);
                let begun = begun.unwrap_or_default();
                // A sample that mutates an elite departs from it before the policy goes on.
                let explores = task.explores(sample) && begun.is_empty();
                prompts.push((ids.len(), forms.len()));
                requests.push(Request {
                    prompt: [ids.as_slice(), &begun].concat(),
                    seed,
                    sampling: Sampling {
                        max_tokens: sampling.max_tokens - begun.len() as u32,
                        ..sampling.clone()
                    },
                    extras: Extras {
                        stops: self.reading.stops.clone(),
                        repeats: self.repeats,
                        ..Extras::default()
                    },
                    detour: explores.then(|| Detour {
                        kind: Arc::clone(&self.number_tokens),
                        at: below(NUMBER_TOKENS, &mut random(seed)) as u32,
                    }),
                });
            }
            forms.push(form);
        }
        let sampled = self.handle.sample(requests.clone()).await;
        let sampled = sampled.map_err(|error| match error.is_out_of_memory() {
            true => too_much(&error, tasks.len(), &requests),
            false => failed(error),
        })?;
        let mut answers = requests.into_iter().zip(sampled.samples).zip(prompts).map(
            |((request, sample), (behind_prompt, form))| {
                let (prompt, begun) = request.prompt.split_at(behind_prompt);
                let tokens = [begun, &sample.tokens].concat();
                // No policy drew the beginning. No loss reads these, because exploration samples belong to no group.
                let logprobs = [vec![0.0; begun.len()], sample.logprobs].concat();
                let sampled = Sampled {
                    prompt: prompt.to_vec(),
                    tokens,
                    logprobs,
                    finished: sample.finished,
                };
                self.reading.answer(sampled, &forms[form])
            },
        );
        let mut groups = Vec::with_capacity(tasks.len());
        for task in tasks {
            let group: Result<Vec<Answer>, Error> =
                answers.by_ref().take(task.group_size as usize).collect();
            groups.push(group?);
        }
        ended.take_all(groups);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Tokens 3 to 7 are numbers.
    const NUMBERS: [bool; 10] = [
        false, false, false, true, true, true, true, true, false, false,
    ];

    proptest! {
        #[test]
        fn a_mutation_keeps_all_up_to_a_number_and_exchanges_that(
            program in prop::collection::vec(0u32..12, 0..80),
            seed: u64,
        ) {
            let is_number = |token: &u32| (3..8).contains(token);
            let Some(begun) = mutated(&program, &NUMBERS, random(seed)) else {
                prop_assert!(!program.iter().any(is_number));
                return Ok(());
            };
            let (last, kept) = begun.split_last().expect("a token");
            prop_assert!(program.starts_with(kept));
            let exchanged = &program[kept.len()];
            prop_assert!(is_number(last) && is_number(exchanged) && last != exchanged);
            let before = kept.iter().filter(|token| is_number(token)).count();
            prop_assert!(before < NUMBER_TOKENS);
        }
    }

    #[test]
    fn every_number_is_exchanged_and_mostly_for_one_of_the_program() {
        let program = [9, 3, 0, 4, 1, 3, 2];
        let mut counts = BTreeMap::new();
        // Seeds of the tasks of a step follow each other.
        for seed in 0..3000 {
            let begun = mutated(&program, &NUMBERS, random(seed)).expect("a mutation");
            let (last, kept) = begun.split_last().expect("a token");
            *counts.entry((kept.len(), *last)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 3 * 4, "{counts:?}");
        // For each of three places, three quarters and a quarter of a quarter; five standard errors.
        for own in [(1, 4), (3, 3), (5, 4)] {
            assert!((counts[&own] - 812_i32).abs() < 125, "{counts:?}");
        }
    }

    #[test]
    fn samples_of_a_step_depart_at_different_places() {
        let mut counts = [0i32; NUMBER_TOKENS];
        for seed in 0..100 * NUMBER_TOKENS as u64 {
            counts[below(NUMBER_TOKENS, &mut random(seed))] += 1;
        }
        assert!(counts.iter().all(|n| (n - 100).abs() < 50), "{counts:?}");
    }

    #[test]
    fn a_lone_kind_of_number_is_not_exchanged() {
        assert_eq!(mutated(&[1, 1], &[false, true], random(7)), None);
    }
}
