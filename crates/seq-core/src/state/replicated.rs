//! Commands with the type of their output.
//!
//! [`Command`] and [`Answer`] are closed enums, so that a log can hold any command; a proposer knows which one it proposes,
//! and gets the output of that one.

use alloc::string::String;
use alloc::vec::Vec;

use super::{
    Answer, Command, CommandRefusal, Raise, Reassign, Registration, SetDefinition, Terms, Transfer, Transferred,
};
use crate::id::{Epoch, Incarnation, NodeId, RenewSeq, SectionId, Seq};

/// A command whose output has one type.
pub trait Replicated: Into<Command> {
    /// What applying it returns.
    type Output;

    /// The output in the answer to this command.
    ///
    /// # Panics
    /// When the answer is to another command: [`State::apply`](super::State::apply) pairs them, and the tests of this module
    /// hold it to that.
    fn output(answer: Answer) -> Self::Output;
}

/// See [`Command::SetTerms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTerms {
    /// The terms that this replaces; `None` where there are none.
    pub replaces: Option<Terms>,
    /// The terms.
    pub terms: Terms,
}

/// See [`Command::Renew`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// The node.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The last renewal's number plus one, or the last one again.
    pub renew_seq: RenewSeq,
    /// Ownerships that the incarnation gives up.
    pub released: Vec<(SectionId, Epoch)>,
    /// Whether the process is about to exit.
    pub leaving: bool,
}

/// See [`Command::Raise`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaiseCeilings {
    /// The node that owns the sections.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The sections, with the ownership and the requested ceiling.
    pub raises: Vec<Raise>,
}

/// See [`Command::Reassign`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reassignment(pub Vec<Reassign>);

/// See [`Command::Drain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Name of the node.
    pub name: String,
    /// Whether it may own no sections.
    pub drained: bool,
}

/// See [`Command::ClaimStoreId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimStoreId {
    /// The id, 1 or above.
    pub id: u64,
}

/// Pairs a command with the variant of its answer.
macro_rules! replicated {
    ($($command:ty => $answer:ident($output:ty), $from:expr;)*) => {$(
        impl From<$command> for Command {
            fn from(command: $command) -> Command {
                let from: fn($command) -> Command = $from;
                from(command)
            }
        }

        impl Replicated for $command {
            type Output = $output;

            fn output(answer: Answer) -> $output {
                match answer {
                    Answer::$answer(output) => output,
                    other => unreachable!("{} got the answer {other:?}", stringify!($command)),
                }
            }
        }
    )*};
}

replicated! {
    SetDefinition => SetDefined(Result<(), CommandRefusal>), Command::DefineSet;
    SetTerms => TermsSet(Result<(), CommandRefusal>),
        |SetTerms { replaces, terms }| Command::SetTerms { replaces, terms };
    Registration => Registered(Result<(NodeId, Incarnation), CommandRefusal>), Command::Register;
    Renew => Renewed(Result<(), CommandRefusal>), |renew| {
        let Renew { node, incarnation, renew_seq, released, leaving } = renew;
        Command::Renew { node, incarnation, renew_seq, released, leaving }
    };
    RaiseCeilings => Raised(Result<Vec<Option<Seq>>, CommandRefusal>),
        |RaiseCeilings { node, incarnation, raises }| Command::Raise { node, incarnation, raises };
    Reassignment => Reassigned(Vec<Option<Epoch>>), |Reassignment(moves)| Command::Reassign(moves);
    Transfer => Transferred(Result<Transferred, CommandRefusal>), Command::Transfer;
    Drain => Drained(Result<NodeId, CommandRefusal>), |Drain { name, drained }| Command::Drain { name, drained };
    ClaimStoreId => StoreIdClaimed(bool), |ClaimStoreId { id }| Command::ClaimStoreId { id };
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use core::time::Duration;

    use super::*;
    use crate::id::HandoverId;
    use crate::layout::Layout;
    use crate::state::State;

    fn apply<C: Replicated>(state: &mut State, command: C) -> C::Output {
        C::output(state.apply(&command.into()))
    }

    #[test]
    fn every_command_gets_its_own_output() {
        let state = &mut State::default();
        let layout = Layout::new(0..1_000, 100).unwrap();
        assert_eq!(apply(state, SetDefinition { name: "dev".into(), layout }), Ok(()));
        let terms = Terms { lease_wait: Duration::from_secs(10) };
        assert_eq!(apply(state, SetTerms { replaces: None, terms }), Ok(()));
        let (one, incarnation) = apply(state, Registration::new("a1", "a1:1", 1)).unwrap();
        let (two, to_incarnation) = apply(state, Registration::new("a2", "a2:1", 2)).unwrap();
        let (section, epoch) = (SectionId(0), Epoch(1));
        let first = Reassign { section, expected: Epoch(0), liveness: None, to: one, incarnation };
        assert_eq!(apply(state, Reassignment(vec![first])), [Some(epoch)]);
        let renew = Renew { node: one, incarnation, renew_seq: RenewSeq(1), released: vec![], leaving: false };
        assert_eq!(apply(state, renew), Ok(()));
        let raises = vec![Raise { section, epoch, to: Seq(7) }];
        assert_eq!(apply(state, RaiseCeilings { node: one, incarnation, raises }), Ok(vec![Some(Seq(7))]));
        let handover_id = HandoverId(5);
        let transfer = Transfer { section, epoch, from: one, incarnation, to: two, to_incarnation, handover_id };
        assert_eq!(apply(state, transfer), Ok(Transferred { epoch: Epoch(2), max_seq: Seq(7) }));
        assert_eq!(apply(state, Drain { name: "a1".into(), drained: true }), Ok(one));
        assert!(apply(state, ClaimStoreId { id: 4 }));
    }
}
