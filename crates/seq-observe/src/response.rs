//! Waits for the response of a node to one request.

use std::time::Duration;

use seq_load::outcome::Chain;
use tonic::{Response, Status};

/// Waits until the future `call` returns the response to a request, for at most `timeout`.
///
/// # Errors
/// The node does not respond within `timeout`, or refuses the request. The text describes the cause.
pub async fn within<T>(
    timeout: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, String> {
    within_or(timeout, call, |status| Chain(status).to_string()).await
}

/// Waits like [`within`]. If the node refuses the request, `cause` returns the text of the error.
pub(crate) async fn within_or<T>(
    timeout: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
    cause: impl FnOnce(&Status) -> String,
) -> Result<T, String> {
    match tokio::time::timeout(timeout, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(cause(&status)),
        Err(_) => Err(format!("no response within {timeout:?}")),
    }
}
