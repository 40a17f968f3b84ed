//! Validation and decoding of requests that arrive at the store from the wire. Each request is checked before it
//! becomes a command.
//!
//! The fake store for tests validates requests with the same functions, so it has the same limits as a real store.

use seq_core::owner::Session;
use seq_core::owner::handover::MAX_OUTGOING;
use seq_core::state::{CopyPart, Depart, Destination, Raise, Renew, Transfer};
use seq_core::{
    Epoch, HandoverId, Incarnation, Layout, Lineage, MigrationId, NodeId, RenewSeq, SectionId, Seq, SetId, limits,
};
use tonic::Status;

use crate::reason::Reason;
use crate::v1::{self, DepartRequest, RaiseCeilingsRequest, RenewRequest, TransferManyRequest, TransferRequest};

/// Decodes the session that sent a request.
///
/// # Errors
/// A refusal, if the node id or the incarnation is 0.
pub fn session(node: u32, incarnation: u64) -> Result<Session, Status> {
    if node == 0 {
        return Err(Reason::BadNodeId.status("node_id 0 is no node: register first".to_owned()));
    }
    if incarnation == 0 {
        return Err(Reason::BadIncarnation.status("incarnation 0 is no session: register first".to_owned()));
    }
    Ok(Session { node: NodeId(node), incarnation: Incarnation(incarnation) })
}

/// Decodes a renewal.
///
/// # Errors
/// A refusal, if the renewal is malformed.
pub fn renewal(session: Session, request: &RenewRequest) -> Result<Renew, Status> {
    if request.renew_seq == 0 {
        return Err(Reason::BadRenewSeq.status("renew_seq 0: the first renewal of a session is 1".to_owned()));
    }
    let RenewRequest { released, released_epochs, leaving, .. } = request;
    let lens = (released.len(), released_epochs.len());
    if lens.0 != lens.1 {
        return Err(Reason::ListsMismatch.status(format!("{lens:?} released sections and epochs: send one of each")));
    }
    if lens.0 > limits::MAX_RAISES {
        let text = format!("{} releases are more than the {} of one call", lens.0, limits::MAX_RAISES);
        return Err(Reason::BatchTooLarge.status(text));
    }
    let released = released.iter().zip(released_epochs);
    let (copies, taken) = (copies(&request.copies)?, taken(request)?);
    Ok(Renew {
        node: session.node,
        incarnation: session.incarnation,
        renew_seq: RenewSeq(request.renew_seq),
        copies,
        released: released.map(|(section, epoch)| (SectionId(*section), Epoch(*epoch))).collect(),
        taken,
        leaving: *leaving,
    })
}

/// Decodes the parts of copies in a renewal.
fn copies(parts: &[v1::CopyPart]) -> Result<Vec<CopyPart>, Status> {
    let bytes: usize = parts.iter().map(|part| part.part.len()).sum();
    let longest = parts.iter().map(|part| part.length).max().unwrap_or(0) as usize;
    if bytes > limits::MAX_COPY_PART_BYTES || parts.len() > limits::MAX_RAISES || longest > limits::MAX_KEPT_COPY_BYTES
    {
        let text = format!(
            "{} parts with {bytes} bytes of copies of up to {longest}: send up to {} bytes, of copies of up to {}",
            parts.len(),
            limits::MAX_COPY_PART_BYTES,
            limits::MAX_KEPT_COPY_BYTES
        );
        return Err(Reason::BatchTooLarge.status(text));
    }
    let part = |part: &v1::CopyPart| CopyPart {
        section: SectionId(part.section),
        epoch: Epoch(part.epoch),
        highest: Seq(part.highest.min(Seq::MAX.0)),
        length: part.length,
        offset: part.offset,
        bytes: part.part.clone(),
    };
    Ok(parts.iter().map(part).collect())
}

/// Decodes the entries of a renewal that name the ownerships whose kept copies the node has taken over, so that the
/// store need not keep these copies any longer.
fn taken(request: &RenewRequest) -> Result<Vec<(SectionId, Epoch)>, Status> {
    let (taken, epochs) = (&request.taken, &request.taken_epochs);
    if taken.len() != epochs.len() {
        let lens = (taken.len(), epochs.len());
        return Err(Reason::ListsMismatch.status(format!("{lens:?} taken sections and epochs: send one of each")));
    }
    if taken.len() > limits::MAX_RAISES {
        let text = format!("{} taken sections are more than the {} of one call", taken.len(), limits::MAX_RAISES);
        return Err(Reason::BatchTooLarge.status(text));
    }
    Ok(taken.iter().zip(epochs).map(|(section, epoch)| (SectionId(*section), Epoch(*epoch))).collect())
}

/// Decodes a request to commit a handover, in a set with the layout `layout`.
///
/// # Errors
/// A refusal, if the request is malformed.
pub fn transfer(session: Session, request: &TransferRequest, layout: &Layout) -> Result<Transfer, Status> {
    let TransferRequest { section, epoch, to_node_id, to_incarnation, handover_id, .. } = *request;
    check_handover(layout, section, epoch, handover_id)?;
    if to_node_id == 0 || to_node_id == session.node.0 || to_incarnation == 0 {
        let text = format!("section {section} cannot be handed to node {to_node_id} in incarnation {to_incarnation}");
        return Err(Reason::BadTarget.status(text));
    }
    Ok(Transfer {
        section: SectionId(section),
        epoch: Epoch(epoch),
        from: session.node,
        incarnation: session.incarnation,
        to: NodeId(to_node_id),
        to_incarnation: Incarnation(to_incarnation),
        handover_id: HandoverId(handover_id),
    })
}

