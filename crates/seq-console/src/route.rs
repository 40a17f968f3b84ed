//! The pages by their addresses.

use std::borrow::Cow;

/// A page with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// State of all sets.
    Overview,
    /// Activity of all sections over time.
    Map,
    /// The busiest sections.
    Sections {
        /// Whether they are ordered by writes and not by numbers.
        by_writes: bool,
    },
    /// One section.
    Section(u32),
    /// Nodes of a set; of all sets if the name is empty.
    Nodes {
        /// Name of the set.
        set: String,
    },
    /// Sets and migrations.
    Sets,
    /// Events of the sets.
    Events(Filter),
    /// The number of a user.
    Uid(Option<String>),
    /// Settings of a node; without an address the differences between nodes.
    Config {
        /// Address of the node.
        node: Option<String>,
    },
    /// A page of the runbook.
    Runbook(String),
}

/// Words that the events of a page must have. Empty words mean all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Name of the set.
    pub(crate) set: String,
    /// Kind of the event.
    pub(crate) kind: String,
    /// Name of a node.
    pub(crate) node: String,
    /// Index of a section.
    pub(crate) section: String,
}

/// Longest parameter, which is longer than any name or uid.
const MAX_PARAMETER: usize = 256;

impl Route {
    /// Returns the page at a path with a query; `None` if there is none.
    pub(crate) fn parse(path: &str, query: &str) -> Option<Route> {
        let pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = form_urlencoded::parse(query.as_bytes()).collect();
        let given = |name: &str| {
            let value = pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.trim().to_owned());
            value.filter(|value| !value.is_empty() && value.len() <= MAX_PARAMETER)
        };
        let word = |name: &str| given(name).unwrap_or_default();
        Some(match path {
            "/" => Route::Overview,
            "/map" => Route::Map,
            "/sections" => Route::Sections { by_writes: given("by").as_deref() == Some("writes") },
            "/nodes" => Route::Nodes { set: word("set") },
            "/sets" => Route::Sets,
            "/events" => Route::Events(Filter {
                set: word("set"),
                kind: word("kind"),
                node: word("node"),
                section: word("section"),
            }),
            "/uid" => Route::Uid(given("uid")),
            "/config" => Route::Config { node: given("node") },
            "/runbook" => Route::Runbook("README".to_owned()),
            _ => {
                if let Some(section) = path.strip_prefix("/section/") {
                    return section.parse().ok().map(Route::Section);
                }
                Route::Runbook(path.strip_prefix("/runbook/")?.to_owned())
            }
        })
    }
}

/// Returns a text as it is written in the query of an address.
pub(crate) fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_pages() {
        assert_eq!(Route::parse("/", ""), Some(Route::Overview));
        assert_eq!(Route::parse("/sections", "by=writes"), Some(Route::Sections { by_writes: true }));
        assert_eq!(Route::parse("/section/31140", ""), Some(Route::Section(31_140)));
        assert_eq!(Route::parse("/uid", "uid=+7+"), Some(Route::Uid(Some("7".into()))));
        assert_eq!(Route::parse("/nodes", "set=a%26b"), Some(Route::Nodes { set: "a&b".into() }));
        assert_eq!(Route::parse("/runbook/sets.md", ""), Some(Route::Runbook("sets.md".into())));
        for (path, query) in [("/section/", ""), ("/section/-1", ""), ("/section/4294967296", ""), ("/x", ""), ("", "")]
        {
            assert_eq!(Route::parse(path, query), None, "{path}");
        }
        let long = format!("uid={}", "9".repeat(MAX_PARAMETER + 1));
        assert_eq!(Route::parse("/uid", &long), Some(Route::Uid(None)));
        assert_eq!(escaped("a&b=<c>"), "a%26b%3D%3Cc%3E");
    }
}
