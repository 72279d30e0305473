//! What a table of known fields is made of.

/// What a value may be.
#[derive(Debug)]
pub enum Shape {
    Text,
    Flag,
    /// A whole number that fits 32 bits.
    Count,
    /// Whole milliseconds.
    Millis,
    /// `"30s"`; read as milliseconds.
    Duration,
    /// One of these words.
    Choice(&'static [&'static str]),
    List(&'static Shape),
    Record(&'static Record),
    /// Any keys; the author of the file chooses them.
    Map(&'static Shape),
    /// `false`, `true`, or the shape.
    FlagOr(&'static Shape),
    /// Any JSON, taken as it is.
    Json,
    /// An amount of money or another number that is not negative.
    Amount,
    /// A reference to a secret, `"${secret:NAME}"` or `"${env:NAME}"`.
    Secret,
}

/// A table or object with known fields.
#[derive(Debug)]
pub struct Record(pub &'static [Field]);

#[derive(Debug)]
pub struct Field {
    /// As JSON files write it; TOML files write it in snake_case.
    pub key: &'static str,
    /// The field of the definition that it fills.
    pub fills: &'static str,
    pub shape: Shape,
    /// For a field that must be there: a value to propose.
    pub proposal: Option<&'static str>,
    /// For editors and reference pages: what the field is.
    pub about: &'static str,
}

impl Field {
    /// The field with a description.
    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

pub const fn required(key: &'static str, shape: Shape, proposal: &'static str) -> Field {
    Field { key, fills: key, shape, proposal: Some(proposal), about: "" }
}

pub const fn optional(key: &'static str, shape: Shape) -> Field {
    Field { key, fills: key, shape, proposal: None, about: "" }
}

/// A span under its friendly name.
pub const fn friendly(key: &'static str, fills: &'static str, shape: Shape) -> Field {
    Field { key, fills, shape, proposal: None, about: "" }
}