/// Decodes a request to commit several handovers, in a set with the layout `layout`.
///
/// # Errors
/// A refusal, if the request is malformed or has too many handovers.
pub fn transfers(session: Session, request: &TransferManyRequest, layout: &Layout) -> Result<Vec<Transfer>, Status> {
    let transfers = &request.transfers;
    if transfers.len() > MAX_OUTGOING {
        let text = format!("{} handovers are more than the {MAX_OUTGOING} of one call", transfers.len());
        return Err(Reason::BatchTooLarge.status(text));
    }
    transfers.iter().map(|one| transfer(session, one, layout)).collect()
}

/// Decodes a request to commit the departure of a section, in a set with the layout `layout`.
///
/// # Errors
/// A refusal, if the request is malformed.
pub fn depart(session: Session, request: &DepartRequest, layout: &Layout) -> Result<Depart, Status> {
    let DepartRequest { section, epoch, to_node_id, to_incarnation, handover_id, .. } = *request;
    check_handover(layout, section, epoch, handover_id)?;
    let Some(departure) = request.departure.as_ref().filter(|departure| departure.set_id != 0) else {
        return Err(Reason::BadTarget.status(format!("section {section}: the request names no other set")));
    };
    if to_node_id == 0 || to_incarnation == 0 {
        let text = format!("section {section} cannot be handed to node {to_node_id} in incarnation {to_incarnation}");
        return Err(Reason::BadTarget.status(text));
    }
    Ok(Depart {
        section: SectionId(section),
        epoch: Epoch(epoch),
        from: session.node,
        incarnation: session.incarnation,
        to: Destination {
            set: SetId(departure.set_id),
            lineage: Lineage(departure.lineage),
            node: Some(NodeId(to_node_id)),
            incarnation: Incarnation(to_incarnation),
        },
        handover_id: HandoverId(handover_id),
        migration: MigrationId(departure.migration_id),
    })
}

/// Checks the section, the epoch and the number of the attempt in a request to commit a handover or a departure.
fn check_handover(layout: &Layout, section: u32, epoch: u64, handover_id: u64) -> Result<(), Status> {
    let count = layout.sections();
    if section >= count {
        return Err(Reason::UnknownSection.status(format!("section {section}: the layout has sections 0..{count}")));
    }
    if epoch == 0 {
        return Err(Reason::BadEpoch.status(format!("section {section}: epoch 0 is no ownership")));
    }
    if handover_id == 0 {
        return Err(Reason::BadHandover.status(format!("section {section}: attempts are counted from 1")));
    }
    Ok(())
}

/// Decodes the raises in a request, in a set with the layout `layout`.
///
/// # Errors
/// A refusal, if the request is malformed.
pub fn raises(request: &RaiseCeilingsRequest, layout: &Layout) -> Result<Vec<Raise>, Status> {
    let RaiseCeilingsRequest { sections, epochs, ceilings, .. } = request;
    if sections.len() != epochs.len() || sections.len() != ceilings.len() {
        let lens = (sections.len(), epochs.len(), ceilings.len());
        return Err(Reason::ListsMismatch.status(format!("{lens:?} sections, epochs and ceilings: send one of each")));
    }
    if sections.is_empty() {
        return Err(Reason::EmptyBatch.status(format!("no section to raise; send 1..={} of them", limits::MAX_RAISES)));
    }
    if sections.len() > limits::MAX_RAISES {
        let text = format!("{} raises are more than the {} of one call", sections.len(), limits::MAX_RAISES);
        return Err(Reason::BatchTooLarge.status(text));
    }
    let count = layout.sections();
    let mut raises = Vec::with_capacity(sections.len());
    for ((&section, &epoch), &to) in sections.iter().zip(epochs).zip(ceilings) {
        if section >= count {
            return Err(Reason::UnknownSection.status(format!("section {section}: the set has sections 0..{count}")));
        }
        if epoch == 0 {
            return Err(Reason::BadEpoch.status(format!("section {section}: epoch 0 is no ownership")));
        }
        if to == 0 || to > Seq::MAX.0 {
            return Err(
                Reason::BadCeiling.status(format!("section {section}: ceiling {to} is not in 1..={}", Seq::MAX))
            );
        }
        raises.push(Raise { section: SectionId(section), epoch: Epoch(epoch), to: Seq(to) });
    }
    if let Some(section) = repeated(sections) {
        return Err(Reason::DuplicateSection.status(format!("section {section} stands in the call twice")));
    }
    Ok(raises)
}

/// Returns a section that is in the list more than once; `None` if there is none. The list that an AllocSvr sends is
/// sorted, and a sorted list is checked without a copy.
fn repeated(sections: &[u32]) -> Option<u32> {
    if sections.is_sorted_by(|one, next| one < next) {
        return None;
    }
    let mut sorted = sections.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
