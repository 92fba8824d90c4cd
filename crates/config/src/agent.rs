//! The population of a search by an agent.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::read::{Usage, usage};

/// Most islands.
const MOST_ISLANDS: u32 = 64;
/// Most programs that a task may build on. They are drawn one by one.
const MOST_PARENTS: u32 = 64;

/// The population of the kind `agent`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Agent {
    /// Number of islands, whose programs have children among themselves. The tasks of a run take turns on them. Default 4.
    pub islands: u32,
    /// Number of programs between two migrations, in which the best program of each island goes to the next one as well.
    /// Default 64.
    pub migrate_every: u64,
    /// Number of programs that a task may build on. They are drawn by cell of the archive. Default 4.
    pub parents: u32,
    /// Folder of documents that a language model may read in its conversations: the files `*.md` and `*.txt` in it, at most 64.
    /// Default: not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<PathBuf>,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            islands: 4,
            migrate_every: 64,
            parents: 4,
            documents: None,
        }
    }
}

impl Agent {
    /// Checks the values.
    ///
    /// # Errors
    /// The first value that is not usable.
    pub fn check(&self) -> Result<(), Usage> {
        for (name, value, most) in [
            ("islands", self.islands, MOST_ISLANDS),
            ("parents", self.parents, MOST_PARENTS),
        ] {
            if !(1..=most).contains(&value) {
                return Err(usage(format!(
                    "[generator.agent] `{name}` is {value}; it must be 1 to {most}"
                )));
            }
        }
        if self.migrate_every == 0 {
            return Err(usage(
                "[generator.agent] `migrate_every` is 0; it must be at least 1",
            ));
        }
        Ok(())
    }
}
