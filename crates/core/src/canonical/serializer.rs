//! Writes anything that serialises to JSON in canonical form, without a value in between.
//!
//! An object's entries are written as they come and put in order when the object ends. Numbers are those that
//! `serde_json` would hold: integers of 64 bits and finite doubles.

use std::fmt::Write as _;

use serde::{
    Serialize, Serializer,
    ser::{
        Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
        SerializeTupleStruct, SerializeTupleVariant,
    },
};

use super::{RAW_JSON, key::key_text};

type Error = serde_json::Error;
type Result<T> = std::result::Result<T, Error>;

/// Writes one value.
pub(super) struct Canonical<'o> {
    out: &'o mut String,
    /// Left out, if this is an object.
    without: Option<&'static str>,
}

impl<'o> Canonical<'o> {
    pub(super) fn new(out: &'o mut String) -> Self {
        Self { out, without: None }
    }

    pub(super) fn without(key: &'static str, out: &'o mut String) -> Self {
        Self { out, without: Some(key) }
    }

    /// Begins `{"variant":`, the outside of a variant that holds something.
    fn variant(self, variant: &str) -> &'o mut String {
        self.out.push('{');
        write_string(self.out, variant);
        self.out.push(':');
        self.out
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<()> {
            // Writing to a string cannot fail.
            let _ = write!(self.out, "{value}");
            Ok(())
        })*
    };
}

impl<'o> Serializer for Canonical<'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Items<'o>;
    type SerializeTuple = Items<'o>;
    type SerializeTupleStruct = Items<'o>;
    type SerializeTupleVariant = Items<'o>;
    type SerializeMap = Entries<'o>;
    type SerializeStruct = Entries<'o>;
    type SerializeStructVariant = Entries<'o>;

    integers!(
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64
    );

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.out.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<()> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<()> {
        if value.is_finite() {
            self.out.push_str(ryu_js::Buffer::new().format_finite(value));
        } else {
            self.out.push_str("null");
        }
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<()> {
        write_string(self.out, value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        write_string(self.out, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.out.push_str("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        let out = self.variant(variant);
        value.serialize(Canonical::new(out))?;
        out.push('}');
        Ok(())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Items<'o>> {
        Ok(Items::begin(self.out, "]"))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Items<'o>> {
        Ok(Items::begin(self.out, "]"))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Items<'o>> {
        Ok(Items::begin(self.out, "]"))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Items<'o>> {
        Ok(Items::begin(self.variant(variant), "]}"))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Entries<'o>> {
        Ok(Entries { without: self.without, ..Entries::begin(self.out, "}") })
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Entries<'o>> {
        if name == RAW_JSON {
            return Ok(Entries::raw(self.out));
        }
        Ok(Entries { without: self.without, ..Entries::begin(self.out, "}") })
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Entries<'o>> {
        Ok(Entries::begin(self.variant(variant), "}}"))
    }
}

/// An array on its way.
pub(super) struct Items<'o> {
    out: &'o mut String,
    first: bool,
    closing: &'static str,
}

impl<'o> Items<'o> {
    fn begin(out: &'o mut String, closing: &'static str) -> Self {
        out.push('[');
        Self { out, first: true, closing }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
        value.serialize(Canonical::new(self.out))
    }

    fn close(self) {
        self.out.push_str(self.closing);
    }
}

macro_rules! items {
    ($($trait:ident: $method:ident),*) => {
        $(impl $trait for Items<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.item(value)
            }

            fn end(self) -> Result<()> {
                self.close();
                Ok(())
            }
        })*
    };
}

items!(
    SerializeSeq: serialize_element, SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field, SerializeTupleVariant: serialize_field
);

/// An object on its way: its entries stand in `out` behind each other, without commas.
pub(super) struct Entries<'o> {
    out: &'o mut String,
    start: usize,
    entries: Vec<Entry>,
    closing: &'static str,
    without: Option<&'static str>,
    /// This is no object: its one field is text that is canonical JSON already.
    raw: bool,
}

/// `"key":value`
struct Entry {
    key: Key,
    start: usize,
    end: usize,
}

enum Key {
    Field(&'static str),
    Text(String),
}

impl Key {
    fn as_str(&self) -> &str {
        match self {
            Self::Field(name) => name,
            Self::Text(text) => text,
        }
    }

    /// RFC 8785 sorts by UTF-16 units, which is the order of the bytes unless a character is beyond the basic plane.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let (a, b) = (self.as_str(), other.as_str());
        if a.is_ascii() || b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
    }
}

impl<'o> Entries<'o> {
    fn begin(out: &'o mut String, closing: &'static str) -> Self {
        out.push('{');
        Self { start: out.len(), out, entries: Vec::new(), closing, without: None, raw: false }
    }

    fn raw(out: &'o mut String) -> Self {
        Self { start: out.len(), out, entries: Vec::new(), closing: "", without: None, raw: true }
    }

    fn key(&mut self, key: Key) {
        let start = self.out.len();
        write_string(self.out, key.as_str());
        self.out.push(':');
        self.entries.push(Entry { key, start, end: start });
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(Canonical::new(self.out))?;
        let end = self.out.len();
        let entry = self.entries.last_mut().ok_or_else(|| Error::custom("a value without its key"))?;
        entry.end = end;
        Ok(())
    }

    fn close(mut self) {
        if self.raw {
            return;
        }
        // Stable, so that of equal keys the last one comes last.
        self.entries.sort_by(|a, b| a.key.order(&b.key));
        let written = self.out.split_off(self.start);
        for (index, entry) in self.entries.iter().enumerate() {
            let replaced = self.entries.get(index + 1).is_some_and(|next| next.key.as_str() == entry.key.as_str());
            let unwanted = self.without == Some(entry.key.as_str());
            if !replaced && !unwanted {
                if self.out.len() > self.start {
                    self.out.push(',');
                }
                self.out.push_str(&written[entry.start - self.start..entry.end - self.start]);
            }
        }
        self.out.push_str(self.closing);
    }
}

impl SerializeMap for Entries<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.key(Key::Text(key_text(key)?));
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.value(value)
    }

    fn end(self) -> Result<()> {
        self.close();
        Ok(())
    }
}

macro_rules! fields {
    ($($trait:ident),*) => {
        $(impl $trait for Entries<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<()> {
                if self.raw {
                    self.out.push_str(&key_text(value)?);
                    return Ok(());
                }
                self.key(Key::Field(key));
                self.value(value)
            }

            fn end(self) -> Result<()> {
                self.close();
                Ok(())
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut copied = 0;
    for (index, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            8 => "\\b",
            b'\t' => "\\t",
            b'\n' => "\\n",
            12 => "\\f",
            b'\r' => "\\r",
            0..0x20 => "\\u",
            _ => continue,
        };
        // What is escaped is ASCII, so both sides of it are whole characters.
        out.push_str(&text[copied..index]);
        out.push_str(escape);
        if escape == "\\u" {
            // Writing to a string cannot fail.
            let _ = write!(out, "{byte:04x}");
        }
        copied = index + 1;
    }
    out.push_str(&text[copied..]);
    out.push('"');
}
