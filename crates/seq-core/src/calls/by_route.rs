//! Compares the decision by the route alone with the full decision.

use alloc::format;

use proptest::prelude::*;

use super::*;

const ME: NodeId = NodeId(1);

/// The routes of a node that serves no section.
struct Routes(Route);

impl OwnershipView for Routes {
    fn lease_here(&self) -> Option<bool> {
        None
    }

    fn other_owner(&self) -> Option<NodeId> {
        self.0.owner.filter(|owner| *owner != ME)
    }

    fn is_expected(&self) -> bool {
        false
    }

    fn set_route(&self) -> SetRoute {
        SetRoute { own: SetId(1), other: self.0.other_set(), epoch: self.0.epoch }
    }
}

fn routes() -> impl Strategy<Value = Route> {
    let epoch = (0..4u64).prop_map(Epoch);
    let here = (prop::option::of((1..4u32).prop_map(NodeId)), epoch.clone());
    prop_oneof![
        3 => here.prop_map(|(owner, epoch)| Route::here(owner, epoch)),
        1 => epoch.prop_map(|since| Route::away(SetId(2), since)),
    ]
}

fn call(section: SectionId, epoch: u64) -> PendingCall {
    let clocks = Clocks { boottime: 1, raw: 1, realtime: 1 };
    PendingCall::new(section, (0, Epoch(epoch)), clocks, Duration::from_secs(1), CallTimeouts::DEFAULTS)
}

fn calls() -> impl Strategy<Value = PendingCall> {
    let hops = prop_oneof![3 => Just(0u32), 1 => 1..4u32];
    let redirects = prop_oneof![3 => Just(Redirects::Forward), 1 => Just(Redirects::Refuse)];
    let deadline = prop_oneof![3 => Just(Duration::from_secs(1)), 1 => Just(Duration::ZERO)];
    (hops, redirects, deadline, 0..4u64).prop_map(|(hops, redirects, deadline, epoch)| PendingCall {
        hops,
        deadline,
        ..call(SectionId(5), epoch).with_redirects(redirects)
    })
}

proptest! {
    #[test]
    fn the_route_alone_decides_as_the_machine_does(call in calls(), route in routes()) {
        let mut machine = call;
        let step = machine.evaluate(Duration::ZERO, &Routes(route));
        match call.owner_by_route(route, ME) {
            Some(owner) => {
                prop_assert_eq!(step, Step::Forward(owner));
                prop_assert_eq!(format!("{:?}", call.forwarded(owner, route.epoch)), format!("{machine:?}"));
            }
            None if call.hops > 0 => {}
            None => prop_assert!(!matches!(step, Step::Forward(_)), "{:?}", step),
        }
    }

    /// Each section of a request continues as if it had had a machine of its own from the start, whether the request
    /// got a response or was abandoned.
    #[test]
    fn a_section_of_a_shared_request_continues_as_with_a_machine_of_its_own(
        epochs in [0..4u64, 0..4u64], callers in [0..4u64, 0..4u64], abandoned in any::<bool>(),
        refusal in prop_oneof![
            Just(Refusal::LeaseExpired { section: SectionId(6) }),
            (0..4u64).prop_map(|since| Refusal::Moved { section: SectionId(6), set: SetId(2), since: Epoch(since) }),
        ],
        after in routes(),
    ) {
        let owner = NodeId(2);
        let [mut shared, mut alone] = [0, 1].map(|index| {
            let mut machine = call(SectionId(5 + index as u32), callers[index]);
            let step = machine.evaluate(Duration::ZERO, &Routes(Route::here(Some(owner), Epoch(epochs[index]))));
            assert_eq!(step, Step::Forward(owner));
            machine
        });
        let now = Duration::from_millis(3);
        let watched = (Some(Destination::Node(owner)), Epoch(epochs[0]));
        prop_assert!(matches!(shared.watch(now, watched), Watch::Wait(_)));
        if abandoned {
            shared.on_abandoned();
        }
        let mut late = shared.in_same_request(SectionId(6), Epoch(callers[1]), Epoch(epochs[1]));
        let next = |machine: &mut PendingCall| {
            let rest = if abandoned {
                machine.on_abandoned();
                None
            } else {
                Some(machine.on_response(now, Some(refusal)))
            };
            (rest, machine.take_renewal(), machine.evaluate(now, &Routes(after)), machine.route_epoch())
        };
        prop_assert_eq!(next(&mut late), next(&mut alone));
    }
}
