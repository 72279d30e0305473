//! Texts stored with references instead of copies.
//!
//! The result of a tool stands in three places: as a body of its own, in the message to the model, and in the event of the
//! call. Only the first is stored whole. The others have references to it, for stretches of at least [`LEAST`] bytes, and
//! their other bytes, packed.
//!
//! A spliced text begins with a byte of its own, beside those of `windlass_sqlite::pack`. Then come the number of the
//! references and, for each, the length of the literal text before it, the number of the body, and where in that body the
//! stretch begins and how long it is, in groups of seven bits, lowest first. What follows is the literal text.

use std::borrow::Cow;

use windlass_sqlite::pack::{Kind, pack, unpack};

/// The first byte of a spliced text.
pub(super) const SPLICED: u8 = 3;

/// Shorter stretches are literal text.
pub(super) const LEAST: usize = 200;

/// A body that is stored whole, or a part of it: where it is, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) body: i64,
    pub(super) offset: usize,
    pub(super) text: String,
}

/// A stretch of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) body: i64,
    pub(super) offset: usize,
    pub(super) length: usize,
}

/// Why a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("the packed bytes cannot be read")]
    Packed,
    #[error("the references to other bodies cannot be read")]
    References,
    #[error("a reference reaches beyond body {0}")]
    Beyond(i64),
}

/// The text as it is stored, and the bodies that it refers to.
pub(super) fn stored(text: &str, sources: &[Source]) -> (Vec<u8>, Vec<i64>) {
    let found = stretches(text, sources);
    if found.is_empty() {
        return (pack(Kind::Json, text.as_bytes().to_vec()), Vec::new());
    }
    let (mut bytes, mut literal, mut at) = (vec![SPLICED], Vec::new(), 0);
    write(&mut bytes, found.len() as u64);
    for (place, stretch) in &found {
        let before = text.get(at..*place).unwrap_or_default();
        literal.extend_from_slice(before.as_bytes());
        write(&mut bytes, before.len() as u64);
        write(&mut bytes, stretch.body.unsigned_abs());
        write(&mut bytes, stretch.offset as u64);
        write(&mut bytes, stretch.length as u64);
        at = place + stretch.length;
    }
    literal.extend_from_slice(text.get(at..).unwrap_or_default().as_bytes());
    bytes.extend(pack(Kind::Json, literal));
    let mut bodies: Vec<i64> = found.iter().map(|(_, stretch)| stretch.body).collect();
    bodies.sort_unstable();
    bodies.dedup();
    (bytes, bodies)
}

/// Where sources stand in the text: in order, and without an overlap.
fn stretches(text: &str, sources: &[Source]) -> Vec<(usize, Stretch)> {
    let mut found: Vec<(usize, Stretch)> = Vec::new();
    for source in sources.iter().filter(|source| source.text.len() >= LEAST && source.body > 0) {
        let Source { body, offset, text: wanted } = source;
        let stretch = Stretch { body: *body, offset: *offset, length: wanted.len() };
        found.extend(text.match_indices(wanted.as_str()).map(|(place, _)| (place, stretch)));
    }
    // Of those that begin at one place, the longest.
    found.sort_by_key(|(place, stretch)| (*place, std::cmp::Reverse(stretch.length)));
    let mut end = 0;
    found.retain(|(place, stretch)| {
        let free = *place >= end;
        if free {
            end = place + stretch.length;
        }
        free
    });
    found
}

/// The text that a column holds itself, in whatever form. What a spliced text refers to is in other rows. For programs that
/// search a whole file.
pub fn own_text(stored: &[u8]) -> Option<Vec<u8>> {
    Spliced::of(stored).ok().map(|spliced| spliced.literal.into_owned())
}

/// Whether these are the bytes of a spliced text.
pub(super) fn is_spliced(stored: &[u8]) -> bool {
    stored.first() == Some(&SPLICED)
}

/// A stored text in parts: literal text, and what it refers to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spliced<'s> {
    /// For each reference the length of the literal text before it.
    pub(super) references: Vec<(usize, Stretch)>,
    pub(super) literal: Cow<'s, [u8]>,
}

impl<'s> Spliced<'s> {
    /// Of stored bytes in any form.
    pub(super) fn of(stored: &'s [u8]) -> Result<Self, Unreadable> {
        if !is_spliced(stored) {
            let literal = unpack(stored).map_err(|_| Unreadable::Packed)?;
            return Ok(Self { references: Vec::new(), literal });
        }
        let mut rest = &stored[1..];
        let count = number(&mut rest)?;
        let mut references = Vec::new();
        for _ in 0..count {
            let before = length(&mut rest)?;
            let body = i64::try_from(number(&mut rest)?).map_err(|_| Unreadable::References)?;
            let (offset, length) = (length(&mut rest)?, length(&mut rest)?);
            references.push((before, Stretch { body, offset, length }));
        }
        Ok(Self { references, literal: unpack(rest).map_err(|_| Unreadable::Packed)? })
    }

