//! One version of a worker deployment.

use std::fmt;

use temporalio_protos::temporal::api::{
    deployment::v1::{Deployment, WorkerDeploymentOptions, WorkerDeploymentVersion},
    enums::v1::WorkerVersioningMode,
};

/// The name of the absent version in the older texts.
pub(crate) const UNVERSIONED: &str = "__unversioned__";

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub(crate) struct Version {
    #[prost(string, tag = "1")]
    pub(crate) deployment: String,
    #[prost(string, tag = "2")]
    pub(crate) build_id: String,
}

impl Version {
    pub(crate) fn new(deployment: &str, build_id: &str) -> Self {
        Self { deployment: deployment.to_owned(), build_id: build_id.to_owned() }
    }

    /// The version of a worker, if it is versioned.
    pub(crate) fn of_worker(options: Option<&WorkerDeploymentOptions>) -> Option<Self> {
        let options = options.filter(|it| it.worker_versioning_mode() == WorkerVersioningMode::Versioned)?;
        Some(Self::new(&options.deployment_name, &options.build_id))
    }

    pub(crate) fn of_api(version: &WorkerDeploymentVersion) -> Self {
        Self::new(&version.deployment_name, &version.build_id)
    }

    pub(crate) fn of_series(deployment: &Deployment) -> Self {
        Self::new(&deployment.series_name, &deployment.build_id)
    }

    pub(crate) fn to_api(&self) -> WorkerDeploymentVersion {
        WorkerDeploymentVersion { deployment_name: self.deployment.clone(), build_id: self.build_id.clone() }
    }

    /// The older text of a version.
    pub(crate) fn dotted(&self) -> String {
        format!("{}.{}", self.deployment, self.build_id)
    }

    /// Reads the older text; `None` for the absent version. The newer delimiter is accepted, too.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        if text == UNVERSIONED {
            return Ok(None);
        }
        let Some(at) = text.find(['.', ':']) else {
            return Err(format!("expected delimiter ':' or '.' not found in version string {text}"));
        };
        let (deployment, build_id) = (&text[..at], &text[at + 1..]);
        if deployment.is_empty() {
            return Err(format!("deployment name is empty in version string {text}"));
        }
        if build_id.is_empty() {
            return Err(format!("build id is empty in version string {text}"));
        }
        Ok(Some(Self::new(deployment, build_id)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.deployment, self.build_id)
    }
}

/// The older text of a version or of its absence.
pub(crate) fn dotted(version: Option<&Version>) -> String {
    version.map_or_else(|| UNVERSIONED.to_owned(), Version::dotted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_text_is_read_with_either_delimiter() {
        let found = |deployment, build_id| Ok(Some(Version::new(deployment, build_id)));
        for (text, expected) in [
            ("a.b", found("a", "b")),
            ("a:b", found("a", "b")),
            ("a.b:c", found("a", "b:c")),
            ("a:b.c", found("a", "b.c")),
            ("__unversioned__", Ok(None)),
            ("ab", Err("expected delimiter ':' or '.' not found in version string ab".to_owned())),
            (".b", Err("deployment name is empty in version string .b".to_owned())),
            ("a.", Err("build id is empty in version string a.".to_owned())),
        ] {
            assert_eq!(Version::parse(text), expected, "{text}");
        }
    }
}
