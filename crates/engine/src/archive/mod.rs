//! Archives of closed runs: files that outlive the rows, which retention removes.
//!
//! A run is one line of JSON in the file of its namespace and of the day (UTC) on which it ended. `line` converts
//! between rows and lines, `files` appends and reads, `search` lists. Nothing is deleted before its line is synced; a
//! crash in between leaves a line that is written again, so of several lines with one run id the last one counts.

mod files;
mod json;
mod line;
mod search;

use std::path::{Component, Path, PathBuf};

pub(crate) use self::{
    files::{Archiving, append, find},
    line::{Line, written},
    search::list,
};
use crate::{namespaces::Archives, persist::NamespaceRecord, service_error::ServiceError};

const SCHEME: &str = "file://";

/// The directory that archives may be in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory(pub(crate) Option<PathBuf>);

impl Archives for Directory {
    fn default_uri(&self) -> Option<String> {
        self.0.as_ref().map(|directory| format!("{SCHEME}{}", directory.display()))
    }

    /// A client chooses the URI, so it must not lead out of the directory.
    fn check(&self, uri: &str) -> Result<(), ServiceError> {
        let Some(path) = uri.strip_prefix(SCHEME) else {
            return Err(ServiceError::invalid("URI scheme does not match the archiver"));
        };
        let path = Path::new(path);
        let climbs = path.components().any(|part| matches!(part, Component::ParentDir));
        match &self.0 {
            Some(directory) if path.starts_with(directory) && !climbs => Ok(()),
            Some(directory) => Err(ServiceError::invalid(format!(
                "archives are kept in {}; use a URI below file://{}",
                directory.display(),
                directory.display()
            ))),
            None => Err(ServiceError::invalid("URI is invalid")),
        }
    }
}

/// The directory of a namespace's files below a URI.
pub(crate) fn place(uri: &str, namespace: &NamespaceRecord) -> Option<PathBuf> {
    uri.strip_prefix(SCHEME).map(|path| Path::new(path).join(&namespace.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_does_not_lead_out_of_the_directory() {
        let directory = Directory(Some("/srv/archive".into()));
        assert_eq!(directory.default_uri(), Some("file:///srv/archive".into()));
        for (uri, accepted) in [
            ("file:///srv/archive", true),
            ("file:///srv/archive/a/b", true),
            ("file:///srv/archive/../other", false),
            ("file:///srv/archives", false),
            ("file:///etc", false),
            ("file://srv/archive", false),
            ("s3://srv/archive", false),
            ("/srv/archive", false),
        ] {
            assert_eq!(directory.check(uri).is_ok(), accepted, "{uri}");
        }
    }
}
