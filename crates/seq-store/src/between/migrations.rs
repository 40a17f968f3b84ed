//! Shell of the coordinator of migrations, which does the input and output for the state machine in
//! `seq_core::migration`. On the leader, it sends the coordinator's requests to other sets, commits its proposals, and
//! publishes the planned departures to the control service.
//!
//! Like the arbiter's shell, it evaluates the whole state instead of single events. Its requests are in flight at the
//! same time, so a set that does not respond delays no migration to another set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use metrics::Histogram;
use seq_api::metrics::section_unserved;
use seq_core::arbiter::{Plan, PlannedHandover};
use seq_core::limits;
use seq_core::migration::{Armed, Coordinator, Effect, Proposal};
use seq_core::state::{Arrival, Arrive, Complete, EventKind, Note, Noted, StartReturn, State};
use seq_core::{Incarnation, Lineage, MigrationId, NodeId, SectionId, SetId};
use seq_kit::telemetry::traces::{Span, TraceId};
use seq_proto::{inter_set, v1};
use seq_raft::ProposeError;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tonic::Status;

use super::Between;
use super::link::Member;
use super::migration_spans as spans;
use super::progress::{Observations, Progress};

/// Minimum time between two evaluations of the state. It limits their number, because log entries are applied far more
/// often than sections move.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Interval at which progress is published while no migration's number of sections in flight changes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Departures that the owners of sections should make now, in the order of the sections.
pub(crate) type Departures = Arc<Vec<PlannedHandover>>;

/// Task that runs the coordinator while this member leads.
pub(crate) struct Migrations {
    between: Between,
    departures: watch::Sender<Departures>,
    progress: watch::Sender<Arc<Progress>>,
    observed: BTreeMap<MigrationId, Observations>,
    /// Time at which progress was last published, and the number of each migration's sections that were in flight then.
    published: Option<(Instant, BTreeMap<MigrationId, usize>)>,
    /// Pauses of the sections that arrived in other sets.
    unserved: Histogram,
    /// Migrations that do not advance, each with the cause, for which the event log is to get an event.
    stuck: Vec<(MigrationId, String)>,
}

/// Outcome of a request, and the id of its trace for log lines.
type Traced = (Outcome, Option<TraceId>);

/// Request that is sent as soon as it is spawned.
type Underway = BoxFuture<'static, Traced>;

/// Outcome of a request of the coordinator: its response, or the error.
enum Outcome {
    Armed(MigrationId, Result<Vec<Armed>, Status>),
    Arrived(SetId, Arrive, Result<(Lineage, Vec<Arrival>), Status>),
    /// Outcome of a request that asks a set to note the end of a migration. If the request succeeds, the outcome
    /// contains the set's lineage.
    Ended(SetId, MigrationId, Result<Lineage, Status>),
    /// Outcome of asking a restored set whether it still knows a migration that began in it. If the request succeeds,
    /// the outcome contains the set's lineage and whether it knows the migration.
    Asked(SetId, MigrationId, Result<(Lineage, bool), Status>),
    /// Outcome of a request to start a return that is not settled yet.
    Returning(MigrationId, Result<(), Status>),
    Proposed(Result<(), ProposeError>),
}

impl Outcome {
    /// Returns the reason why the request failed, or `None` if it succeeded.
    fn failure(&self) -> Option<String> {
        let status = match self {
            Outcome::Armed(_, Err(status))
            | Outcome::Arrived(_, _, Err(status))
            | Outcome::Ended(_, _, Err(status))
            | Outcome::Asked(_, _, Err(status))
            | Outcome::Returning(_, Err(status)) => status,
            Outcome::Proposed(Err(error)) => return Some(error.to_string()),
            Outcome::Armed(..)
            | Outcome::Arrived(..)
            | Outcome::Ended(..)
            | Outcome::Asked(..)
            | Outcome::Returning(..)
            | Outcome::Proposed(_) => return None,
        };
        Some(status.message().to_owned())
    }
}

impl Migrations {
    /// Creates the task of the set `name`, a receiver of its planned departures, and a receiver of the progress that it
    /// observes.
    pub(crate) fn new(
        between: Between,
        name: &str,
    ) -> (Migrations, watch::Receiver<Departures>, watch::Receiver<Arc<Progress>>) {
        let (departures, planned) = watch::channel(Departures::default());
        let (progress, observed) = watch::channel(Arc::default());
        let unserved = section_unserved(name, "migration");
        let driver = Migrations {
            between,
            departures,
            progress,
            observed: BTreeMap::new(),
            published: None,
            unserved,
            stuck: Vec::new(),
        };
        (driver, planned, observed)
    }

