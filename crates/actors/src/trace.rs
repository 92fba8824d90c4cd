//! The spans of the roles: one for each piece of work.
//!
//! Each is continued from the message it works on, so that a trace begins with
//! `task` and goes on with `generate`, `compile`, `verify`, `time` and `archive`.
//! The spans are macros because a span's name belongs to the place in the source that makes the span.

/// A role's span for one candidate. Fields that are not known yet are recorded later: `verdict` and `techniques` where
/// an outcome is published, `seconds` of work (waiting for a core is no work) by the role itself.
macro_rules! candidate_span {
    ($name:literal, $candidate:expr $(, $field:ident = $value:expr)*) => {{
        let candidate: &flopsmith_protocol::CandidateRef = $candidate;
        tracing::info_span!(
            // The parent comes from the message, not from this process's current span.
            parent: None,
            $name,
            $($field = $value,)*
            run = %candidate.run,
            step = candidate.step,
            task = %candidate.task,
            candidate = %candidate.id,
            verdict = tracing::field::Empty,
            techniques = tracing::field::Empty,
            seconds = tracing::field::Empty
        )
    }};
}

/// A role's work on one task.
macro_rules! task_span {
    ($name:literal, $task:expr $(, $field:ident = $value:expr)*) => {{
        let task: &flopsmith_protocol::Task = $task;
        tracing::info_span!(
            parent: None,
            $name,
            $($field = $value,)*
            run = %task.run,
            step = task.step,
            task = %task.id,
            permitted = %task.permitted,
            group_size = task.group_size,
            seconds = tracing::field::Empty
        )
    }};
}

pub(crate) use {candidate_span, task_span};
