//! JSON over HTTP/1.1, with one connection per worker and one call at a time.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::AUTHORIZATION;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use seq_channel::Access;
use seq_core::Seq;
use seq_proto::reason::ClientReason;

use super::{EndpointOptions, failure};
use crate::reply::Reply;

/// The application protocol of HTTP/1.1.
const HTTP1: &[u8] = b"http/1.1";

type Connection = Pin<Box<dyn Future<Output = hyper::Result<()>>>>;

pub(crate) struct Transport {
    addr: String,
    access: Access,
    deadline: Duration,
    batch: usize,
    open: Option<(SendRequest<Full<Bytes>>, Connection)>,
}

impl Transport {
    pub(crate) async fn connect(addr: &str, options: &EndpointOptions) -> io::Result<Transport> {
        let mut transport = Transport {
            addr: addr.to_owned(),
            access: options.access.clone(),
            deadline: options.deadline,
            batch: options.batch,
            open: None,
        };
        transport.dial().await?;
        Ok(transport)
    }

    async fn dial(&mut self) -> io::Result<()> {
        let stream = self.access.connect(&self.addr, Some(HTTP1)).await?;
        let (send, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        self.open = Some((send, Box::pin(connection)));
        Ok(())
    }

    async fn call(&mut self, uids: &[u64]) -> io::Result<Vec<Reply>> {
        if self.open.is_none() {
            self.dial().await?;
        }
        let (send, connection) = self.open.as_mut().expect("it was dialled");
        let (method, body) = match uids {
            [uid] if self.batch == 1 => ("Next", serde_json::json!({ "uid": uid.to_string(), "count": 1 })),
            uids => {
                let uids: Vec<String> = uids.iter().map(u64::to_string).collect();
                ("NextMany", serde_json::json!({ "uids": uids }))
            }
        };
        let mut request = Request::post(format!("/seqsvr.v1.SequenceService/{method}"))
            .header("host", &*self.addr)
            .header("content-type", "application/json")
            .header("connect-timeout-ms", self.deadline.as_millis().to_string())
            .body(Full::from(body.to_string()))
            .map_err(io::Error::other)?;
        if let Some(bearer) = &self.access.bearer {
            request.headers_mut().insert(AUTHORIZATION, bearer.header().clone());
        }
        let exchange = async {
            let response: Response<_> = send.send_request(request).await?;
            let ok = response.status().is_success();
            Ok::<_, hyper::Error>((ok, response.into_body().collect().await?.to_bytes()))
        };
        let (ok, body) = tokio::select! {
            reply = exchange => reply.map_err(io::Error::other)?,
            _ = connection => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        let body: serde_json::Value = serde_json::from_slice(&body)?;
        Ok(if ok { replies(&body, uids.len())? } else { vec![refused(&body); uids.len()] })
    }
}

impl super::Transport for Transport {
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
        for uids in uids.chunks(self.batch) {
            let error = match tokio::time::timeout(self.deadline, self.call(uids)).await {
                Ok(Ok(received)) => {
                    replies.extend(received);
                    continue;
                }
                Ok(Err(error)) => failure(ClientReason::ConnectionLost.name(), &error.to_string(), true),
                Err(_) => failure(ClientReason::DeadlineExceeded.name(), "no reply in time", true),
            };
            self.open = None;
            replies.extend(std::iter::repeat_n(error, uids.len()));
        }
    }
}

/// Decodes the body of a successful response. As in proto3 JSON, fields that are 0 or empty may be absent.
fn replies(body: &serde_json::Value, items: usize) -> io::Result<Vec<Reply>> {
    let number = |value: &serde_json::Value| value.as_str().and_then(|text| text.parse().ok());
    let given = |value: Option<u64>, prev: Option<u64>| match value {
        Some(value) if value > 0 => Reply::Given { value: Seq(value), prev: Seq(prev.unwrap_or(0)), lost: 0 },
        _ => failure("REFUSED", "an item without a number", false),
    };
    let (values, prevs) = (&body["values"], &body["prevs"]);
    let replies: Vec<Reply> = match values.as_array() {
        None => vec![given(number(&body["value"]), number(&body["prev"]))],
        Some(values) => {
            values.iter().enumerate().map(|(index, value)| given(number(value), number(&prevs[index]))).collect()
        }
    };
    let fits = replies.len() == items;
    fits.then_some(replies).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "the response has another number of items than the request")
    })
}

/// Converts the refusal of a whole request to a reply.
fn refused(body: &serde_json::Value) -> Reply {
    let code = body["code"].as_str().unwrap_or("unknown");
    failure(&code.to_uppercase(), body["message"].as_str().unwrap_or_default(), code == "deadline_exceeded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_as_proto3_json_writes_them() {
        let one = replies(&serde_json::json!({ "value": "7", "prev": "6", "epoch": "1" }), 1).unwrap();
        assert!(matches!(one[..], [Reply::Given { value: Seq(7), prev: Seq(6), .. }]));
        let many = replies(&serde_json::json!({ "values": ["7", "0"], "prevs": ["0", "0"] }), 2).unwrap();
        assert!(matches!(many[..], [Reply::Given { .. }, Reply::Failed(_)]));
        assert!(replies(&serde_json::json!({ "values": ["7"] }), 2).is_err());
    }
}
