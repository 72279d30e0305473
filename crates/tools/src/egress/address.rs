//! Which addresses belong to the public internet.
//!
//! Everything else is refused, because a worker sits inside a network that trusts it: other services, the machine itself
//! and the cloud's metadata service, which gives credentials to every process that can reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Azure's host service: a public address that every machine there reaches as its own infrastructure.
const AZURE_HOST: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let protocol_assignments = (a, b, c) == (192, 0, 0);
    let relay_anycast = (a, b, c) == (192, 88, 99);
    let benchmarking = a == 198 && (18..20).contains(&b);
    let reserved = a >= 240;
    !(a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || address == AZURE_HOST
        || shared
        || protocol_assignments
        || relay_anycast
        || benchmarking
        || reserved)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(embedded) = embedded_v4(address) {
        return is_public_v4(embedded);
    }
    let [first, second, ..] = address.segments();
    let global_unicast = first & 0xe000 == 0x2000;
    let protocol_assignments = first == 0x2001 && second < 0x0200;
    let documentation = (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second < 0x1000);
    global_unicast && !protocol_assignments && !documentation
}

/// The IPv4 address that a mapped, NAT64 or 6to4 address leads to.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x0064, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(from(high, low))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_public() {
        let refused = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.9",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "3fff:abc::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        let allowed = [
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2001:4860:4860::8888",
            "2002:808:808::1",
            "2606:4700::1111",
            "2a00:1450::1",
        ];
        for address in refused {
            assert!(!is_public(address.parse().unwrap()), "{address} must be refused");
        }
        for address in allowed {
            assert!(is_public(address.parse().unwrap()), "{address} must be allowed");
        }
    }
}
