//! Limits of waiting, for the real roles and for those in virtual time.

use std::time::Duration;

/// Limit of one try to acknowledge a message.
pub const ACK_TRY: Duration = Duration::from_secs(1);

/// Limit of all tries to acknowledge a message while the connection holds.
pub const ACK: Duration = Duration::from_secs(15);

/// The same after a reconnect. A restarted server does not answer acknowledgements for its predecessor's deliveries.
pub const STALE_ACK: Duration = Duration::from_millis(500);

/// Limit of one request to the server; then the client repeats it or gives it up.
pub const REQUEST: Duration = Duration::from_secs(5);

/// After a reconnect an earlier message can still be answered, if it had not left the process. The answer comes within
/// this time.
pub const GRACE: Duration = Duration::from_millis(300);

/// Longest silence of a server that has a request for work or a reader: two of its heartbeats were missed.
pub const SILENCE: Duration = Duration::from_secs(11);

/// Longest wait for a missing rollout. A rollout is published before its candidate, so the rollout is stored when the
/// outcome is; a rollout that does not arrive for this long never will. The limit is short, so that the supervisor soon
/// gives up a learner that fails at it again and again, and reports this error.
pub const ROLLOUT: Duration = Duration::from_secs(5);

/// Pause before a process tries again to hold a role that it has lost or failed at. It is longer than the time between
/// two attempts to take a lease, so that another node gets the lease.
pub const ROLE_PAUSE: Duration = Duration::from_secs(15);