    /// Evaluates the state after each change and carries out the coordinator's decisions while this member leads. Runs
    /// until the future is dropped, or until the Raft library has stopped.
    pub(crate) async fn run(mut self) {
        let mut changes = self.between.replicated.raft().changes();
        let mut plan = self.between.plan.clone();
        // The coordinator is created when this member begins to lead and dropped when it no longer leads, so no timer
        // outlives a term.
        let mut machine: Option<Coordinator> = None;
        // Requests are tasks, so that none waits for the next evaluation to be sent, or to receive its response.
        let mut under_way: JoinSet<Traced> = JoinSet::new();
        let origin = Instant::now();
        loop {
            let mut evaluate_at = None;
            if self.between.replicated.raft().is_leader() {
                let machine = machine.get_or_insert_with(Coordinator::default);
                for effect in self.evaluate(machine, origin) {
                    if let Some(request) = self.carry_out(effect) {
                        under_way.spawn(request);
                    }
                }
                evaluate_at = machine.next_deadline().map(|at| origin + at);
                self.publish(Some(machine));
            } else if machine.take().is_some() {
                under_way = JoinSet::new();
                self.observed.clear();
                self.publish(None);
            }
            tokio::time::sleep(MIN_INTERVAL).await;
            let timer = async {
                match evaluate_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let ended = tokio::select! {
                () = timer => None,
                changed = changes.changed() => if changed.is_err() { return } else { None },
                changed = plan.changed() => if changed.is_err() { return } else { None },
                Some(ended) = under_way.join_next() => Some(ended),
            };
            // Outcomes that are available at the same time are processed together, whatever ended the wait.
            let ended: Vec<_> = ended.into_iter().chain(std::iter::from_fn(|| under_way.try_join_next())).collect();
            for outcome in ended.into_iter().filter_map(completed) {
                let Some(machine) = machine.as_mut() else { break };
                if let Some(request) = self.on_outcome(machine, outcome, origin.elapsed()) {
                    under_way.spawn(request);
                }
            }
            for note in self.notes() {
                under_way.spawn(note);
            }
        }
    }

    fn evaluate(&mut self, machine: &mut Coordinator, origin: Instant) -> Vec<Effect> {
        let plan = self.between.plan.borrow().clone();
        let effects = self.between.replicated.read(|state| {
            self.between.arrivals.forget_noted(state);
            let living = |node, incarnation| is_living(state, &plan, node, incarnation);
            machine.evaluate(state, &plan.stranded, living, origin.elapsed())
        });
        let now = Instant::now();
        for (migration, pause) in machine.take_arrived() {
            self.unserved.record(pause);
            self.observed.entry(migration).or_default().arrived(now, pause);
        }
        effects
    }

    /// Passes the outcome of a request to the coordinator. Returns the next request, if the coordinator requires one.
    fn on_outcome(
        &mut self,
        machine: &mut Coordinator,
        (outcome, trace): (Outcome, Option<TraceId>),
        now: Duration,
    ) -> Option<Underway> {
        let effect = match outcome {
            Outcome::Armed(migration, Ok(armed)) => machine.on_armed(migration, &armed, now)?,
            Outcome::Armed(migration, Err(status)) => {
                machine.on_arm_refused(migration, now);
                self.stuck(migration, &status, trace);
                return None;
            }
            Outcome::Arrived(set, arrive, Ok((lineage, outcome))) => {
                let known = |outcome: &Arrival| matches!(outcome, Arrival::Arrived | Arrival::Past);
                let pairs = arrive.sections.iter().zip(&outcome).filter(|(_, outcome)| known(outcome));
                self.between.arrivals.confirm(pairs.map(|(one, _)| (one.section, one.epoch)));
                machine.on_arrive((set, lineage), &arrive, &outcome)?
            }
            Outcome::Arrived(_, arrive, Err(status)) => {
                let migrations: std::collections::BTreeSet<_> =
                    arrive.sections.iter().map(|one| one.migration).collect();
                migrations.into_iter().for_each(|migration| self.stuck(migration, &status, trace));
                return None;
            }
            Outcome::Ended(set, migration, Ok(lineage)) => machine.on_end((set, lineage), migration),
            Outcome::Asked(set, migration, Ok((lineage, knows))) => {
                let on_asked = |state: &State| machine.on_asked(state, (set, lineage), migration, knows);
                let effect = self.between.replicated.read(on_asked)?;
                tracing::info!(
                    set = set.0,
                    migration = migration.0,
                    "a restored set does not know the migration any more: what arrived by it stays"
                );
                effect
            }
            Outcome::Asked(set, migration, Err(status)) => {
                tracing::debug!(set = set.0, migration = migration.0, status = status.message(), "not asked yet");
                return None;
            }
            Outcome::Ended(_, migration, Err(status)) | Outcome::Returning(migration, Err(status)) => {
                self.stuck(migration, &status, trace);
                return None;
            }
            Outcome::Returning(_, Ok(())) | Outcome::Proposed(Ok(())) => return None,
            Outcome::Proposed(Err(error)) => {
                // The coordinator proposes it again, because the state still requires it.
                tracing::debug!(%error, "a step of a migration is not committed yet");
                return None;
            }
        };
        self.carry_out(effect)
    }

    fn stuck(&mut self, migration: MigrationId, status: &Status, trace: Option<TraceId>) {
        let trace = trace.map(tracing::field::display);
        let status = status.message();
        if self.observed.entry(migration).or_default().failed(Instant::now(), status) {
            let event = EventKind::MigrationStuck.name();
            tracing::warn!(event, migration = migration.0, status, trace, "a migration does not advance");
            self.stuck.push((migration, status.to_owned()));
        } else {
            tracing::debug!(migration = migration.0, status, trace, "a step of a migration failed");
        }
    }

    /// Begins the proposals of notes about migrations that do not advance. A note that fails is not repeated, because
    /// the next leader makes its own observations.
    fn notes(&mut self) -> Vec<Underway> {
        let stuck = std::mem::take(&mut self.stuck).into_iter().filter(|_| self.between.replicated.keeps_events());
        let note = |(migration, mut cause): (MigrationId, String)| {
            cause.truncate(cause.floor_char_boundary(limits::MAX_EVENT_CAUSE_BYTES));
            let (set, about) = (self.between.replicated.clone(), Noted::Stuck { migration, cause });
            let propose = async move {
                let unix_ms = set.raft().clock_ms();
                Outcome::Proposed(set.propose(Note { unix_ms, about }).await.map(drop))
            };
            spans::follow(Span::none(), Box::pin(propose), Outcome::failure)
        };
        stuck.map(note).collect()
    }

    /// Begins the request or the proposal that an effect of the coordinator requires. Returns `None` if the request
    /// cannot be sent, because this set is not defined.
    fn carry_out(&self, effect: Effect) -> Option<Underway> {
        let span = spans::of(&effect);
        Some(spans::follow(span, self.request(effect)?, Outcome::failure))
    }

    fn request(&self, effect: Effect) -> Option<BoxFuture<'static, Outcome>> {
        let between = self.between.clone();
        Some(match effect {
            Effect::Arm { migration, to, sections } => Box::pin(async move {
                let armed = arm(&between, migration, to, &sections).await;
                Outcome::Armed(migration, armed)
            }),
            Effect::Arrive { to, arrive } => {
                let request = inter_set::to_arrive(&arrive, between.head(to)?);
                Box::pin(async move {
                    let method = async |mut member: Member, request| member.arrive(request).await;
                    let response = between.links.call(to, request, method).await;
                    let outcome = response.map(|one| (Lineage(one.lineage), inter_set::arrivals(&one)));
                    Outcome::Arrived(to, arrive, outcome)
                })
            }
            Effect::StartReturn { to, start } => {
                let head = between.head(to)?;
                Box::pin(async move { start_return(&between, head, to, start).await })
            }
            Effect::Complete { to, complete: Complete { id, .. } } => {
                let request = v1::CompleteArrivalRequest { between: Some(between.head(to)?), migration_id: id.0 };
                Box::pin(async move {
                    let method = async |mut member: Member, request| member.complete_arrival(request).await;
                    let response = between.links.call(to, request, method).await;
                    Outcome::Ended(to, id, response.map(|one| Lineage(one.lineage)))
                })
            }
            Effect::Ask { of, migration } => Box::pin(async move {
                let asked = between.knows_migration(of, migration).await;
                Outcome::Asked(of, migration, asked)
            }),
            Effect::Commit(proposal) => Box::pin(async move { Outcome::Proposed(propose(&between, proposal).await) }),
        })
    }

