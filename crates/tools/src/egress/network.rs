//! Which addresses may be connected to: the public internet, and what the operator allows beside it.

use std::{fmt, net::IpAddr, str::FromStr, sync::Arc};

use reqwest::Url;

use super::{EgressError, address::is_public};

/// What may be reached beside the public internet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressRules {
    pub allow: Vec<AllowedNetwork>,
}

/// A network, as `10.0.0.0/8`, `127.0.0.1/32` or `::1/128`; or a name that may lead to private addresses, as
/// `host.internal` or `host.internal:8080`. With a port, only that port of the name can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedNetwork(Entry);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Network { address: IpAddr, prefix: u32 },
    Name { name: String, port: Option<u16> },
}

impl FromStr for AllowedNetwork {
    type Err = EgressError;

    fn from_str(entry: &str) -> Result<Self, EgressError> {
        let parsed = match entry.split_once('/') {
            Some((address, prefix)) => network(address, prefix),
            None => name(entry),
        };
        parsed.map(Self).map_err(|problem| EgressError::Network { entry: entry.to_owned(), problem })
    }
}

impl fmt::Display for AllowedNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Entry::Network { address, prefix } => write!(f, "{address}/{prefix}"),
            Entry::Name { name, port: None } => f.write_str(name),
            Entry::Name { name, port: Some(port) } => write!(f, "{name}:{port}"),
        }
    }
}

fn network(address: &str, prefix: &str) -> Result<Entry, &'static str> {
    let (Ok(address), Ok(prefix)) = (address.parse::<IpAddr>(), prefix.parse::<u32>()) else {
        return Err("write a network as 10.0.0.0/8 or fd00::/8");
    };
    if address != address.to_canonical() {
        return Err("write the IPv4 network instead of its IPv6 form");
    }
    let (bits, width) = bits(address);
    if prefix > width {
        return Err("the prefix is longer than the address");
    }
    if bits.checked_shl(128 - width + prefix).unwrap_or_default() != 0 {
        return Err("the address has bits beyond the prefix; set them to 0 or write a longer prefix");
    }
    Ok(Entry::Network { address, prefix })
}

fn name(entry: &str) -> Result<Entry, &'static str> {
    const FORM: &str = "write a name as host.internal or host.internal:8080, and an address as 10.1.2.3/32";
    let (name, port) = match entry.split_once(':') {
        Some((name, port)) => (name, Some(port.parse::<u16>().ok().filter(|port| *port > 0).ok_or(FORM)?)),
        None => (entry, None),
    };
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name = bare(name);
    // Some names are addresses in truth, such as 0x7f.1; the parser of URLs knows.
    let is_name = !name.is_empty()
        && name.chars().all(word)
        && Url::parse(&format!("http://{name}/")).is_ok_and(|url| url.domain() == Some(&name));
    if is_name { Ok(Entry::Name { name, port }) } else { Err(FORM) }
}

