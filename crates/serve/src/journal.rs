//! The folder of the service: its jobs and their answers.
//!
//! ```text
//! lock                       held by the process that uses the folder
//! jobs/open/ID/order.json    the request of a job
//! jobs/open/ID/answers.jsonl its answers so far, in the order in which they came
//! jobs/done/ID/              the same, once all answers are there
//! keys/DIGEST.json           the job of an idempotency key
//! quotas/HOLDER.json         the candidates of a token, and the unfinished jobs that have them
//! ```
//!
//! An order appears by one rename, and an answer is one write, so a process that is killed at any moment leaves jobs that
//! another process goes on with. The last answer may be cut off; it is then missing. A job stays open until the folder has all
//! of its answers, also where the disk was full for a while.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flopsmith_evaluate::random;
use flopsmith_protocol::Digest;
use flopsmith_run::console::usage;
use flopsmith_run::output::unwritable;
use nix::sys::statvfs::statvfs;
use serde::{Deserialize, Serialize};

use crate::against::Comparison;
use crate::auth::Holder;
use crate::wire::{Answer, Request};

/// Free space of the file system below which no job begins, bytes: the answers of open jobs need some.
const LEAST_FREE: u64 = 256 << 20;

/// The id of a job: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// An id that nobody can guess.
    pub fn random() -> Self {
        Self(format!("{:016x}{:016x}", random(), random()))
    }

    /// The id that a text is; none if it is no id.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for JobId {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is no id of a job"))
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> String {
        id.0
    }
}

/// A request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// Digest of the key.
    pub key: Digest,
    /// Digest of the body.
    pub body: Digest,
}

/// The request of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The request.
    pub request: Request,
    /// Its time, milliseconds since 1970.
    pub created_unix_ms: u64,
    /// Place among the requests of the folder.
    pub number: u64,
    /// The client that sent it, without its quota.
    pub holder: Holder,
    /// The part that the program of an `against` has in the job.
    pub comparison: Comparison,
}

/// A job as the folder has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Its id.
    pub id: JobId,
    /// Its request.
    pub order: Order,
    /// Its answers so far.
    pub answers: Vec<Answer>,
}

/// The job of an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfKey {
    /// Digest of the request's body.
    pub body: Digest,
    /// The job that the request began.
    pub job: JobId,
}

/// The jobs of a folder.
pub struct Journal {
    folder: PathBuf,
    least_free: u64,
    /// Held until this value is dropped.
    _lock: File,
}

