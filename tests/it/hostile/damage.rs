//! Ways to damage the files of a data directory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use crate::proofs::dice::Dice;

const PAGE: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    Empty,
    TextFile,
    Directory,
    OnePage,
    CutAtAPage,
    CutInAPage,
    Magic,
    HeaderByte,
    PageSize,
    ReadOnlyFormat,
    SchemaBytes,
    ZeroPages,
    GarbagePages,
    SwappedPages,
    /// Bytes of a page of a table that every start writes to.
    TableBytes,
    IndexBytes,
    AnyBytes,
    GarbageAppended,
    LogGarbage,
    LogHeader,
    LogCut,
    LogBytes,
    LogOfAnother,
    OnlyTheLog,
    RunRow,
    EngineRow,
    NamespaceRow,
    SessionRow,
    TableGone,
    VersionsGone,
}

/// First the damage that cheap checks find, then the rest.
pub(super) const ALL: [Damage; 30] = [
    Damage::Empty,
    Damage::ZeroPages,
    Damage::LogGarbage,
    Damage::RunRow,
    Damage::ReadOnlyFormat,
    Damage::TableBytes,
    Damage::CutAtAPage,
    Damage::EngineRow,
    Damage::TextFile,
    Damage::LogOfAnother,
    Damage::SchemaBytes,
    Damage::IndexBytes,
    Damage::Directory,
    Damage::OnlyTheLog,
    Damage::HeaderByte,
    Damage::GarbagePages,
    Damage::NamespaceRow,
    Damage::OnePage,
    Damage::CutInAPage,
    Damage::Magic,
    Damage::PageSize,
    Damage::SwappedPages,
    Damage::AnyBytes,
    Damage::GarbageAppended,
    Damage::LogHeader,
    Damage::LogCut,
    Damage::LogBytes,
    Damage::SessionRow,
    Damage::TableGone,
    Damage::VersionsGone,
];

impl Damage {
    /// Whether it needs the files of a killed process, with a log.
    pub(super) fn needs_log(self) -> bool {
        matches!(
            self,
            Self::LogGarbage | Self::LogHeader | Self::LogCut | Self::LogBytes | Self::LogOfAnother | Self::OnlyTheLog
        )
    }

