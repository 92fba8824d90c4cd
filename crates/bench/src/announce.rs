//! Says what a command is going to do, before it begins: the first result may take minutes.

use std::sync::Arc;
use std::time::Duration;

use flopsmith_evaluate::compares_openblas;
use flopsmith_measure::Purpose;
use flopsmith_problem::Problem;
use flopsmith_run::console::say;
use flopsmith_run::digits::counted;
use flopsmith_run::expected;

use crate::Order;
use crate::page::name_of;

/// Operations of a call above which a plain reference takes seconds for a call, so that the time of a command cannot be
/// foretold.
const LONG: f64 = 4e9;

/// The plan of a command.
struct Plan<'a> {
    programs: usize,
    problem: &'a str,
    /// The timed sizes in words.
    sizes: String,
    threads: &'a [u32],
    purpose: Purpose,
    /// The programs and results that all are compared with.
    references: Vec<String>,
    /// The time that it takes on a quiet machine, if it can be foretold.
    time: Option<String>,
    /// Longest wait for a quiet machine.
    wait: Duration,
    /// True if the wait has this limit at each of several sizes.
    at_each: bool,
    /// Longest time for telling close programs apart.
    resolve: Duration,
}

/// Says the plan of an order.
pub fn announce(order: &Order) {
    for line in Plan::of(order).lines() {
        say(&line);
    }
}

impl<'a> Plan<'a> {
    fn of(order: &'a Order<'a>) -> Self {
        let timed = match order.sizes.as_slice() {
            [] => std::slice::from_ref(&order.problem),
            several => several,
        };
        let mut references = vec!["the plain reference of the problem".to_owned()];
        if order.purpose == Purpose::Certify && compares_openblas(&order.problem) {
            references.push("OpenBLAS if it is installed".to_owned());
        }
        let against = order.against.as_ref();
        references.extend(against.map(|program| format!("{} (--against)", program.name)));
        let compare = order.compare.as_ref();
        references.extend(compare.map(|compare| format!("the result {}", compare.title())));
        let programs = order.programs.len() + usize::from(against.is_some());
        let timers = order.threads.len() * timed.len();
        let time =
            (!is_long(timed)).then(|| expected::of_programs(order.purpose, programs, timers));
        let ranks = order.purpose == Purpose::Rank && order.programs.len() > 1;
        Self {
            programs: order.programs.len(),
            problem: order.problem.id.as_str(),
            sizes: sizes(timed),
            threads: &order.threads,
            purpose: order.purpose,
            references,
            time,
            wait: order.wait,
            at_each: timed.len() > 1,
            resolve: if ranks { order.resolve } else { Duration::ZERO },
        }
    }

    fn lines(&self) -> Vec<String> {
        let threads: Vec<String> = self.threads.iter().map(u32::to_string).collect();
        let plural = if self.threads == [1] { "" } else { "s" };
        let mut lines = vec![
            format!(
                "{} for {} at {}, on {} thread{plural}, --purpose {}",
                counted(self.programs as u64, "program"),
                self.problem,
                self.sizes,
                threads.join(", "),
                name_of(self.purpose)
            ),
            format!("compared with {}", self.references.join(", ")),
        ];
        let mut time = match &self.time {
            Some(time) => format!("this takes {time} on a quiet machine, and longer on a busy one"),
            None => "calls are long at these sizes: this may take many minutes".to_owned(),
        };
        if !self.resolve.is_zero() {
            time.push_str(&format!(
                "; telling close programs apart takes {} more at most (--resolve)",
                seconds(self.resolve)
            ));
        }
        lines.push(time);
        let each = if self.at_each { " for each size" } else { "" };
        lines.extend(waiting(self.wait, each));
        lines
    }
}

/// The wait for a quiet machine in words; none if there is no wait. `each` says for what it has the whole limit.
pub fn waiting(limit: Duration, each: &str) -> Option<String> {
    (!limit.is_zero()).then(|| {
        format!(
            "each program is compiled and verified first; before it is timed, bench waits until no other process uses the timed cores, {} at most{each} (--wait 0 skips this)",
            seconds(limit)
        )
    })
}

