//! Variants of the user's own program, with which a search begins.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_archive::identity::source_digest;
use flopsmith_config::Settings;
use flopsmith_generator::mutation::Mutable;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{
    CandidateId, Digest, Measurement, Outcome, Task, TaskId, TechniqueSet, Verdict,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::schedule::share_of;

/// Number of the fastest programs that have variants.
const PARENTS: usize = 6;
/// The same where all variants of these were tried.
const MORE_PARENTS: usize = 64;
/// Draws for one variant at most: of many draws the program was tried before, or belongs to another task of the step.
const DRAWS: usize = 100;
/// Streams of a task's seed. The schedule space draws from the first one.
const ROUNDING: u64 = 1 << 32;
const MUTATING: u64 = 2 << 32;

/// The program of the user, the variants that the search made of it, and their variants.
///
/// A variant is a parent once it was measured, or measured again, and is as fast as the program of the user. Nothing is saved: a generator reports
/// every outcome of the run before it asks for programs, and a candidate names its parent (`follows`). The variants for a task
/// depend on the task and on the reported outcomes alone.
pub struct Variants {
    start: String,
    /// Of the program of the user.
    digest: Digest,
    language: Language,
    /// Longest program, bytes.
    longest: usize,
    /// Share of the answers that are variants, of 1.
    share: f64,
    /// True if only a second measurement makes a variant a parent.
    confirms: bool,
    /// All programs with an outcome, by the digest of their normal form.
    family: BTreeMap<Digest, Member>,
}

/// A program of the family.
#[derive(Debug, Clone)]
struct Member {
    source: String,
    candidate: CandidateId,
    /// Those that were detected.
    techniques: Option<TechniqueSet>,
    /// Its highest speed of a first measurement, and of a repeated one, GFLOPS.
    first: Option<f64>,
    again: Option<f64>,
    /// True if a repeated measurement converged.
    is_confirmed: bool,
    is_refused: bool,
}

impl Member {
    /// Its speed: a repeated measurement outweighs a first one, which is too high on average in a program that looks fast.
    fn speed(&self) -> Option<f64> {
        let measured = self.again.or(self.first);
        measured.filter(|_| !self.is_refused)
    }
}

/// A program that was made of another one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variant {
    /// Its text.
    pub source: String,
    /// The candidate that it was made of.
    pub parent: CandidateId,
    /// The text of that one.
    pub of: String,
}

impl Variants {
    /// The variants of a run; none if the run does not vary its start program, or in a language that mutations do not know.
    pub fn of_run(problem: &Problem, settings: &Settings) -> Option<Self> {
        let share = settings.start_share();
        let start = settings.start.as_ref().filter(|_| share > 0.0)?;
        (problem.language != Language::Python).then(|| Self {
            start: start.source.clone(),
            digest: source_digest(&start.source),
            language: problem.language,
            longest: problem.max_source_bytes,
            share,
            confirms: false,
            family: BTreeMap::new(),
        })
    }

    /// Makes a variant a parent only once a second measurement has confirmed its speed. The user's program needs none: nobody chose it
    /// for its speed.
    #[must_use]
    pub(super) fn confirmed(self) -> Self {
        Self {
            confirms: true,
            ..self
        }
    }

    /// True if a mutation can change the program of the user within the permitted techniques.
    pub fn can_vary(&self, permitted: TechniqueSet) -> bool {
        !Mutable::of(&self.start, self.language, permitted).is_empty()
    }

    /// Takes an outcome of the run.
    pub(super) fn note(&mut self, outcome: &Outcome) {
        let candidate = &outcome.candidate;
        if candidate.follows.is_none() && outcome.source != self.start {
            return;
        }
        let is_again = candidate.remeasures.is_some();
        let first = candidate.remeasures.as_ref().unwrap_or(&candidate.id);
        let member = self.family.entry(source_digest(&outcome.source));
        let member = member.or_insert_with(|| Member {
            source: outcome.source.clone(),
            candidate: first.clone(),
            techniques: outcome.techniques,
            first: None,
            again: None,
            is_confirmed: false,
            is_refused: false,
        });
        let measured = outcome.verdict.measurement();
        let is_settled = |m: &Measurement| is_again && m.converged() && !m.reused;
        member.is_confirmed |= measured.is_some_and(is_settled);
        if let Some(gflops) = measured.map(Measurement::known_gflops) {
            let speed = match is_again {
                true => &mut member.again,
                false => &mut member.first,
            };
            *speed = Some(speed.map_or(gflops, |known| known.max(gflops)));
        }
        member.is_refused |= matches!(outcome.verdict, Verdict::Rejected { .. });
    }

