//! The network between members, whose links can be cut: connections over a cut link break, and new ones are refused.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use seq_store::Dial;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::transport::{Endpoint, Uri};

/// Which members cannot reach each other. Clones are the same network.
#[derive(Clone, Default)]
pub(crate) struct Links {
    /// Addresses of members that are cut off from all others, in both directions.
    alone: Arc<Mutex<BTreeSet<String>>>,
}

impl Links {
    /// Cuts a member off from all others.
    pub(crate) fn cut_off(&self, addr: &str) {
        self.alone.lock().insert(addr.to_owned());
    }

    /// Mends every link.
    pub(crate) fn mend(&self) {
        self.alone.lock().clear();
    }

    /// How the member at `from` dials.
    pub(crate) fn dial(&self, from: &str) -> Dial {
        let (links, from) = (self.clone(), from.to_owned());
        Dial::new(move |endpoint: Endpoint| {
            let (links, from) = (links.clone(), from.clone());
            endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: Uri| {
                let link = Link { links: links.clone(), ends: [from.clone(), uri.authority().unwrap().to_string()] };
                async move {
                    link.check()?;
                    let stream = TcpStream::connect(link.ends[1].parse::<SocketAddr>().unwrap()).await?;
                    stream.set_nodelay(true)?;
                    Ok::<_, io::Error>(TokioIo::new(Wire { link, stream }))
                }
            }))
        })
    }
}

struct Link {
    links: Links,
    ends: [String; 2],
}

impl Link {
    fn check(&self) -> io::Result<()> {
        let alone = self.links.alone.lock();
        if self.ends.iter().any(|end| alone.contains(end)) {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the link is cut"));
        }
        Ok(())
    }
}

struct Wire {
    link: Link,
    stream: TcpStream,
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.link.check()?;
        let read = std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        // What arrived after the cut was never there.
        self.link.check()?;
        Poll::Ready(read)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.link.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
