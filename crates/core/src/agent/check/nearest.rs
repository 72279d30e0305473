//! Finds the known word that is closest to a misspelt one.

/// Longer words are not compared: they are unlikely to be typing errors, and the comparison would be slow.
const MAX_WORD: usize = 64;
/// More candidates are not compared.
const MAX_CANDIDATES: usize = 256;

/// The candidate closest to `word`, unless none is close enough to be a typing error.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    if length > MAX_WORD {
        return None;
    }
    let tolerated = 1 + length / 4;
    candidates
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= tolerated)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut rows = vec![(0..=right.len()).collect::<Vec<usize>>()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let same = left[i - 1] == right[j - 1];
            let mut best = (rows[i - 1][j - 1] + usize::from(!same)).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_nothing_else() {
        let known = ["timeout", "tags", "kind", "input_schema"];
        let cases = [
            ("timeuot", Some("timeout")),
            ("time_out", Some("timeout")),
            ("tag", Some("tags")),
            ("inputSchema", Some("input_schema")),
            ("king", Some("kind")),
            ("retries", None),
            ("", None),
        ];
        assert_eq!(nearest(&"x".repeat(65), ["x".repeat(65).as_str()]), None, "long words are not compared");
        for (word, expected) in cases {
            assert_eq!(nearest(word, known), expected, "{word:?}");
        }
    }

    #[test]
    fn counts_edits() {
        let cases =
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("abc", "ABC", 0), ("ab", "ba", 1), ("kitten", "sitting", 3)];
        for (left, right, expected) in cases {
            assert_eq!(distance(left, right), expected, "{left:?} {right:?}");
        }
    }
}
