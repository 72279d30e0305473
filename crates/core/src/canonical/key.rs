//! The key of a map as text: what `serde_json` makes of it.

use serde::{
    Serialize, Serializer,
    ser::{Error as _, Impossible},
};

type Error = serde_json::Error;
type Result<T> = std::result::Result<T, Error>;

pub(super) fn key_text<T: Serialize + ?Sized>(key: &T) -> Result<String> {
    key.serialize(KeyText)
}

struct KeyText;

fn no_key<T>() -> Result<T> {
    Err(Error::custom("a key must be a string"))
}

macro_rules! displayed {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<String> {
            Ok(value.to_string())
        })*
    };
}

impl Serializer for KeyText {
    type Ok = String;
    type Error = Error;
    type SerializeSeq = Impossible<String, Error>;
    type SerializeTuple = Impossible<String, Error>;
    type SerializeTupleStruct = Impossible<String, Error>;
    type SerializeTupleVariant = Impossible<String, Error>;
    type SerializeMap = Impossible<String, Error>;
    type SerializeStruct = Impossible<String, Error>;
    type SerializeStructVariant = Impossible<String, Error>;

    displayed!(
        serialize_bool: bool, serialize_char: char, serialize_str: &str,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64
    );

    fn serialize_f32(self, _value: f32) -> Result<String> {
        no_key()
    }

    fn serialize_f64(self, _value: f64) -> Result<String> {
        no_key()
    }

    fn serialize_bytes(self, _value: &[u8]) -> Result<String> {
        no_key()
    }

    fn serialize_none(self) -> Result<String> {
        no_key()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<String> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<String> {
        no_key()
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<String> {
        no_key()
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<String> {
        Ok(variant.to_owned())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<String> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<String> {
        no_key()
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq> {
        no_key()
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple> {
        no_key()
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Self::SerializeTupleStruct> {
        no_key()
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        no_key()
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap> {
        no_key()
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Self::SerializeStruct> {
        no_key()
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant> {
        no_key()
    }
}
