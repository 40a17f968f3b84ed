//! Encoding and decoding of the copies of sections that handovers send.

use seq_core::keyspace::KeyHash;
use seq_core::section::{AnyCopy, Counters, Distance, KeyedCopy, SLOTS_OF_KEY, SectionCopy};
use seq_core::{Layout, SectionId, Seq, SlotIndex};

use crate::owners::{MAX_STAGED_KEYS, MAX_STAGED_SLOTS, OfferError};
use crate::v1;

/// Encodes the copy of a frozen section as one or more messages. Only the first message contains the offer.
pub fn to_stage(offer: v1::HandoverOffer, copy: AnyCopy) -> impl Iterator<Item = v1::StageRequest> {
    let (base, floor, slots, keys) = match copy {
        AnyCopy::Slots(SectionCopy { base, distances }) => (base, Seq::ZERO, distances, Vec::new()),
        AnyCopy::Keys(KeyedCopy { base, floor, distances }) => (base, floor, Vec::new(), distances),
    };
    let (base, floor) = (base.0, floor.0);
    let mut head = Some(v1::StageRequest { offer: Some(offer), base, floor, ..v1::StageRequest::default() });
    let (mut slots, mut keys) = (slots.into_iter().peekable(), keys.into_iter().peekable());
    std::iter::from_fn(move || {
        let first = head.take();
        if first.is_none() && slots.peek().is_none() && keys.peek().is_none() {
            return None;
        }
        let mut message = first.unwrap_or_default();
        for (slot, distance) in slots.by_ref().take(MAX_STAGED_SLOTS) {
            message.slots.push(slot.0);
            push(&mut message, distance);
        }
        for (key, distance) in keys.by_ref().take(MAX_STAGED_KEYS) {
            message.keys.extend(key.to_bytes());
            push(&mut message, distance);
        }
        Some(message)
    })
}

fn push(message: &mut v1::StageRequest, distance: Distance) {
    if distance.is_advanced() {
        message.advanced.push(message.distances.len() as u32);
    }
    message.distances.push(distance.get());
}

/// Returns the number of slots whose copies take as much memory as what [`extend_copy`] adds for this message.
#[must_use]
pub fn slots_of(message: &v1::StageRequest) -> usize {
    message.slots.len() + SLOTS_OF_KEY * message.keys.len().div_ceil(KEY_BYTES)
}

/// Bytes of a key's hash.
const KEY_BYTES: usize = 16;

/// Begins to decode the copy of the section `section`, of which `first` is the first message. [`extend_copy`] adds the
/// counters of this message and of those after it.
///
/// # Errors
/// [`OfferError::Slot`] if the base is no number.
pub fn begin_copy(first: &v1::StageRequest, section: SectionId, layout: &Layout) -> Result<AnyCopy, OfferError> {
    let (base, floor) = (Seq(first.base), Seq(first.floor));
    if base > Seq::MAX {
        return Err(OfferError::Slot { section: section.0, slot: 0, distance: 0, base: base.0 });
    }
    Ok(match layout.counters_of(section) {
        Counters::Slots(_) => SectionCopy { base, distances: Vec::new() }.into(),
        // The floor is checked with the whole copy.
        Counters::Keys => KeyedCopy { base, floor, distances: Vec::new() }.into(),
    })
}

