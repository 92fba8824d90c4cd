//! Threads that libtorch computes on.
//!
//! On a small model, libtorch's own threads gain little: every operation forks
//! and joins. Rows side by side on threads that each compute alone gain nearly their number.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use flopsmith_policy::threads::compute_on;
use tch::Device;

use crate::error::{Error, Result};

/// Above this many weights, one gradient for each worker takes too much memory, and single operations are large enough to be split.
const SMALL_MODEL: i64 = 64_000_000;

/// More workers than this do not pay for the summing of their gradients.
const MOST_WORKERS: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Threads with libtorch's thread count set for each.
pub(crate) struct Pool {
    workers: Vec<Worker>,
    /// Threads of each.
    each: usize,
}

struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    /// Threads for a model of `parameters` weights on `device`; `workers` overrides their number, `cores` how many cores they share.
    pub fn new(
        parameters: i64,
        device: Device,
        workers: Option<usize>,
        cores: Option<usize>,
    ) -> Result<Self> {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let cores = cores.unwrap_or_else(all).max(1);
        let fitting = if device.is_cuda() || parameters > SMALL_MODEL {
            1
        } else {
            cores.min(MOST_WORKERS)
        };
        let workers = workers.unwrap_or(fitting).max(1);
        let each = (cores / workers).max(1);
        // libtorch keeps the number for new threads in one place for the whole process: it is changed only while our threads start.
        static STARTING: Mutex<()> = Mutex::new(());
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let before = tch::get_num_threads();
        let started: Result<Vec<Worker>> = (0..workers).map(|_| Worker::start(each)).collect();
        compute_on(usize::try_from(before).unwrap_or(1));
        Ok(Pool {
            workers: started?,
            each,
        })
    }

    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Threads that each of them computes on.
    pub fn threads_of_each(&self) -> usize {
        self.each
    }

    /// Runs each job on a thread of its own, at most [`Pool::workers`] of them, and returns their results in order.
    pub fn run<T: Send + 'static>(
        &self,
        jobs: impl IntoIterator<Item = impl FnOnce() -> T + Send + 'static>,
    ) -> Result<Vec<T>> {
        let mut replies = Vec::new();
        let mut workers = self.workers.iter();
        for job in jobs {
            let worker = workers.next().ok_or(Error::ThreadEnded)?;
            let (reply, result) = channel();
            let job = move || {
                // The asker waits for every reply unless an earlier one failed; then nobody needs this one.
                let _unwanted = reply.send(job());
            };
            let jobs = worker.jobs.as_ref().ok_or(Error::ThreadEnded)?;
            jobs.send(Box::new(job)).map_err(|_| Error::ThreadEnded)?;
            replies.push(result);
        }
        replies
            .into_iter()
            .map(|result| result.recv().map_err(|_| Error::ThreadEnded))
            .collect()
    }
}

impl Worker {
    fn start(threads: usize) -> Result<Self> {
        let (jobs, queue) = channel::<Job>();
        let (ready, wait) = channel();
        let thread = std::thread::Builder::new()
            .name("train".into())
            .spawn(move || {
                compute_on(threads);
                if ready.send(()).is_err() {
                    return;
                }
                while let Ok(job) = queue.recv() {
                    job();
                }
            })
            .map_err(Error::ThreadStart)?;
        wait.recv().map_err(|_| Error::ThreadEnded)?;
        Ok(Worker {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Without a sender the thread's queue ends.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It can only have ended by a panic, which its job's asker has been told of.
            let _panicked = thread.join();
        }
    }
}
