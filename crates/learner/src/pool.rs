//! Worker threads for libtorch's computations.
//!
//! On a small model libtorch's own threads gain little: every operation forks and joins. Threads that each compute
//! their own rows gain a factor of nearly their number.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use flopsmith_policy::threads::compute_on;
use tch::Device;

use crate::error::{Error, Result};

/// Largest model, in weights, with several workers. Above this size, one gradient for each worker takes too much
/// memory, and single operations are large enough to be split.
const SMALL_MODEL: i64 = 64_000_000;

/// Largest number of workers for which the summing of their gradients still pays.
const MOST_WORKERS: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Threads with libtorch's thread count set for each.
pub(crate) struct Pool {
    workers: Vec<Worker>,
    /// Number of libtorch's threads of each worker.
    each: usize,
}

struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    /// Workers for a model of `parameters` weights on `device`. `workers` overrides their number, `cores` the number of
    /// cores they share.
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
        // libtorch keeps the thread count of new threads in one place for the whole process: the pool changes that
        // count only while its own workers start.
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

    /// Number of libtorch's threads of each worker.
    pub fn threads_of_each(&self) -> usize {
        self.each
    }

    /// Runs each job on its own worker, at most [`Pool::workers`] jobs, and returns their results in order.
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
                // The caller waits for every reply unless an earlier one failed; after a failure this reply is not
                // needed.
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
            // The thread can only have ended by a panic, which the job's caller has already seen.
            let _panicked = thread.join();
        }
    }
}
