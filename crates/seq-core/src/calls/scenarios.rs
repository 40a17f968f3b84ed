//! Runs the scenarios in `testdata/calls`. They show the decisions about a call that cannot be served at once.

use alloc::format;
use alloc::string::String;

use super::*;
use crate::testdata::{Command, Machine, Value, run_all};

/// The section of every call.
const SECTION: SectionId = SectionId(5);

/// Time when the call becomes pending, on the clocks of the lease.
const ARRIVED: Duration = Duration::from_secs(100);

#[test]
fn pending_calls_decide_as_their_scenarios_state() {
    run_all("calls", || Scenario {
        call: PendingCall::new(SECTION, (0, Epoch(0)), clocks(), Duration::ZERO, CallTimeouts::DEFAULTS),
        now: Duration::ZERO,
        known: Known::default(),
        unknown: UnknownAttempts::default(),
    });
}

fn clocks() -> Clocks {
    let nanos = ARRIVED.as_nanos() as u64;
    Clocks { boottime: nanos, raw: nanos, realtime: nanos }
}

/// The section's ownership as the node knows it.
#[derive(Default)]
struct Known {
    lease_here: Option<bool>,
    owner: Option<NodeId>,
    expected: bool,
    set: SetRoute,
}

impl Known {
    /// Returns the destination that the routes have for the section.
    fn routed(&self) -> Option<Destination> {
        self.set.other.map(Destination::Set).or(self.owner.map(Destination::Node))
    }
}

impl OwnershipView for Known {
    fn lease_here(&self) -> Option<bool> {
        self.lease_here
    }

    fn other_owner(&self) -> Option<NodeId> {
        self.owner
    }

    fn is_expected(&self) -> bool {
        self.expected
    }

    fn set_route(&self) -> SetRoute {
        self.set
    }
}

/// A call with one item, and the state that the node keeps for it.
struct Scenario {
    call: PendingCall,
    /// Time since the call became pending.
    now: Duration,
    known: Known,
    unknown: UnknownAttempts,
}

impl Machine for Scenario {
    /// Carries out one command of a scenario. The commands are:
    ///
    /// * `call hops= deadline=` makes a call pending, with `epoch=` if the request names an epoch, and with `redirects`
    ///   if the client follows redirects itself. `clock DURATION` lets time pass.
    /// * These commands set the ownership of the section as the node, which is in set 1, knows it: `owned lease=holds`
    ///   or `lease=over`, `routes owner=NODE` or `owner=none`, with `expected` while a handover to the node is in
    ///   progress, and with `epoch=`; `routes set=SET epoch=` if the section is in another set.
    /// * `evaluate`, `watch` and `abandoned` call the function of this name, or `on_abandoned`.
    /// * `served` or `response` without an argument leaves no item pending. With `served blocked=REFUSAL` or `response
    ///   refused=REFUSAL` some items stay pending. With `response moved=SET@EPOCH` a node refuses the items, because
    ///   the section moved to that set.
    /// * `epoch callers= mine= confirmed=` shows the epoch under which an item is served. `confirmed=` is the time when
    ///   the node sent its newest request to which the store has responded, relative to the time when the call became
    ///   pending.
    fn carry_out(&mut self, command: &Command<'_>, out: &mut String) {
        match command.name() {
            "call" => {
                let (hops, deadline) = (command.get("hops"), command.get("deadline"));
                let epoch = command.find("epoch").unwrap_or_default();
                let redirects = if command.has("redirects") { Redirects::Refuse } else { Redirects::Forward };
                let call = PendingCall::new(SECTION, (hops, epoch), clocks(), deadline, CallTimeouts::DEFAULTS);
                self.call = call.with_redirects(redirects);
                self.now = Duration::ZERO;
                self.unknown = UnknownAttempts::default();
            }
            "clock" => {
                self.now += command.word::<Duration>();
                *out += &format!("now {:?}\n", self.now);
            }
            "owned" => {
                let lease = match command.get::<String>("lease").as_str() {
                    "holds" => true,
                    "over" => false,
                    other => command.fail(&format!("`{other}` is no state of a lease")),
                };
                self.known = Known { lease_here: Some(lease), ..Known::default() };
            }
            "routes" => {
                let Owner(owner) = command.find("owner").unwrap_or(Owner(None));
                let epoch = command.find("epoch").unwrap_or_default();
                let set = SetRoute { own: SetId(1), other: command.find("set"), epoch };
                self.known = Known { lease_here: None, owner, expected: command.has("expected"), set };
            }
            "evaluate" => {
                let step = self.call.evaluate(self.now, &self.known);
                *out += &self.describe_step(step);
            }
            "served" => {
                let rest = self.call.on_served(self.now, command.find("blocked"));
                *out += &self.describe_rest(rest);
            }
            "response" => {
                let moved = command.find::<Moved>("moved").map(|Moved(refusal)| refusal);
                let rest = self.call.on_response(self.now, moved.or(command.find("refused")));
                *out += &self.describe_rest(rest);
            }
            "watch" => {
                let watch = self.call.watch(self.now, (self.known.routed(), self.known.set.epoch));
                *out += &self.describe_watch(watch);
            }
            "abandoned" => self.call.on_abandoned(),
            "epoch" => *out += &self.epoch(command),
            _ => command.unknown(),
        }
        if self.call.take_renewal() {
            *out += "renew now\n";
        }
    }
}

