//! Whether a server can be reached, before anything is asked of it.

use flopsmith_config::Endpoint;
use flopsmith_config::endpoint::seconds;
use tokio::time::timeout;

use crate::error::Error;
use crate::sending::Sender;

/// Checks that the server of an endpoint can be reached, by one request that asks for nothing and has no key. Every answer
/// will do, and so will a connection on which none comes.
///
/// # Errors
/// The URL cannot be used, or there is no connection.
pub async fn reach(endpoint: &Endpoint) -> Result<(), Error> {
    let sender = Sender::new(endpoint, None)?;
    // Once the time for a connection is over there is one, and an answer has as long again.
    let limit = seconds(2.0 * endpoint.timeouts.connect_seconds);
    match timeout(limit, sender.touch()).await {
        Ok(Err(failure)) => Err(Error::Failed {
            reason: failure.reason,
            words: failure.words,
            attempts: 1,
        }),
        Ok(Ok(())) | Err(_) => Ok(()),
    }
}
