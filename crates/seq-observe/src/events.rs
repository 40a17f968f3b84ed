//! Events of sets as commands and pages show them: the text of an event, its row and its JSON.

use seq_command::utc;
use seq_proto::v1::SetEvent;

mod text;
mod view;

pub use text::text;
pub use view::EventView;

/// Returns the cells of an event: number, time, kind and text.
#[must_use]
pub fn row(event: &SetEvent) -> [String; 4] {
    let time = if event.at_unix_ms > 0 { utc::text_of_ms(event.at_unix_ms) } else { "-".to_owned() };
    [event.index.to_string(), time, event.kind.clone(), text(event)]
}
