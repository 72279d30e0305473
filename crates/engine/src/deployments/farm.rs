//! FarmHash's `Fingerprint32`: the real server decides by it which workflow ids are part of a ramp.

const C1: u32 = 0xcc9e_2d51;
const C2: u32 = 0x1b87_3593;
const ADDED: u32 = 0xe654_6b64;

pub(super) fn fingerprint(bytes: &[u8]) -> u32 {
    match bytes.len() {
        0..=4 => upto_4(bytes),
        5..=12 => upto_12(bytes),
        13..=24 => upto_24(bytes),
        _ => longer(bytes),
    }
}

/// Four bytes as a little-endian number.
fn fetch(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |word, byte| (word << 8) | u32::from(*byte))
}

/// The length modulo 2^32, as the algorithm takes it.
fn length(bytes: &[u8]) -> u32 {
    (bytes.len() & 0xffff_ffff) as u32
}

fn finish(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

fn mix(word: u32, hash: u32) -> u32 {
    let word = word.wrapping_mul(C1).rotate_right(17).wrapping_mul(C2);
    next(hash ^ word)
}

fn next(hash: u32) -> u32 {
    hash.rotate_right(19).wrapping_mul(5).wrapping_add(ADDED)
}

fn upto_4(bytes: &[u8]) -> u32 {
    let (mut b, mut c) = (0_u32, 9_u32);
    for byte in bytes {
        let signed = i32::from(i8::from_ne_bytes([*byte]));
        b = b.wrapping_mul(C1).wrapping_add_signed(signed);
        c ^= b;
    }
    finish(mix(b, mix(length(bytes), c)))
}

fn upto_12(bytes: &[u8]) -> u32 {
    let (len, end) = (length(bytes), bytes.len() - 4);
    let five = len.wrapping_mul(5);
    let a = len.wrapping_add(fetch(bytes, 0));
    let b = five.wrapping_add(fetch(bytes, end));
    let c = 9_u32.wrapping_add(fetch(bytes, (bytes.len() >> 1) & 4));
    finish(mix(c, mix(b, mix(a, five))))
}

fn upto_24(bytes: &[u8]) -> u32 {
    let len = bytes.len();
    let [a, b, c] = [fetch(bytes, (len >> 1) - 4), fetch(bytes, 4), fetch(bytes, len - 8)];
    let [d, e, f] = [fetch(bytes, len >> 1), fetch(bytes, 0), fetch(bytes, len - 4)];
    let hash = d.wrapping_mul(C1).wrapping_add(length(bytes));
    let a = a.rotate_right(12).wrapping_add(f);
    let hash = mix(c, hash).wrapping_add(a);
    let a = a.rotate_right(3).wrapping_add(c);
    let hash = mix(e, hash).wrapping_add(a);
    let a = a.wrapping_add(f).rotate_right(12).wrapping_add(d);
    finish(mix(b, hash).wrapping_add(a))
}

fn longer(bytes: &[u8]) -> u32 {
    let len = bytes.len();
    let tail = |back: usize| fetch(bytes, len - back).wrapping_mul(C1).rotate_right(17).wrapping_mul(C2);
    let mut h = length(bytes);
    let mut g = C1.wrapping_mul(h);
    let mut f = g;
    h = next(next(h ^ tail(4)) ^ tail(16));
    g = next(next(g ^ tail(8)) ^ tail(12));
    f = f.wrapping_add(tail(20)).rotate_right(19).wrapping_add(113);
    for block in bytes.chunks_exact(20).take((len - 1) / 20) {
        let [a, b, c, d, e] = [0, 4, 8, 12, 16].map(|at| fetch(block, at));
        h = h.wrapping_add(a);
        g = g.wrapping_add(b);
        f = f.wrapping_add(c);
        h = mix(d, h).wrapping_add(e);
        g = mix(c, g).wrapping_add(a);
        f = mix(b.wrapping_add(e.wrapping_mul(C1)), f).wrapping_add(d);
        f = f.wrapping_add(g);
        g = g.wrapping_add(f);
    }
    let fold = |word: u32| word.rotate_right(11).wrapping_mul(C1).rotate_right(17).wrapping_mul(C1);
    let join = |h: u32, word: u32| next(h.wrapping_add(word)).rotate_right(17).wrapping_mul(C1);
    join(join(h, fold(g)), fold(f))
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    /// Workflow ids that the real server started on a version with a ramp of 50 percent.
    #[test]
    fn the_ramp_of_the_real_server_is_reproduced() {
        let ramped = [1, 12, 14, 15, 17, 2, 20, 22, 24, 28, 32, 33, 37, 38, 5, 7];
        for number in 0..40 {
            let hash = fingerprint(format!("fixed-workflow-{number}").as_bytes());
            assert_eq!(hash <= u32::MAX / 2, ramped.contains(&number), "{number}");
        }
    }

    #[test]
    fn every_length_has_a_fingerprint() {
        let text = "x".repeat(200);
        let mut seen: Vec<u32> = (0..text.len()).map(|len| fingerprint(&text.as_bytes()[..len])).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 200);
    }
}