impl Journal {
    /// Opens the folder, and makes it if it is missing. Only this user may read it.
    ///
    /// # Errors
    /// Wrong usage if it cannot be made, or if another process uses it.
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        for inner in ["jobs/open", "jobs/done", "keys"] {
            let path = folder.join(inner);
            make(&path).map_err(|e| {
                usage(format!(
                    "cannot make the folder {} of the service: {e}; name another with --folder",
                    path.display()
                ))
            })?;
        }
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(|e| unwritable(&path, e))?;
        lock.try_lock().map_err(|_| {
            usage(format!(
                "another process serves from {}; connect agents to it (http://ADDRESS/mcp, if it is `flopsmith serve`), stop it, or name another folder with --folder",
                folder.display()
            ))
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            least_free: LEAST_FREE,
            _lock: lock,
        })
    }

    /// The same folder, in which a job begins only as long as so many bytes are free.
    #[cfg(test)]
    pub fn with_least_free(self, least_free: u64) -> Self {
        Self { least_free, ..self }
    }

    fn of(&self, state: &str, id: &JobId) -> PathBuf {
        self.folder.join("jobs").join(state).join(id.as_str())
    }

    /// Writes the order of a new job.
    ///
    /// # Errors
    /// The folder cannot be written, or its file system is almost full.
    pub fn begin(&self, id: &JobId, order: &Order) -> Result<()> {
        self.check_free()?;
        // Names of jobs do not begin with a dot.
        let part = self
            .folder
            .join("jobs/open")
            .join(format!(".{}", id.as_str()));
        make(&part)?;
        write(&part.join("order.json"), order)?;
        std::fs::rename(&part, self.of("open", id))
    }

    fn check_free(&self) -> Result<()> {
        let found = statvfs(&self.folder)?;
        let free = found
            .blocks_available()
            .saturating_mul(found.fragment_size());
        if free >= self.least_free {
            return Ok(());
        }
        let (free, least) = (free >> 20, self.least_free >> 20);
        let why = format!("{free} MiB are free, and a job needs {least} MiB to begin");
        Err(Error::new(ErrorKind::StorageFull, why))
    }

    /// Adds answers of an unfinished job: all of them, or none.
    pub fn answered(&self, id: &JobId, answers: &[&Answer]) -> Result<()> {
        let mut file = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.of("open", id).join("answers.jsonl"))?;
        let before = file.metadata()?.len();
        file.write_all(&lines(answers)?).inspect_err(|_| {
            // The next answer must begin a line.
            let _ = file.set_len(before);
        })
    }

    /// Writes all answers of an unfinished job, in place of those that the folder has.
    pub fn answered_whole(&self, id: &JobId, answers: &[&Answer]) -> Result<()> {
        replace(&self.of("open", id).join("answers.jsonl"), &lines(answers)?)
    }

    /// The folder has all answers of a job. Its age counts from now.
    pub fn finished(&self, id: &JobId) -> Result<()> {
        let open = self.of("open", id);
        File::open(&open)?.set_modified(SystemTime::now())?;
        std::fs::rename(open, self.of("done", id))
    }

    /// True if there is a job of this id, finished or not.
    pub fn has(&self, id: &JobId) -> bool {
        self.of("open", id).exists() || self.of("done", id).exists()
    }

    /// A finished job; none if there is none of this id.
    pub fn finished_job(&self, id: &JobId) -> Result<Option<Kept>> {
        read_job(id, &self.of("done", id), false)
    }

    /// All unfinished jobs in the order of their requests. A job that cannot be read is left where it is, with a warning.
    pub fn unfinished(&self) -> Result<Vec<Kept>> {
        let mut jobs = Vec::new();
        for entry in std::fs::read_dir(self.folder.join("jobs/open"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(id) = JobId::parse(&name) else {
                // An order that was being written.
                let _ = std::fs::remove_dir_all(entry.path());
                continue;
            };
            match read_job(&id, &entry.path(), true) {
                Ok(Some(job)) => jobs.push(job),
                Ok(None) => {}
                Err(error) => tracing::warn!(job = name, %error, "a job cannot be read"),
            }
        }
        jobs.sort_by_key(|job| (job.order.number, job.order.created_unix_ms));
        Ok(jobs)
    }

    /// The job of an idempotency key.
    pub fn of_key(&self, key: &Digest) -> Result<Option<OfKey>> {
        let path = self.key(key);
        match std::fs::read(path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Notes the job of an idempotency key.
    pub fn note_key(&self, idempotency: &Idempotency, job: &JobId) -> Result<()> {
        let of_key = OfKey {
            body: idempotency.body.clone(),
            job: job.clone(),
        };
        write(&self.key(&idempotency.key), &of_key)
    }

    fn key(&self, key: &Digest) -> PathBuf {
        self.folder.join("keys").join(format!("{key}.json"))
    }

    /// Removes jobs that ended longer than `keep` ago, and idempotency keys that are as old and whose jobs are no more.
    pub fn sweep(&self, keep: Duration, now: SystemTime) -> Result<()> {
        remove_older(&self.folder.join("jobs/done"), keep, now, |_| false)?;
        remove_older(&self.folder.join("keys"), keep, now, |path| {
            let of_key = std::fs::read(path).ok();
            let of_key = of_key.and_then(|bytes| serde_json::from_slice::<OfKey>(&bytes).ok());
            of_key.is_some_and(|of_key| self.has(&of_key.job))
        })
    }
}

/// Makes a folder that only this user may read.
pub fn make(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file by a value. If this process is killed, the file has its old or its new content.
pub fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    replace(path, &serde_json::to_vec(value)?)
}

fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let part = path.with_extension("part");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(content)?;
    std::fs::rename(&part, path)
}

/// Answers as lines of JSON.
fn lines(answers: &[&Answer]) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    for answer in answers {
        serde_json::to_writer(&mut text, answer)?;
        text.push(b'\n');
    }
    Ok(text)
}

/// Removes the entries of a folder that were last changed before `keep`, except those that `stays` names.
pub fn remove_older(
    folder: &Path,
    keep: Duration,
    now: SystemTime,
    stays: impl Fn(&Path) -> bool,
) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        let age = now.duration_since(found.modified()?).unwrap_or_default();
        if age <= keep || stays(&entry.path()) {
            continue;
        }
        if found.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Reads a job. With `mend` an answer that was cut off is removed from the file, so that the next one begins a line.
