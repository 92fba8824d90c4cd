//! TensorBoard's event files of a run, in `tensorboard/` of its folder.
//!
//! The files follow from the records of the run alone. Each session writes one file with all steps so far, removes those of
//! earlier sessions, and appends the steps to come. So no step is missing and none is there twice, whenever a process was
//! killed. The run does not depend on these files: if one cannot be written, the log says so, and the run goes on.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flopsmith_actors::node::unix_ms;
use flopsmith_protocol::ProblemId;
use flopsmith_report::event_file;

use crate::scalars::{Curves, Point};
use crate::summary::Facts;

/// The folder of the event files inside a run's folder.
pub const FOLDER: &str = "tensorboard";
/// In the name of each file that this module wrote, and may remove.
const OWN: &str = ".flopsmith.";

/// The time between two files with all steps, as a multiple of the time that one takes: a long run reads gigabytes for it,
/// and steps may come late again and again.
const REST: u32 = 20;

/// The event file of a session.
pub struct EventFiles {
    run: PathBuf,
    problems: Vec<ProblemId>,
    curves: Curves,
    file: Option<(PathBuf, File)>,
    /// No file with all steps is written before this time.
    resting_until: Option<Instant>,
    given_up: bool,
}

impl EventFiles {
    /// Writes the steps so far of the run in this folder. `problems` are the named ones of a run over many; none in a run
    /// with one.
    pub fn open(run: &Path, problems: &[ProblemId]) -> Self {
        let mut files = Self {
            run: run.to_owned(),
            problems: problems.to_vec(),
            curves: Curves::of(run, problems),
            file: None,
            resting_until: None,
            given_up: false,
        };
        files.update();
        files
    }

    /// Appends the steps that came since the last call. After a step that came late, all of them may wait for some time.
    pub fn update(&mut self) {
        if self.given_up {
            return;
        }
        let written = self.write();
        self.check(written);
    }

    /// Appends the last steps, and the shares of the run's time so far.
    pub fn end(&mut self, facts: &Facts) {
        self.resting_until = None;
        self.update();
        let Some((step, at)) = self.curves.newest().filter(|_| !self.given_up) else {
            return;
        };
        let written = self.append(&[Point::of_time(facts, step, at)]);
        self.check(written);
    }

    fn check(&mut self, written: Result<()>) {
        if let Err(error) = written {
            self.given_up = true;
            warn(&error);
        }
    }

    fn write(&mut self) -> Result<()> {
        if self.file.is_none() {
            return self.begin_anew();
        }
        let points = self.curves.next_points()?;
        if self.curves.disordered() {
            // TensorBoard takes a step that comes after a later one for the restart of a run, and drops the later one.
            let now = Instant::now();
            return match self.resting_until {
                Some(until) if now < until => Ok(()),
                _ => self.begin_anew(),
            };
        }
        self.append(&points)
    }

    fn append(&mut self, points: &[Point]) -> Result<()> {
        let Some((path, file)) = self.file.as_mut().filter(|_| !points.is_empty()) else {
            return Ok(());
        };
        file.write_all(&records(points))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Writes a file with all steps so far in the place of all earlier ones.
    fn begin_anew(&mut self) -> Result<()> {
        let folder = self.run.join(FOLDER);
        let unwritable = || format!("cannot write into {}", folder.display());
        let began = Instant::now();
        self.curves = Curves::of(&self.run, &self.problems);
        let points = self.curves.next_points()?;
        std::fs::create_dir_all(&folder).with_context(unwritable)?;
        let earlier = own_files(&folder).with_context(unwritable)?;
        let now = unix_ms();
        let mut bytes = event_file::version(now);
        if let (Some(first), false) = (points.first(), earlier.is_empty()) {
            // A TensorBoard that shows the earlier files meanwhile forgets them.
            bytes.extend(event_file::restart(now, first.step));
        }
        bytes.extend(records(&points));
        let path = fresh_name(&folder, now / 1000, &earlier);
        // TensorBoard reads a file as soon as it has this name.
        let part = folder.join("next.part");
        std::fs::write(&part, bytes)
            .and_then(|()| std::fs::rename(&part, &path))
            .with_context(unwritable)?;
        for old in earlier {
            std::fs::remove_file(old).with_context(unwritable)?;
        }
        let file = OpenOptions::new().append(true).open(&path);
        self.file = Some((path, file.with_context(unwritable)?));
        self.rest(began.elapsed());
        Ok(())
    }

    /// Rests after a file with all steps that took this time.
    fn rest(&mut self, took: Duration) {
        self.resting_until = Instant::now().checked_add(took.saturating_mul(REST));
    }
}

/// The event file of a session of a training on files. Such a training keeps no records from which earlier steps could be written
/// again, so each session has a file of its own, whose first step takes the place of what earlier ones have from there on.
pub struct SessionFile(Option<(PathBuf, File)>);

impl SessionFile {
    /// Begins a file in `tensorboard/` of this folder, after so many updates. Without updates nothing is left of earlier trainings.
    /// The training does not depend on the file: if it cannot be written, the log says so.
    pub fn open(folder: &Path, done: u64) -> Self {
        let begun = Self::begin(&folder.join(FOLDER), done);
        Self(begun.map_err(|error| warn(&error)).ok())
    }

