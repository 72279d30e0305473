//! Small bodies in columns, compressed with dictionaries of what such bodies contain.
//!
//! Packed bytes begin with a byte that names their form. Unpacked bytes that components store never begin with one of these
//! bytes: JSON begins with printable text, and the engine's messages with the tag of their first field. So a column may hold
//! both, and rows that were written before a dictionary existed are read as they are.
//!
//! A dictionary that was released is never changed; a better one is a new form.

use std::{borrow::Cow, cell::RefCell, sync::LazyLock};

use rusqlite::{Row, types::Type};
use zstd::{
    bulk::{Compressor, Decompressor},
    dict::{DecoderDictionary, EncoderDictionary},
    zstd_safe::{CParameter, DParameter, FrameFormat},
};

/// What the bytes are. Each kind has its dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Events of workflow histories, in protobuf.
    History,
    /// Messages, events of logs and journal entries, in canonical JSON.
    Json,
}

/// The first byte of packed bytes.
const HISTORY: u8 = 1;
const JSON: u8 = 2;

/// Compression is in the path of every step. Higher levels save a few percent and take several times as long.
const LEVEL: i32 = 1;
/// Fewer bytes are stored as they are.
const LEAST: usize = 48;

static HISTORY_DICTIONARY: &[u8] = include_bytes!("dictionaries/history-1.zstd");
static JSON_DICTIONARY: &[u8] = include_bytes!("dictionaries/json-2.zstd");

struct Dictionaries {
    encode: EncoderDictionary<'static>,
    decode: DecoderDictionary<'static>,
}

impl Dictionaries {
    fn new(dictionary: &'static [u8]) -> Self {
        Self { encode: EncoderDictionary::copy(dictionary, LEVEL), decode: DecoderDictionary::copy(dictionary) }
    }
}

static OF_HISTORY: LazyLock<Dictionaries> = LazyLock::new(|| Dictionaries::new(HISTORY_DICTIONARY));
static OF_JSON: LazyLock<Dictionaries> = LazyLock::new(|| Dictionaries::new(JSON_DICTIONARY));

impl Kind {
    fn form(self) -> u8 {
        match self {
            Self::History => HISTORY,
            Self::Json => JSON,
        }
    }

    fn dictionaries(self) -> &'static Dictionaries {
        match self {
            Self::History => &OF_HISTORY,
            Self::Json => &OF_JSON,
        }
    }
}

/// The contexts of this thread: creating one costs more than compressing a body.
struct Contexts {
    encode: Compressor<'static>,
    decode: Decompressor<'static>,
}

impl Contexts {
    fn new(kind: Kind) -> std::io::Result<Self> {
        let Dictionaries { encode, decode } = kind.dictionaries();
        let mut encode = Compressor::with_prepared_dictionary(encode)?;
        // The form says everything that a frame's header would repeat, and SQLite's pages have checksums in the log.
        encode.set_parameter(CParameter::Format(FrameFormat::Magicless))?;
        encode.set_parameter(CParameter::ContentSizeFlag(false))?;
        encode.set_parameter(CParameter::DictIdFlag(false))?;
        encode.set_parameter(CParameter::ChecksumFlag(false))?;
        let mut decode = Decompressor::with_prepared_dictionary(decode)?;
        decode.set_parameter(DParameter::Format(FrameFormat::Magicless))?;
        Ok(Self { encode, decode })
    }
}

thread_local! {
    static HISTORY_CONTEXTS: RefCell<Option<Contexts>> = const { RefCell::new(None) };
    static JSON_CONTEXTS: RefCell<Option<Contexts>> = const { RefCell::new(None) };
}

fn with_contexts<T>(kind: Kind, work: impl FnOnce(&mut Contexts) -> std::io::Result<T>) -> std::io::Result<T> {
    let contexts = match kind {
        Kind::History => &HISTORY_CONTEXTS,
        Kind::Json => &JSON_CONTEXTS,
    };
    contexts.with_borrow_mut(|contexts| match contexts {
        Some(contexts) => work(contexts),
        none => work(none.insert(Contexts::new(kind)?)),
    })
}

/// The bytes in their packed form, or as they are if that is not shorter.
pub fn pack(kind: Kind, bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() < LEAST {
        return bytes;
    }
    match packed(kind, &bytes) {
        Ok(packed) if packed.len() < bytes.len() => packed,
        // Without memory for a context, a row is larger than it could be.
        Ok(_) | Err(_) => bytes,
    }
}

