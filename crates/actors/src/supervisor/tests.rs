//! Supervision with roles that fail, panic, and leave at different times.
#![expect(clippy::panic, reason = "tests")]

use super::*;
use async_trait::async_trait;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Flaky {
    runs: Arc<AtomicUsize>,
    fail: usize,
    panic: bool,
}

#[async_trait]
impl Role for Flaky {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        if run < self.fail {
            assert!(!self.panic, "a role that panics is a role that failed");
            return Err(Error::Learner(format!("failure {run}")));
        }
        stop.cancelled().await;
        Ok(())
    }
}

fn spec(runs: &Arc<AtomicUsize>, fail: usize, panic: bool) -> Spec {
    let runs = Arc::clone(runs);
    Spec {
        name: "flaky",
        factory: Arc::new(move || {
            let runs = Arc::clone(&runs);
            Box::pin(async move { Ok(Box::new(Flaky { runs, fail, panic }) as Box<dyn Role>) })
        }),
    }
}

/// Notes when it leaves. A role that does not leave last takes a while to leave.
struct Leaving {
    last: bool,
    left: Arc<Mutex<Vec<&'static str>>>,
}

#[async_trait]
impl Role for Leaving {
    async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
        stop.cancelled().await;
        if !self.last {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        }
        let name = if self.last { "recorder" } else { "worker" };
        self.left.lock().expect("no panic").push(name);
        Ok(())
    }

    fn leaves_last(&self) -> bool {
        self.last
    }
}

#[test]
fn libtorchs_way_to_an_error_is_left_out() {
    let error = std::io::Error::other(
        "no memory: you tried to allocate 9 bytes.\nException raised from alloc_cpu at alloc_cpu.cpp:137 (most recent call first):\nframe #0: c10",
    );
    assert_eq!(words(&error), "no memory: you tried to allocate 9 bytes.");
    assert_eq!(untraced("as it is"), "as it is");
    assert_eq!(
        untraced("Error code 12\nframe #0: c10::f() + 0x6a"),
        "Error code 12"
    );
}

#[tokio::test]
async fn the_last_role_is_stopped_once_the_others_have_ended() {
    for lasts in [vec![true, false, false], vec![true]] {
        let left = Arc::new(Mutex::new(Vec::new()));
        let specs = lasts.iter().map(|last| {
            let (last, left) = (*last, Arc::clone(&left));
            let factory: Factory = Arc::new(move || {
                let left = Arc::clone(&left);
                Box::pin(async move { Ok(Box::new(Leaving { last, left }) as Box<dyn Role>) })
            });
            Spec {
                name: "leaving",
                factory,
            }
        });
        // Started behind the others: once it runs, they do.
        let runs = Arc::new(AtomicUsize::new(0));
        let specs = specs.chain([spec(&runs, 0, false)]).collect();
        let all = supervise(specs, quick(), never(), CancellationToken::new())
            .await
            .expect("starts");
        reached(&runs, 1).await;
        assert_eq!(all.close(Duration::from_secs(10)).await, RoleState::Drained);
        let left = left.lock().expect("no panic");
        assert_eq!(left.len(), lasts.len());
        assert_eq!(left.last(), Some(&"recorder"));
    }
}

#[tokio::test]
async fn the_last_role_is_restarted_if_it_fails_while_the_node_stops() {
    struct Failing(Arc<AtomicUsize>);
    #[async_trait]
    impl Role for Failing {
        async fn run(&mut self, stop: CancellationToken) -> Result<(), Error> {
            stop.cancelled().await;
            match self.0.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Error::Learner("not yet".into())),
                _ => Ok(()),
            }
        }
        fn leaves_last(&self) -> bool {
            true
        }
    }
    let ends = Arc::new(AtomicUsize::new(0));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ends);
    let factory: Factory = Arc::new(move || {
        let ends = Arc::clone(&counted);
        Box::pin(async move { Ok(Box::new(Failing(ends)) as Box<dyn Role>) })
    });
    let failing = Spec {
        name: "failing",
        factory,
    };
    let specs = vec![failing, spec(&runs, 0, false)];
    let all = supervise(specs, quick(), never(), CancellationToken::new())
        .await
        .expect("starts");
    reached(&runs, 1).await;
    assert_eq!(all.close(Duration::from_secs(10)).await, RoleState::Drained);
    assert_eq!(ends.load(Ordering::SeqCst), 2);
}

