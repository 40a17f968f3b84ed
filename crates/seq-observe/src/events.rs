//! Converts an event of a set to the forms that commands and pages show, which are a sentence, a row of a table, and
//! JSON.

use seq_command::utc;
use seq_proto::v1::SetEvent;

mod text;
mod view;

pub use text::text;
pub use view::EventView;

/// Returns the cells of an event's row in a table, which are the number, the time, the kind and the text of the event.
#[must_use]
pub fn row(event: &SetEvent) -> [String; 4] {
    let time = if event.at_unix_ms > 0 { utc::text_of_ms(event.at_unix_ms) } else { "-".to_owned() };
    [event.index.to_string(), time, event.kind.clone(), text(event)]
}
