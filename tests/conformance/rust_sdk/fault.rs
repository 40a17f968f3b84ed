//! Faults that the driver of the Rust SDK can have. With the fault of its row in the driver, each row must fail.

use std::time::Duration;

use seq_channel::Dial;
use seq_client::ClientBuilder;
use serde_json::{Value, json};
use tonic::transport::Endpoint;

/// A fault of an SDK, or of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Each call takes one more number, which no response has: a retry in silence.
    Hidden,
    /// No attempt is reported as lost, and no outcome as unknown.
    Unreported,
    /// Values of 64 bits go through a double.
    Double,
    /// Calls do not share messages.
    Unshared,
    /// All requests go to the first seed, which forwards them.
    Unrouted,
    /// Calls end long before a section has a new owner.
    Hasty,
    /// Calls ignore their own deadlines.
    Late,
    /// Every error has the same kind.
    Vague,
    /// A reload reads no file.
    Stale,
    /// The log has the token.
    Loud,
    /// `close` and `cancel` end no call.
    Deaf,
    /// A closed client keeps its resources.
    Hoard,
    /// A failed call is repeated at once, without a budget.
    Stubborn,
}

/// Deadline of a hasty call, and the repetitions of a stubborn one.
const HASTY: Duration = Duration::from_millis(50);
pub(super) const REPETITIONS: u32 = 8;

impl Fault {
    const ALL: [Fault; 13] = [
        Fault::Hidden,
        Fault::Unreported,
        Fault::Double,
        Fault::Unshared,
        Fault::Unrouted,
        Fault::Hasty,
        Fault::Late,
        Fault::Vague,
        Fault::Stale,
        Fault::Loud,
        Fault::Deaf,
        Fault::Hoard,
        Fault::Stubborn,
    ];

    /// Returns the name, the argument of the driver.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_ascii_lowercase()
    }

    pub(super) fn parse(name: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// Changes the settings of a client.
    pub(super) fn build(self, builder: ClientBuilder, first_seed: &str) -> ClientBuilder {
        match self {
            Fault::Unshared => builder.coalesce(false),
            Fault::Unrouted => {
                let seed = Endpoint::from_shared(first_seed.to_owned()).expect("a seed is a URL");
                builder.dial(Dial::new(move |_| seed.connect_lazy()))
            }
            _ => builder,
        }
    }

    /// Changes the deadline of a call; `stated` is that of its request.
    pub(super) fn deadline(self, stated: Option<Duration>) -> Option<Duration> {
        match self {
            Fault::Hasty => Some(HASTY),
            Fault::Late => None,
            _ => stated,
        }
    }

    /// Changes a request or a response.
    pub(super) fn damage(self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.damage(item)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match (self, &**name) {
                        (Fault::Double, "uid" | "uids" | "to" | "first" | "value" | "prev") => round(field),
                        (Fault::Unreported, "lost") => *field = json!(0),
                        (Fault::Unreported, "may_have_applied") => *field = json!(false),
                        (Fault::Vague, "kind") => *field = json!("other"),
                        _ => self.damage(field),
                    }
                }
            }
            _ => {}
        }
    }
}

/// Rounds 64-bit values to the nearest doubles.
fn round(value: &mut Value) {
    if let Value::Array(items) = value {
        items.iter_mut().for_each(round);
    }
    if let Some(number) = value.as_str().and_then(|text| text.parse::<f64>().ok()) {
        *value = json!((number as u64).to_string());
    }
}