    /// The whole text, with the bodies that `body` returns.
    pub(super) fn whole<E: From<Unreadable>>(
        self,
        mut body: impl FnMut(i64) -> Result<Vec<u8>, E>,
    ) -> Result<Cow<'s, [u8]>, E> {
        if self.references.is_empty() {
            return Ok(self.literal);
        }
        let (mut text, mut at) = (Vec::new(), 0);
        for (before, stretch) in self.references {
            let end = at + before;
            text.extend_from_slice(self.literal.get(at..end).ok_or(Unreadable::References)?);
            at = end;
            let whole = body(stretch.body)?;
            let end = stretch.offset.saturating_add(stretch.length);
            text.extend_from_slice(whole.get(stretch.offset..end).ok_or(Unreadable::Beyond(stretch.body))?);
        }
        text.extend_from_slice(self.literal.get(at..).ok_or(Unreadable::References)?);
        Ok(text.into())
    }
}

fn write(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    into.push(number.to_le_bytes()[0]);
}

fn number(bytes: &mut &[u8]) -> Result<u64, Unreadable> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Unreadable::References)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Unreadable::References)
}

/// No text is longer than SQLite's rows, so a damaged length is noticed before anything is added to it.
fn length(bytes: &mut &[u8]) -> Result<usize, Unreadable> {
    u32::try_from(number(bytes)?).ok().and_then(|length| usize::try_from(length).ok()).ok_or(Unreadable::References)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn read(stored: &[u8], sources: &[&str]) -> Result<Vec<u8>, Unreadable> {
        let body = |number: i64| {
            let body = usize::try_from(number - 1).ok().and_then(|index| sources.get(index));
            body.map(|text| text.as_bytes().to_vec()).ok_or(Unreadable::References)
        };
        Spliced::of(stored)?.whole(body).map(Cow::into_owned)
    }

    fn whole(number: i64, text: &str) -> Source {
        Source { body: number, offset: 0, text: text.to_owned() }
    }

    #[test]
    fn a_stretch_is_stored_once() {
        let noise: String = (0..400_u32).map(|at| char::from(b'a' + (at * at % 26) as u8)).collect();
        let text = format!(r#"{{"before":1,"result":"{noise}","after":"é"}}"#);
        let (bytes, bodies) = stored(&text, &[whole(1, &noise)]);
        assert!(is_spliced(&bytes) && bytes.len() < 60, "{} bytes", bytes.len());
        assert_eq!(bodies, [1]);
        assert_eq!(read(&bytes, &[&noise]).unwrap(), text.into_bytes());
    }

    #[test]
    fn short_stretches_and_texts_without_any_are_only_packed() {
        let short = "x".repeat(LEAST - 1);
        for text in ["", "{}", "no JSON", &short] {
            let (bytes, bodies) = stored(text, &[whole(1, &short), whole(2, "{}")]);
            assert!(!is_spliced(&bytes) && bodies.is_empty());
            assert_eq!(read(&bytes, &[]).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let body = "0123456789".repeat(30);
        let (bytes, _) = stored(&format!("before {body} between {body}"), &[whole(1, &body)]);
        for at in 0..bytes.len() {
            assert_ne!(read(&bytes[..at], &[&body]).map(|text| text.len()), Ok(625));
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            drop(read(&damaged, &[&body]));
        }
        assert_eq!(read(&bytes, &["too short"]), Err(Unreadable::Beyond(1)));
        assert_eq!(read(&[SPLICED, 0xff, 0xff], &[]), Err(Unreadable::References));
    }

    proptest! {
        #[test]
        fn what_was_stored_comes_back(
            bodies in vec("[a-cé]{0,600}", 1..4),
            parts in vec((any::<prop::sample::Index>(), 0..500_usize, 0..700_usize, "[a-cé]{0,30}"), 0..6),
        ) {
            let char_floor = |text: &str, at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let (mut text, mut sources) = (String::new(), Vec::new());
            for (body, from, to, literal) in &parts {
                let index = body.index(bodies.len());
                let body = &bodies[index];
                let (from, to) = (char_floor(body, *from.min(to)), char_floor(body, *from.max(to)));
                text.push_str(literal);
                text.push_str(&body[from..to]);
                sources.push(Source { body: index as i64 + 1, offset: from, text: body[from..to].to_owned() });
            }
            let (bytes, _) = stored(&text, &sources);
            let all: Vec<&str> = bodies.iter().map(String::as_str).collect();
            prop_assert_eq!(read(&bytes, &all).unwrap(), text.into_bytes());
        }
    }
}
