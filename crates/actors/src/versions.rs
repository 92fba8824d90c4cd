//! Policy versions: puts weights into the store, announces them on the bus, and removes superseded weights from the
//! store.

use std::collections::BTreeMap;
use std::sync::Arc;

use flopsmith_protocol::{ArtifactRef, PolicyPublished, PolicyVersion, StepMetrics, subjects};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::node::Context;

/// The weights of this many newest versions stay in the store. A generator that has just received the announcement of a
/// version may still fetch its weights, and the learner may fall back to an older checkpoint. Checkpoints hold weights
/// of their own.
pub const KEPT: usize = 3;

/// The metrics of a checkpoint's step, kept in the checkpoint's description. So a learner that is killed between saving
/// a checkpoint and announcing the version can still announce them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Told(pub Option<StepMetrics>);

impl Told {
    /// The key that [`Told::saved`] reads.
    pub const KEY: &str = "metrics";

    /// The metrics in a checkpoint's description; none if the checkpoint was saved before metrics were kept. Metrics
    /// are no state of the learner: if they cannot be read (JSON has no infinity), the learner goes on without them.
    pub fn saved(meta: &serde_json::Value) -> Self {
        let Some(metrics) = meta.get(Self::KEY) else {
            return Self::default();
        };
        Self::deserialize(metrics).unwrap_or_else(|error| {
            tracing::warn!(%error, "the metrics of the last step are lost");
            Self::default()
        })
    }
}

/// The weights that the store holds for each version. Pure.
#[derive(Debug, Clone, Default)]
pub struct Shelf {
    versions: BTreeMap<PolicyVersion, Vec<ArtifactRef>>,
}

impl Shelf {
    /// Notes the weights of a version.
    pub fn put(&mut self, version: PolicyVersion, weights: ArtifactRef) {
        let there = self.versions.entry(version).or_default();
        if !there.contains(&weights) {
            there.push(weights);
        }
    }

    /// Removes all versions but the newest [`KEPT`] and the first, and returns the weights that no remaining version
    /// has as well.
    ///
    /// Version 0 is the model's own weights. Every run that begins with that model puts the same artifact into a store
    /// that runs share, so it stays. Later versions are equal to those of another run only if nothing was trained in
    /// either.
    pub fn superseded(&mut self) -> Vec<ArtifactRef> {
        let newest: Vec<PolicyVersion> = self.versions.keys().rev().take(KEPT).copied().collect();
        let (kept, old): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.versions)
            .into_iter()
            .partition(|(version, _)| *version == PolicyVersion(0) || newest.contains(version));
        self.versions = kept;
        let mut gone: Vec<ArtifactRef> = Vec::new();
        for weights in old.into_values().flatten() {
            let mut left = self.versions.values().flatten().chain(&gone);
            if !left.any(|w| w.digest == weights.digest) {
                gone.push(weights);
            }
        }
        gone
    }
}

/// Publishes the versions of a run.
pub struct Versions {
    context: Arc<Context>,
    shelf: Shelf,
}

impl Versions {
    /// The versions of the context's run, those of earlier sessions included.
    pub async fn open(context: &Arc<Context>) -> Result<Self, Error> {
        let subject = subjects::policy(&context.run);
        let mut log = context.host.bus.log::<PolicyPublished>(&subject, 0).await?;
        let mut shelf = Shelf::default();
        for (_, published) in log.replay().await? {
            shelf.put(published.version, published.weights);
        }
        Ok(Self {
            context: Arc::clone(context),
            shelf,
        })
    }

    /// Stores the weights, announces them, and removes the weights that they supersede. Doing it twice changes nothing.
    pub async fn publish(
        &mut self,
        version: PolicyVersion,
        step: u64,
        weights: Vec<u8>,
        metrics: Option<StepMetrics>,
    ) -> Result<(), Error> {
        let context = &self.context;
        let weights = context.host.store.put(weights).await?;
        let published = PolicyPublished {
            run: context.run.clone(),
            version,
            step,
            weights: weights.clone(),
            metrics,
        };
        let subject = subjects::policy(&context.run);
        context.host.bus.publish(&subject, &published).await?;
        self.shelf.put(version, weights);
        for old in self.shelf.superseded() {
            // Superseded weights only take up room; a restarted learner tries to remove them again.
            if let Err(error) = self.context.host.store.remove(&old).await {
                tracing::warn!(error = %crate::supervisor::words(&error), "superseded weights stay in the store");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use flopsmith_protocol::Digest;
    use proptest::prelude::*;

    use super::*;

    fn weights(content: u8) -> ArtifactRef {
        ArtifactRef {
            digest: Digest::of(&[content]),
            size: 1,
        }
    }

    #[test]
    fn each_version_supersedes_the_one_three_before_it() {
        let mut shelf = Shelf::default();
        let mut gone = Vec::new();
        for version in 0..7u8 {
            shelf.put(PolicyVersion(version.into()), weights(version));
            gone.push(shelf.superseded());
        }
        let none = Vec::new;
        let expected = [
            none(),
            none(),
            none(),
            none(),
            vec![weights(1)],
            vec![weights(2)],
            vec![weights(3)],
        ];
        assert_eq!(gone, expected);
    }

    #[test]
    fn a_checkpoint_tells_the_metrics_of_its_step_again() {
        let told = Told(Some(StepMetrics {
            loss: -0.25,
            samples: 64,
            ..StepMetrics::default()
        }));
        let kept = |told: &Told| {
            let meta = serde_json::json!({ "step": 1, (Told::KEY): told });
            Told::saved(&serde_json::from_str(&meta.to_string()).expect("it is JSON"))
        };
        assert_eq!(kept(&told), told);
        assert_eq!(kept(&Told(None)), Told(None));
        assert_eq!(Told::saved(&serde_json::json!({ "step": 1 })), Told(None));
        let infinite = Told(Some(StepMetrics {
            kl: f64::INFINITY,
            ..StepMetrics::default()
        }));
        assert_eq!(kept(&infinite), Told(None));
    }

    proptest! {
        /// Versions may share weights, and a version may be published repeatedly. The weights of the newest versions
        /// and of the first one are never removed, nor are weights equal to these; no other weights stay for ever.
        #[test]
        fn weights_that_may_be_fetched_are_kept(contents in proptest::collection::vec(0u8..6, 1..30), twice: bool) {
            let mut shelf = Shelf::default();
            let mut stored = HashSet::new();
            for (version, content) in contents.iter().enumerate() {
                for _ in 0..=usize::from(twice) {
                    shelf.put(PolicyVersion(version as u64), weights(*content));
                    stored.insert(*content);
                    for old in shelf.superseded() {
                        stored.retain(|c| weights(*c) != old);
                    }
                }
                let needed: HashSet<u8> =
                    contents[..=version].iter().rev().take(KEPT).chain(&contents[..1]).copied().collect();
                prop_assert_eq!(&stored, &needed);
            }
        }
    }
}
