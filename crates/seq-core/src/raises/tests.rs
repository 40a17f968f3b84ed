use alloc::rc::Rc;
use alloc::vec;

use super::*;
use crate::id::{Incarnation, NodeId, SlotIndex, Step};
use crate::request::Count;
use crate::section::{Section, Take};

const ME: Session = Session { node: NodeId(1), incarnation: Incarnation(1) };

const MS: Duration = Duration::from_millis(1);

struct One {
    id: u32,
    epoch: u64,
    section: Section,
}

impl RaisedSection for One {
    fn id(&self) -> SectionId {
        SectionId(self.id)
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    fn ceiling(&self) -> Seq {
        self.section.ceiling()
    }

    fn raise_target(&self) -> Option<Seq> {
        self.section.raise_target()
    }

    fn is_in_ticks(&self) -> bool {
        self.section.is_in_ticks()
    }

    fn adapt_step(&self, since: Duration, most: Step) {
        self.section.adapt_step(since, most);
    }

    fn raised(&self, committed: Seq) -> Option<RaiseTicket> {
        self.section.raised(committed)
    }
}

/// Creates a queue with batches of two, one in flight, and sections that wait for their first ceiling.
fn queued(sections: u32) -> (RaiseQueue<Rc<One>>, Vec<Rc<One>>) {
    let options = RaiseOptions { batch: 2, in_flight: 1, retry_min: 20 * MS, retry_max: 100 * MS, step_max: Step(0) };
    let mut queue = RaiseQueue::new(options);
    let one = |id| Rc::new(One { id, epoch: 1, section: Section::takeover(1, Seq(0), Step(10)) });
    let sections: Vec<_> = (0..sections).map(one).collect();
    for one in &sections {
        let Take::AtCeiling { ticket: Some(ticket), .. } = one.section.take(SlotIndex(0), Count::ONE) else { panic!() };
        queue.enqueue(one.clone(), ticket);
    }
    (queue, sections)
}

fn ids(batch: &RaiseBatch<Rc<One>>) -> Vec<u32> {
    batch.raises().map(|raise| raise.section.0).collect()
}

#[test]
fn batches_are_cut_and_bounded_in_flight() {
    let (mut queue, sections) = queued(3);
    let batch = queue.next_batch(MS, Some(ME), |_| true).unwrap();
    assert_eq!((ids(&batch), batch.session(), batch.sections()), (vec![0, 1], ME, 2));
    assert!(queue.next_batch(MS, Some(ME), |_| true).is_none(), "one is in flight");
    assert!(batch.fits(&[Some(Seq(10)), None]) && !batch.fits(&[Some(Seq(10))]) && !batch.fits(&[Some(Seq(9)), None]));
    let outcome = queue.on_response(batch, &[Some(Seq(10)), None]);
    assert_eq!((outcome.raised, outcome.lost), (vec![(SectionId(0), Epoch(1))], vec![(SectionId(1), Epoch(1))]));
    assert_eq!((outcome.distances, sections[0].section.ceiling()), (vec![10], Seq(10)));
    assert_eq!(ids(&queue.next_batch(MS, Some(ME), |_| true).unwrap()), [2]);
}

#[test]
fn a_failed_raise_is_queued_again_after_a_wait() {
    let (mut queue, _sections) = queued(1);
    let batch = queue.next_batch(MS, Some(ME), |_| true).unwrap();
    assert_eq!(queue.on_failed(batch, MS, 0), [(SectionId(0), Epoch(1))]);
    assert_eq!(queue.next_deadline(), Some(11 * MS));
    assert!(queue.next_batch(10 * MS, Some(ME), |_| true).is_none());
    let batch = queue.next_batch(11 * MS, Some(ME), |_| true).unwrap();
    assert_eq!(queue.on_failed(batch, 11 * MS, 0), [(SectionId(0), Epoch(1))]);
    assert_eq!(queue.next_deadline(), Some(31 * MS), "the wait doubles");
}

#[test]
fn a_raise_that_is_too_short_is_followed_by_the_next_one() {
    let (mut queue, sections) = queued(1);
    let batch = queue.next_batch(MS, Some(ME), |_| true).unwrap();
    let take = sections[0].section.take(SlotIndex(0), Count::new(30).unwrap());
    assert!(matches!(take, Take::AtCeiling { ticket: None, .. }), "the raise in flight has the ticket: {take:?}");
    queue.on_response(batch, &[Some(Seq(10))]);
    assert_eq!(queue.next_batch(MS, Some(ME), |_| true).unwrap().raises().next().unwrap().to, Seq(30));
}

/// A failed call does not change the step, and the next ownership begins with the step of the set.
#[test]
fn the_step_of_a_busy_section_grows_once_for_each_committed_raise() {
    let (mut queue, _) = queued(0);
    queue.options.step_max = Step(30);
    let owned = |epoch, ceiling| Rc::new(One { id: 0, epoch, section: Section::takeover(1, ceiling, Step(10)) });
    let take = |queue: &mut RaiseQueue<_>, one: &Rc<One>, count: u32| {
        let take = one.section.take(SlotIndex(0), Count::new(count).unwrap());
        let (Take::AtCeiling { ticket: Some(ticket), .. } | Take::Given { ticket: Some(ticket), .. }) = take else {
            panic!("{take:?}")
        };
        queue.enqueue(one.clone(), ticket);
    };
    let raise = |queue: &mut RaiseQueue<_>, ms: u32| {
        let batch = queue.next_batch(ms * MS, Some(ME), |_| true).unwrap();
        let to = batch.raises().next().unwrap().to;
        (batch, to)
    };
    let first = owned(1, Seq(0));
    take(&mut queue, &first, 1);
    let (batch, to) = raise(&mut queue, 1);
    queue.on_response(batch, &[Some(to)]);
    take(&mut queue, &first, 5);
    let (batch, to) = raise(&mut queue, 2);
    assert_eq!(to, Seq(30), "a step of 20");
    queue.on_failed(batch, 2 * MS, 0);
    let (batch, to) = raise(&mut queue, 12);
    assert_eq!(to, Seq(30));
    queue.on_response(batch, &[Some(to)]);
    take(&mut queue, &first, 20);
    let (batch, to) = raise(&mut queue, 13);
    assert_eq!(to, Seq(60), "the largest step");
    queue.on_response(batch, &[Some(to)]);

    let second = owned(2, to);
    take(&mut queue, &second, 1);
    assert_eq!(raise(&mut queue, 14).1, Seq(70));
}

/// A call retries after each raise, so a node with a wrong clock would send a request after each response.
#[test]
fn a_raise_of_ticks_that_was_cut_short_is_followed_by_the_next_one_after_a_pause() {
    let (mut queue, _) = queued(0);
    let [wrong, right] = [0, 1]
        .map(|id| Rc::new(One { id, epoch: 1, section: Section::takeover(1, Seq(0), Step(10)).in_ticks(Step(10)) }));
    let call = |queue: &mut RaiseQueue<_>, one: &Rc<One>| {
        let take = one.section.take(SlotIndex(0), Count::new(30).unwrap());
        let Take::AtCeiling { ticket: Some(ticket), .. } = take else { panic!("{take:?}") };
        queue.enqueue(one.clone(), ticket);
    };
    call(&mut queue, &wrong);
    let batch = queue.next_batch(MS, Some(ME), |_| true).unwrap();
    assert!(batch.fits(&[Some(Seq(20))]) && batch.fits(&[Some(Seq(0))]), "the clock of the store decides");
    let outcome = queue.on_response(batch, &[Some(Seq(20))]);
    assert_eq!((outcome.distances, wrong.section.ceiling()), (vec![20], Seq(20)));
    assert_eq!(queue.next_deadline(), None, "no raise is wanted until a call retries");
    call(&mut queue, &wrong);
    call(&mut queue, &right);
    assert_eq!(queue.next_deadline(), Some(101 * MS));
    let batch = queue.next_batch(2 * MS, Some(ME), |_| true).unwrap();
    assert_eq!(ids(&batch), [1], "the other section does not wait");
    queue.on_response(batch, &[Some(Seq(40))]);
    assert!(queue.next_batch(100 * MS, Some(ME), |_| true).is_none());
    let batch = queue.next_batch(101 * MS, Some(ME), |_| true).unwrap();
    assert_eq!(batch.raises().next().unwrap().to, Seq(40));
    queue.on_response(batch, &[Some(Seq(40))]);
    assert!(matches!(wrong.section.take(SlotIndex(0), Count::new(30).unwrap()), Take::Given { .. }));
}

#[test]
fn what_left_is_dropped_and_an_incarnation_takes_its_raises_with_it() {
    let (mut queue, _sections) = queued(3);
    let batch = queue.next_batch(MS, Some(ME), |one| one.id == 2).unwrap();
    assert_eq!(ids(&batch), [2], "a batch of sections that left is passed over");
    queue.on_session_over(batch);
    assert!(queue.next_batch(MS, Some(ME), |_| true).is_none());
    let (mut queue, _sections) = queued(1);
    assert!(queue.next_batch(MS, None, |_| true).is_none());
    assert!(queue.next_batch(MS, Some(ME), |_| true).is_none(), "it was of an earlier incarnation");
}

#[test]
fn a_section_whose_ceiling_rises_too_fast_is_delayed_and_no_other_waits_for_it() {
    let (mut queue, sections) = queued(2);
    let batch = queue.next_batch(MS, Some(ME), |_| true).unwrap();
    assert_eq!(queue.on_too_fast(batch, SectionId(1), 500 * MS, MS, 0), []);
    assert_eq!(queue.next_deadline(), Some(501 * MS));
    let batch = queue.next_batch(MS, Some(ME), |_| true).unwrap();
    assert_eq!(ids(&batch), [0], "sent again at once, without the other");
    // A deadline that passes while a batch is in flight no longer counts: the section is in the queue then.
    assert!(queue.next_batch(501 * MS, Some(ME), |_| true).is_none());
    assert_eq!(queue.next_deadline(), None);
    queue.on_response(batch, &[Some(Seq(10))]);
    let batch = queue.next_batch(501 * MS, Some(ME), |_| true).unwrap();
    assert_eq!(ids(&batch), [1]);
    queue.on_response(batch, &[Some(Seq(10))]);
    assert_eq!(sections[1].section.ceiling(), Seq(10));
}

#[test]
fn a_delay_is_bounded_and_no_refusal_is_repeated_at_once() {
    let (mut queue, _sections) = queued(1);
    let batch = queue.next_batch(MS, Some(ME), |_| true).unwrap();
    assert_eq!(queue.on_too_fast(batch, SectionId(0), Duration::ZERO, MS, 0), []);
    assert_eq!(queue.next_deadline(), Some(21 * MS));
    let batch = queue.next_batch(21 * MS, Some(ME), |_| true).unwrap();
    assert_eq!(queue.on_too_fast(batch, SectionId(0), Duration::MAX, MS, 0), []);
    assert_eq!(queue.next_deadline(), Some(LONGEST_WAIT + MS));
}

#[test]
fn a_refusal_for_a_section_that_is_not_in_the_batch_fails_it() {
    let (mut queue, _sections) = queued(2);
    let batch = queue.next_batch(MS, Some(ME), |_| true).unwrap();
    let failed = queue.on_too_fast(batch, SectionId(7), 500 * MS, MS, 0);
    assert_eq!(failed, [(SectionId(0), Epoch(1)), (SectionId(1), Epoch(1))]);
    assert_eq!(queue.next_deadline(), Some(11 * MS));
}

#[test]
fn a_delayed_section_that_left_is_dropped_and_an_incarnation_takes_its_delayed_raises_with_it() {
    for (now, session) in [(501 * MS, Some(ME)), (2 * MS, None)] {
        let (mut queue, _sections) = queued(1);
        let batch = queue.next_batch(MS, Some(ME), |_| true).unwrap();
        queue.on_too_fast(batch, SectionId(0), 500 * MS, MS, 0);
        assert!(queue.next_batch(now, session, |_| false).is_none());
        assert_eq!(queue.next_deadline(), None);
        assert!(queue.next_batch(501 * MS, Some(ME), |_| true).is_none());
    }
}
