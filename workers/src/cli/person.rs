//! Who acts: the name that goes into the run's log.

use std::env;

use clap::Args;

use windlass_core::envelope::Actor;

use super::{Failure, usage};

#[derive(Debug, Clone, Args)]
pub(crate) struct Person {
    /// Whom you act for; it goes into the run's log, beside the key or the user that is known [default: $USER]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

impl Person {
    /// What a server is told, which knows the key: a name, possibly empty.
    pub(crate) fn name(&self) -> String {
        self.name.as_deref().map_or_else(user, |name| name.trim().to_owned())
    }

    /// Who acts where no server is between: the user of the system, and whom they say they act for.
    pub(crate) fn actor(&self) -> Actor {
        let user = user();
        let claimed = self.name.as_deref().map(str::trim).filter(|name| !name.is_empty() && *name != user);
        Actor { claimed: claimed.map(str::to_owned), ..user.into() }
    }

    /// A decision without a name behind it is none.
    pub(crate) fn required(&self) -> Result<Actor, Failure> {
        let named = Some(self.actor()).filter(|actor| !actor.is_empty() && !self.name().is_empty());
        named.ok_or_else(|| usage("say who decides: --as NAME"))
    }
}

/// The user of the system. Where the environment does not say who this is, as in many containers, the system does.
fn user() -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|variable| env::var(variable).ok());
    let named = named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    named.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()))
}
