//! Draws single faults, and scenes. A scene is a group of faults that happen close together.

use crate::faults::{FAULTS_END, Fault, Kind, MS, SECOND, Weather};
use crate::hosts::{Hosts, NAMES, names_of, set_of_name};
use crate::rng::Rng;

/// Number of kinds of faults that [`stormy`] can draw.
pub(crate) const STORMY_KINDS: usize = 26;

/// Draws the begin of a fault of the kind `kind`, and its duration of at least `least_ms` and less than `most_ms`
/// milliseconds.
pub(crate) fn draw(rng: &mut Rng, kind: Kind, least_ms: u64, most_ms: u64) -> Fault {
    Fault { at: rng.between(SECOND, FAULTS_END), lasts: rng.between(least_ms, most_ms) * MS, kind }
}

/// Exclusive upper limit of the number of scenes in a run.
pub(crate) const MOST_SCENES: u64 = 7;

/// Draws a scene, and adds its faults to `faults`. A scene is a group of faults that happen close together. Some rule
/// of the protocol exists because of this combination of faults, which rarely occurs by chance alone. The times of the
/// faults are drawn, too, so that the faults happen in every order.
pub(crate) fn scene(rng: &mut Rng, faults: &mut Vec<Fault>, weather: Weather, hosts: Hosts) {
    let name = rng.index(hosts.names());
    let set = set_of_name(name);
    let [other, third] = [1, 2].map(|next| names_of(set).start + (name + next) % NAMES);
    let start = rng.between(2 * SECOND, FAULTS_END - 8 * SECOND);
    let mut add = |at: u64, lasts_ms: u64, kind: Kind| {
        faults.push(Fault { at: start + at * MS, lasts: lasts_ms * MS, kind });
    };
    // Scenes that need the most coincidences are drawn most often.
    let drawn = *[0, 1, 2, 3, 3, 4, 4, 5, 6, 7].get(rng.index(10)).expect("ten of them");
    let drawn = if weather == Weather::Wild && rng.chance(700) { 2 } else { drawn };
    match drawn {
        // An owner is replaced by a second process without receiving any notice.
        0 => {
            let twin = rng.between(300, 2_500);
            add(0, rng.between(500, 4_000), Kind::LateLook(set));
            add(twin, rng.between(3_000, 6_000), Kind::Twin(name));
            add(twin + rng.between(2, 300), rng.between(2_000, 4_000), Kind::Mute(name, 0));
        }
        // An owner that stalls is replaced by a second process without receiving any notice. In addition, changes of
        // owner that were proposed before the start of the second process are committed late.
        1 => {
            let stalls = rng.between(2_300, 3_200);
            let twin = stalls + rng.between(5, 1_500);
            add(0, stalls, Kind::Stall(name));
            add(rng.between(500, 2_400), 4_000, Kind::LateReassign(set));
            add(twin, rng.between(3_000, 6_000), Kind::Twin(name));
            add(twin + rng.between(2, 100), rng.between(2_000, 4_000), Kind::Mute(name, 0));
        }
        // Callers reach an owner, but the owner and the store do not reach each other.
        2 => {
            if weather == Weather::Wild {
                add(0, rng.between(4_000, 7_000), Kind::WildRate(name, 0));
            }
            let lasts = rng.between(2_400, 5_000);
            add(rng.below(200), lasts, Kind::Severed(name));
            add(lasts, rng.between(300, 1_500), Kind::NoRenewals(name));
        }
        // The commit of a handover gets no response, and the section is handed over again.
        3 => {
            add(0, rng.between(1_000, 4_000), Kind::Drain(name));
            add(0, rng.between(600, 1_900), Kind::NoCommitResponses(name));
            add(rng.between(100, 500), rng.between(2_000, 4_000), Kind::OnlyCommits(name));
            add(rng.between(300, 900), rng.between(1_000, 4_000), Kind::Drain(other));
            add(rng.between(300, 900), rng.between(100, 1_000), Kind::Crash(third));
        }
        // The target of a handover begins a new incarnation before the handover is committed, while messages of the
        // owner are lost.
        4 => {
            add(0, rng.between(1_000, 4_000), Kind::Drain(name));
            add(0, rng.between(600, 2_000), Kind::NoCommits(name));
            add(rng.between(20, 500), rng.between(2_000, 4_000), Kind::OnlyCommits(name));
            add(rng.between(300, 900), rng.between(10, 200), Kind::Crash(other));
            add(rng.between(300, 900), rng.between(10, 200), Kind::Crash(third));
        }
        // A handover fails after its copy has arrived, and the owner crashes later.
        5 => {
            add(0, rng.between(500, 3_000), Kind::Drain(name));
            add(rng.below(20), rng.between(100, 900), Kind::PeerResponsesLost(rng.between(300, 1_000)));
            add(rng.between(400, 3_000), rng.between(2_600, 5_000), Kind::Crash(name));
        }
        // All processes stop in an orderly way and start again; some process may crash soon after that.
        7 => {
            let restarts = rng.between(500, 2_500);
            add(0, restarts, Kind::Leave(name));
            add(rng.below(100), restarts, Kind::Leave(other));
            add(rng.below(100), restarts, Kind::Leave(third));
            if rng.chance(600) {
                add(
                    rng.between(100, 4_000),
                    rng.between(100, 1_000),
                    Kind::Crash(names_of(set).start + rng.index(NAMES)),
                );
            }
        }
        // Only the raises of an owner fail.
        _ => add(0, rng.between(1_500, 4_000), Kind::NoRaises(name)),
    }
}