    fn begin(folder: &Path, done: u64) -> Result<(PathBuf, File)> {
        let unwritable = || format!("cannot write into {}", folder.display());
        std::fs::create_dir_all(folder).with_context(unwritable)?;
        let mut earlier = own_files(folder).with_context(unwritable)?;
        if done == 0 {
            for old in earlier.drain(..) {
                std::fs::remove_file(old).with_context(unwritable)?;
            }
        }
        let now = unix_ms();
        let path = fresh_name(folder, now / 1000, &earlier);
        let mut bytes = event_file::version(now);
        if !earlier.is_empty() {
            bytes.extend(event_file::restart(now, done + 1));
        }
        std::fs::write(&path, bytes).with_context(unwritable)?;
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.with_context(unwritable)?;
        Ok((path, file))
    }

    /// Appends the numbers of an update. Those that are missing are left out.
    pub fn add(&mut self, step: u64, values: &[(&str, Option<f64>)]) {
        let Some((path, file)) = &mut self.0 else {
            return;
        };
        let values = values
            .iter()
            .filter_map(|(tag, value)| Some((*tag, (*value)?)));
        let written = file
            .write_all(&event_file::scalars(unix_ms(), step, values))
            .with_context(|| format!("cannot write {}", path.display()));
        if let Err(error) = written {
            warn(&error);
            self.0 = None;
        }
    }
}

fn warn(error: &anyhow::Error) {
    let error = format!("{error:#}");
    tracing::warn!(error, "no further event files for TensorBoard are written");
}

fn records(points: &[Point]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for point in points {
        let values = point
            .values
            .iter()
            .map(|(tag, value)| (tag.as_str(), *value));
        bytes.extend(event_file::scalars(point.unix_ms, point.step, values));
    }
    bytes
}

/// The event files that earlier sessions wrote.
fn own_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(event_file::PREFIX) && name.contains(OWN) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The path of a new event file. TensorBoard reads files in the order of their names, which begin with the time, and goes
/// on to later names only. So the name is later than those of `earlier` files, also if the clock was set back.
fn fresh_name(folder: &Path, seconds: u64, earlier: &[PathBuf]) -> PathBuf {
    let prefix = event_file::PREFIX;
    let newest = earlier.iter().max();
    let name = newest.and_then(|path| path.file_name()?.to_str());
    let time = name.and_then(|name| name.strip_prefix(prefix)?.get(..10)?.parse::<u64>().ok());
    let seconds = seconds.max(time.unwrap_or(0));
    let mut number = 0;
    loop {
        let path = folder.join(format!("{prefix}{seconds:010}{OWN}{number:04}"));
        if newest.is_none_or(|newest| *newest < path) && !path.exists() {
            return path;
        }
        number += 1;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_actors::role::recorder::{StepLine, files};

    use super::*;

    fn line(step: u64) -> StepLine {
        StepLine {
            step,
            ended_unix_ms: 1000 + step,
            samples: 4,
            correct_rate: 0.5,
            ..StepLine::default()
        }
    }

    fn note(run: &Path, steps: &[u64]) {
        let mut options = OpenOptions::new();
        let path = run.join(files::METRICS);
        let mut file = options.append(true).create(true).open(path).unwrap();
        for step in steps {
            writeln!(file, "{}", serde_json::to_string(&line(*step)).unwrap()).unwrap();
        }
    }

    /// The bytes of all event files, in the order of their names, and their number.
    fn content(run: &Path) -> (Vec<u8>, usize) {
        let mut paths = own_files(&run.join(FOLDER)).unwrap();
        paths.sort();
        let bytes = paths.iter().flat_map(|path| std::fs::read(path).unwrap());
        (bytes.collect(), paths.len())
    }

    /// The records that a reader has to find for these steps.
    fn expected(steps: &[u64]) -> Vec<u8> {
        let mut scalars = crate::scalars::Scalars::new(&[]);
        let points: Vec<Point> = steps.iter().map(|s| scalars.line(&line(*s))).collect();
        records(&points)
    }

    #[test]
    fn each_step_is_there_once_after_a_resume_and_after_a_late_step() {
        let run = tempfile::tempdir().unwrap();
        let run = run.path();
        let mut session = EventFiles::open(run, &[]);
        assert_eq!(content(run).1, 1);
        note(run, &[0, 1]);
        session.update();
        session.update();
        let (bytes, _) = content(run);
        assert!(bytes.ends_with(&expected(&[0, 1])));
        assert!(!bytes.ends_with(&expected(&[0, 1, 0, 1])));
        // Killed; the next session continues.
        drop(session);
        note(run, &[2]);
        let mut session = EventFiles::open(run, &[]);
        note(run, &[4]);
        session.update();
        let (bytes, number) = content(run);
        assert!(bytes.ends_with(&expected(&[0, 1, 2, 4])));
        assert_eq!(number, 1);
        note(run, &[3]);
        session.end(&Facts::default());
        let (bytes, number) = content(run);
        let mut all = expected(&[0, 1, 2, 3, 4]);
        all.extend(records(&[Point::of_time(&Facts::default(), 4, 1004)]));
        assert!(bytes.ends_with(&all));
        assert_eq!(number, 1);
        // Nothing but the version and the mark of the restart precedes the steps.
        let before = bytes.len() - all.len();
        assert_eq!(
            before,
            event_file::version(0).len() + event_file::restart(0, 0).len()
        );
    }

    #[test]
    fn the_file_of_a_session_has_a_later_name_than_those_before() {
        let run = tempfile::tempdir().unwrap();
        let folder = run.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        // The clock was set back since then.
        let name = |number: u32| format!("events.out.tfevents.9999999999.flopsmith.{number:04}");
        std::fs::write(folder.join(name(7)), "").unwrap();
        drop(EventFiles::open(run.path(), &[]));
        assert_eq!(own_files(&folder).unwrap(), [folder.join(name(8))]);
    }

    #[test]
    fn late_steps_of_a_long_run_wait_for_a_file_of_all_at_its_end_at_the_latest() {
        let run = tempfile::tempdir().unwrap();
        let run = run.path();
        let mut session = EventFiles::open(run, &[]);
        note(run, &[0, 2]);
        session.update();
        // As if the file had taken an hour.
        session.rest(Duration::from_secs(3600));
        let before = content(run);
        note(run, &[1, 3]);
        session.update();
        note(run, &[4]);
        session.update();
        assert_eq!(content(run), before);
        session.end(&Facts::default());
        let mut all = expected(&[0, 1, 2, 3, 4]);
        all.extend(records(&[Point::of_time(&Facts::default(), 4, 1004)]));
        let (bytes, number) = content(run);
        assert!(bytes.ends_with(&all));
        assert_eq!(number, 1);
    }

    #[test]
    fn files_of_others_stay_and_a_place_that_takes_no_file_ends_nothing() {
        let run = tempfile::tempdir().unwrap();
        let folder = run.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        let other = folder.join("events.out.tfevents.1.host");
        std::fs::write(&other, "theirs").unwrap();
        drop(EventFiles::open(run.path(), &[]));
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "theirs");
        std::fs::remove_dir_all(&folder).unwrap();
        // Not even root can make a folder where a file is.
        std::fs::write(&folder, "").unwrap();
        note(run.path(), &[0]);
        let mut session = EventFiles::open(run.path(), &[]);
        session.update();
        session.end(&Facts::default());
        assert_eq!(std::fs::read(&folder).unwrap(), b"");
    }

    #[test]
    fn a_session_of_a_training_takes_the_place_of_the_steps_that_were_lost() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(FOLDER);
        let numbers = [("training/loss", Some(1.0)), ("training/other", None)];
        let one = event_file::scalars(0, 1, [("training/loss", 1.0)]).len();
        let begin = event_file::version(0).len();
        let mut first = SessionFile::open(place.path(), 0);
        (1..=3).for_each(|step| first.add(step, &numbers));
        // The last checkpoint was that of the second step.
        let mut second = SessionFile::open(place.path(), 2);
        (3..=4).for_each(|step| second.add(step, &numbers));
        let mut files = own_files(&folder).unwrap();
        files.sort();
        let sizes: Vec<usize> = files
            .iter()
            .map(|file| std::fs::read(file).unwrap().len())
            .collect();
        let restart = event_file::restart(0, 3).len();
        assert_eq!(sizes, [begin + 3 * one, begin + restart + 2 * one]);
        // A training that begins anew has nothing of the earlier one.
        SessionFile::open(place.path(), 0).add(1, &numbers);
        assert_eq!(content(place.path()).0.len(), begin + one);
        // Where no file can be written, the training goes on.
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        SessionFile::open(&file, 0).add(1, &numbers);
    }
}
