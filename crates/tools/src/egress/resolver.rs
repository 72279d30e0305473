//! Names to addresses, with the address rule applied to exactly the addresses that are then connected to.
//!
//! Checking a name first and connecting by name later would let its owner change the answer in between.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::network::AddressRule;

/// Looks up the addresses of a name.
#[async_trait]
pub(crate) trait Lookup: Send + Sync + 'static {
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The operating system's resolver.
pub(super) struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// The name leads to no address that the rule allows.
#[derive(Debug, thiserror::Error)]
#[error("the address rule allows none of the host's addresses")]
pub(super) struct AddressRefused;

/// Resolves names to allowed addresses only.
#[derive(Clone)]
pub(super) struct GuardedResolver {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) rule: AddressRule,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { lookup, rule } = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            let found = lookup.lookup(host).await?;
            // Port 0 stands for the port in the URL.
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|ip| rule.allows(host, *ip)).map(|ip| SocketAddr::new(ip, 0)).collect();
            if allowed.is_empty() {
                return Err(AddressRefused.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}