    /// The variants among `count` answers to a task: the share of the settings, rounded up or down by chance, or as many as there
    /// are answers if the problem has no space of its own (`is_alone`). Fewer where no others are found, and none of a program that was
    /// refused, unless there is nothing else to vary.
    pub(super) fn answers(&self, task: &Task, count: usize, is_alone: bool) -> Vec<Variant> {
        let count = match is_alone {
            true => count,
            false => self.rounded(task, count),
        };
        let first = self.unmeasured(task);
        let measured = self.measured(task.permitted);
        let own = self.family.get(&self.digest).and_then(Member::speed);
        let is_ahead = |member: &&&Member| own.is_none() || member.speed() >= own;
        let is_undecided = !self.family.contains_key(&self.digest);
        let levels: Vec<Vec<&Member>> = match measured.is_empty() {
            true if is_undecided || is_alone => vec![vec![&first]],
            true => Vec::new(),
            false => vec![
                measured
                    .iter()
                    .take_while(is_ahead)
                    .take(PARENTS)
                    .copied()
                    .collect(),
                measured.iter().take(MORE_PARENTS).copied().collect(),
            ],
        };
        let mut rng = random(task, MUTATING);
        let mut found = Vec::with_capacity(count);
        let mut seen = BTreeSet::from([self.digest.clone()]);
        for parents in levels {
            self.draw(task, &parents, count, (&mut found, &mut seen), &mut rng);
        }
        found
    }

    /// The program that a task repeats where nothing else is left: the fastest one. A step waits for all its samples, and nodes do not
    /// evaluate the same program again.
    pub(super) fn again(&self, task: &Task) -> Variant {
        let fastest = self.measured(task.permitted).first().copied().cloned();
        let repeated = fastest.unwrap_or_else(|| self.unmeasured(task));
        Variant {
            source: repeated.source.clone(),
            parent: repeated.candidate,
            of: repeated.source,
        }
    }

    /// The share of `count`. Its remainder is the probability of one more.
    fn rounded(&self, task: &Task, count: usize) -> usize {
        let exact = (self.share * count as f64).clamp(0.0, count as f64);
        let rest = exact - exact.floor();
        let more = random(task, ROUNDING).random_bool(rest.clamp(0.0, 1.0));
        exact.floor() as usize + usize::from(more)
    }

    /// The program of the user before it has an outcome. It is the first sample of the run.
    fn unmeasured(&self, task: &Task) -> Member {
        Member {
            source: self.start.clone(),
            candidate: CandidateId::of(&TaskId::of(&task.run, 0, 0), 0),
            techniques: None,
            first: None,
            again: None,
            is_confirmed: false,
            is_refused: false,
        }
    }

    /// The measured programs within the permitted techniques, the fastest first.
    fn measured(&self, permitted: TechniqueSet) -> Vec<&Member> {
        let may = |(digest, member): &(&Digest, &Member)| {
            let is_settled = !self.confirms || member.is_confirmed || **digest == self.digest;
            is_settled && member.techniques.is_none_or(|own| own.is_subset(permitted))
        };
        let all = self.family.iter().filter(may).map(|(_, member)| member);
        let mut all: Vec<(f64, &Member)> = all.filter_map(|of| Some((of.speed()?, of))).collect();
        // The order of their digests decides between equal ones.
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.into_iter().map(|(_, member)| member).collect()
    }

    /// Draws variants of `parents` until there are `count`. A parent is the faster one of two that are drawn.
    fn draw(
        &self,
        task: &Task,
        parents: &[&Member],
        count: usize,
        (found, seen): (&mut Vec<Variant>, &mut BTreeSet<Digest>),
        rng: &mut ChaCha8Rng,
    ) {
        if found.len() >= count {
            return;
        }
        let parents = parents.iter().map(|parent| {
            let mutable = Mutable::of(&parent.source, self.language, task.permitted);
            (mutable, *parent)
        });
        let parents: Vec<(Mutable<'_>, &Member)> =
            parents.filter(|(mutable, _)| !mutable.is_empty()).collect();
        if parents.is_empty() {
            return;
        }
        let share = share_of(task);
        for _ in 0..DRAWS.saturating_mul(count) {
            if found.len() >= count {
                return;
            }
            let drawn = [(); 2].map(|()| rng.random_range(0..parents.len()));
            let (mutable, parent) = &parents[drawn[0].min(drawn[1])];
            let Some(mutant) = mutable.mutant(rng) else {
                continue;
            };
            if mutant.text.len() > self.longest {
                continue;
            }
            let digest = source_digest(&mutant.text);
            let is_mine = share.has(digest.as_str()) && !self.family.contains_key(&digest);
            if is_mine && seen.insert(digest) {
                found.push(Variant {
                    source: mutant.text,
                    parent: parent.candidate.clone(),
                    of: parent.source.clone(),
                });
            }
        }
    }
}

/// Random numbers of a task.
fn random(task: &Task, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(task.seed);
    random.set_stream(stream);
    random
}

#[cfg(test)]
mod tests {
    use flopsmith_config::{Start, search};
    use flopsmith_protocol::Purpose;
    use flopsmith_test_support::{again, measured, outcome, sample_of, shipped, wrong};

