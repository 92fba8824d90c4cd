//! A resource of a node, leased to its roles in units: the processor cores, or a GPU in shares.
//!
//! Timing needs a resource to itself, so a timer takes every unit; a compile job takes one core. Leases are granted in
//! the order of the requests. The ledger records how long each role has held units, and how long no role has held any.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// One resource of this node.
#[derive(Clone)]
pub struct Pool {
    total: u32,
    permits: Arc<Semaphore>,
    ledger: Arc<Mutex<Ledger>>,
    changed: Arc<Notify>,
}

struct Ledger {
    started: Instant,
    since: Instant,
    held: BTreeMap<&'static str, u32>,
    waiting: u32,
    last_single: Instant,
    /// Roles that work without a unit.
    unleased: BTreeMap<&'static str, u32>,
    seconds: BTreeMap<&'static str, f64>,
    idle: f64,
}

impl Ledger {
    /// Books the time since the last change on the roles that held units during it.
    fn settle(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        self.since = now;
        let held: u32 = self.held.values().sum();
        if held == 0 {
            let roles = self.unleased.len() as f64;
            for role in self.unleased.keys() {
                *self.seconds.entry(role).or_default() += passed / roles;
            }
            if self.unleased.is_empty() {
                self.idle += passed;
            }
            return;
        }
        for (role, units) in &self.held {
            *self.seconds.entry(role).or_default() += passed * f64::from(*units) / f64::from(held);
        }
    }
}

/// Where the time went, as shares of the wall time since the node started.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Shares {
    /// Share of wall time in which a role held units; when two did, the time is divided between them. Roles that work without
    /// units have the time in which no other role held any.
    pub by_role: BTreeMap<String, f64>,
    /// Share of wall time in which no role was at work.
    pub idle: f64,
    /// Wall time, seconds.
    pub seconds: f64,
}

/// Work of a role that takes no unit, such as waiting for a server. It ends when this is dropped.
pub struct Unleased {
    pool: Pool,
    role: &'static str,
}

impl Drop for Unleased {
    fn drop(&mut self) {
        let mut ledger = self.pool.ledger();
        ledger.settle(Instant::now());
        if let Some(count) = ledger.unleased.get_mut(self.role) {
            *count -= 1;
            if *count == 0 {
                ledger.unleased.remove(self.role);
            }
        }
    }
}

/// Leased units; dropping the lease gives them back.
pub struct Lease {
    pool: Pool,
    role: &'static str,
    count: u32,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// A resource of `total` units (at least one).
    pub fn new(total: u32) -> Self {
        let now = Instant::now();
        let total = total.max(1);
        Self {
            total,
            permits: Arc::new(Semaphore::new(total as usize)),
            ledger: Arc::new(Mutex::new(Ledger {
                started: now,
                since: now,
                held: BTreeMap::new(),
                waiting: 0,
                last_single: now,
                unleased: BTreeMap::new(),
                seconds: BTreeMap::new(),
                idle: 0.0,
            })),
            changed: Arc::new(Notify::new()),
        }
    }

    /// The number of units.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// One unit for `role`.
    pub async fn one(&self, role: &'static str) -> Lease {
        self.take(role, 1).await
    }

    /// `count` units for `role`: at least one, and no more than there are.
    pub async fn some(&self, role: &'static str, count: u32) -> Lease {
        self.take(role, count.clamp(1, self.total)).await
    }

    /// Every unit for `role`.
    pub async fn all(&self, role: &'static str) -> Lease {
        self.take(role, self.total).await
    }

    /// Notes that `role` works without a unit. Others may take all units meanwhile, and the time in which they take none is
    /// not idle.
    pub fn unleased(&self, role: &'static str) -> Unleased {
        let mut ledger = self.ledger();
        ledger.settle(Instant::now());
        *ledger.unleased.entry(role).or_default() += 1;
        Unleased {
            pool: self.clone(),
            role,
        }
    }

