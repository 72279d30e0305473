//! The files of archives: appended to and synced, one for each day.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use super::line::{Archived, Line, read};
use crate::visibility::Attributes;

/// Lines for one directory.
#[derive(Debug)]
pub(crate) struct Archiving {
    pub(crate) directory: PathBuf,
    pub(crate) lines: Vec<Line>,
}

/// Appends lines to the files of their days. When it returns, they survive a power failure.
pub(crate) fn append(archiving: &Archiving) -> io::Result<()> {
    let Archiving { directory, lines } = archiving;
    let mut days: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        days.entry(&line.day).or_default().push(line);
    }
    if days.is_empty() {
        return Ok(());
    }
    create(directory)?;
    for (day, lines) in days {
        let path = directory.join(format!("{day}.jsonl"));
        let new = !path.exists();
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
        let mut text = String::new();
        if is_torn(&mut file)? {
            text.push('\n');
        }
        for line in lines {
            text += &line.text;
            text.push('\n');
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        if new {
            File::open(directory)?.sync_all()?;
        }
    }
    Ok(())
}

/// Creates a directory; those that are new are synced into their parents.
fn create(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        create(parent)?;
        fs::create_dir(directory).or_else(|error| if directory.is_dir() { Ok(()) } else { Err(error) })?;
        return File::open(parent)?.sync_all();
    }
    Ok(())
}

/// Whether the last line was cut off by a crash.
fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// The days of a directory, the latest first.
pub(super) fn days(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut days = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        days.extend(name.to_str().and_then(|name| name.strip_suffix(".jsonl")).map(str::to_owned));
    }
    days.sort_unstable_by(|a, b| b.cmp(a));
    Ok(days)
}

/// The lines of a day, in the order in which they were written.
pub(super) fn lines(directory: &Path, day: &str) -> io::Result<impl Iterator<Item = io::Result<String>> + use<>> {
    let file = BufReader::new(File::open(directory.join(format!("{day}.jsonl")))?);
    // A torn line may end inside of a character.
    Ok(file.split(b'\n').map(|line| line.map(|line| String::from_utf8_lossy(&line).into_owned())))
}

/// The run with these ids.
pub(crate) fn find(
    directory: &Path,
    workflow_id: &str,
    run_id: &str,
    attributes: &Attributes,
) -> io::Result<Option<Archived>> {
    let start = format!("{{\"runId\":{},", serde_json::Value::from(run_id));
    for day in days(directory)? {
        let mut found = None;
        for line in lines(directory, &day)? {
            let line = line?;
            if line.starts_with(&start)
                && let Some(archived) = read(&line, attributes, true)
                && archived.row.workflow_id == workflow_id
            {
                found = Some(archived);
            }
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::line::{
        tests::{attributes, row},
        written,
    };

    #[test]
    fn a_line_after_a_torn_one_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("a/b");
        let line = |run_id: &str, closed| written(&row(run_id, closed), "id", None).unwrap();
        let append = |lines| append(&Archiving { directory: directory.clone(), lines }).unwrap();
        append(vec![]);
        assert_eq!(days(&directory).unwrap(), [""; 0]);
        append(vec![line("r1", 5), line("r2", 100_000)]);
        let path = directory.join("1970-01-01.jsonl");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 20]).unwrap();
        append(vec![line("r1", 5), line("r3", 6)]);

        assert_eq!(days(&directory).unwrap(), ["1970-01-02", "1970-01-01"]);
        let found = |run_id: &str| find(&directory, "w \"1\"", run_id, &attributes()).unwrap().map(|found| found.row);
        assert_eq!(found("r1"), Some(row("r1", 5)));
        assert_eq!(found("r2"), Some(row("r2", 100_000)));
        assert_eq!(found("r3"), Some(row("r3", 6)));
        assert_eq!(found("r4"), None);
        assert_eq!(lines(&directory, "1970-01-01").unwrap().count(), 3);
    }
}