fn read_job(id: &JobId, folder: &Path, mend: bool) -> Result<Option<Kept>> {
    let order = match std::fs::read(folder.join("order.json")) {
        Ok(bytes) => serde_json::from_slice::<Order>(&bytes)?,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let path = folder.join("answers.jsonl");
    let text = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e),
    };
    let whole = text
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    if mend && whole < text.len() {
        let file = File::options().write(true).open(&path)?;
        file.set_len(u64::try_from(whole).map_err(Error::other)?)?;
    }
    let mut seen = BTreeSet::new();
    let mut answers = Vec::new();
    for line in text[..whole].split(|b| *b == b'\n') {
        let Ok(answer) = serde_json::from_slice::<Answer>(line) else {
            continue;
        };
        if answer.index < order.request.candidates.len() && seen.insert(answer.index) {
            answers.push(answer);
        }
    }
    Ok(Some(Kept {
        id: id.clone(),
        order,
        answers,
    }))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::{CandidateFault, Failure};
    use flopsmith_reward::Reward;

    use super::*;
    use crate::program::{Asked, Judged};
    use crate::wire::{Against, Candidate, Purpose};

    fn order(number: u64, candidates: usize) -> Order {
        let candidate = |n: usize| Candidate {
            id: Some(format!("c{n}")),
            problem: "dgemm".into(),
            source: Some("int x;".into()),
            ..Candidate::default()
        };
        Order {
            request: Request {
                candidates: (0..candidates).map(candidate).collect(),
                purpose: Purpose::Screen,
                against: Against::default(),
                dry_run: false,
            },
            created_unix_ms: 5,
            number,
            holder: Holder::default(),
            comparison: Comparison::Measured,
        }
    }

    fn answer(index: usize) -> Answer {
        let asked = Asked {
            id: format!("c{index}"),
            problem: "dgemm".into(),
            purpose: Purpose::Screen,
        };
        let failure = Failure::candidate(CandidateFault::Timeout, "it \"hangs\"\n");
        Judged::failed(failure).answer(index, &asked, &Reward::default())
    }

    #[test]
    fn jobs_come_back_in_the_order_of_their_requests_with_their_answers() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (JobId::random(), JobId::random());
        {
            let journal = Journal::open(place.path()).unwrap();
            journal.begin(&second, &order(2, 1)).unwrap();
            journal.begin(&first, &order(1, 2)).unwrap();
            journal.answered(&first, &[&answer(1)]).unwrap();
        }
        let journal = Journal::open(place.path()).unwrap();
        let jobs = journal.unfinished().unwrap();
        let ids: Vec<&JobId> = jobs.iter().map(|job| &job.id).collect();
        assert_eq!(ids, [&first, &second]);
        assert_eq!(jobs[0].order, order(1, 2));
        assert_eq!(jobs[0].answers, [answer(1)]);
        assert_eq!(journal.finished_job(&first).unwrap(), None);
        journal.answered(&first, &[&answer(0)]).unwrap();
        journal.finished(&first).unwrap();
        let done = journal.finished_job(&first).unwrap().unwrap();
        assert_eq!(done.answers, [answer(1), answer(0)]);
        assert_eq!(journal.unfinished().unwrap().len(), 1);
    }

    #[test]
    fn an_answer_that_was_cut_off_is_missing_and_spoils_no_other() {
        let place = tempfile::tempdir().unwrap();
        let journal = Journal::open(place.path()).unwrap();
        let id = JobId::random();
        journal.begin(&id, &order(1, 3)).unwrap();
        journal.answered(&id, &[&answer(0)]).unwrap();
        let path = journal.of("open", &id).join("answers.jsonl");
        let whole = std::fs::read_to_string(&path).unwrap();
        let line = serde_json::to_string(&answer(1)).unwrap();
        for cut in 0..line.len() {
            std::fs::write(&path, format!("{whole}{}", &line[..cut])).unwrap();
            let jobs = journal.unfinished().unwrap();
            assert_eq!(jobs[0].answers, [answer(0)], "cut at {cut}");
            journal.answered(&id, &[&answer(2)]).unwrap();
            let jobs = journal.unfinished().unwrap();
            assert_eq!(jobs[0].answers, [answer(0), answer(2)], "cut at {cut}");
        }
    }

    #[test]
    fn an_order_that_was_being_written_is_no_job() {
        let place = tempfile::tempdir().unwrap();
        let journal = Journal::open(place.path()).unwrap();
        let part = place.path().join("jobs/open/.0123");
        make(&part).unwrap();
        std::fs::write(part.join("order.part"), "{").unwrap();
        assert_eq!(journal.unfinished().unwrap(), []);
        assert!(!part.exists());
    }

    #[test]
    fn a_folder_has_one_process_and_is_nobody_elses() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        let journal = Journal::open(&folder).unwrap();
        let error = Journal::open(&folder).err().unwrap();
        assert!(error.to_string().contains("another process"), "{error:#}");
        let mode = std::fs::metadata(folder.join("jobs/open")).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o700);
        drop(journal);
        Journal::open(&folder).unwrap();
    }

    #[test]
    fn a_key_leads_to_its_job() {
        let place = tempfile::tempdir().unwrap();
        let journal = Journal::open(place.path()).unwrap();
        let (key, body) = (Digest::of(b"key"), Digest::of(b"body"));
        assert_eq!(journal.of_key(&key).unwrap(), None);
        let job = JobId::random();
        let idempotency = Idempotency {
            key: key.clone(),
            body: body.clone(),
        };
        journal.note_key(&idempotency, &job).unwrap();
        assert_eq!(journal.of_key(&key).unwrap(), Some(OfKey { body, job }));
    }

    #[test]
    fn old_jobs_are_removed_and_unfinished_ones_stay() {
        let place = tempfile::tempdir().unwrap();
        let journal = Journal::open(place.path()).unwrap();
        let (open, done) = (JobId::random(), JobId::random());
        for id in [&open, &done] {
            journal.begin(id, &order(1, 1)).unwrap();
        }
        journal.finished(&done).unwrap();
        let hour = Duration::from_secs(3600);
        journal.sweep(hour, SystemTime::now()).unwrap();
        assert!(journal.finished_job(&done).unwrap().is_some());
        journal.sweep(hour, SystemTime::now() + 2 * hour).unwrap();
        assert_eq!(journal.finished_job(&done).unwrap(), None);
        assert_eq!(journal.unfinished().unwrap().len(), 1);
    }

    #[test]
    fn a_job_is_as_old_as_its_last_answer_and_its_key_stays_with_it() {
        let place = tempfile::tempdir().unwrap();
        let journal = Journal::open(place.path()).unwrap();
        let id = JobId::random();
        let key = Idempotency {
            key: Digest::of(b"key"),
            body: Digest::of(b"body"),
        };
        journal.note_key(&key, &id).unwrap();
        journal.begin(&id, &order(1, 1)).unwrap();
        let (hour, now) = (Duration::from_secs(3600), SystemTime::now());
        for path in [journal.of("open", &id), journal.key(&key.key)] {
            let file = File::open(path).unwrap();
            file.set_modified(now - 2 * hour).unwrap();
        }
        journal.sweep(hour, now).unwrap();
        assert!(journal.of_key(&key.key).unwrap().is_some());
        journal.finished(&id).unwrap();
        journal.sweep(hour, now).unwrap();
        assert!(journal.finished_job(&id).unwrap().is_some());
        assert!(journal.of_key(&key.key).unwrap().is_some());
        journal.sweep(hour, now + 2 * hour).unwrap();
        assert_eq!(journal.finished_job(&id).unwrap(), None);
        assert_eq!(journal.of_key(&key.key).unwrap(), None);
    }

    #[test]
    fn no_job_begins_on_a_full_disk() {
        let place = tempfile::tempdir().unwrap();
        let journal = Journal::open(place.path()).unwrap();
        let journal = journal.with_least_free(u64::MAX);
        let error = journal.begin(&JobId::random(), &order(1, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(journal.unfinished().unwrap(), []);
    }

    #[test]
    fn only_an_id_is_one() {
        let id = JobId::random();
        assert_eq!(JobId::parse(id.as_str()), Some(id.clone()));
        for wrong in [
            "",
            "..",
            &"a".repeat(31),
            &"A".repeat(32),
            "../../0123456789abcdef0123456789",
        ] {
            assert_eq!(JobId::parse(wrong), None, "{wrong}");
        }
    }
}
