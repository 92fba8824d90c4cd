//! A record: one file with a measurement and its evidence (source, raw samples and the machine's attestation).

use std::path::Path;

use anyhow::{Context, Result};
use flopsmith_actors::journal::replace;
use flopsmith_protocol::Measurement;
use serde::{Deserialize, Serialize};

/// The folder of a run's records, inside the run's folder.
const FOLDER: &str = "certified";

/// The data behind a reported number.
#[derive(Debug, Serialize)]
struct Record<'a> {
    /// The program.
    source: &'a str,
    /// The numbers that were computed from the samples.
    measurement: &'a Measurement,
    /// Every call of both sides, the seed, the measurement of the reference, and the conditions during the measurement.
    samples: serde_json::Value,
    /// The attestation in the form that its digest covers; the measurement names this digest.
    attestation_json: &'a str,
}

/// The record of a measurement as JSON. `raw` are its samples as the timer gives them.
pub fn json(
    source: &str,
    measurement: &Measurement,
    raw: &[u8],
    attestation_json: &str,
) -> Result<Vec<u8>> {
    let record = Record {
        source,
        measurement,
        samples: serde_json::from_slice(raw).context("the raw samples are not JSON")?,
        attestation_json,
    };
    Ok(serde_json::to_vec_pretty(&record)?)
}

/// The program of a record, and the machine that it was measured on.
#[derive(Debug, Deserialize)]
pub(crate) struct Evidence {
    /// The program.
    pub source: String,
    /// The machine's attestation.
    pub attestation_json: String,
}

/// Reads a record from the folder of a run. `None` if there is no readable one.
pub(crate) fn evidence(run: &Path, name: &str) -> Option<Evidence> {
    let record = std::fs::read(run.join(FOLDER).join(format!("{name}.json"))).ok()?;
    serde_json::from_slice(&record).ok()
}

/// True if a file begins like a record.
pub fn is_record(begin: &[u8]) -> bool {
    begin.starts_with(b"{\n  \"source\": ")
}

/// Writes a record into the folder of a run, and returns the file's name relative to that folder.
pub fn keep(run: &Path, name: &str, record: &[u8]) -> Result<String> {
    let file = format!("{FOLDER}/{name}.json");
    let path = run.join(&file);
    std::fs::create_dir_all(run.join(FOLDER))
        .and_then(|()| replace(&path, record))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file)
}

/// Removes a record that is no longer valid.
pub fn forget(run: &Path, name: &str) -> Result<()> {
    let path = run.join(FOLDER).join(format!("{name}.json"));
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use flopsmith_test_support::Measured;

    #[test]
    fn a_record_holds_source_samples_and_attestation() {
        let run = tempfile::tempdir().unwrap();
        let raw = br#"{"candidate":[{"seconds":[0.001,0.0011]}],"seed":7}"#;
        let measurement = Measured::at(40.0).measurement();
        let record = json("int x;", &measurement, raw, "{\"cpu_model\":\"m\"}").unwrap();
        let file = keep(run.path(), "r-s1-g0-c3-m1", &record).unwrap();
        assert_eq!(file, "certified/r-s1-g0-c3-m1.json");
        // A second record, as after a kill, replaces the first.
        keep(run.path(), "r-s1-g0-c3-m1", &record).unwrap();
        assert_eq!(
            std::fs::read_dir(run.path().join(FOLDER)).unwrap().count(),
            1
        );
        let kept: serde_json::Value =
            serde_json::from_slice(&std::fs::read(run.path().join(file)).unwrap()).unwrap();
        assert_eq!(kept["source"], "int x;");
        assert_eq!(kept["measurement"]["gflops"], 40.0);
        assert_eq!(kept["samples"]["candidate"][0]["seconds"][1], 0.0011);
        assert_eq!(kept["attestation_json"], "{\"cpu_model\":\"m\"}");
        assert!(json("int x;", &measurement, b"", "{}").is_err());
        for _ in 0..2 {
            forget(run.path(), "r-s1-g0-c3-m1").unwrap();
            assert!(!run.path().join("certified/r-s1-g0-c3-m1.json").exists());
        }
    }
}
