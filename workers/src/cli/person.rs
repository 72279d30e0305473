//! Who acts: the name in the run's log.

use std::env;

use clap::Args;

use windlass_core::envelope::Actor;

use super::{Failure, usage};

#[derive(Debug, Clone, Args)]
pub(crate) struct Person {
    /// The person you act for; it is logged beside the authenticated key or user [default: $USER]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

impl Person {
    /// The name for a server, which knows the API key. It may be empty.
    pub(crate) fn name(&self) -> String {
        self.name.as_deref().map_or_else(user, |name| name.trim().to_owned())
    }

    /// The actor for the direct transport: the operating system's user, and the person they act for.
    pub(crate) fn actor(&self) -> Actor {
        let user = user();
        let claimed = self.name.as_deref().map(str::trim).filter(|name| !name.is_empty() && *name != user);
        Actor { claimed: claimed.map(str::to_owned), ..user.into() }
    }

    /// For approvals and denials, which need a name.
    pub(crate) fn required(&self) -> Result<Actor, Failure> {
        let named = Some(self.actor()).filter(|actor| !actor.is_empty() && !self.name().is_empty());
        named.ok_or_else(|| usage("a decision needs a name: set --as NAME"))
    }
}

/// The operating system's user, from the environment, or the user id if the environment has no name, as in many
/// containers.
fn user() -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|variable| env::var(variable).ok());
    let named = named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    named.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()))
}
