//! Tools that programs of some problems need, looked for when a request comes.
//!
//! The tools of kernels are checked when the service starts. A service for kernels needs no PyTorch, so that of modules is
//! looked for with the first request for a module. A request whose programs cannot be evaluated for the lack of a tool is
//! refused as a whole: it begins no job, and no program of it is worth anything.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use flopsmith_problem::Problem;

use crate::job::lock;

/// Says why no program of a problem can be evaluated, with what to do about it; nothing if nothing is known to be missing.
pub type Missing = Box<dyn Fn(&Problem) -> Option<String> + Send + Sync>;

/// Time after which a missing tool is looked for again, seconds. Clients are told to ask again after it.
pub const AGAIN_SECONDS: u64 = 30;

/// Asks `look`, and repeats the last reason for a while: looking takes seconds, and clients ask again and again.
pub fn remembering(look: impl Fn(&Problem) -> Option<String> + Send + Sync + 'static) -> Missing {
    let last: Mutex<Option<(Instant, String, String)>> = Mutex::default();
    let age = Duration::from_secs(AGAIN_SECONDS);
    Box::new(move |problem| {
        let own = problem.digest.as_str();
        let known = lock(&last).clone();
        if let Some((at, of, why)) = known
            && of == own
            && at.elapsed() < age
        {
            return Some(why);
        }
        let found = look(problem);
        if let Some(why) = &found {
            *lock(&last) = Some((Instant::now(), own.to_owned(), why.clone()));
        }
        found
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn a_reason_is_repeated_for_its_problem_only() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let missing = remembering(move |problem| {
            counted.fetch_add(1, Ordering::Relaxed);
            (problem.id.as_str() == "dot").then(|| "no tool".to_owned())
        });
        let load = |name: &str| Problem::load_any(&shipped::problem(name)).unwrap();
        let (dot, dgemm) = (load("dot"), load("dgemm"));
        for _ in 0..3 {
            assert_eq!(missing(&dot).as_deref(), Some("no tool"));
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        for _ in 0..2 {
            assert_eq!(missing(&dgemm), None);
        }
        assert_eq!(looks.load(Ordering::Relaxed), 3);
    }
}
