//! Bare clients of the store's control service. They check that no acknowledged ceiling is lost, no epoch is granted to
//! two nodes, and no request of an old incarnation or epoch is accepted.
//!
//! A raiser registers like an AllocSvr and raises the ceilings of its sections. Half of its raises are to 1: the store
//! never lowers a ceiling, so the response has the stored ceiling, including the raises of others.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use seq_channel::{Dial, Pool};
use seq_proto::reason::{Reason, key};
use seq_proto::status;
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_proto::v1::{
    OwnershipUpdate, RaiseCeilingsRequest, RaiseCeilingsResponse, RegisterRequest, RegisterResponse, RenewRequest,
};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_types::StatusExt;

use crate::net;
use crate::report::Report;

/// Timeout of one call to one member: a commit takes two round trips, and an election less than a second.
const CALL: Duration = Duration::from_millis(500);

/// Pause after no member responded.
const AGAIN: Duration = Duration::from_millis(50);

/// Lease, as of an AllocSvr. A leader that no AllocSvr reaches for half a lease transfers leadership, so the lease is
/// longer than a turn that waits for [`CALL`] at the other members.
const LEASE_MS: u64 = 2_000;

/// Most sections in one call.
const BATCH: usize = 4;

/// Reasons that end an incarnation.
const SESSION_OVER: [Reason; 4] =
    [Reason::OtherIncarnation, Reason::OtherRenewal, Reason::UnknownNode, Reason::OtherPredecessor];

/// A permanent refusal.
#[derive(Debug)]
struct Refused {
    reason: String,
    /// The number on record that it concerns; 0 if it concerns none.
    current: u64,
}

impl Refused {
    fn of(status: &Status, reason: String) -> Refused {
        let details = status.get_error_details();
        let current = details.error_info().and_then(|info| info.metadata.get(key::CURRENT)?.parse().ok());
        Refused { reason, current: current.unwrap_or(0) }
    }
}

/// The responses that all raisers together received. Clones share them.
#[derive(Clone, Debug)]
pub struct Ceilings {
    known: Rc<RefCell<Known>>,
    report: Report,
}

#[derive(Debug)]
struct Known {
    /// The largest ceiling acknowledged, by section.
    acknowledged: Vec<u64>,
    /// The largest epoch granted, by section.
    epochs: Vec<u64>,
    /// The node and incarnation that was granted an epoch of a section.
    owners: BTreeMap<(u32, u64), (u32, u64)>,
    /// Sections with an acknowledged raise since everything healed.
    raised_again: BTreeSet<u32>,
}

impl Ceilings {
    /// Creates an empty record of `sections` sections.
    #[must_use]
    pub fn new(sections: usize, report: Report) -> Ceilings {
        let known = Known {
            acknowledged: vec![0; sections],
            epochs: vec![0; sections],
            owners: BTreeMap::new(),
            raised_again: BTreeSet::new(),
        };
        Ceilings { known: Rc::new(RefCell::new(known)), report }
    }

    /// Returns the number of sections whose ceiling was raised since everything healed.
    #[must_use]
    pub fn raised_again(&self) -> usize {
        self.known.borrow().raised_again.len()
    }

    /// Returns the acknowledged ceilings and epochs. The response to a later request may not be below them.
    fn floors(&self) -> (Vec<u64>, Vec<u64>) {
        let known = self.known.borrow();
        (known.acknowledged.clone(), known.epochs.clone())
    }

    fn granted(&self, session: Session, answer: &OwnershipUpdate, floors: &(Vec<u64>, Vec<u64>)) {
        let mut known = self.known.borrow_mut();
        for ((&section, &epoch), &ceiling) in answer.sections.iter().zip(&answer.epochs).zip(&answer.ceilings) {
            let at = section as usize;
            if ceiling < floors.0[at] {
                let floor = floors.0[at];
                self.report.violation(format_args!("section {section} is granted at {ceiling}, below {floor}"));
            }
            if epoch < floors.1[at] {
                let floor = floors.1[at];
                self.report.violation(format_args!("section {section} is granted in epoch {epoch}, after {floor}"));
            }
            let owner = (session.node, session.incarnation);
            let first = *known.owners.entry((section, epoch)).or_insert(owner);
            if first != owner {
                self.report.violation(format_args!("epoch {epoch} of section {section} has two: {first:?}, {owner:?}"));
            }
            known.epochs[at] = known.epochs[at].max(epoch);
        }
    }

