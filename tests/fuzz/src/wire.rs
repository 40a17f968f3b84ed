//! Wire validation: protobuf, then the checks that make core types of it.

use prost::Message;
use seq_core::route::{RouteTable, RouteUpdate};
use seq_core::{Layout, NodeId};
use seq_proto::{convert, owners, v1};

/// Largest table that is built for an input. A set may have more sections; the memory for them would only slow the
/// fuzzer.
const MAX_TABLE: u32 = 10_000;

/// Decodes `data` as a message that its first byte selects, and validates it.
pub fn wire(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else { return };
    match kind % 9 {
        0 => {
            if let Ok(request) = v1::NextManyRequest::decode(body) {
                items(&request);
            }
        }
        1 => {
            if let Ok(routes) = v1::Routes::decode(body) {
                update(&routes);
            }
        }
        2 => {
            if let Ok(answer) = v1::RenewResponse::decode(body) {
                let layout = Layout::new(0..1_000, 100).expect("a layout");
                if let Ok(update) = owners::update(answer.update.as_ref(), &layout, NodeId(1)) {
                    assert_eq!(
                        owners::update(Some(&v1::OwnershipUpdate::from(&update)), &layout, NodeId(1)),
                        Ok(update)
                    );
                }
                if let Some(routes) = &answer.update.unwrap_or_default().routes {
                    update(routes);
                }
            }
        }
        3 => {
            if let Ok(request) = v1::NextRequest::decode(body) {
                let _ = convert::uid(request.uid, request.hops);
                let _ = seq_core::Count::new(request.count);
                let _ = convert::check_hops(request.hops);
            }
        }
        4 => drop(v1::RaiseCeilingsRequest::decode(body)),
        5 => drop(v1::RaftMessage::decode(body)),
        6 => drop(v1::SnapshotChunk::decode(body)),
        7 => {
            if let Ok(request) = v1::AdvanceRequest::decode(body) {
                let _ = convert::uid(request.uid, request.hops);
                let _ = convert::to(request.to, request.hops);
            }
        }
        _ => drop(v1::RegisterRequest::decode(body)),
    }
}

/// Checks that a valid batch has one item for each uid.
fn items(request: &v1::NextManyRequest) {
    if let Ok(items) = convert::Items::new(&request.uids, &request.counts, &request.known_epochs) {
        assert_eq!(items.iter().count(), request.uids.len());
    }
}

/// Checks that a valid update is equal after encoding and decoding, and that a table can adopt or refuse it.
fn update(routes: &v1::Routes) {
    let Ok(update) = RouteUpdate::try_from(routes) else { return };
    let again = RouteUpdate::try_from(&v1::Routes::from(&update)).expect("what was accepted is accepted again");
    assert_eq!(update, again);
    if update.layout.sections() > MAX_TABLE {
        return;
    }
    if let Some(mut table) = RouteTable::from_whole(&update) {
        assert_eq!(table.version(), update.version);
        let _ = table.adopt(&update);
        assert_eq!(table.version(), update.version, "a version that is not newer changes nothing");
    }
}
