//! Templates: `{name}` stands for an argument.

use reqwest::Url;
use serde_json::{Map, Value};
use windlass_core::envelope::ToolErrorKind;

use crate::{ToolFailure, args};

pub(super) type Args = Map<String, Value>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Argument(&'a str),
}

/// The text in order. What is not the name of an argument in braces is text.
fn pieces(template: &str) -> Vec<Piece<'_>> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let mut pieces = Vec::new();
    let mut text = 0;
    for (start, _) in template.match_indices('{') {
        let Some((name, _)) = template[start + 1..].split_once('}') else { break };
        if is_name(name) {
            pieces.push(Piece::Text(&template[text..start]));
            pieces.push(Piece::Argument(name));
            text = start + name.len() + 2;
        }
    }
    pieces.push(Piece::Text(&template[text..]));
    pieces
}

/// The arguments that a template uses.
pub(super) fn names(template: &str) -> impl Iterator<Item = &str> {
    pieces(template).into_iter().filter_map(|piece| match piece {
        Piece::Argument(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// The template with its arguments; `None` if one of them is absent.
pub(super) fn fill(template: &str, args: &Args) -> Option<String> {
    pieces(template).into_iter().map(|piece| filled(piece, args, str::to_owned)).collect()
}

/// As [`fill`], with a value for each item if the template is one argument and the argument is a list.
pub(super) fn fill_each(template: &str, args: &Args) -> Vec<String> {
    match (pieces(template).as_slice(), names(template).next().and_then(|name| args.get(name))) {
        ([Piece::Text(""), Piece::Argument(_), Piece::Text("")], Some(Value::Array(items))) => {
            items.iter().filter_map(text).collect()
        }
        _ => fill(template, args).into_iter().collect(),
    }
}

/// The URL of a request. An argument stays inside the path segment in which it stands.
pub(super) fn url(template: &str, args: &Args) -> Result<Url, ToolFailure> {
    let unusable = || {
        let message = "the url of the tool's definition is not an absolute URL with a fixed host; correct it";
        ToolFailure::new(ToolErrorKind::ToolFailed, message)
    };
    let host = template.find("://").map(|at| at + 3).ok_or_else(unusable)?;
    let path = template[host..].find(['/', '\\', '?', '#']).map_or(template.len(), |at| host + at);
    if names(&template[..path]).next().is_some() {
        return Err(unusable());
    }
    let mut url = template[..path].to_owned();
    // Parsers read a backslash in a path as a slash.
    for segment in template[path..].split_inclusive(['/', '\\']) {
        url.push_str(&fill_segment(segment, args)?);
    }
    let mut url = Url::parse(&url).map_err(|_| unusable())?;
    url.set_fragment(None);
    Ok(url)
}

fn fill_segment(segment: &str, args: &Args) -> Result<String, ToolFailure> {
    for name in names(segment) {
        let problem = match args.get(name).and_then(text) {
            None => "the argument {} is missing; it is a part of the address",
            Some(text) if text.is_empty() => "the argument {} must not be empty; it is a part of the address",
            Some(_) => continue,
        };
        return Err(args::unusable(name, "required", &problem.replace("{}", name)));
    }
    let filled: Option<String> = pieces(segment).into_iter().map(|piece| filled(piece, args, encoded)).collect();
    let filled = filled.unwrap_or_default();
    // A parser reads both forms of the dots as a step up, so there is no way to send such a value.
    let dots = filled.trim_end_matches(['/', '\\']).to_ascii_lowercase().replace("%2e", ".");
    let dots = dots.split(['?', '#']).next().unwrap_or_default();
    if let Some(name) = names(segment).next()
        && matches!(dots, "." | "..")
    {
        return Err(args::unusable(name, "pattern", &format!("the argument {name} must not be {dots:?}")));
    }
    Ok(filled)
}

fn filled(piece: Piece<'_>, args: &Args, encode: impl Fn(&str) -> String) -> Option<String> {
    match piece {
        Piece::Text(text) => Some(text.to_owned()),
        Piece::Argument(name) => args.get(name).and_then(text).map(|text| encode(&text)),
    }
}

/// A value as text; an absent one has none.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.iter().filter_map(text).collect::<Vec<_>>().join(",")),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Some(value.to_string()),
    }
}

/// Percent-encoded, so that no part of it has a meaning in a URL.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn args() -> Args {
        let args = json!({
            "id": "a b/c?d#e&f=g\\é%2F", "n": 7, "dot": ".", "dots": "..", "encoded": "%2e%2E", "empty": "",
            "absent": null, "list": ["x", 1, true], "object": {"k": "v"},
        });
        args.as_object().unwrap().clone()
    }

    #[test]
    fn an_argument_stays_in_its_segment() {
        let cases = [
            ("https://h/v1/{id}/x", "https://h/v1/a%20b%2Fc%3Fd%23e%26f%3Dg%5C%C3%A9%252F/x"),
            ("https://h/{n}", "https://h/7"),
            ("https://h/{n}.json?fixed=1&n={n}#part", "https://h/7.json?fixed=1&n=7"),
            ("https://h/{list}/{object}", "https://h/x%2C1%2Ctrue/%7B%22k%22%3A%22v%22%7D"),
            ("https://h/a{dots}b/", "https://h/a..b/"),
            // What a server makes of it is a literal segment of this name, never a step up.
            ("https://h/x/{encoded}/y", "https://h/x/%252e%252E/y"),
            ("https://h/{not a name}/{}", "https://h/%7Bnot%20a%20name%7D/%7B%7D"),
            ("https://h?q={id}", "https://h/?q=a%20b%2Fc%3Fd%23e%26f%3Dg%5C%C3%A9%252F"),
        ];
        for (template, expected) in cases {
            assert_eq!(url(template, &args()).unwrap().as_str(), expected, "{template}");
        }
    }

    #[test]
    fn an_argument_does_not_climb() {
        for template in [
            "https://h/a/{dots}",
            "https://h/a/{dots}/b",
            "https://h/a/{dot}/b",
            "https://h/a/{dot}{dot}/b",
            "https://h/a/.{dot}/b",
            "https://h/a/%2e{dot}/b",
            "https://h/a/{dots}?x=1",
            "https://h/a/{dots}#x",
            "https://h/a\\{dots}\\b",
        ] {
            let failure = url(template, &args()).unwrap_err();
            assert_eq!(failure.error.kind, ToolErrorKind::ToolInputInvalid, "{template}");
        }
    }

    #[test]
    fn an_address_needs_its_arguments_and_a_fixed_host() {
        for (template, message) in [
            ("https://h/{gone}", "the argument gone is missing; it is a part of the address"),
            ("https://h/{absent}", "the argument absent is missing; it is a part of the address"),
            ("https://h/{empty}", "the argument empty must not be empty; it is a part of the address"),
            ("https://{n}/", "the url of the tool's definition is not an absolute URL with a fixed host; correct it"),
            ("{n}://h/", "the url of the tool's definition is not an absolute URL with a fixed host; correct it"),
            ("/relative", "the url of the tool's definition is not an absolute URL with a fixed host; correct it"),
        ] {
            assert_eq!(url(template, &args()).unwrap_err().error.message, message, "{template}");
        }
    }

    #[test]
    fn a_template_without_one_of_its_arguments_is_left_out() {
        for (template, expected) in [
            ("plain", vec!["plain"]),
            ("{n}", vec!["7"]),
            ("{list}", vec!["x", "1", "true"]),
            ("in {list}", vec!["in x,1,true"]),
            ("{object}", vec!["{\"k\":\"v\"}"]),
            ("{n}-{gone}", vec![]),
            ("{absent}", vec![]),
            ("{empty}", vec![""]),
            ("{ {n}", vec!["{ 7"]),
        ] {
            assert_eq!(fill_each(template, &args()), expected, "{template}");
        }
        assert_eq!(names("/{a}/{b c}/{d_e-1}").collect::<Vec<_>>(), ["a", "d_e-1"]);
    }
}
