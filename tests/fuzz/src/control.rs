//! Any messages that decode, on their path through a server: the validation of `seq-proto`, then the store's state or
//! an owner.
//!
//! A message is encoded as its kind in a byte, its length, and its bytes. The checks of the control service itself are
//! left out, because the messages that pass them are part of the input here.

use std::time::Duration;

use prost::Message;
use seq_core::state::{Command, Raise, RaiseCeilings, Registration, Renew, Transfer};
use seq_core::{Epoch, HandoverId, Incarnation, NodeId, RenewSeq, Revision, SectionId, Seq};
use seq_proto::v1;

use crate::handover::Node;
use crate::replica::Replica;

/// Decodes messages for the store and for an AllocSvr, and applies them.
pub fn control(mut data: &[u8]) {
    let mut replica = Replica::new();
    for (name, token) in [("a1", 1), ("a2", 2)] {
        replica.apply(&Command::Register(Registration::new(name, &format!("{name}:1"), token)));
    }
    let mut node = Node::new(&replica.state);
    while let Some((kind, rest)) = data.split_first() {
        data = rest;
        let read = match kind % 8 {
            0 => read(&mut data).map(|message| drop(replica.apply(&register(&message)))),
            1 => read(&mut data).map(|message| drop(replica.apply(&renew(&message)))),
            2 => read(&mut data).map(|message| drop(replica.apply(&raise(&message)))),
            3 => read(&mut data).map(|message| drop(replica.apply(&transfer(&message)))),
            4 => read(&mut data).map(|message| node.prepare(&message)),
            5 => read(&mut data).map(|message| node.stage(&[message])),
            6 => read(&mut data).map(|message| node.activate(&message)),
            _ => {
                node.renew(&mut replica);
                Some(())
            }
        };
        if read.is_none() {
            return;
        }
    }
}

fn read<M: Message + Default>(data: &mut &[u8]) -> Option<M> {
    M::decode_length_delimited(data).ok()
}

fn register(message: &v1::RegisterRequest) -> Command {
    Command::Register(Registration {
        lease: Duration::from_millis(message.lease_ms),
        follows: Incarnation(message.follows),
        seen: Revision(message.seen_revision),
        process: message.process,
        ..Registration::new(&message.node, &message.addr, message.token)
    })
}

fn renew(message: &v1::RenewRequest) -> Command {
    let released = message.released.iter().zip(&message.released_epochs);
    Command::Renew(Renew {
        node: NodeId(message.node_id),
        incarnation: Incarnation(message.incarnation),
        renew_seq: RenewSeq(message.renew_seq),
        released: released.map(|(section, epoch)| (SectionId(*section), Epoch(*epoch))).collect(),
        leaving: message.leaving,
        ..Renew::default()
    })
}

fn raise(message: &v1::RaiseCeilingsRequest) -> Command {
    let rows = message.sections.iter().zip(&message.epochs).zip(&message.ceilings);
    let raise = |((section, epoch), to): ((&u32, &u64), &u64)| Raise {
        section: SectionId(*section),
        epoch: Epoch(*epoch),
        to: Seq(*to),
    };
    Command::Raise(RaiseCeilings {
        node: NodeId(message.node_id),
        incarnation: Incarnation(message.incarnation),
        raises: rows.map(raise).collect(),
    })
}

fn transfer(message: &v1::TransferRequest) -> Command {
    Command::Transfer(Transfer {
        section: SectionId(message.section),
        epoch: Epoch(message.epoch),
        from: NodeId(message.node_id),
        incarnation: Incarnation(message.incarnation),
        to: NodeId(message.to_node_id),
        to_incarnation: Incarnation(message.to_incarnation),
        handover_id: HandoverId(message.handover_id),
    })
}
