//! Raises without pause while a test changes the store: each raise is repeated until it is acknowledged, and every
//! acknowledged raise must still be there at the end.

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use futures::future::{Either, join_all, select};
use seq_proto::status;
use seq_proto::v1::RegisterResponse;
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_testkit::until;
use tonic::Code;
use tonic::transport::Channel;

use crate::cluster::{Cluster, TIMEOUT, channel, raise_request};

/// Timeout of one call.
const CALL: Duration = Duration::from_secs(2);

/// Sections that are raised concurrently.
const SECTIONS: u32 = 4;

/// Raises of one incarnation of an AllocSvr.
pub(crate) struct Load {
    session: RegisterResponse,
    epochs: Vec<u64>,
    members: Vec<ControlServiceClient<Channel>>,
    /// The last acknowledged ceiling of each section.
    ceilings: Vec<Cell<u64>>,
}

impl Load {
    /// Takes all sections of the set; the store must be ready.
    pub(crate) async fn begin(cluster: &Cluster) -> Load {
        let session = cluster.register("a1", 1).await;
        let (_, owned) = cluster.owns(&session, 10).await;
        let epochs = owned.epochs[..SECTIONS as usize].to_vec();
        let ceilings = epochs.iter().map(|_| Cell::new(0)).collect();
        let members = cluster.spec.stores.iter().map(|store| ControlServiceClient::new(channel(&store.addr))).collect();
        Load { session, epochs, members, ceilings }
    }

    /// Raises until the future of the test is ready.
    pub(crate) async fn beside<T>(&self, test: impl Future<Output = T>) -> T {
        let raises = join_all((0..SECTIONS).map(|section| self.raise_on(section)));
        match select(Box::pin(test), Box::pin(raises)).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => unreachable!("raises have no end"),
        }
    }

    /// Returns the number of raises acknowledged so far.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.ceilings.iter().map(Cell::get).sum()
    }

    /// Waits for this many more acknowledged raises.
    pub(crate) async fn more(&self, raises: u64) {
        let goal = self.acknowledged() + raises;
        until("raises are acknowledged", async || (self.acknowledged() >= goal).then_some(())).await;
    }

    /// Checks that every acknowledged raise is in the store, and that the store takes more raises.
    pub(crate) async fn check(&self, cluster: &Cluster) {
        for (section, ceiling) in (0..).zip(&self.ceilings) {
            // A raise that is not above the ceiling returns the ceiling.
            let epoch = self.epochs[section as usize];
            let stored = cluster.raise(&self.session, section, epoch, 1).await.unwrap();
            // The raise that the end of the test interrupted may be included, too.
            let acknowledged = ceiling.get();
            assert!((acknowledged..=acknowledged + 1).contains(&stored), "{stored} for {acknowledged}");
            assert_eq!(cluster.raise(&self.session, section, epoch, stored + 1).await.unwrap(), stored + 1);
            ceiling.set(stored + 1);
        }
        assert!(self.acknowledged() > 0);
    }

    /// Raises one section by one number at a time, without end.
    async fn raise_on(&self, section: u32) -> std::convert::Infallible {
        let index = section as usize;
        loop {
            let to = self.ceilings[index].get() + 1;
            let acknowledged = tokio::time::timeout(TIMEOUT, self.raise(section, to)).await.expect("a raise in time");
            assert_eq!(acknowledged, to, "section {section} was raised by another node");
            self.ceilings[index].set(to);
        }
    }

    /// Repeats one raise until a member acknowledges it. No refusal may be permanent.
    async fn raise(&self, section: u32, to: u64) -> u64 {
        loop {
            for member in &self.members {
                let request = raise_request(&self.session, section, self.epochs[section as usize], to);
                match tokio::time::timeout(CALL, member.clone().raise_ceilings(request)).await {
                    Ok(Ok(response)) => return response.into_inner().ceilings[0],
                    Ok(Err(status)) => {
                        // This is a refusal of the member, and not a connection that breaks as the member stops.
                        let refused = status::reason(&status).is_some();
                        let passing = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
                        assert!(passing || !refused, "{status:?}");
                    }
                    Err(_) => {}
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
