//! Compression of responses without secrets: files of the program and levels of the map. Pages are not compressed,
//! because the length of a compressed page depends on its values together with words that another site may choose.

use std::io::Write;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Header of a compressed response.
pub(crate) const ENCODING: (HeaderName, HeaderValue) = (header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));

/// Returns whether the sender of a request with these headers reads gzip, as all browsers do.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| coding.trim() == "gzip")
}

/// Compresses a response.
pub(crate) fn compress(content: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    let written = encoder.write_all(content).and_then(|()| encoder.finish());
    written.expect("a vector takes every write")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_request_accepts_gzip_if_it_names_it_without_a_weight() {
        for (accepted, expected) in
            [("gzip, deflate, br", true), ("br,gzip", true), ("gzip;q=0", false), ("identity", false), ("", false)]
        {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            assert_eq!(is_accepted(&headers), expected, "{accepted}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }

    #[test]
    fn content_is_the_same_after_decompression() {
        let content = [7, 7, 7, 255].repeat(10_000);
        let compressed = compress(&content, Compression::fast());
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(&*compressed).read_to_end(&mut read).unwrap();
        assert!(read == content && compressed.len() < content.len() / 10, "{} bytes", compressed.len());
    }
}