/// Draws a fault of the kind with the number `kind`, below [`STORMY_KINDS`], with a random victim, begin and duration.
pub(crate) fn stormy(rng: &mut Rng, kind: usize, hosts: Hosts) -> Fault {
    let (name, host, other) = (rng.index(hosts.names()), rng.index(hosts.count()), rng.index(hosts.count()));
    let (set, server) = (set_of_name(name), rng.index(hosts.machines()));
    let most = rng.between(50, 400);
    let (kind, least, longest) = match kind {
        0 => (Kind::CutOneWay { from: host, to: other }, 200, 6_000),
        1 => (Kind::Cut { a: host, b: other }, 200, 6_000),
        2 => {
            let way = rng.below(3);
            (Kind::Isolate { host: server, outward: way != 0, inward: way != 1 }, 500, 7_000)
        }
        3 => (Kind::Loss(most), 500, 6_000),
        4 => (Kind::Duplicates(most), 500, 6_000),
        5 => (Kind::Slow(rng.between(5, 600)), 500, 6_000),
        6 => (Kind::Ancient(most / 4), 500, 6_000),
        7 => (Kind::ResponsesLost(most * 2), 500, 5_000),
        8 => (Kind::PeerResponsesLost(most * 2), 500, 8_000),
        9 => (Kind::Stall(name), 100, 6_000),
        10 => (Kind::Suspend(server), 500, 6_000),
        11 => (Kind::Crash(name), 100, 6_000),
        12 => (Kind::Twin(name), 500, 8_000),
        13 => (Kind::Leave(name), 1_000, 5_000),
        14 => (Kind::Drain(name), 1_000, 8_000),
        15 => {
            let by = rng.between(1, 20_000) as i64;
            (Kind::WallStep(name, if rng.chance(500) { by } else { -by }), 1, 2)
        }
        16 => (Kind::Elect(rng.index(hosts.members())), 1, 5_000),
        17 => (Kind::StorePause(set), 100, 5_000),
        18 => (Kind::LateLook(set), 500, 8_000),
        19 => (Kind::LateReassign(set), 1_000, 10_000),
        20 => (Kind::Severed(name), 500, 6_000),
        21 => (Kind::Mute(name, 0), 500, 4_000),
        22 => (Kind::NoRaises(name), 1_000, 5_000),
        23 => (Kind::StallMember(rng.index(hosts.members())), 200, 6_000),
        24 => (Kind::LateNews(set), 500, 8_000),
        _ => (Kind::Forge(name), 1, 2),
    };
    draw(rng, kind, least, longest)
}