impl Scenario {
    fn epoch(&self, command: &Command<'_>) -> String {
        let confirmed = command.get::<String>("confirmed");
        // The time of a request that was sent before the call arrived has a minus sign.
        let confirmed = match confirmed.strip_prefix('-') {
            Some(before) => ARRIVED.saturating_sub(Value::parse(before).unwrap_or_else(|| command.fail("no duration"))),
            None => ARRIVED + Value::parse(&confirmed).unwrap_or_else(|| command.fail("no duration")),
        };
        let (callers, mine) = (command.get("callers"), command.get("mine"));
        match self.call.epoch(callers, mine, confirmed.as_nanos() as u64) {
            Ok(epoch) => format!("serve under epoch {epoch}\n"),
            Err(refusal) => format!("blocked: {refusal}\n"),
        }
    }

    fn describe_step(&self, step: Step) -> String {
        match step {
            Step::Serve => String::from("serve here\n"),
            Step::Forward(to) => format!("forward to node {to}\n"),
            Step::ForwardToSet(set) => format!("forward to set {set}, under epoch {}\n", self.call.route_epoch()),
            Step::Rest(rest) => self.describe_rest(rest),
        }
    }

    fn describe_rest(&self, rest: Rest) -> String {
        match rest {
            Rest::Done => format!("done{}\n", self.attempts()),
            Rest::Wait(wait) => describe_wait(wait),
            Rest::Refuse(refusal) => self.refuse(refusal),
        }
    }

    fn describe_watch(&mut self, watch: Watch) -> String {
        match watch {
            Watch::Wait(wait) => describe_wait(wait),
            Watch::Abandon(to) => self.abandon(to),
            Watch::Refuse(to, refusal) => self.abandon(to) + &self.refuse(refusal),
        }
    }

    fn abandon(&mut self, to: Destination) -> String {
        self.unknown.add(to);
        let to = match to {
            Destination::Node(node) => format!("node {node}"),
            Destination::Set(set) => format!("set {set}"),
        };
        format!("abandon the request to {to}{}\n", self.attempts())
    }

    /// Describes the refusal of the item. After an attempt with an unknown outcome, the refusal states that numbers may
    /// have been consumed.
    fn refuse(&self, refusal: Refusal) -> String {
        format!("refuse: {}\n", self.unknown.refusal(SECTION, refusal))
    }

    fn attempts(&self) -> String {
        match self.unknown.count() {
            0 => String::new(),
            1 => String::from(", with 1 unknown attempt"),
            count => format!(", with {count} unknown attempts"),
        }
    }
}

fn describe_wait(wait: Wait) -> String {
    let Wait { until, awaits_owner, stalled } = wait;
    let what = match (awaits_owner, stalled) {
        (true, _) => " for an ownership update",
        (false, true) => " for a raise or a handover",
        (false, false) => "",
    };
    format!("wait{what} until {until:?}\n")
}

/// A node, or none.
struct Owner(Option<NodeId>);

impl Value for Owner {
    const WHAT: &str = "a node, or none";

    fn parse(text: &str) -> Option<Owner> {
        if text == "none" { Some(Owner(None)) } else { Some(Owner(Some(NodeId::parse(text)?))) }
    }
}

/// The refusal of a call because the section moved.
struct Moved(Refusal);

impl Value for Moved {
    const WHAT: &str = "a claim, as SET@EPOCH";

    fn parse(text: &str) -> Option<Moved> {
        let (set, since) = text.split_once('@')?;
        let (set, since) = (SetId::parse(set)?, Epoch::parse(since)?);
        Some(Moved(Refusal::Moved { section: SECTION, set, since }))
    }
}

/// Parses a refusal by the name of its variant.
impl Value for Refusal {
    const WHAT: &str = "a refusal";

    fn parse(text: &str) -> Option<Refusal> {
        let (section, owner) = (SECTION, NodeId(2));
        Some(match text {
            "NotOwner" => Refusal::NotOwner { section, owner: Some(owner) },
            "Unserved" => Refusal::Unserved { section },
            "OwnerUnreachable" => Refusal::OwnerUnreachable { section, owner },
            "LeaseExpired" => Refusal::LeaseExpired { section },
            "StaleEpoch" => Refusal::StaleEpoch { section, mine: Epoch(4), callers: Epoch(6) },
            "CeilingStalled" => Refusal::CeilingStalled { section },
            "ShuttingDown" => Refusal::ShuttingDown,
            "SetUnavailable" => Refusal::SetUnavailable { section, set: SetId(2) },
            _ => return None,
        })
    }
}
