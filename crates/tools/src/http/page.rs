//! Where the next page of a result is.

use reqwest::{
    Url,
    header::{HeaderMap, LINK},
};
use serde_json::Value;
use windlass_core::canonical::CanonicalJson;

const MAX_CHARS: usize = 2048;

/// The cursor at a JSON pointer of the result. An empty one means that there are no more pages.
pub(super) fn cursor_at(pointer: &str, result: &CanonicalJson) -> Option<String> {
    let result = result.to_value();
    let cursor = match result.pointer(pointer)? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    usable(cursor)
}

/// The target of a `Link` header with `rel="next"` (RFC 8288).
pub(super) fn linked(headers: &HeaderMap, base: &Url) -> Option<String> {
    let values = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    let target = values.flat_map(links).find_map(|(target, parameters)| is_next(parameters).then_some(target))?;
    usable(base.join(target).ok()?.into())
}

fn usable(cursor: String) -> Option<String> {
    (!cursor.is_empty() && cursor.chars().count() <= MAX_CHARS && !cursor.contains(char::is_control)).then_some(cursor)
}

/// Each target with its parameters. A comma may be a part of a target, so the angle brackets separate them.
fn links(value: &str) -> impl Iterator<Item = (&str, &str)> {
    value.split('<').skip(1).filter_map(|link| link.split_once('>'))
}

fn is_next(parameters: &str) -> bool {
    parameters.split([';', ',']).filter_map(|parameter| parameter.split_once('=')).any(|(name, value)| {
        let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
        name.trim().eq_ignore_ascii_case("rel") && relations.any(|relation| relation.eq_ignore_ascii_case("next"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_header_names_the_next_page() {
        let base = Url::parse("https://h/items?page=1").unwrap();
        for (value, expected) in [
            ("<https://h/items?page=2>; rel=\"next\"", Some("https://h/items?page=2")),
            ("<?page=2>; rel=next", Some("https://h/items?page=2")),
            ("<?page=0>; rel=\"prev\", <?page=2,3>; title=\"x\"; REL=\"last next\"", Some("https://h/items?page=2,3")),
            ("<?page=0>; rel=\"prev\"", None),
            ("<?page=2>; rel=\"nextish\"", None),
            ("?page=2; rel=next", None),
            ("<", None),
        ] {
            let headers = HeaderMap::from_iter([(LINK, value.parse().unwrap())]);
            assert_eq!(linked(&headers, &base).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_pointer_names_the_cursor() {
        let result = CanonicalJson::from(json!({
            "a": {"next": "c1"}, "n": 7, "empty": "", "null": null, "more": false, "long": "x".repeat(3000),
        }));
        for (pointer, expected) in [
            ("/a/next", Some("c1")),
            ("/n", Some("7")),
            ("/empty", None),
            ("/null", None),
            ("/more", None),
            ("/long", None),
            ("/gone", None),
        ] {
            assert_eq!(cursor_at(pointer, &result).as_deref(), expected, "{pointer}");
        }
    }
}