    use super::*;

    const OWN: &str = "\
#define TILE 64
void dgemm(int n, const double *A, const double *B, double *C) {
    for (int ii = 0; ii < n; ii += TILE)
        for (int i = ii; i < ii + TILE && i < n; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0;
                for (int k = 0; k < n; k++) sum += A[i * n + k] * B[k * n + j];
                C[i * n + j] = sum;
            }
}
";

    fn problem() -> Problem {
        Problem::load(&shipped::at("dgemm")).expect("a problem")
    }

    fn settings(share: f64) -> Settings {
        let mut settings = search::defaults("dgemm", search::BUDGET);
        settings.generator.start_share = share;
        settings.start = Some(Start {
            source: OWN.to_owned(),
            ..Start::default()
        });
        settings
    }

    fn variants(share: f64) -> Variants {
        Variants::of_run(&problem(), &settings(share)).expect("it has variants")
    }

    /// The first of two tasks of a step, or the second.
    fn task(step: u64, number: u32) -> Task {
        Task {
            group_size: 8,
            permitted: TechniqueSet::all(),
            purpose: Purpose::Search,
            seed: 31 * step + u64::from(number),
            ..flopsmith_test_support::task(step, number)
        }
    }

    /// The outcome of the program of the user, or of a variant in the place of a sample.
    fn outcome_of(step: u64, sample: u32, variant: Option<&Variant>, verdict: Verdict) -> Outcome {
        let mut candidate = sample_of(&task(step, 0), sample);
        candidate.follows = variant.map(|variant| variant.parent.clone());
        let source = variant.map_or(OWN, |variant| variant.source.as_str());
        Outcome {
            source: source.to_owned(),
            ..outcome(candidate, verdict)
        }
    }

    #[test]
    fn a_run_varies_its_program_by_its_share_alone() {
        let (problem, all) = (problem(), settings(1.0));
        assert!(Variants::of_run(&problem, &settings(0.0)).is_none());
        let mut tuned = all.clone();
        tuned.start.as_mut().expect("a start").parameters = "{}".into();
        assert!(Variants::of_run(&problem, &tuned).is_none());
        let mut alone = all.clone();
        alone.start = None;
        assert!(Variants::of_run(&problem, &alone).is_none());
        let mut module = problem.clone();
        module.language = Language::Python;
        assert!(Variants::of_run(&module, &all).is_none());
        assert!(variants(1.0).can_vary(TechniqueSet::EMPTY));

        let third = variants(1.0 / 3.0);
        let counts = (0..300).map(|step| third.answers(&task(step, 0), 8, false).len());
        let counts: Vec<usize> = counts.collect();
        assert!(
            counts.iter().all(|count| [2, 3].contains(count)),
            "{counts:?}"
        );
        let sum: usize = counts.iter().sum();
        assert!((740..=860).contains(&sum), "{sum}");
        // A problem without a space has nothing else.
        assert_eq!(third.answers(&task(0, 0), 8, true).len(), 8);
        assert_eq!(variants(1.0).answers(&task(0, 0), 7, false).len(), 7);
    }

    #[test]
    fn the_first_variants_are_made_of_the_users_program_and_no_two_tasks_try_the_same() {
        let variants = variants(1.0);
        let mut all = BTreeSet::new();
        for number in 0..2 {
            let answers = variants.answers(&task(0, number), 8, false);
            assert_eq!(answers, variants.answers(&task(0, number), 8, false));
            for variant in answers {
                assert_eq!(variant.parent, sample_of(&task(0, 0), 0).id);
                assert_ne!(variant.source, OWN);
                assert!(all.insert(source_digest(&variant.source)));
            }
        }
        assert_eq!(all.len(), 16);
    }

