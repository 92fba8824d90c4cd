//! The Model Context Protocol: agents call the service's tools.
//!
//! [`message`] reads messages of JSON-RPC 2.0 and answers those that need no evaluation; it is pure. [`tools`] is the table of
//! the tools, [`arguments`] and [`results`] have what goes in and comes out. [`calls`] performs calls on the service,
//! [`asking`] waits for their evaluations, and [`budget`] limits what a client may use. [`comparison`] ranks programs,
//! [`explain`] knows every reason of a refusal, and [`builds`] asks about builds and calls. [`stdio`] speaks the protocol over standard input and output, [`http`] over
//! HTTP.
//!
//! Revision 2026-07-28 of the protocol has no sessions: each request names the revision. Clients of earlier revisions begin
//! with `initialize`. No answer depends on an earlier message, so both kinds are served side by side.
//!
//! Invariants:
//! - Text of programs and of compilers appears as the value of a field, and in no sentence. Sentences consist of fixed
//!   words, numbers and names of the service's own; those about a mistake may repeat a wrong argument of the caller.
//! - A mistake in the arguments of a tool, and a failure of the machine, are results with `isError` that say what to try.
//!   Errors of the protocol are only those that a client's programmer must correct.
//! - A call that nobody waits for any more gives its place in the queue back.

mod arguments;
mod asking;
mod budget;
mod builds;
mod calls;
mod comparison;
mod explain;
pub mod http;
mod message;
mod results;
mod stdio;
mod tools;

pub use budget::Limits;
pub use builds::{Explain, explain_by, explain_nothing};
pub use calls::Tools;
pub use stdio::serve;
