//! Files after a power failure: the end of the log is missing or damaged.

use std::{fs, path::PathBuf};

use tempfile::TempDir;

use super::{file, open, submit, words_in};
use crate::{Ack, Options, checkpoint};

const COMMITS: [&str; 3] = ["one", "two", "three"];

/// The files of a crashed process, and the length of its log after each commit.
struct CrashedDatabase {
    _directory: TempDir,
    database: PathBuf,
    log: Vec<u8>,
    ends: Vec<usize>,
}

impl CrashedDatabase {
    async fn leave() -> Self {
        let directory = TempDir::new().unwrap();
        let database = open(Options::new(file(&directory)));
        let log = directory.path().join("test.db-wal");
        let mut ends = Vec::new();
        for word in COMMITS {
            submit(&database, Ack::Durable, word).await.unwrap();
            let pages = checkpoint::measure(&database.reader().unwrap()).unwrap().pages;
            // The rest of the file is preallocated.
            ends.push(32 + pages as usize * 4120);
        }
        let mut log = fs::read(log).unwrap();
        assert!(log[ends[2]..].iter().all(|byte| *byte == 0));
        log.truncate(ends[2]);
        let crashed = TempDir::new().unwrap();
        let copy = file(&crashed);
        fs::copy(file(&directory), &copy).unwrap();
        Self { _directory: crashed, database: copy, log, ends }
    }

    /// The rows with this log.
    fn words_with(&self, log: &[u8]) -> Vec<String> {
        let directory = TempDir::new().unwrap();
        let database = file(&directory);
        fs::copy(&self.database, &database).unwrap();
        fs::write(directory.path().join("test.db-wal"), log).unwrap();
        words_in(&database)
    }

    /// The commits that a log of this length contains completely.
    fn whole(&self, length: usize) -> Vec<&'static str> {
        COMMITS.iter().zip(&self.ends).filter(|(_, end)| **end <= length).map(|(word, _)| *word).collect()
    }
}

#[tokio::test]
async fn a_truncated_log_loses_only_the_truncated_commits() {
    let crashed = CrashedDatabase::leave().await;
    let first = crashed.ends[0];
    // At each end of a commit, around it, and in the middle of a page.
    let lengths = crashed.ends.iter().flat_map(|end| [end - 2000, end - 1, *end, end + 10]);
    for length in lengths.filter(|length| *length >= first && *length <= crashed.log.len()) {
        assert_eq!(crashed.words_with(&crashed.log[..length]), crashed.whole(length), "{length}");
    }
}

#[tokio::test]
async fn a_damaged_end_of_the_log_is_ignored() {
    let crashed = CrashedDatabase::leave().await;
    let start = crashed.ends[1];
    for at in [start, start + 10, start + 30, crashed.log.len() - 1] {
        let mut log = crashed.log.clone();
        log[at] ^= 0xff;
        assert_eq!(crashed.words_with(&log), COMMITS[..2], "{at}");
        // A page that was never written reads as zeros.
        let mut log = crashed.log.clone();
        log[at..].fill(0);
        assert_eq!(crashed.words_with(&log), COMMITS[..2], "{at}");
    }
}