    /// Damages the files of `data_dir`; `other` is another data directory, with a log.
    pub(super) fn inflict(self, data_dir: &Path, other: &Path, dice: &mut Dice) {
        let file = database(data_dir);
        let log = log(data_dir);
        match self {
            Self::Empty => fs::write(&file, "").unwrap(),
            Self::TextFile => fs::write(&file, "notes about windlasses, kept in a text file by mistake\n").unwrap(),
            Self::Directory => {
                fs::remove_file(&file).unwrap();
                fs::create_dir(&file).unwrap();
            }
            Self::OnePage => change(&file, |bytes| bytes.truncate(PAGE)),
            Self::CutAtAPage => change(&file, |bytes| bytes.truncate(bytes.len() / PAGE / 2 * PAGE)),
            Self::CutInAPage => change(&file, |bytes| bytes.truncate(bytes.len() / PAGE / 2 * PAGE + 1000)),
            Self::Magic => change(&file, |bytes| flip(bytes, 0..16, 1, dice)),
            Self::HeaderByte => change(&file, |bytes| flip(bytes, 16..100, 1, dice)),
            Self::PageSize => change(&file, |bytes| bytes[16..18].copy_from_slice(&[0x02, 0x00])),
            Self::ReadOnlyFormat => change(&file, |bytes| bytes[18] = 9),
            Self::SchemaBytes => change(&file, |bytes| flip(bytes, 100..PAGE, 4, dice)),
            Self::ZeroPages => pages(&file, dice, |page, _| page.fill(0)),
            Self::GarbagePages => pages(&file, dice, |page, dice| page.fill_with(|| dice.roll(256) as u8)),
            Self::SwappedPages => change(&file, |bytes| {
                let count = (bytes.len() / PAGE - 1) as u64;
                let [one, two] = [(); 2].map(|()| (1 + dice.roll(count)) as usize * PAGE);
                let (first, second) = (bytes[one..one + PAGE].to_vec(), bytes[two..two + PAGE].to_vec());
                bytes[one..one + PAGE].copy_from_slice(&second);
                bytes[two..two + PAGE].copy_from_slice(&first);
            }),
            Self::TableBytes => {
                let tables = ["runs", "events", "blobs", "engine_runs", "engine_history", "engine_visibility"];
                root_bytes(&file, tables[dice.roll(6) as usize], dice);
            }
            Self::IndexBytes => {
                let indices = ["runs_newest", "sqlite_autoindex_runs_1", "engine_history_of_run", "engine_runs_awake"];
                root_bytes(&file, indices[dice.roll(4) as usize], dice);
            }
            Self::AnyBytes => change(&file, |bytes| {
                let end = bytes.len();
                flip(bytes, PAGE..end, 20, dice);
            }),
            Self::GarbageAppended => change(&file, |bytes| bytes.extend((0..10_000).map(|_| dice.roll(256) as u8))),
            Self::LogGarbage => change(&log, |bytes| bytes.fill_with(|| dice.roll(256) as u8)),
            Self::LogHeader => change(&log, |bytes| flip(bytes, 0..32, 1, dice)),
            Self::LogCut => change(&log, |bytes| bytes.truncate(dice.roll(bytes.len() as u64) as usize)),
            Self::LogBytes => change(&log, |bytes| {
                let end = bytes.len();
                flip(bytes, 32..end, 3, dice);
            }),
            Self::LogOfAnother => _ = fs::copy(self::log(other), &log).unwrap(),
            Self::OnlyTheLog => fs::remove_file(&file).unwrap(),
            Self::RunRow => rows(&file, "UPDATE runs SET status = 'dreaming', labels = '{' WHERE rowid % 3 = 1"),
            Self::EngineRow => rows(&file, "UPDATE engine_runs SET state = x'ffff' WHERE number % 3 = 1"),
            Self::NamespaceRow => rows(&file, "UPDATE engine_namespaces SET record = x'ffff'"),
            Self::SessionRow => rows(&file, "UPDATE api_keys SET scopes = '['; UPDATE sessions SET metadata = '{'"),
            Self::TableGone => rows(&file, "PRAGMA foreign_keys = OFF; DROP TABLE plans"),
            Self::VersionsGone => rows(&file, "DELETE FROM schema_versions"),
        }
    }
}

pub(super) fn database(data_dir: &Path) -> PathBuf {
    data_dir.join("windlass.db")
}

pub(super) fn log(data_dir: &Path) -> PathBuf {
    data_dir.join("windlass.db-wal")
}

fn change(path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    edit(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn flip(bytes: &mut [u8], range: std::ops::Range<usize>, count: usize, dice: &mut Dice) {
    for _ in 0..count {
        let at = range.start + dice.roll(range.len() as u64) as usize;
        bytes[at] ^= 1 << dice.roll(8);
    }
}

/// One to three pages after the first.
fn pages(file: &Path, dice: &mut Dice, mut edit: impl FnMut(&mut [u8], &mut Dice)) {
    change(file, |bytes| {
        let count = (bytes.len() / PAGE - 1) as u64;
        for _ in 0..1 + dice.roll(3) {
            let at = (1 + dice.roll(count)) as usize * PAGE;
            edit(&mut bytes[at..at + PAGE], dice);
        }
    });
}

/// Bytes in the first page of a table or an index.
fn root_bytes(file: &Path, name: &str, dice: &mut Dice) {
    let root = {
        let sql = Connection::open(file).unwrap();
        let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        usize::try_from(sql.query_row(root, [name], |row| row.get::<_, i64>(0)).unwrap()).unwrap()
    };
    change(file, |bytes| flip(bytes, (root - 1) * PAGE..root * PAGE, 8, dice));
}

/// Runs SQL, as a person at a database shell would.
fn rows(file: &Path, script: &str) {
    Connection::open(file).unwrap().execute_batch(script).unwrap();
}