    fn publish(&mut self, machine: Option<&Coordinator>) {
        let planned: Vec<PlannedHandover> =
            machine.into_iter().flat_map(|machine| machine.planned().cloned()).collect();
        self.departures.send_if_modified(|published| {
            let newer = **published != planned;
            if newer {
                *published = Arc::new(planned);
            }
            newer
        });
        let now = Instant::now();
        let in_flight = machine.map(Coordinator::in_flight_by_migration).unwrap_or_default();
        let stands =
            |(at, published): &(Instant, _)| now.duration_since(*at) < PROGRESS_INTERVAL && *published == in_flight;
        if machine.is_some() && self.published.as_ref().is_some_and(stands) {
            return;
        }
        for migration in in_flight.keys() {
            self.observed.entry(*migration).or_default();
        }
        let progress = self.observed.iter_mut().map(|(migration, observed)| {
            let in_flight = in_flight.get(migration).copied().unwrap_or_default();
            (*migration, observed.progress(now, in_flight))
        });
        self.progress.send_replace(Arc::new(progress.collect()));
        self.published = Some((now, in_flight));
    }
}

/// Returns the outcome of a request, or `None` if the request was dropped because this member leads no more.
///
/// # Panics
/// If the request panicked.
fn completed(ended: Result<Traced, JoinError>) -> Option<Traced> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(outcome) => Some(outcome),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