/// The form, the length of the bytes, and a frame without a header that repeats them.
fn packed(kind: Kind, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    with_contexts(kind, |contexts| {
        let mut packed = Vec::with_capacity(1 + LONGEST_LENGTH + zstd::zstd_safe::compress_bound(bytes.len()));
        packed.push(kind.form());
        write_length(&mut packed, bytes.len());
        let head = packed.len();
        packed.resize(packed.capacity(), 0);
        let length = contexts.encode.compress_to_buffer(bytes, &mut packed[head..])?;
        packed.truncate(head + length);
        packed.shrink_to_fit();
        Ok(packed)
    })
}

/// What [`pack`] was given. Fails if the bytes are damaged, or were packed by a later build.
pub fn unpack(stored: &[u8]) -> Result<Cow<'_, [u8]>, Unreadable> {
    let (kind, rest) = match stored.split_first() {
        Some((&HISTORY, rest)) => (Kind::History, rest),
        Some((&JSON, rest)) => (Kind::Json, rest),
        _ => return Ok(Cow::Borrowed(stored)),
    };
    let (length, frame) = read_length(rest).ok_or(Unreadable)?;
    let bytes = with_contexts(kind, |contexts| contexts.decode.decompress(frame, length)).map_err(|_| Unreadable)?;
    if bytes.len() == length { Ok(Cow::Owned(bytes)) } else { Err(Unreadable) }
}

/// Packed bytes that cannot be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the packed bytes cannot be read")]
pub struct Unreadable;

/// A column's bytes, unpacked.
pub fn column(row: &Row<'_>, index: usize) -> rusqlite::Result<Vec<u8>> {
    let stored = row.get_ref(index)?.as_bytes()?;
    let bytes = unpack(stored)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Blob, Box::new(error)))?;
    Ok(bytes.into_owned())
}

/// Bytes of a length below `MOST`, seven bits each, lowest first.
const LONGEST_LENGTH: usize = 5;
/// Nothing that is stored is longer; a damaged length must not make the process allocate more.
const MOST: usize = 1 << 30;

fn write_length(into: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        into.push(length.to_le_bytes()[0] | 0x80);
        length >>= 7;
    }
    into.push(length.to_le_bytes()[0]);
}

fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.iter().take(LONGEST_LENGTH).position(|byte| byte & 0x80 == 0)?;
    let (length, rest) = bytes.split_at(end + 1);
    let length = length.iter().rev().fold(0, |length, byte| (length << 7) | usize::from(byte & 0x7f));
    (length <= MOST).then_some((length, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str =
        r#"{"name":"bench.lookup","ok":true,"result":{"id":0,"name":"44b5ea5981a225f4"},"toolUseId":"call-0-0"}"#;

    #[test]
    fn what_was_packed_comes_back() {
        for kind in [Kind::History, Kind::Json] {
            for bytes in [String::new(), "{}".to_owned(), RESULT.to_owned(), RESULT.repeat(5_000)] {
                let packed = pack(kind, bytes.clone().into_bytes());
                assert!(packed.len() <= bytes.len());
                assert_eq!(unpack(&packed), Ok(bytes.into_bytes().into()));
            }
        }
    }

    #[test]
    fn short_and_incompressible_bytes_stay_as_they_are() {
        let short = br#"{"kind":"text","text":"hello"}"#.to_vec();
        assert_eq!(pack(Kind::Json, short.clone()), short);
        let mut random = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8 | 0x20
        })
        .take(60)
        .collect();
        assert_eq!(pack(Kind::Json, noise.clone()), noise);
    }

    #[test]
    fn a_small_event_takes_less_than_two_thirds() {
        let event =
            r#"{"name":"search","ok":true,"resultBytes":31,"result":{"found":3},"status":"ok","toolUseId":"call-3-1"}"#;
        let packed = pack(Kind::Json, event.as_bytes().to_vec());
        assert!(packed.len() * 3 < event.len() * 2, "{} of {} bytes", packed.len(), event.len());
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let packed = pack(Kind::Json, RESULT.repeat(20).into_bytes());
        for cut in 1..packed.len() {
            assert_eq!(unpack(&packed[..cut]), Err(Unreadable), "{cut} bytes");
        }
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x40;
            // Most changes are noticed; none makes the process fail.
            drop(unpack(&damaged));
        }
        let huge = [JSON, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        assert_eq!(unpack(&huge), Err(Unreadable));
    }

    #[test]
    fn lengths_are_written_in_seven_bits_a_byte() {
        for length in [0, 1, 127, 128, 300, 65_535, MOST] {
            let mut bytes = Vec::new();
            write_length(&mut bytes, length);
            bytes.push(0xff);
            assert_eq!(read_length(&bytes), Some((length, &[0xff][..])));
        }
    }
}
