//! The calls of a message, assembled from the pieces of `tool_calls`.

use windlass_core::{
    ids::CallId,
    message::{Content, Part},
};

use crate::{
    openai::read_arguments,
    wire::{Fields, ToolNames, is_absent, quoted, text_of},
};

/// One call on its way.
#[derive(Debug, Default)]
pub(super) struct Call {
    index: Option<String>,
    id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
    /// Fields of the call that this build does not know, such as Gemini's `extra_content`. They are sent back.
    rest: Fields,
    /// The same for the object `function`.
    function_rest: Fields,
    /// Whether its end was reported.
    pub(super) done: bool,
}

/// A piece of a call, as one delta has it.
#[derive(Debug)]
pub(super) struct Piece {
    index: Option<String>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    rest: Fields,
    function_rest: Fields,
}

impl Piece {
    pub(super) fn read(mut call: Fields) -> Self {
        let function = call.take("function").as_deref().and_then(Fields::parse).unwrap_or_default();
        let mut piece = Self::of_function(function);
        piece.index = call.take("index").filter(|index| !is_absent(index));
        piece.id = filled(call.take("id"));
        // It is written for every call.
        call.take("type");
        piece.rest = call;
        piece
    }

    /// A call in the form that `tool_calls` replaced.
    pub(super) fn of_function(mut function: Fields) -> Self {
        let name = filled(function.take("name"));
        // Arguments are JSON in a string; some servers send the object itself.
        let arguments = function.take("arguments").filter(|json| json != "null").unwrap_or_default();
        let arguments = text_of(&arguments).unwrap_or(arguments);
        Self { index: None, id: None, name, arguments, rest: Fields::default(), function_rest: function }
    }

    /// Whether it goes on with a call that has begun. Servers differ: some give each call an index, some give all calls
    /// index 0 and an id, some give neither and send each call at once.
    pub(super) fn continues(&self, call: &Call, is_last: bool) -> bool {
        let same_place = if self.index.is_some() { self.index == call.index } else { is_last };
        match (&self.id, &call.id) {
            (Some(id), Some(own)) => id == own,
            (Some(_), None) | (None, _) => {
                let begins = self.name.is_some() && !call.arguments.is_empty() && read_arguments(&call.arguments).1;
                same_place && !begins
            }
        }
    }

    pub(super) fn begin(self) -> Call {
        let mut call = Call { index: self.index.clone(), ..Call::default() };
        call.add(self);
        call
    }
}

fn filled(json: Option<String>) -> Option<String> {
    json.as_deref().and_then(text_of).filter(|text| !text.is_empty())
}

impl Call {
    pub(super) fn add(&mut self, piece: Piece) {
        if self.id.is_none() {
            self.id = piece.id;
        }
        if let Some(name) = piece.name.filter(|_| self.name.is_empty()) {
            self.name = name;
        }
        self.arguments.push_str(&piece.arguments);
        for (own, new) in [(&mut self.rest, piece.rest), (&mut self.function_rest, piece.function_rest)] {
            new.into_iter().filter(|(_, value)| !is_absent(value)).for_each(|(name, value)| own.set(&name, value));
        }
    }

    /// The part, and whether its arguments can be read. A call that cannot be read has no provider item: servers refuse
    /// a conversation whose arguments are not JSON, so it is written from what it says.
    pub(super) fn into_part(self, number: usize, provider: &str, names: &ToolNames) -> (Part, bool) {
        let (input, readable) = read_arguments(&self.arguments);
        let id = self.id.clone().unwrap_or_else(|| format!("call_{number}"));
        let part = Part::from(Content::ToolUse { id: CallId::new(id), name: names.ours(&self.name), input });
        let part = if readable { part.with_provider_item(provider, self.into_item()) } else { part };
        (part, readable)
    }

    /// Its element of `tool_calls` in the message that is sent back.
    fn into_item(self) -> String {
        let mut function = Fields::default();
        function.set("name", quoted(&self.name));
        let arguments = if self.arguments.trim().is_empty() { "{}" } else { &self.arguments };
        function.set("arguments", quoted(arguments));
        self.function_rest.into_iter().for_each(|(name, value)| function.set(&name, value));
        let mut item = Fields::default();
        if let Some(id) = &self.id {
            item.set("id", quoted(id));
        }
        item.set("type", quoted("function"));
        item.set("function", function.to_string());
        self.rest.into_iter().for_each(|(name, value)| item.set(&name, value));
        item.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls that a list of pieces makes: id, name and arguments of each.
    fn assembled(pieces: &[&str]) -> Vec<(Option<String>, String, String)> {
        let mut calls: Vec<Call> = Vec::new();
        for piece in pieces {
            let piece = Piece::read(Fields::parse(piece).unwrap());
            let last = calls.len().saturating_sub(1);
            let begun = calls.iter_mut().enumerate().rev().find(|(at, call)| piece.continues(call, *at == last));
            match begun {
                Some((_, call)) => call.add(piece),
                None => calls.push(piece.begin()),
            }
        }
        calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    #[test]
    fn pieces_are_put_together_as_each_server_sends_them() {
        let call = |id: &str, name: &str, arguments: &str| {
            (Some(id.to_owned()).filter(|id| !id.is_empty()), name.to_owned(), arguments.to_owned())
        };
        let table: [(&str, &[&str], Vec<_>); 7] = [
            (
                "by index",
                &[
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#,
                    r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}"#,
                    r#"{"index":0,"function":{"arguments":"{}"}}"#,
                    r#"{"index":1,"function":{"arguments":"}"}}"#,
                ],
                vec![call("a", "f", "{}"), call("b", "g", "{}")],
            ),
            (
                "the id and the name again in every piece",
                &[
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}"#,
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}"#,
                ],
                vec![call("a", "f", "{}")],
            ),
            (
                "the name again, without an id",
                &[
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}"#,
                    r#"{"index":0,"id":null,"function":{"name":"f","arguments":"}"}}"#,
                ],
                vec![call("a", "f", "{}")],
            ),
            (
                "all at index 0, with ids",
                &[
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#,
                    r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}"#,
                ],
                vec![call("a", "f", "{}"), call("b", "f", "{}")],
            ),
            (
                "whole calls without index and id",
                &[
                    r#"{"function":{"name":"f","arguments":"{\"x\":1}"}}"#,
                    r#"{"id":"","function":{"name":"f","arguments":{"x": 2}}}"#,
                ],
                vec![call("", "f", "{\"x\":1}"), call("", "f", "{\"x\": 2}")],
            ),
            (
                "pieces without an index",
                &[
                    r#"{"id":"a","function":{"name":"f"}}"#,
                    r#"{"function":{"arguments":"{"}}"#,
                    r#"{"function":{"arguments":"}"}}"#,
                    r#"{"id":"b","function":{"name":"g","arguments":null}}"#,
                ],
                vec![call("a", "f", "{}"), call("b", "g", "")],
            ),
            (
                "the id after the name",
                &[r#"{"index":0,"function":{"name":"f"}}"#, r#"{"index":0,"id":"a","function":{"arguments":"{}"}}"#],
                vec![call("a", "f", "{}")],
            ),
        ];
        for (what, pieces, calls) in table {
            assert_eq!(assembled(pieces), calls, "{what}");
        }
    }
}