fn is_living(state: &State, plan: &Plan, node: NodeId, incarnation: Incarnation) -> bool {
    plan.living.contains(&node) && state.node(node).is_some_and(|record| record.incarnation == incarnation)
}

async fn arm(
    between: &Between,
    migration: MigrationId,
    to: SetId,
    sections: &[SectionId],
) -> Result<Vec<Armed>, Status> {
    let layout_id = between.replicated.read(|state| {
        let last = sections.iter().max()?;
        state.set.as_ref()?.layout.id_of(*last)
    });
    let (Some(layout_id), Some(head)) = (layout_id, between.head(to)) else {
        return Err(Status::unavailable("this set is not defined yet"));
    };
    let request = v1::ArmRequest {
        between: Some(head),
        migration_id: migration.0,
        layout_id: layout_id.0,
        sections: sections.iter().map(|section| section.0).collect(),
    };
    let method = async |mut member: Member, request| member.arm(request).await;
    let v1::ArmResponse { lineage, sections, owners, nodes, .. } = between.links.call(to, request, method).await?;
    let armed = sections.iter().zip(&owners).filter_map(|(section, owner)| {
        let node = nodes.get(*owner as usize)?;
        Some(Armed {
            section: SectionId(*section),
            set: (to, Lineage(lineage)),
            owner: (NodeId(node.id), Incarnation(node.incarnation)),
            addr: node.addr.clone(),
        })
    });
    Ok(armed.collect())
}

async fn start_return(between: &Between, head: v1::Between, to: SetId, start: StartReturn) -> Outcome {
    let StartReturn { of, id, pace, settled, .. } = start;
    let request = v1::StartReturnRequest {
        between: Some(head),
        of_migration_id: of.0,
        return_id: id.0,
        rate: pace.rate,
        max_pause_ms: u32::try_from(pace.max_pause.as_millis()).unwrap_or(u32::MAX),
        settled,
    };
    let method = async |mut member: Member, request| member.start_return(request).await;
    let response = between.links.call(to, request, method).await;
    match response {
        Ok(response) if settled => Outcome::Ended(to, of, Ok(Lineage(response.lineage))),
        Ok(_) => Outcome::Returning(of, Ok(())),
        Err(status) => Outcome::Returning(of, Err(status)),
    }
}

/// Proposes a decision of the coordinator. The output is not needed, because the state then shows the result.
async fn propose(between: &Between, proposal: Proposal) -> Result<(), ProposeError> {
    let set = &between.replicated;
    match proposal {
        Proposal::Arrived(arrived) => set.propose(arrived).await.map(drop),
        Proposal::Complete(complete) => set.propose(complete).await.map(drop),
        Proposal::DepartSilent(departs) => set.propose(departs).await.map(drop),
    }
}