    /// Waits until no single units were held or asked for during `calm`, or `limit` has passed.
    ///
    /// A timer that waited for this does not stop a half-built batch of
    /// compile jobs, which would leave a core without work each time.
    pub async fn wait_until_idle(&self, calm: Duration, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            let wait = {
                let ledger = self.ledger();
                let busy = ledger.waiting > 0 || !ledger.held.is_empty();
                let rested = ledger.last_single.elapsed();
                if !busy && rested >= calm {
                    return;
                }
                if busy { calm } else { calm - rested }
            };
            if Instant::now() >= deadline {
                return;
            }
            let changed = self.changed.notified();
            let _ = tokio::time::timeout(wait, changed).await;
        }
    }

    /// The shares of the wall time so far.
    pub fn shares(&self) -> Shares {
        let mut ledger = self.ledger();
        let now = Instant::now();
        ledger.settle(now);
        let seconds = now.duration_since(ledger.started).as_secs_f64().max(1e-9);
        Shares {
            by_role: ledger
                .seconds
                .iter()
                .map(|(r, s)| ((*r).to_owned(), s / seconds))
                .collect(),
            idle: ledger.idle / seconds,
            seconds,
        }
    }

    /// Time for which a role has held units so far. Time in which several roles held units is divided between them.
    pub fn spent(&self, role: &str) -> Duration {
        let mut ledger = self.ledger();
        ledger.settle(Instant::now());
        let seconds = ledger.seconds.get(role).copied().unwrap_or(0.0);
        Duration::from_secs_f64(seconds)
    }

    /// Total time in which no role held any unit or worked without one.
    pub fn idle(&self) -> Duration {
        let mut ledger = self.ledger();
        ledger.settle(Instant::now());
        Duration::from_secs_f64(ledger.idle)
    }

    async fn take(&self, role: &'static str, count: u32) -> Lease {
        self.ledger().waiting += 1;
        let waiting = Waiting(self);
        let permit = Arc::clone(&self.permits)
            .acquire_many_owned(count)
            .await
            .expect("the semaphore is never closed");
        drop(waiting);
        let mut ledger = self.ledger();
        let now = Instant::now();
        ledger.settle(now);
        *ledger.held.entry(role).or_default() += count;
        if count < self.total {
            ledger.last_single = now;
        }
        drop(ledger);
        Lease {
            pool: self.clone(),
            role,
            count,
            _permit: permit,
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // The ledger holds only numbers: a panic in another thread leaves them usable.
        self.ledger
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

struct Waiting<'a>(&'a Pool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.ledger().waiting -= 1;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut ledger = self.pool.ledger();
        let now = Instant::now();
        ledger.settle(now);
        if let Some(held) = ledger.held.get_mut(self.role) {
            *held -= self.count;
            if *held == 0 {
                ledger.held.remove(self.role);
            }
        }
        if self.count < self.pool.total {
            ledger.last_single = now;
        }
        drop(ledger);
        self.pool.changed.notify_waiters();
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a task whose handle the test awaits"
)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_cores_exclude_single_ones() {
        let cores = Pool::new(2);
        let one = cores.one("compile").await;
        let wanted = cores.clone();
        let all = tokio::spawn(async move { wanted.all("time").await });
        tokio::task::yield_now().await;
        assert!(!all.is_finished(), "a core is still held");
        drop(one);
        let lease = all.await.expect("the task ends");
        assert_eq!(cores.permits.available_permits(), 0);
        drop(lease);
        assert_eq!(cores.permits.available_permits(), 2);
    }

    #[tokio::test]
    async fn time_is_booked_to_the_holder_and_the_rest_is_idle() {
        let cores = Pool::new(2);
        {
            let _a = cores.one("compile").await;
            let _b = cores.one("verify").await;
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until {
                tokio::task::yield_now().await;
            }
        }
        let shares = cores.shares();
        let sum: f64 = shares.by_role.values().sum::<f64>() + shares.idle;
        assert!((sum - 1.0).abs() < 1e-6, "{shares:?}");
        assert!(shares.by_role["compile"] > 0.0 && shares.by_role["verify"] > 0.0);
        assert!(cores.spent("compile") >= Duration::from_millis(9));
        assert_eq!(cores.spent("time"), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_node_is_idle_only_while_nobody_holds_a_core() {
        async fn pass(time: Duration) {
            let until = Instant::now() + time;
            while Instant::now() < until {
                tokio::task::yield_now().await;
            }
        }
        let cores = Pool::new(2);
        let held = cores.one("generate").await;
        let before = cores.idle();
        pass(Duration::from_millis(10)).await;
        assert_eq!(cores.idle(), before);
        drop(held);
        pass(Duration::from_millis(10)).await;
        let idle = cores.idle();
        assert!(idle >= before + Duration::from_millis(9));
        // A role that waits for a server keeps no other from the cores.
        let waiting = cores.unleased("generate");
        let spent = cores.spent("generate");
        let before = cores.idle();
        pass(Duration::from_millis(10)).await;
        assert_eq!(cores.idle(), before);
        assert!(cores.spent("generate") >= spent + Duration::from_millis(9));
        drop(cores.all("time").await);
        let before = cores.idle();
        drop(waiting);
        pass(Duration::from_millis(10)).await;
        assert!(cores.idle() >= before + Duration::from_millis(9));
    }

    #[tokio::test(start_paused = true)]
    async fn wait_until_idle_ends_at_its_limit_even_when_cores_stay_busy() {
        let cores = Pool::new(2);
        let _held = cores.one("compile").await;
        // `Instant` is the real clock here: the limit is what ends the wait.
        tokio::time::resume();
        cores
            .wait_until_idle(Duration::from_millis(5), Duration::from_millis(20))
            .await;
        assert_eq!(cores.permits.available_permits(), 1);
    }
}
