//! Who acts: the name that goes into the run's log.

use std::env;

use clap::Args;

use super::{Failure, usage};

#[derive(Debug, Clone, Args)]
pub(crate) struct Person {
    /// Who acts; it goes into the run's log [default: $USER, or the user's number]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

impl Person {
    /// A name, possibly empty. Where the environment does not say who this is, as in many containers, the system does.
    pub(crate) fn name(&self) -> String {
        let given = self.name.clone();
        let given = given.or_else(|| ["USER", "LOGNAME"].iter().find_map(|variable| env::var(variable).ok()));
        let given = given.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
        given.trim().to_owned()
    }

    /// A decision without a name behind it is none.
    pub(crate) fn required(&self) -> Result<String, Failure> {
        Some(self.name()).filter(|name| !name.is_empty()).ok_or_else(|| usage("say who decides: --as NAME"))
    }
}
