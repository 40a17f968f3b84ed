//! The account of one uid.

use super::{Account, Beginning, Discrepancy, History, Jump, Ownership, Step, UidCalls};

/// A uid, as far as its steps were followed.
struct Followed<'a> {
    history: &'a History,
    calls: &'a UidCalls,
    /// Ownerships of the section that are still to begin, the next ownership last, each with its place and whether the
    /// last numbers were lost at its beginning.
    ahead: Vec<(usize, &'a Ownership, bool)>,
    /// Epoch of the last step.
    epoch: u64,
    /// The last number that is accounted for.
    last: u64,
    /// Whether the owner can state `last` as the `prev` of the next number. The owner cannot if the uid took no number
    /// since the section began at `last`, or if an advance led there.
    is_stated: bool,
    /// For each attempt without a response, whether it explains a hole.
    attempts: Vec<bool>,
    /// Number of the attempts before the last response.
    responded: usize,
    jumps: Vec<Found>,
    given: u64,
    lost: u64,
}

/// A hole that ends with a jump.
struct Found {
    numbers: u64,
    ownership: Option<usize>,
    /// Range of the attempts that may have taken some of the numbers.
    attempts: std::ops::Range<usize>,
}

/// Adds the account of a uid to `account`. `events` has the place of the event of each ownership.
pub(super) fn settle(
    history: &History,
    events: &[Option<usize>],
    calls: &UidCalls,
    account: &mut Account,
    found: &mut Vec<Discrepancy>,
) {
    let mut followed = Followed::new(history, events, calls);
    for step in &calls.steps {
        if let Err(discrepancy) = followed.follow(*step) {
            found.push(*discrepancy);
            return;
        }
    }
    if !matches!(calls.steps.last(), Some(Step::Read { .. })) {
        found.push(Discrepancy::NotRead(calls.uid));
        return;
    }
    let jumps = followed.divide();
    for jump in &jumps {
        let skipped = jump.numbers + jump.lost;
        let event = jump.ownership.and_then(|ownership| events[ownership]).map(|place| &history.events[place]);
        if let Some((event, most)) = event.and_then(|event| Some((event, event.most_skipped?)))
            && skipped > most
        {
            let event = (event.set.clone(), event.index);
            found.push(Discrepancy::AboveBound { uid: calls.uid, skipped, event, most });
        }
    }
    let sum = followed.given + followed.lost + jumps.iter().map(|jump| jump.numbers).sum::<u64>();
    assert_eq!(followed.last, sum, "uid {}: every number is counted once", calls.uid);
    account.uids += 1;
    account.given += followed.given;
    account.lost += followed.lost;
    account.last += followed.last;
    account.jumps.extend(jumps);
}