    fn raised(&self, section: u32, wanted: u64, ceiling: u64, floors: &[u64]) {
        let mut known = self.known.borrow_mut();
        let floor = floors[section as usize];
        if ceiling < wanted.max(floor) {
            let text = format!("section {section}: asked for {wanted} after {floor}, answered {ceiling}");
            self.report.violation(text);
        }
        let acknowledged = &mut known.acknowledged[section as usize];
        *acknowledged = ceiling.max(*acknowledged);
        if self.report.is_healed() {
            known.raised_again.insert(section);
        }
    }
}

/// A bare caller.
#[derive(Clone, Debug)]
pub struct Raiser {
    /// Its name among the set's AllocSvrs.
    pub name: String,
    /// The set's name.
    pub set: String,
    /// Addresses of the store's members.
    pub stores: Vec<String>,
    /// The responses that all raisers received.
    pub ceilings: Ceilings,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    node: u32,
    incarnation: u64,
}

/// Runs one incarnation after the other until the run is over.
///
/// # Errors
/// Never; errors are violations in the report.
pub async fn run(raiser: Raiser) -> turmoil::Result {
    let pool = Pool::with_dial(1, Dial::new(net::dial));
    let mut link = Link { pool, members: raiser.stores.clone(), turn: 0, report: raiser.ceilings.report.clone() };
    let mut last = None;
    while let Some(session) = register(&raiser, &mut link).await {
        if let Some(last) = last
            && !is_refused(&raiser, &mut link, last).await
        {
            raiser
                .ceilings
                .report
                .violation(format_args!("{}: a request of a session that is over was accepted", raiser.name));
        }
        last = Some(session);
        if live(&raiser, &mut link, session).await.is_none() {
            break;
        }
    }
    Ok(())
}

async fn register(raiser: &Raiser, link: &mut Link) -> Option<Session> {
    let mut request = RegisterRequest {
        set: raiser.set.clone(),
        node: raiser.name.clone(),
        addr: net::addr(&raiser.name),
        token: fastrand::u64(1..),
        lease_ms: LEASE_MS,
        ..RegisterRequest::default()
    };
    loop {
        match link.call(request.clone(), async |mut to, request| to.register(request).await).await? {
            Ok(RegisterResponse { node_id, incarnation, .. }) => return Some(Session { node: node_id, incarnation }),
            Err(Refused { reason, current }) if reason == Reason::OtherPredecessor => request.follows = current,
            Err(Refused { reason, .. }) => {
                raiser.ceilings.report.violation(format_args!("{}: registering was refused: {reason}", raiser.name));
                return None;
            }
        }
    }
}

/// Returns whether a raise by an incarnation that is over is refused.
async fn is_refused(raiser: &Raiser, link: &mut Link, session: Session) -> bool {
    let request = raises(session, &[(0, 1, 1)]);
    let answer = link.call(request, async |mut to, request| to.raise_ceilings(request).await).await;
    raiser.ceilings.report.count("requests of an earlier session refused");
    !matches!(answer, Some(Ok(_)))
}

/// Renews and raises until the incarnation ends; returns `None` if the run is over.
async fn live(raiser: &Raiser, link: &mut Link, session: Session) -> Option<()> {
    let (ceilings, report) = (&raiser.ceilings, &raiser.ceilings.report);
    let mut owned: Vec<(u32, u64)> = Vec::new();
    let mut renew_seq = 1;
    loop {
        if owned.is_empty() || fastrand::u8(..3) == 0 {
            let floors = ceilings.floors();
            let request = RenewRequest {
                node_id: session.node,
                incarnation: session.incarnation,
                renew_seq,
                ..RenewRequest::default()
            };
            match link.call(request, async |mut to, request| to.renew(request).await).await? {
                Ok(answer) => {
                    let update = answer.update.unwrap_or_default();
                    ceilings.granted(session, &update, &floors);
                    owned = update.sections.into_iter().zip(update.epochs).collect();
                    renew_seq += 1;
                }
                Err(Refused { reason, .. }) => {
                    report.note(format_args!("{}: {reason}", raiser.name));
                    return Some(());
                }
            }
        } else if let Err(Refused { reason, .. }) = raise(raiser, link, session, &owned).await? {
            report.note(format_args!("{}: {reason}", raiser.name));
            return Some(());
        }
        if fastrand::u8(..) == 0 {
            report.count("sessions begun anew");
            return Some(());
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(5..60))).await;
    }
}

