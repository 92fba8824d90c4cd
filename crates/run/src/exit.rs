//! Exit codes with a meaning.

/// Success.
pub const OK: u8 = 0;
/// The candidate's fault.
pub const CANDIDATE: u8 = 1;
/// Wrong usage: arguments, configuration, files the user named.
pub const USAGE: u8 = 2;
/// Infrastructure: this machine cannot do it.
pub const INFRASTRUCTURE: u8 = 3;
/// A program is slower than its saved result.
pub const SLOWER: u8 = 4;
/// Interrupted; the run can be resumed.
pub const INTERRUPTED: u8 = 130;
