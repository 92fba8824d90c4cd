//! JSON Schemas of every message, as kept in `schemas/`.

use crate::codec::{Envelope, Message};
use crate::{messages, outcome, run};

/// File name and content of every schema, generated from the types.
pub fn all() -> Vec<(String, serde_json::Value)> {
    vec![
        one::<messages::Task>(),
        one::<messages::Candidate>(),
        one::<messages::Rollout>(),
        one::<messages::Compiled>(),
        one::<messages::Verified>(),
        one::<outcome::Outcome>(),
        one::<messages::PolicyPublished>(),
        one::<messages::StageChanged>(),
        one::<messages::MachineFacts>(),
        one::<run::RunSpec>(),
    ]
}

fn one<M: Message>() -> (String, serde_json::Value) {
    let mut schema = schemars::schema_for!(Envelope<M>).to_value();
    if let Some(map) = schema.as_object_mut() {
        map.insert(
            "title".into(),
            format!("{} (version {})", M::KIND, crate::codec::VERSION).into(),
        );
    }
    (
        format!("{}.v{}.json", M::KIND, crate::codec::VERSION),
        schema,
    )
}