/// Raises a few of the owned sections, now and then under an epoch that is over. Returns `Err` if the incarnation is
/// over.
async fn raise(
    raiser: &Raiser,
    link: &mut Link,
    session: Session,
    owned: &[(u32, u64)],
) -> Option<Result<(), Refused>> {
    let (ceilings, report) = (&raiser.ceilings, &raiser.ceilings.report);
    let mut chosen = BTreeMap::new();
    for _ in 0..fastrand::usize(1..=BATCH) {
        let (section, epoch) = owned[fastrand::usize(..owned.len())];
        chosen.insert(section, epoch);
    }
    let is_old = chosen.values().all(|epoch| *epoch > 1) && fastrand::u8(..16) == 0;
    let (floors, _) = ceilings.floors();
    let items: Vec<(u32, u64, u64)> = chosen
        .into_iter()
        .map(|(section, epoch)| {
            let to = if fastrand::bool() { 1 } else { floors[section as usize] + fastrand::u64(1..1_000) };
            (section, epoch - u64::from(is_old), to)
        })
        .collect();
    let request = raises(session, &items);
    let answer = match link.call(request, async |mut to, request| to.raise_ceilings(request).await).await? {
        Ok(RaiseCeilingsResponse { ceilings, .. }) => ceilings,
        Err(refused) => return Some(Err(refused)),
    };
    if answer.len() != items.len() {
        report.violation(format_args!("{} raises are answered by {}", items.len(), answer.len()));
    }
    for ((section, epoch, to), ceiling) in items.into_iter().zip(answer) {
        match (ceiling, is_old) {
            (0, true) => report.count("raises of an earlier epoch refused"),
            (0, false) => report.count("raises refused"),
            (_, true) => report.violation(format_args!("section {section}: epoch {epoch} is over and was raised")),
            (_, false) => {
                report.count("raises acknowledged");
                ceilings.raised(section, to, ceiling, &floors);
            }
        }
    }
    Some(Ok(()))
}

fn raises(session: Session, raises: &[(u32, u64, u64)]) -> RaiseCeilingsRequest {
    RaiseCeilingsRequest {
        node_id: session.node,
        incarnation: session.incarnation,
        sections: raises.iter().map(|raise| raise.0).collect(),
        epochs: raises.iter().map(|raise| raise.1).collect(),
        ceilings: raises.iter().map(|raise| raise.2).collect(),
        // A whole update, because no routes are kept; the update in the response is not read.
        route_version: 0,
    }
}

/// Connections to the store, with the leader first.
struct Link {
    pool: Pool,
    members: Vec<String>,
    turn: usize,
    report: Report,
}

impl Link {
    /// Retries until a leader responds or refuses with a permanent reason; returns `None` if the run is over before.
    async fn call<Q: Clone, A>(
        &mut self,
        request: Q,
        method: impl AsyncFn(ControlServiceClient<Channel>, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Option<Result<A, Refused>> {
        loop {
            for _ in 0..=self.members.len() {
                if self.report.is_over() {
                    return None;
                }
                let member = &self.members[self.turn % self.members.len()];
                let channel = self.pool.get(member).expect("a member has an address");
                let answer = method(ControlServiceClient::new(channel), Request::new(request.clone()));
                let refusal = match tokio::time::timeout(CALL, answer).await {
                    Ok(Ok(answer)) => return Some(Ok(answer.into_inner())),
                    Ok(Err(refusal)) => status::reason(&refusal).map(|reason| Refused::of(&refusal, reason)),
                    Err(_) => None,
                };
                match refusal {
                    Some(refused) if SESSION_OVER.iter().any(|over| refused.reason == *over) => {
                        return Some(Err(refused));
                    }
                    Some(refused) if refused.reason == Reason::NotLeader => {
                        self.report.count("calls to a member that does not lead")
                    }
                    Some(_) => self.report.count("calls refused for now"),
                    None => self.report.count("calls without an answer"),
                }
                self.turn += 1;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
