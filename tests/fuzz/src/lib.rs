//! Fuzz targets: code that must survive any bytes.
//!
//! Each function takes arbitrary bytes and may accept or refuse them, but never panics, hangs or allocates memory out
//! of proportion. `cargo xtask fuzz` feeds it the inputs that libFuzzer finds under coverage; the tests feed it random
//! bytes on every run. The readers of stored records and of Raft's messages are fuzzed as well, by the binaries
//! `record` and `raft`: they are `seq_store::fuzzing`, which exists only in a build for the fuzzer.
//!
//! `wire`, `messages`, `json` and `resp` decode. `apply`, `control` and `handover` continue from there: decoded
//! messages reach the rules of `seq-core`, in states that earlier input made; `inter_set` has three sets, of which one
//! is hostile. `tests/fuzz/corpus` holds at least one input for each target, from which a run begins; `cargo test`
//! feeds them, too.

mod apply;
mod control;
mod handover;
mod input;
mod inter_set;
mod messages;
mod replica;
mod resp;
#[cfg(test)]
mod seeds;
mod sets;
#[cfg(test)]
mod total;
mod wire;

pub use apply::apply;
pub use control::control;
pub use handover::handover;
pub use inter_set::inter_set;
pub use messages::{json, messages};
pub use resp::resp;
pub use wire::wire;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    #[test]
    fn every_message_of_the_protos_is_fuzzed() {
        let set = prost_types::FileDescriptorSet::decode(seq_proto::DESCRIPTORS).unwrap();
        let ours = set.file.iter().filter(|file| file.package() == "seqsvr.v1");
        let mut defined: Vec<_> = ours.flat_map(|file| &file.message_type).map(|message| message.name()).collect();
        let mut fuzzed: Vec<_> = messages::MESSAGES.iter().map(|(name, _)| *name).collect();
        defined.sort_unstable();
        fuzzed.sort_unstable();
        assert_eq!(fuzzed, defined);
    }

    #[test]
    fn what_json_there_is_passes_as_the_message_it_is() {
        let bodies = [
            r#"{"uid":"18446744073709551615","count":1,"routeVersion":0,"epoch":"7","hops":2}"#,
            r#"{"values":["1"],"prevs":[0],"epochs":["1"],"errors":[{"index":0,"code":3,"reason":"X"}],
                "routes":{"set":"s","version":1,"runs":[{"firstSection":0,"sections":1}]}}"#,
            r#"{"values":[1],"exactness":["EXACTNESS_EXACT",2],"epochs":[1]}"#,
        ];
        for (kind, _) in messages::IN_JSON.iter().enumerate() {
            for body in bodies {
                json(&[&[kind as u8], body.as_bytes()].concat());
            }
        }
    }

    proptest! {
        #[test]
        fn random_bytes_pass_as_messages_or_not(data in prop::collection::vec(any::<u8>(), 0..512)) {
            messages(&data);
        }

        #[test]
        fn random_text_passes_as_json_or_not(kind: u8, body in "[{}\\[\\]:,\"0-9a-zA-Z. -]{0,200}") {
            json(&[&[kind], body.as_bytes()].concat());
        }

        #[test]
        fn random_bytes_pass_the_wire(data in prop::collection::vec(any::<u8>(), 0..512)) {
            wire(&data);
        }

        #[test]
        fn random_bytes_pass_as_commands_or_not(data in prop::collection::vec(any::<u8>(), 0..512)) {
            resp(&data);
        }
    }
}