impl<'a> Followed<'a> {
    fn new(history: &'a History, events: &[Option<usize>], calls: &'a UidCalls) -> Followed<'a> {
        let of_section = history.ownerships.iter().enumerate().filter(|(_, one)| one.section == calls.section);
        let mut ahead: Vec<_> = of_section
            .map(|(place, one)| (place, one, loses(one, events[place].map(|at| &history.events[at]))))
            .collect();
        ahead.sort_by_key(|(_, one, _)| std::cmp::Reverse(one.epoch));
        Followed {
            history,
            calls,
            ahead,
            epoch: 0,
            last: 0,
            is_stated: false,
            attempts: Vec::new(),
            responded: 0,
            jumps: Vec::new(),
            given: 0,
            lost: 0,
        }
    }

    fn follow(&mut self, step: Step) -> Result<(), Box<Discrepancy>> {
        let uid = self.calls.uid;
        match step {
            Step::Lost => {
                self.attempts.push(false);
                return Ok(());
            }
            Step::Given { epoch, last, prev } => {
                self.enter(epoch)?;
                let before = last.checked_sub(self.calls.count).filter(|before| *before >= self.last);
                let before = before.ok_or(Discrepancy::Repeated { uid, number: last, last: self.last })?;
                self.fill(before)?;
                let expected = if self.is_stated { before } else { 0 };
                if prev != expected {
                    return Err(Discrepancy::Prev { uid, stated: prev, expected }.into());
                }
                self.given += self.calls.count;
                (self.last, self.is_stated) = (last, true);
            }
            Step::Advanced { epoch, to } => {
                self.enter(epoch)?;
                if to < self.last {
                    return Err(Discrepancy::Repeated { uid, number: to, last: self.last }.into());
                }
                self.jump(to, None);
            }
            Step::Read { epoch, value, exact } => {
                self.enter(epoch)?;
                if value < self.last || (!exact && value != self.last) {
                    return Err(Discrepancy::Repeated { uid, number: value, last: self.last }.into());
                }
                self.fill(value)?;
            }
        }
        self.responded = self.attempts.len();
        Ok(())
    }

    /// Begins all ownerships up to that of `epoch`.
    fn enter(&mut self, epoch: u64) -> Result<(), Box<Discrepancy>> {
        let section = self.calls.section;
        let is_known = self.history.ownerships.iter().any(|one| one.section == section && one.epoch == epoch);
        if epoch < self.epoch || !is_known {
            return Err(Discrepancy::Epoch { section, epoch }.into());
        }
        self.epoch = epoch;
        while let Some((place, ownership, loses)) = self.ahead.pop_if(|(_, ownership, _)| ownership.epoch <= epoch) {
            if !loses {
                continue;
            }
            if ownership.ceiling < self.last {
                let (uid, number) = (self.calls.uid, ownership.ceiling);
                return Err(Discrepancy::Repeated { uid, number, last: self.last }.into());
            }
            self.jump(ownership.ceiling, Some(place));
        }
        Ok(())
    }

    /// Moves to a number because of an advance, or of the beginning of an ownership.
    fn jump(&mut self, to: u64, ownership: Option<usize>) {
        let numbers = to - self.last;
        if numbers > 0 {
            let attempts = self.responded..self.attempts.len();
            self.jumps.push(Found { numbers, ownership, attempts });
        }
        // An advance to the last number leaves it as it is.
        if numbers > 0 || ownership.is_some() {
            self.is_stated = false;
        }
        self.last = to;
    }

    /// Explains the numbers after the last number, up to `before`, by attempts without a response.
    fn fill(&mut self, before: u64) -> Result<(), Box<Discrepancy>> {
        let hole = before - self.last;
        if hole == 0 {
            return Ok(());
        }
        let open: Vec<usize> = (0..self.attempts.len()).rev().filter(|place| !self.attempts[*place]).collect();
        let needed = usize::try_from(hole / self.calls.count).unwrap_or(usize::MAX);
        if !hole.is_multiple_of(self.calls.count) || needed > open.len() {
            let (uid, epoch, after) = (self.calls.uid, self.epoch, self.last);
            return Err(Discrepancy::Hole { uid, epoch, after, before, attempts: open.len() }.into());
        }
        open[..needed].iter().for_each(|place| self.attempts[*place] = true);
        self.lost += hole;
        (self.last, self.is_stated) = (before, true);
        Ok(())
    }

    /// Divides each hole before a jump into numbers of lost responses and the jump. To be called after all steps,
    /// because a later number may show where an attempt took its numbers.
    fn divide(&mut self) -> Vec<Jump> {
        let mut jumps = Vec::new();
        for Found { numbers, ownership, attempts } in std::mem::take(&mut self.jumps) {
            let mut lost = 0;
            for place in attempts {
                if !self.attempts[place] && lost + self.calls.count <= numbers {
                    self.attempts[place] = true;
                    lost += self.calls.count;
                }
            }
            self.lost += lost;
            jumps.push(Jump { uid: self.calls.uid, numbers: numbers - lost, lost, ownership });
        }
        jumps
    }
}

/// Returns whether the last numbers of the section were lost at the beginning of an ownership.
fn loses(ownership: &Ownership, event: Option<&super::OwnershipEvent>) -> bool {
    match ownership.by {
        Beginning::FirstOwner | Beginning::Handover => false,
        Beginning::Takeover | Beginning::Restore => true,
        Beginning::Release | Beginning::Arrival => event.is_some_and(|event| event.most_skipped != Some(0)),
    }
}