fn quick() -> Limits {
    Limits {
        failures: 3,
        window: Duration::from_secs(60),
        backoff: Duration::from_millis(1),
        outage: Duration::from_millis(1),
    }
}

/// No failure is excused.
fn never() -> Excuse {
    Arc::new(|| false)
}

#[tokio::test]
async fn a_replaced_role_is_not_restarted_and_the_node_ends() {
    struct Replaced(Arc<AtomicUsize>);
    #[async_trait]
    impl Role for Replaced {
        async fn run(&mut self, _: CancellationToken) -> Result<(), Error> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Err(Error::Replaced)
        }
    }
    let (runs, other) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let counted = Arc::clone(&runs);
    let factory: Factory = Arc::new(move || {
        let runs = Arc::clone(&counted);
        Box::pin(async move { Ok(Box::new(Replaced(runs)) as Box<dyn Role>) })
    });
    let replaced = Spec {
        name: "archive",
        factory,
    };
    let specs = vec![spec(&other, 0, false), replaced];
    let mut all = supervise(specs, quick(), never(), CancellationToken::new())
        .await
        .expect("starts");
    let RoleState::Failed(why) = all.wait().await else {
        panic!("it cannot go on");
    };
    assert!(why.contains("the archive was replaced"), "{why}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn roles_that_fail_during_a_bus_outage_are_restarted_until_it_ends() {
    let runs = Arc::new(AtomicUsize::new(0));
    let limits = quick();
    let seen = Arc::clone(&runs);
    // The bus comes back after far more failures than a role may have.
    let excuse: Excuse = Arc::new(move || seen.load(Ordering::SeqCst) < 40);
    let specs = vec![spec(&runs, 41, false)];
    let all = supervise(specs, limits, excuse, CancellationToken::new())
        .await
        .expect("starts");
    reached(&runs, 42).await;
    assert_eq!(all.close(Duration::from_secs(10)).await, RoleState::Drained);
}

async fn reached(runs: &AtomicUsize, count: usize) {
    tokio::time::timeout(Duration::from_secs(10), async {
        while runs.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the role is started again");
}

#[tokio::test]
async fn a_failed_role_is_started_again_and_drains() {
    for panic in [false, true] {
        let runs = Arc::new(AtomicUsize::new(0));
        let all = supervise(
            vec![spec(&runs, 2, panic)],
            quick(),
            never(),
            CancellationToken::new(),
        )
        .await
        .expect("starts");
        reached(&runs, 3).await;
        assert_eq!(all.close(Duration::from_secs(10)).await, RoleState::Drained);
    }
}

#[tokio::test]
async fn a_role_that_fails_too_often_ends_the_node_with_its_last_words() {
    let runs = Arc::new(AtomicUsize::new(0));
    let other = Arc::new(AtomicUsize::new(0));
    let mut all = supervise(
        vec![spec(&runs, usize::MAX, false), spec(&other, 0, false)],
        quick(),
        never(),
        CancellationToken::new(),
    )
    .await
    .expect("starts");
    let role_state = tokio::time::timeout(Duration::from_secs(10), all.wait())
        .await
        .expect("ends");
    let RoleState::Failed(text) = role_state else {
        panic!("{role_state:?}")
    };
    assert!(
        text.contains("flaky failed 4 times") && text.contains("failure 3"),
        "{text}"
    );
}

#[tokio::test]
async fn errors_that_a_restart_would_repeat_end_the_node_at_once() {
    struct Hopeless(Arc<AtomicUsize>);
    #[async_trait]
    impl Role for Hopeless {
        async fn run(&mut self, _stop: CancellationToken) -> Result<(), Error> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Err(Error::Hopeless("the policy is broken".into()))
        }
    }
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let factory: Factory = Arc::new(move || {
        let runs = Arc::clone(&counted);
        Box::pin(async move { Ok(Box::new(Hopeless(runs)) as Box<dyn Role>) })
    });
    let specs = vec![Spec {
        name: "learner",
        factory,
    }];
    let mut all = supervise(specs, quick(), never(), CancellationToken::new())
        .await
        .expect("starts");
    assert_eq!(
        all.wait().await,
        RoleState::Failed("the policy is broken".into())
    );
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
