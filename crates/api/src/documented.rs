//! Checks that the numbers in the API guide match the code.

use crate::{
    guard::DEMANDS,
    rate::{Bucket, Rates},
};

const GUIDE: &str = include_str!("../../../docs/guides/api.md");

/// The cells of the first table below a heading, without its head.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, section) = GUIDE.split_once(&format!("\n## {heading}\n")).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

fn number(cell: &str) -> usize {
    let digits = cell.split(' ').next().unwrap();
    digits.replace(',', "").parse().unwrap_or_else(|_| panic!("{cell:?} begins with no number"))
}

#[test]
fn the_rate_limits_in_the_guide_match_the_code() {
    let rates = Rates::default();
    let mut documented = Vec::new();
    for row in table("Rate limits") {
        let [kind, limit, requests] = &row[..] else { panic!("{row:?}") };
        let bucket = [Bucket::Starts, Bucket::Lifecycle, Bucket::Changes, Bucket::Streams, Bucket::Reads]
            .into_iter()
            .find(|bucket| format!("`{}`", bucket.as_str()) == *kind)
            .unwrap_or_else(|| panic!("there is no kind {kind}"));
        assert_eq!(number(limit), rates.of(bucket) as usize, "{kind}");
        let mut expected: Vec<String> = DEMANDS
            .iter()
            .filter(|demand| demand.bucket == bucket)
            .map(|demand| format!("{} {}", demand.method, demand.path))
            .collect();
        if bucket == Bucket::Reads {
            assert_eq!(requests, "every other `GET`");
            assert!(expected.iter().all(|request| request.starts_with("GET ")), "{expected:?}");
        } else {
            let mut requests: Vec<String> =
                requests.split(", ").map(|request| request.trim_matches('`').into()).collect();
            requests.sort();
            expected.sort();
            assert_eq!(requests, expected, "{kind}");
        }
        documented.push(bucket);
    }
    assert_eq!(documented.len(), 5, "{documented:?}");
}
