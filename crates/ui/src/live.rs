//! Server-sent events: a page learns that its run has something new to show.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::runs::Run;

/// Time between two looks at the files of a run.
const PERIOD: Duration = Duration::from_secs(2);
/// Looks without news after which the connection is used all the same: a client that left is noticed so.
const QUIET: u32 = 8;

/// How the client begins: it connects again 5 s after an end.
const BEGIN: &str = "retry: 5000\n\n";
const NEWS: &str = "data: new\n\n";
const COMMENT: &str = ": nothing new\n\n";

struct Looking {
    run: Arc<Run>,
    stopping: CancellationToken,
    /// The state that the client knows; none before the beginning.
    known: Option<[u64; 4]>,
    period: Duration,
    _place: OwnedSemaphorePermit,
}

/// Events about a run, until the client leaves or `stopping` is cancelled.
pub fn events(
    run: Arc<Run>,
    stopping: CancellationToken,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let looking = Looking {
        run,
        stopping,
        known: None,
        period: PERIOD,
        _place: place,
    };
    futures::stream::unfold(looking, |mut looking| async move {
        let event = looking.next().await?;
        Some((Ok(Bytes::from_static(event.as_bytes())), looking))
    })
}

impl Looking {
    async fn next(&mut self) -> Option<&'static str> {
        let Some(known) = self.known else {
            self.known = Some(self.run.stamp());
            return Some(BEGIN);
        };
        for _ in 0..QUIET {
            tokio::select! {
                () = self.stopping.cancelled() => return None,
                () = tokio::time::sleep(self.period) => {}
            }
            // A few calls that read times and sizes of files: too short to need another thread.
            let now = self.run.stamp();
            if now != known {
                self.known = Some(now);
                return Some(NEWS);
            }
        }
        Some(COMMENT)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;
    use crate::runs::Runs;

    #[tokio::test]
    async fn a_page_learns_of_outcomes_and_of_the_end() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("r");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), "").unwrap();
        let runs = Runs::new(place.path().to_owned(), None).unwrap();
        let stopping = CancellationToken::new();
        let mut looking = Looking {
            run: runs.get("r").unwrap(),
            stopping: stopping.clone(),
            known: None,
            period: Duration::from_millis(1),
            _place: Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap(),
        };
        assert_eq!(looking.next().await, Some(BEGIN));
        assert_eq!(looking.next().await, Some(COMMENT));
        std::fs::write(folder.join("outcomes.jsonl"), "{}\n").unwrap();
        assert_eq!(looking.next().await, Some(NEWS));
        assert_eq!(looking.next().await, Some(COMMENT));
        // A learner, an agent, a machine and a lost task have logs of their own.
        for log in [
            "training.jsonl",
            "attempts.jsonl",
            "machines.jsonl",
            "stages.jsonl",
            "dead_letters.jsonl",
        ] {
            std::fs::write(folder.join(log), "{}\n").unwrap();
            assert_eq!(looking.next().await, Some(NEWS), "{log}");
            assert_eq!(looking.next().await, Some(COMMENT), "{log}");
        }
        stopping.cancel();
        looking.period = Duration::from_secs(60);
        assert_eq!(looking.next().await, None);
    }
}
