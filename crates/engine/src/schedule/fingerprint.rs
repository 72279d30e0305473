//! FarmHash's 32-bit fingerprint, by which the real server draws the jitter of a time.

const C1: u32 = 0xcc9e_2d51;
const C2: u32 = 0x1b87_3593;
const ADDED: u32 = 0xe654_6b64;

pub(super) fn fingerprint(bytes: &[u8]) -> u32 {
    match bytes.len() {
        0..=4 => up_to_4(bytes),
        5..=12 => up_to_12(bytes),
        13..=24 => up_to_24(bytes),
        _ => longer(bytes),
    }
}

/// The length, as the algorithm counts it: modulo 2^32.
fn length(bytes: &[u8]) -> u32 {
    bytes.len() as u32
}

/// Four bytes from this position; the callers stay inside.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn mur(a: u32, h: u32) -> u32 {
    let a = a.wrapping_mul(C1).rotate_right(17).wrapping_mul(C2);
    (h ^ a).rotate_right(19).wrapping_mul(5).wrapping_add(ADDED)
}

fn finish(h: u32) -> u32 {
    let h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    let h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

fn up_to_4(bytes: &[u8]) -> u32 {
    let (mut b, mut c) = (0_u32, 9_u32);
    for byte in bytes {
        b = b.wrapping_mul(C1).wrapping_add(i32::from(*byte as i8) as u32);
        c ^= b;
    }
    finish(mur(b, mur(length(bytes), c)))
}

fn up_to_12(bytes: &[u8]) -> u32 {
    let n = length(bytes);
    let a = n.wrapping_add(word(bytes, 0));
    let d = n.wrapping_mul(5);
    let b = d.wrapping_add(word(bytes, bytes.len() - 4));
    let c = 9_u32.wrapping_add(word(bytes, (bytes.len() >> 1) & 4));
    finish(mur(c, mur(b, mur(a, d))))
}

fn up_to_24(bytes: &[u8]) -> u32 {
    let n = bytes.len();
    let a = word(bytes, (n >> 1) - 4);
    let (b, c, d) = (word(bytes, 4), word(bytes, n - 8), word(bytes, n >> 1));
    let (e, f) = (word(bytes, 0), word(bytes, n - 4));
    let h = d.wrapping_mul(C1).wrapping_add(length(bytes));
    let a = a.rotate_right(12).wrapping_add(f);
    let h = mur(c, h).wrapping_add(a);
    let a = a.rotate_right(3).wrapping_add(c);
    let h = mur(e, h).wrapping_add(a);
    let a = a.wrapping_add(f).rotate_right(12).wrapping_add(d);
    finish(mur(b, h).wrapping_add(a))
}

fn longer(bytes: &[u8]) -> u32 {
    let n = bytes.len();
    let last = |back: usize| word(bytes, n - back).wrapping_mul(C1).rotate_right(17).wrapping_mul(C2);
    let mixed = |h: u32| h.rotate_right(19).wrapping_mul(5).wrapping_add(ADDED);
    let mut h = mixed(mixed(length(bytes) ^ last(4)) ^ last(16));
    let mut g = mixed(mixed(C1.wrapping_mul(length(bytes)) ^ last(8)) ^ last(12));
    let mut f = C1.wrapping_mul(length(bytes)).wrapping_add(last(20)).rotate_right(19).wrapping_add(113);
    for block in 0..(n - 1) / 20 {
        let at = |position: usize| word(bytes, block * 20 + position);
        let (a, b, c, d, e) = (at(0), at(4), at(8), at(12), at(16));
        h = h.wrapping_add(a);
        g = g.wrapping_add(b);
        f = f.wrapping_add(c);
        h = mur(d, h).wrapping_add(e);
        g = mur(c, g).wrapping_add(a);
        f = mur(b.wrapping_add(e.wrapping_mul(C1)), f).wrapping_add(d);
        f = f.wrapping_add(g);
        g = g.wrapping_add(f);
    }
    let twice = |x: u32| x.rotate_right(11).wrapping_mul(C1).rotate_right(17).wrapping_mul(C1);
    let (g, f) = (twice(g), twice(f));
    let added = |h: u32, x: u32| mixed(h.wrapping_add(x)).rotate_right(17).wrapping_mul(C1);
    added(added(h, g), f)
}
