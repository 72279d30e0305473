//! Reading a tree against the known fields: keys become the definition's own, durations become milliseconds, and
//! every value's place is remembered for the checks that follow.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::{
    duration,
    shape::{Field, Record, Shape},
    tree::{Data, Entry, Fault, Node, Syntax},
};
use crate::{
    agent::{Problem, nearest},
    schema::escape,
    secret::{SecretRef, is_name},
};

/// What a tree says.
pub struct Reading {
    /// The file in JSON, by the fields that are filled; meaningless when there are faults.
    pub value: Value,
    pub faults: Vec<Fault>,
    pub places: Places,
}

/// Where each value stands in the file, by JSON pointer.
#[derive(Default)]
pub struct Places(BTreeMap<String, (usize, String)>);

impl Places {
    /// The byte where a value starts, and its path as the file writes it.
    pub fn get(&self, pointer: &str) -> Option<(usize, &str)> {
        self.0.get(pointer).map(|(at, path)| (*at, path.as_str()))
    }

    /// The problem at the place it is about; one with an absent field is about what lacks it.
    pub fn fault(&self, problem: Problem) -> Fault {
        let mut pointer = problem.path.as_str();
        loop {
            if let Some((at, path)) = self.0.get(pointer) {
                return Fault { at: *at, path: path.clone(), message: problem.message };
            }
            match pointer.rsplit_once('/') {
                Some((parent, _)) => pointer = parent,
                None => return Fault::whole(problem.message),
            }
        }
    }
}

pub fn read(record: &'static Record, root: &Node, syntax: Syntax) -> Reading {
    let mut reader = Reader { syntax, faults: Vec::new(), places: Places::default() };
    let value = reader.value(&Shape::Record(record), root, &Place::default());
    Reading { value: value.unwrap_or_default(), faults: reader.faults, places: reader.places }
}

/// Where the reader is.
#[derive(Default)]
struct Place {
    /// In the definition.
    pointer: String,
    /// In the file.
    path: String,
}

impl Place {
    fn index(&self, index: usize) -> Self {
        Self { pointer: format!("{}/{index}", self.pointer), path: format!("{}[{index}]", self.path) }
    }

    fn key(&self, key: &str, fills: &str) -> Self {
        let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let shown = if bare { key.to_owned() } else { format!("{key:?}") };
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { pointer: format!("{}/{}", self.pointer, escape(fills)), path: format!("{}{dot}{shown}", self.path) }
    }
}

struct Reader {
    syntax: Syntax,
    faults: Vec<Fault>,
    places: Places,
}

impl Reader {
    fn fault(&mut self, at: usize, place: &Place, message: String) {
        self.faults.push(Fault { at, path: place.path.clone(), message });
    }

    fn value(&mut self, shape: &Shape, node: &Node, place: &Place) -> Option<Value> {
        self.places.0.insert(place.pointer.clone(), (node.at, place.path.clone()));
        match (shape, &node.data) {
            (Shape::Text, Data::Text(text)) => Some(text.as_str().into()),
            (Shape::Flag | Shape::FlagOr(_), Data::Flag(flag)) => Some((*flag).into()),
            (Shape::Count, Data::Number(number)) => self.whole(number.as_u64(), u32::MAX.into(), node, place),
            (Shape::Millis, Data::Number(number)) => self.whole(number.as_u64(), u64::MAX, node, place),
            (Shape::Duration, Data::Text(text)) => match duration::millis(text) {
                Ok(millis) => Some(millis.into()),
                Err(message) => {
                    self.fault(node.at, place, message);
                    None
                }
            },
            (Shape::Amount, Data::Number(number)) => self.amount(number, node, place),
            (Shape::Secret, data) => self.secret(data, node, place),
            (Shape::Choice(words), Data::Text(word)) => self.choice(words, word, node, place),
            (Shape::List(item), Data::List(nodes)) => Some(self.list(item, nodes, place)),
            (Shape::Record(record), Data::Map(entries)) => Some(self.record(record, entries, node, place)),
            (Shape::FlagOr(shape), Data::Map(_)) => self.value(shape, node, place),
            (Shape::Map(item), Data::Map(entries)) => Some(self.map(item, entries, place)),
            (Shape::Json, _) => self.json(node, place),
            _ => {
                let message = format!("this must be {}, not {}", self.wanted(shape), self.found(&node.data));
                self.fault(node.at, place, message);
                None
            }
        }
    }

    fn whole(&mut self, number: Option<u64>, max: u64, node: &Node, place: &Place) -> Option<Value> {
        match number {
            Some(number) if number <= max => Some(number.into()),
            _ => {
                self.fault(node.at, place, format!("this must be a whole number from 0 to {max}"));
                None
            }
        }
    }

    fn amount(&mut self, number: &Number, node: &Node, place: &Place) -> Option<Value> {
        if number.as_f64().is_some_and(|number| number >= 0.0) {
            return Some(number.clone().into());
        }
        self.fault(node.at, place, "this must be 0 or more".to_owned());
        None
    }

    /// `"${secret:NAME}"`, or `{"secret": "NAME"}` as definitions are stored.
    fn secret(&mut self, data: &Data, node: &Node, place: &Place) -> Option<Value> {
        let reference = match data {
            Data::Text(text) => SecretRef::parse(text),
            Data::Map(_) => self
                .json(node, place)
                .and_then(|value| serde_json::from_value(value).ok())
                .filter(|reference: &SecretRef| is_name(reference.name())),
            _ => None,
        };
        if reference.is_none() {
            // The text may be the secret itself, so it is not repeated.
            let message = "this must refer to a secret, as \"${secret:NAME}\" or \"${env:NAME}\"; set one with \
                           `windlass secrets set NAME`";
            self.fault(node.at, place, message.to_owned());
        }
        reference.and_then(|reference| serde_json::to_value(reference).ok())
    }