    #[test]
    fn parents_are_measured_and_as_fast_as_the_users_program() {
        let mut variants = variants(1.0);
        let children = variants.answers(&task(0, 0), 4, false);
        let speeds = [measured(30.0), measured(10.0), wrong(), measured(25.0)];
        variants.note(&outcome_of(0, 0, None, measured(20.0)));
        for ((sample, child), verdict) in (1..).zip(&children).zip(speeds) {
            variants.note(&outcome_of(0, sample, Some(child), verdict));
        }
        let id = |sample: u32| sample_of(&task(0, 0), sample).id;
        let parents = |variants: &Variants| -> BTreeSet<CandidateId> {
            let steps = (1..20).map(|step| variants.answers(&task(step, 0), 8, false));
            steps.flatten().map(|variant| variant.parent).collect()
        };
        assert_eq!(parents(&variants), BTreeSet::from([id(0), id(1), id(4)]));
        // A second measurement counts, and a refusal ends all.
        let fast = outcome_of(0, 1, children.first(), measured(30.0));
        variants.note(&again(&fast, measured(5.0)));
        assert_eq!(parents(&variants), BTreeSet::from([id(0), id(4)]));
        variants.note(&again(&fast, wrong()));
        assert_eq!(variants.again(&task(9, 0)).parent, id(4));
        // Programs of the space are not of the family.
        let other = Outcome {
            source: "int x;".into(),
            ..outcome_of(3, 0, None, measured(99.0))
        };
        variants.note(&other);
        assert_eq!(parents(&variants), BTreeSet::from([id(0), id(4)]));
    }

    #[test]
    fn a_program_that_is_refused_has_variants_only_where_there_is_nothing_else() {
        let mut variants = variants(1.0);
        variants.note(&outcome_of(0, 0, None, wrong()));
        assert!(variants.answers(&task(1, 0), 8, false).is_empty());
        let children = variants.answers(&task(1, 0), 8, true);
        assert_eq!(children.len(), 8);
        variants.note(&outcome_of(1, 3, children.first(), measured(1.0)));
        let later = variants.answers(&task(2, 0), 8, false);
        let parent = sample_of(&task(1, 0), 3).id;
        assert!(later.iter().all(|variant| variant.parent == parent));
        assert_eq!(later.len(), 8);
    }

    #[test]
    fn variants_that_are_made_anew_go_on_from_the_outcomes_and_try_nothing_twice() {
        let mut first = variants(1.0);
        let mut log = vec![outcome_of(0, 0, None, measured(20.0))];
        first.note(&log[0]);
        let mut tried = BTreeSet::from([source_digest(OWN)]);
        for step in 1..6 {
            let answers = first.answers(&task(step, 0), 8, false);
            for (sample, variant) in (0..).zip(&answers) {
                assert!(tried.insert(source_digest(&variant.source)));
                // Any landscape will do, with some programs that fail.
                let length = variant.source.len();
                let verdict = match length % 5 {
                    0 => wrong(),
                    _ => measured(length as f64),
                };
                log.push(outcome_of(step, sample, Some(variant), verdict));
            }
            for outcome in &log[log.len() - answers.len()..] {
                first.note(outcome);
            }
        }
        let mut second = variants(1.0);
        log.iter().for_each(|outcome| second.note(outcome));
        let next = task(6, 1);
        assert_eq!(
            first.answers(&next, 8, false),
            second.answers(&next, 8, false)
        );
    }

    #[test]
    fn a_program_whose_variants_were_all_tried_is_repeated() {
        let problem = problem();
        let mut settings = settings(1.0);
        let source = "void dgemm(int n) { while (n > 2) n--; }\n";
        settings.start.as_mut().expect("a start").source = source.into();
        let variants = Variants::of_run(&problem, &settings).expect("it has variants");
        let only = Task {
            tasks_in_step: 1,
            ..task(0, 0)
        };
        let answers = variants.answers(&only, 64, true);
        assert!((1..64).contains(&answers.len()), "{}", answers.len());
        assert_eq!(variants.again(&task(0, 0)).source, source);
        settings.start.as_mut().expect("a start").source = "void dgemm(int n) {}\n".into();
        let none = Variants::of_run(&problem, &settings).expect("it could have variants");
        assert!(!none.can_vary(TechniqueSet::all()));
        assert!(none.answers(&task(0, 0), 8, true).is_empty());
    }
}
