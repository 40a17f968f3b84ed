//! Classification of a failed request by what its connection shows: the request was not processed, the connection
//! broke, or a server responded with a failure.
//!
//! Invariant: a request counts as not processed only if the connection proves that no server processed it. Any other
//! failed request may have been processed.

use std::error::Error;

use tonic::Status;

/// Returns whether a failed request was certainly not processed. This is so if no connection could be made, if the
/// connection closed before the request was sent, or if the server rejected the HTTP/2 stream of the request before
/// processing it, e.g. when the server shuts down (GOAWAY that names an earlier last stream, or REFUSED_STREAM). Such a
/// request can be retried without risk.
#[must_use]
pub fn not_processed(status: &Status) -> bool {
    causes(status).any(|error| {
        error.is::<tonic::ConnectError>()
            || error.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_canceled() || error.is_closed())
            || error.downcast_ref::<h2::Error>().is_some_and(is_rejected_stream)
    })
}

/// Returns whether the peer rejected the HTTP/2 stream of a request without processing it. A GOAWAY makes only those
/// streams fail that are later than the last stream that it names. Earlier streams continue, and fail only if the
/// connection fails.
fn is_rejected_stream(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (error.is_go_away() || refused)
}

/// Returns whether a request failed in the connection, before a server responded. Returns `false` if a server refused
/// the request.
#[must_use]
pub fn is_transport(status: &Status) -> bool {
    // Only a status that was created in this process has a source. A status that a server sent has none.
    status.source().is_some()
}

/// Returns whether a request failed because its connection broke or could not be made, and not because its timeout
/// passed.
#[must_use]
pub fn is_broken(status: &Status) -> bool {
    is_transport(status) && !caused_by::<tonic::TimeoutExpired>(status)
}

/// Returns whether a request failed because the certificate of the server has expired.
#[must_use]
pub fn has_expired_certificate(status: &Status) -> bool {
    causes(status).any(|error| error.downcast_ref().is_some_and(seq_auth::is_expired))
}

/// Returns whether the chain of errors that caused a status contains an error of type `E`.
#[must_use]
pub fn caused_by<E: Error + 'static>(status: &Status) -> bool {
    causes(status).any(|error| error.is::<E>())
}

/// Returns the chain of errors that caused a status, the direct cause first.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use seq_proto::v1;
    use seq_proto::v1::sequence_service_client::SequenceServiceClient;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::Pool;

    /// Sends a request to a test server that reads the request, sends the frames that `frames` returns, and closes the
    /// connection. Returns the status with which the request failed.
    async fn status_after(frames: impl Fn([u8; 4]) -> Vec<u8> + Send + 'static) -> Status {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = Pool::with_connections(1);
        let channel = pool.get(&listener.local_addr().unwrap().to_string()).unwrap();
        let server = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            let stream = until_headers(&mut connection).await;
            connection.write_all(&frames(stream)).await.unwrap();
            // The connection ends after the frames.
            connection.shutdown().await.unwrap();
            let _ = connection.read_to_end(&mut Vec::new()).await;
        };
        let mut client = SequenceServiceClient::new(channel);
        let call = client.next(v1::NextRequest { uid: Some(1), count: 1, ..v1::NextRequest::default() });
        tokio::join!(call, server).0.unwrap_err()
    }

    /// Reads the preface and the frames of a connection up to the headers of a request. Returns the stream id of the
    /// request.
    async fn until_headers(connection: &mut tokio::net::TcpStream) -> [u8; 4] {
        // An empty SETTINGS frame.
        connection.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        connection.read_exact(&mut [0; 24]).await.unwrap();
        loop {
            let mut head = [0; 9];
            connection.read_exact(&mut head).await.unwrap();
            let [a, b, c, kind, _, stream @ ..] = head;
            connection.read_exact(&mut vec![0; u32::from_be_bytes([0, a, b, c]) as usize]).await.unwrap();
            if kind == 1 {
                return stream;
            }
        }
    }

    #[tokio::test]
    async fn a_rejected_stream_counts_as_not_processed() {
        // GOAWAY without an error, with 0 as the last processed stream.
        let left_out = status_after(|_| vec![0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await;
        assert!(not_processed(&left_out), "{left_out:?}");
        let refused = status_after(|[a, b, c, d]| vec![0, 0, 4, 3, 0, a, b, c, d, 0, 0, 0, 7]).await;
        assert!(not_processed(&refused), "{refused:?}");
    }

    #[tokio::test]
    async fn a_request_whose_connection_broke_may_have_been_processed() {
        // GOAWAY that names the request's own stream, then the end.
        let cut = status_after(|[a, b, c, d]| vec![0, 0, 8, 7, 0, 0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0]).await;
        assert!(!not_processed(&cut) && is_broken(&cut), "{cut:?}");
        let closed = status_after(|_| Vec::new()).await;
        assert!(!not_processed(&closed) && is_broken(&closed), "{closed:?}");
        let cancelled = status_after(|[a, b, c, d]| vec![0, 0, 4, 3, 0, a, b, c, d, 0, 0, 0, 8]).await;
        assert!(!not_processed(&cancelled), "{cancelled:?}");
    }
}