    fn choice(&mut self, words: &[&str], word: &str, node: &Node, place: &Place) -> Option<Value> {
        if words.contains(&word) {
            return Some(word.into());
        }
        let known = words.join("\", \"");
        self.fault(node.at, place, format!("{word:?} is not known here; write one of \"{known}\""));
        None
    }

    fn list(&mut self, item: &Shape, nodes: &[Node], place: &Place) -> Value {
        let read = |(index, node)| self.value(item, node, &place.index(index)).unwrap_or_default();
        nodes.iter().enumerate().map(read).collect()
    }

    fn map(&mut self, item: &Shape, entries: &[Entry], place: &Place) -> Value {
        let mut map = Map::new();
        for entry in entries {
            let place = place.key(&entry.key, &entry.key);
            let value = self.value(item, &entry.node, &place).unwrap_or_default();
            self.insert(&mut map, &entry.key, value, entry, &place);
        }
        map.into()
    }

    fn json(&mut self, node: &Node, place: &Place) -> Option<Value> {
        match &node.data {
            Data::Null => Some(Value::Null),
            Data::Flag(flag) => Some((*flag).into()),
            Data::Number(number) => Some(number.clone().into()),
            Data::Text(text) => Some(text.as_str().into()),
            Data::List(nodes) => Some(self.list(&Shape::Json, nodes, place)),
            Data::Map(entries) => Some(self.map(&Shape::Json, entries, place)),
            Data::Foreign(what) => {
                self.fault(node.at, place, format!("JSON cannot hold {what}; write it as text in quotes"));
                None
            }
        }
    }

    fn record(&mut self, record: &Record, entries: &[Entry], node: &Node, place: &Place) -> Value {
        let mut map = Map::new();
        for entry in entries {
            let Some(field) = record.0.iter().find(|field| self.spellings(field).contains(&entry.key)) else {
                let place = place.key(&entry.key, &entry.key);
                let message = self.unknown(record, &entry.key);
                self.fault(entry.at, &place, message);
                continue;
            };
            let place = place.key(&entry.key, field.fills);
            let value = self.value(&field.shape, &entry.node, &place).unwrap_or_default();
            self.insert(&mut map, field.fills, value, entry, &place);
        }
        for field in record.0.iter().filter(|field| !map.contains_key(field.fills)) {
            if let Some(proposal) = field.proposal {
                let key = &self.spellings(field)[0];
                let example = match self.syntax {
                    Syntax::Toml => format!("{key} = {proposal}"),
                    Syntax::Json => format!("\"{key}\": {proposal}"),
                };
                self.fault(node.at, place, format!("the field {key} is missing; add it, for example {example}"));
            }
        }
        map.into()
    }

    fn insert(&mut self, map: &mut Map<String, Value>, key: &str, value: Value, entry: &Entry, place: &Place) {
        if map.insert(key.to_owned(), value).is_some() {
            self.fault(entry.at, place, "this is given twice; keep one of them".to_owned());
        }
    }

    /// How a field may be written, the recommended way first.
    fn spellings(&self, field: &Field) -> Vec<String> {
        match self.syntax {
            Syntax::Toml => vec![snake_case(field.key)],
            Syntax::Json => vec![field.key.to_owned(), snake_case(field.key)],
        }
    }

    fn unknown(&self, record: &Record, key: &str) -> String {
        let known: Vec<String> = record.0.iter().map(|field| self.spellings(field).swap_remove(0)).collect();
        match nearest(key, known.iter().map(String::as_str)) {
            Some(meant) => format!("unknown field; did you mean {meant}?"),
            None => format!("unknown field; known are {}", known.join(", ")),
        }
    }

    fn wanted(&self, shape: &Shape) -> &'static str {
        match shape {
            Shape::Text | Shape::Choice(_) | Shape::Secret => "text in quotes",
            Shape::Flag => "true or false",
            Shape::Count => "a whole number",
            Shape::Amount => "a number",
            Shape::Millis => "a whole number of milliseconds",
            Shape::Duration => "a duration in quotes, like \"30s\" or \"10m\"",
            Shape::List(_) => "a list",
            Shape::Record(_) | Shape::Map(_) => self.collection(),
            Shape::FlagOr(_) => match self.syntax {
                Syntax::Toml => "false or a table",
                Syntax::Json => "false or an object",
            },
            Shape::Json => "JSON",
        }
    }

    fn found(&self, data: &Data) -> &'static str {
        match data {
            Data::Null => "null",
            Data::Flag(true) => "true",
            Data::Flag(false) => "false",
            Data::Number(_) => "a number",
            Data::Text(_) => "text",
            Data::List(_) => "a list",
            Data::Map(_) => self.collection(),
            Data::Foreign(what) => what,
        }
    }

    fn collection(&self) -> &'static str {
        match self.syntax {
            Syntax::Toml => "a table",
            Syntax::Json => "an object",
        }
    }
}

/// `maxToolCalls` as TOML files write it: `max_tool_calls`.
pub fn snake_case(camel: &str) -> String {
    let mut snake = String::new();
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