/// Decodes one message of a staged copy, and adds the counters in it to `copy`, the copy of the section `section`.
///
/// # Errors
/// [`OfferError`].
pub fn extend_copy(
    copy: &mut AnyCopy,
    message: &v1::StageRequest,
    section: SectionId,
    layout: &Layout,
) -> Result<(), OfferError> {
    let v1::StageRequest { slots, keys, distances, .. } = message;
    let (keys, cut) = keys.as_chunks::<KEY_BYTES>();
    let is_keyed = matches!(copy, AnyCopy::Keys(_));
    let (counters, of_other_kind) = if is_keyed { (keys.len(), slots.len()) } else { (slots.len(), keys.len()) };
    let most = if is_keyed { MAX_STAGED_KEYS } else { MAX_STAGED_SLOTS };
    if counters != distances.len() || counters > most || of_other_kind > 0 || !cut.is_empty() {
        return Err(OfferError::Lists { slots: counters, distances: distances.len() });
    }
    let mut advanced = message.advanced.iter().copied().peekable();
    let most = Seq::MAX.0.saturating_sub(copy.base().0);
    let mut read = (0..).zip(distances).map(|(index, distance)| {
        let is_advanced = advanced.next_if_eq(&index).is_some();
        (*distance, Distance::new(*distance, is_advanced).filter(|_| *distance <= most))
    });
    match copy {
        AnyCopy::Slots(copy) => {
            let uids = layout.uids_of(section);
            for (slot, (distance, valid)) in slots.iter().zip(read.by_ref()) {
                let grows = copy.distances.last().is_none_or(|(last, _)| last.0 < *slot);
                let Some(valid) = valid.filter(|_| grows && u64::from(*slot) < uids.end - uids.start) else {
                    let (section, base) = (section.0, copy.base.0);
                    return Err(OfferError::Slot { section, slot: *slot, distance, base });
                };
                copy.distances.push((SlotIndex(*slot), valid));
            }
        }
        AnyCopy::Keys(copy) => {
            for (bytes, (distance, valid)) in keys.iter().zip(read.by_ref()) {
                let key = KeyHash::from_bytes(*bytes);
                let key = key.filter(|key| copy.distances.last().is_none_or(|(last, _)| last < key));
                let Some(counter) = key.zip(valid) else {
                    let (section, base) = (section.0, copy.base.0);
                    return Err(OfferError::Key { section, key: u128::from_le_bytes(*bytes), distance, base });
                };
                copy.distances.push(counter);
            }
        }
    }
    match advanced.next() {
        Some(index) => Err(OfferError::Advanced { index, slots: counters }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use seq_core::keyspace::{Hashing, Seed};
    use seq_core::layout::Lanes;

    use super::*;

    /// A section of ten uids, and the first bucket of a keyspace.
    const UIDS: SectionId = SectionId(0);
    const BUCKET: SectionId = SectionId(10);

    fn layout() -> Layout {
        let lanes = Lanes::of_keyspace(Hashing::new(Seed::new([7; 16])));
        Layout::new(0..100, 10).unwrap().append(lanes).unwrap().0
    }

    /// Returns a copy with this many keys, every third of which was advanced.
    fn keyed(keys: u64) -> AnyCopy {
        let key = |key: u64| Seed::new([7; 16]).hash(&key.to_le_bytes());
        let distance = |key: u64| Distance::new(key + 1, key.is_multiple_of(3)).unwrap();
        let mut distances: Vec<_> = (0..keys).map(|one| (key(one), distance(one))).collect();
        distances.sort_unstable_by_key(|(key, _)| *key);
        KeyedCopy { base: Seq(40), floor: Seq(50), distances }.into()
    }

    fn received(messages: &[v1::StageRequest], section: SectionId) -> Result<AnyCopy, OfferError> {
        let layout = layout();
        let mut copy = begin_copy(&messages[0], section, &layout)?;
        messages.iter().try_for_each(|message| extend_copy(&mut copy, message, section, &layout))?;
        Ok(copy)
    }

    fn sent(copy: AnyCopy) -> Vec<v1::StageRequest> {
        to_stage(v1::HandoverOffer::default(), copy).collect()
    }

    #[test]
    fn a_copy_is_received_as_it_was_sent() {
        let keys = 2 * MAX_STAGED_KEYS as u64;
        for (keys, messages) in [(0, 1), (1, 1), (keys - 1, 2), (keys, 2), (keys + 1, 3)] {
            let copy = keyed(keys);
            let staged = sent(copy.clone());
            assert_eq!(staged.len(), messages, "{keys} keys");
            assert!(staged.iter().skip(1).all(|message| message.offer.is_none()));
            assert_eq!(staged.iter().map(slots_of).sum::<usize>(), copy.slots());
            assert_eq!(received(&staged, BUCKET), Ok(copy));
        }
        let distances = [(0, false), (7, true), (9, false)];
        let distances = distances.map(|(slot, advanced)| (SlotIndex(slot), Distance::new(5, advanced).unwrap()));
        let copy = AnyCopy::from(SectionCopy { base: Seq(3), distances: distances.to_vec() });
        assert_eq!(received(&sent(copy.clone()), UIDS), Ok(copy));
    }

    #[test]
    fn copies_of_keys_that_are_malformed_are_refused() {
        let refused = |change: fn(&mut v1::StageRequest)| {
            let mut messages = sent(keyed(3));
            change(&mut messages[0]);
            received(&messages, BUCKET).unwrap_err()
        };
        let lists = |slots, distances| OfferError::Lists { slots, distances };
        assert_eq!(refused(|message| _ = message.keys.pop()), lists(2, 3), "a hash of 15 bytes");
        assert_eq!(refused(|message| message.keys.truncate(32)), lists(2, 3));
        assert_eq!(refused(|message| message.slots.push(1)), lists(3, 3), "a slot of a bucket");
        assert_eq!(refused(|message| message.advanced.push(3)), OfferError::Advanced { index: 3, slots: 3 });
        assert!(matches!(refused(|message| message.keys.rotate_left(16)), OfferError::Key { .. }), "out of order");
        assert!(matches!(refused(|message| message.keys[..16].fill(0)), OfferError::Key { key: 0, .. }));
        let twice = |message: &mut v1::StageRequest| message.keys.copy_within(0..16, 16);
        assert!(matches!(refused(twice), OfferError::Key { .. }), "the same key twice");
        let past = refused(|message| message.distances[0] = 1 << 62);
        assert!(matches!(past, OfferError::Key { base: 40, .. }), "{past:?}");
        assert!(matches!(refused(|message| message.distances[0] = 0), OfferError::Key { distance: 0, .. }));
        assert!(matches!(refused(|message| message.base = u64::MAX), OfferError::Slot { .. }));
        let of_uids = received(&sent(keyed(1)), UIDS);
        assert_eq!(of_uids, Err(lists(0, 1)), "keys of a section of uids");
    }
}