/// A name without the dot that may end it, in lower case.
fn bare(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// The address as the lowest bits of a number, and how many there are.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// Says which addresses may be connected to.
#[derive(Debug, Clone)]
pub(super) enum AddressRule {
    Any,
    PublicAnd(Arc<[AllowedNetwork]>),
}

impl AddressRule {
    pub(super) fn new(rules: EgressRules) -> Self {
        Self::PublicAnd(rules.allow.into())
    }

    pub(super) fn any() -> Self {
        Self::Any
    }

    /// Whether an address that a name led to may be connected to.
    pub(super) fn allows(&self, host: &str, address: IpAddr) -> bool {
        self.allows_address(address) || self.named(host).next().is_some()
    }

    pub(super) fn allows_address(&self, address: IpAddr) -> bool {
        let Self::PublicAnd(allowed) = self else { return true };
        let (given, given_width) = bits(address.to_canonical());
        is_public(address)
            || allowed.iter().any(|entry| match entry.0 {
                Entry::Network { address, prefix } => {
                    let (wanted, width) = bits(address);
                    let same = |bits: u128| bits.checked_shr(width - prefix).unwrap_or_default();
                    width == given_width && same(wanted) == same(given)
                }
                Entry::Name { .. } => false,
            })
    }

    /// Whether a name may be requested at a port. A lookup does not know the port, so a name that is allowed at some
    /// ports is refused at all others.
    pub(super) fn allows_port(&self, host: &str, port: Option<u16>) -> bool {
        let mut ports = self.named(host).peekable();
        ports.peek().is_none() || ports.any(|allowed| allowed.is_none() || allowed == port)
    }

    /// The ports of the entries for a name.
    fn named(&self, host: &str) -> impl Iterator<Item = Option<u16>> {
        let host = bare(host);
        let entries = match self {
            Self::Any => &[],
            Self::PublicAnd(allowed) => &allowed[..],
        };
        entries.iter().filter_map(move |entry| match &entry.0 {
            Entry::Name { name, port } if *name == host => Some(*port),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(entries: &[&str]) -> AddressRule {
        AddressRule::new(EgressRules { allow: entries.iter().map(|entry| entry.parse().unwrap()).collect() })
    }

    #[test]
    fn an_entry_is_a_network_or_a_name() {
        for (entry, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("127.0.0.1/32", "127.0.0.1/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::1/128", "::1/128"),
            ("fd00::/8", "fd00::/8"),
            ("::/0", "::/0"),
            ("Host.Internal.", "host.internal"),
            ("host_1.internal:8080", "host_1.internal:8080"),
        ] {
            assert_eq!(entry.parse::<AllowedNetwork>().unwrap().to_string(), shown);
        }
        for entry in [
            "",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "::1/129",
            "fd00::1/8",
            "::ffff:10.0.0.0/104",
            "127.0.0.1",
            "127.0.0.1:80",
            "::1",
            "[::1]:80",
            "0x7f.1",
            "2130706433",
            "host:0",
            "host:port",
            "host:1:2",
            "a b",
            "user@host",
            "*.internal",
            "http://host/",
        ] {
            assert!(entry.parse::<AllowedNetwork>().is_err(), "{entry}");
        }
        let error = "10.0.0.1/8".parse::<AllowedNetwork>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"10.0.0.1/8\" cannot be allowed: the address has bits beyond the prefix; set them to 0 or write a longer \
             prefix"
        );
    }

    #[test]
    fn an_allowed_network_adds_exactly_its_addresses() {
        let rule = rule(&["10.1.0.0/16", "127.0.0.1/32", "fd00:1::/32"]);
        for (address, allowed) in [
            ("10.1.255.255", true),
            ("10.2.0.0", false),
            ("10.0.255.255", false),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("::ffff:10.1.2.3", true),
            ("::ffff:10.2.2.3", false),
            ("fd00:1:2::3", true),
            ("fd00:2::3", false),
            ("::1", false),
            ("169.254.169.254", false),
            ("8.8.8.8", true),
        ] {
            assert_eq!(rule.allows_address(address.parse().unwrap()), allowed, "{address}");
        }
        assert!(super::tests::rule(&["0.0.0.0/0"]).allows_address("169.254.169.254".parse().unwrap()));
        assert!(!super::tests::rule(&["0.0.0.0/0"]).allows_address("::1".parse().unwrap()));
    }

    #[test]
    fn an_allowed_name_may_lead_to_private_addresses_at_its_port_only() {
        let rule = rule(&["db.internal", "api.internal:8080", "api.internal:8081"]);
        let private = "10.0.0.1".parse().unwrap();
        for (host, allowed) in
            [("db.internal", true), ("DB.internal.", true), ("api.internal", true), ("x.db.internal", false)]
        {
            assert_eq!(rule.allows(host, private), allowed, "{host}");
        }
        for (host, port, allowed) in [
            ("db.internal", 1, true),
            ("api.internal", 8080, true),
            ("api.internal", 8081, true),
            ("api.internal", 80, false),
            ("API.internal.", 80, false),
            ("example.com", 80, true),
        ] {
            assert_eq!(rule.allows_port(host, Some(port)), allowed, "{host}:{port}");
        }
        assert!(!rule.allows_address(private));
    }
}
