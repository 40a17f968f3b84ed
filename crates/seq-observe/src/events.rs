//! Formats of the events of sets for commands and pages, which are a text, a row and JSON.

use seq_command::utc;
use seq_proto::v1::SetEvent;

mod text;
mod view;

pub use text::text;
pub use view::EventView;

/// Returns the cells of an event's row, which are the number, time, kind and text of the event.
#[must_use]
pub fn row(event: &SetEvent) -> [String; 4] {
    let time = if event.at_unix_ms > 0 { utc::text_of_ms(event.at_unix_ms) } else { "-".to_owned() };
    [event.index.to_string(), time, event.kind.clone(), text(event)]
}