/// True if calls take seconds at one of these sizes.
fn is_long(timed: &[Arc<Problem>]) -> bool {
    let sizes = timed.iter().flat_map(|problem| {
        let sizes = problem.timed_sizes().into_iter();
        sizes.map(move |size| problem.work_flops(size))
    });
    // The work of some problems is unknown.
    sizes.fold(0.0, f64::max) > LONG
}

/// The sizes that are timed, in words: one, the workloads of a problem, or the first and the last of several sizes.
fn sizes(timed: &[Arc<Problem>]) -> String {
    match timed {
        [] => String::new(),
        [one] if one.workloads.len() > 1 => {
            let names = one.workloads.iter().map(|workload| workload.name.as_str());
            let names: Vec<&str> = names.collect();
            let count = counted(names.len() as u64, "workload");
            format!("{count} ({})", names.join(", "))
        }
        [one] => one.timed_size(),
        [first, .., last] => {
            let count = counted(timed.len() as u64, "size");
            let (first, last) = (first.timed_size(), last.timed_size());
            format!("{count} ({first} to {last})")
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64().ceil())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use flopsmith_test_support::shipped;

    use super::*;
    use crate::Format;
    use crate::saved::tests::program;

    fn dgemm() -> Problem {
        Problem::load(&shipped::at("dgemm")).unwrap()
    }

    /// One file for the shipped problem, with the defaults.
    pub fn usual() -> Order<'static> {
        Order {
            problem_name: "dgemm",
            problem: Arc::new(dgemm()),
            sizes: Vec::new(),
            compiler: "gcc",
            allow_weaker_jail: false,
            purpose: Purpose::Certify,
            resolve: Duration::from_secs(60),
            wait: Duration::from_secs(30),
            sanitize: true,
            format: Format::Text,
            threads: vec![1],
            programs: vec![program("a.c")],
            against: None,
            keep: None,
            raw: None,
            report: None,
            markdown: None,
            save: None,
            compare: None,
            command: String::new(),
            watch: false,
            alone: true,
        }
    }

    #[test]
    fn a_user_learns_at_once_what_is_measured_how_long_it_takes_and_how_to_skip_the_wait() {
        let order = usual();
        let lines = Plan::of(&order).lines();
        let time = expected::of_programs(Purpose::Certify, 1, 1);
        assert_eq!(
            lines,
            [
                "1 program for dgemm at 3 workloads (n=256, n=512, n=1024), on 1 thread, --purpose certify".to_owned(),
                "compared with the plain reference of the problem, OpenBLAS if it is installed".to_owned(),
                format!("this takes {time} on a quiet machine, and longer on a busy one"),
                "each program is compiled and verified first; before it is timed, bench waits until no other process uses the timed cores, 30 s at most (--wait 0 skips this)".to_owned(),
            ]
        );
    }

    #[test]
    fn sizes_threads_and_other_programs_are_counted() {
        let at = |n: i64| Arc::new(dgemm().timed_at([("n".to_owned(), n)].into()));
        let order = Order {
            sizes: vec![at(64), at(128), at(256)],
            purpose: Purpose::Rank,
            wait: Duration::ZERO,
            threads: vec![1, 2],
            programs: vec![program("a.c"), program("b.c")],
            against: Some(program("best.c")),
            ..usual()
        };
        let lines = Plan::of(&order).lines();
        let first =
            "2 programs for dgemm at 3 sizes (n = 64 to n = 256), on 1, 2 threads, --purpose rank";
        assert_eq!(lines[0], first);
        assert!(
            lines[1].ends_with("of the problem, best.c (--against)"),
            "{lines:?}"
        );
        // The other program is measured as well, and each size has two timers.
        let time = expected::of_programs(Purpose::Rank, 3, 6);
        assert!(
            lines[2].starts_with(&format!("this takes {time} on")),
            "{lines:?}"
        );
        assert!(
            lines[2].ends_with("takes 60 s more at most (--resolve)"),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 3, "there is no wait: {lines:?}");
    }

    #[test]
    fn the_time_of_long_calls_is_not_foretold() {
        let order = Order {
            problem: Arc::new(dgemm().timed_at([("n".to_owned(), 4096)].into())),
            ..usual()
        };
        let lines = Plan::of(&order).lines();
        assert!(lines[0].contains(" at n = 4096, "), "{lines:?}");
        assert!(lines[2].starts_with("calls are long"), "{lines:?}");
    }
}
