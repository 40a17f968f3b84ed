//! Style, scripts and icon, which this program was built with. Their addresses have a hash of their contents, so no
//! page gets the file of another release. Browsers do not keep them: another process may have had the port before.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use sha2::{Digest, Sha256};

use crate::gzip;

/// A file of the console.
pub(crate) struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static str,
    path: LazyLock<String>,
    compressed: LazyLock<Vec<u8>>,
}

/// The style of all pages.
pub(crate) static STYLE: Asset = Asset {
    name: "console.css",
    media_type: "text/css; charset=utf-8",
    content: include_str!("assets/console.css"),
    path: LazyLock::new(|| path_of(&STYLE)),
    compressed: LazyLock::new(|| compress(&STYLE)),
};

/// The script that keeps the values of a page current.
pub(crate) static LIVE: Asset = Asset {
    name: "live.js",
    media_type: "text/javascript; charset=utf-8",
    content: include_str!("assets/live.js"),
    path: LazyLock::new(|| path_of(&LIVE)),
    compressed: LazyLock::new(|| compress(&LIVE)),
};

/// The script of the section map.
pub(crate) static MAP: Asset = Asset {
    name: "map.js",
    media_type: "text/javascript; charset=utf-8",
    content: include_str!("assets/map.js"),
    path: LazyLock::new(|| path_of(&MAP)),
    compressed: LazyLock::new(|| compress(&MAP)),
};

/// The icon of the pages.
pub(crate) static ICON: Asset = Asset {
    name: "icon.svg",
    media_type: "image/svg+xml",
    content: include_str!("assets/icon.svg"),
    path: LazyLock::new(|| path_of(&ICON)),
    compressed: LazyLock::new(|| compress(&ICON)),
};

/// Returns the address of a file, with 64 bits of the hash of its content.
fn path_of(asset: &Asset) -> String {
    let hash = Sha256::digest(asset.content);
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("/assets/{hash}/{}", asset.name)
}

fn compress(asset: &Asset) -> Vec<u8> {
    gzip::compress(asset.content.as_bytes(), Compression::best())
}

impl Asset {
    /// Returns the address of the file.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// Returns the file at an address, for a request with these headers; `None` if there is none, as after a change of
/// version.
pub(crate) fn response(path: &str, headers: &HeaderMap) -> Option<Response> {
    let asset = [&STYLE, &LIVE, &MAP, &ICON].into_iter().find(|asset| asset.path() == path)?;
    let media_type = (header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    Some(match gzip::is_accepted(headers) {
        true => ([media_type, gzip::ENCODING], &**asset.compressed).into_response(),
        false => ([media_type], asset.content).into_response(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_hash_and_no_other_address_is_served() {
        let path = STYLE.path();
        assert!(path.starts_with("/assets/") && path.ends_with("/console.css"), "{path}");
        let headers = HeaderMap::new();
        assert!(response(path, &headers).is_some() && response("/assets/0/console.css", &headers).is_none());
    }

    #[test]
    fn scripts_and_style_are_small() {
        let size: usize = [&STYLE, &LIVE, &MAP, &ICON].iter().map(|asset| asset.compressed.len()).sum();
        assert!(size < 16_000, "{size} bytes are sent at the first visit");
    }
}
