//! Network addresses, as settings and manifests name them.
//!
//! Which addresses are public follows IANA's special-purpose registries: an address that is not globally reachable is
//! private, and so is one that embeds another address (6to4, NAT64, Teredo), since that may be any address. Nothing
//! here does a DNS lookup.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use url::Url;

/// Special-purpose networks of IPv4. All others are public.
const SPECIAL_V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Clouds serve the credentials of a machine here.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The only network of IPv6 with public addresses, and the special-purpose networks in it.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
const SPECIAL_V6: &[(Ipv6Addr, u8)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether an address is globally reachable, and not one of this machine or its own network.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    // `::ffff:127.0.0.1` is 127.0.0.1 to a client that connects.
    match address.to_canonical() {
        IpAddr::V4(address) => !SPECIAL_V4.iter().any(|(network, bits)| v4_has(*network, *bits, address)),
        IpAddr::V6(address) => {
            v6_has(GLOBAL_V6.0, GLOBAL_V6.1, address)
                && !SPECIAL_V6.iter().any(|(network, bits)| v6_has(*network, *bits, address))
        }
    }
}

fn v4_has(network: Ipv4Addr, bits: u8, address: Ipv4Addr) -> bool {
    let differing = network.to_bits() ^ address.to_bits();
    bits == 0 || differing >> (32 - u32::from(bits)) == 0
}

fn v6_has(network: Ipv6Addr, bits: u8, address: Ipv6Addr) -> bool {
    let differing = network.to_bits() ^ address.to_bits();
    bits == 0 || differing >> (128 - u32::from(bits)) == 0
}

/// The address that is written in a URL itself, in any spelling; `None` for a name.
#[must_use]
pub fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.parse().ok()
}

/// The host of a URL without the trailing dot of a fully qualified name.
#[must_use]
pub fn host(url: &Url) -> &str {
    let host = url.host_str().unwrap_or_default();
    host.strip_suffix('.').unwrap_or(host)
}

/// Whether a URL names this machine, by its text alone.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match literal(url) {
        Some(address) => address.to_canonical().is_loopback(),
        // RFC 6761: these names always resolve to this machine.
        None => host(url) == "localhost" || host(url).ends_with(".localhost"),
    }
}

/// A setting of the form `host`, `host:port` or an address, with or without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAndPort {
    /// As URLs spell it, without a trailing dot.
    pub host: String,
    pub port: Option<u16>,
}

impl HostAndPort {
    /// Parses the part of a URL between scheme and path; `None` if it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // A URL parser accepts more than a setting should.
        let is_odd = |letter: char| letter.is_whitespace() || letter.is_control() || "/\\@?#%".contains(letter);
        if text.is_empty() || text.contains(is_odd) {
            return None;
        }
        let bracketed = text.parse::<Ipv6Addr>().ok().map(|address| format!("[{address}]"));
        let text = bracketed.as_deref().unwrap_or(text);
        let url = Url::parse(&format!("https://{text}")).ok()?;
        // URL parsers drop the default port, but it was written.
        let port = url.port().or_else(|| text.ends_with(":443").then_some(443));
        (!text.ends_with(':')).then(|| Self { host: host(&url).to_owned(), port })
    }
}

/// Addresses with a common prefix, such as `10.1.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (first, bits) = text.split_once('/')?;
        let (first, bits) = (first.parse::<IpAddr>().ok()?.to_canonical(), bits.parse::<u8>().ok()?);
        let longest = if first.is_ipv4() { 32 } else { 128 };
        (bits <= longest).then_some(Self { first, bits })
    }

    fn has(self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => v4_has(first, self.bits, address),
            (IpAddr::V6(first), IpAddr::V6(address)) => v6_has(first, self.bits, address),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// A private address that an operator lets clients reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exception {
    /// One host, by the name or the address that a client would write.
    Host(HostAndPort),
    /// A network, whatever name resolves to it.
    Network(Network),
}

/// Why an exception is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a host, HOST:PORT or a network such as 10.0.0.0/8")]
pub struct InvalidException;

impl FromStr for Exception {
    type Err = InvalidException;

    fn from_str(text: &str) -> Result<Self, InvalidException> {
        if text.contains('/') {
            return Network::parse(text).map(Self::Network).ok_or(InvalidException);
        }
        let host = HostAndPort::parse(text).filter(|entry| !entry.host.contains('*'));
        host.map(Self::Host).ok_or(InvalidException)
    }
}

/// Whether the address of a client's request is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressCheck {
    /// Any address that its name resolves to.
    Free,
    /// Only public addresses, and networks that were excepted.
    Checked,
}

/// An address that a client named, or that its name resolves to, is private. The address is not reported: it would leak
/// the answers of an internal DNS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address is private, or its name resolves to a private one, and a manifest that a client has stored may call public \
     addresses only; the operator can list it in `allow_private`, or put the manifest in a file"
)]
pub struct NotPublic;

/// What clients can make the server call: everything public, and these exceptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reachable {
    hosts: Vec<HostAndPort>,
    networks: Vec<Network>,
}

impl Reachable {
    #[must_use]
    pub fn new(exceptions: impl IntoIterator<Item = Exception>) -> Self {
        let mut reachable = Self::default();
        for exception in exceptions {
            match exception {
                Exception::Host(host) => reachable.hosts.push(host),
                Exception::Network(network) => reachable.networks.push(network),
            }
        }
        reachable
    }

    /// Whether a request to `url` is checked, by its text alone. What a name resolves to is checked when it is called.
    ///
    /// # Errors
    /// If it is private.
    pub fn check_of(&self, url: &Url) -> Result<AddressCheck, NotPublic> {
        let (host, port) = (host(url), url.port_or_known_default());
        let is_excepted = |known: &HostAndPort| known.host == host && (known.port.is_none() || known.port == port);
        if self.hosts.iter().any(is_excepted) {
            return Ok(AddressCheck::Free);
        }
        let is_refused = match literal(url) {
            Some(address) => !self.includes(address),
            None => is_loopback(url) && !self.includes(Ipv4Addr::LOCALHOST.into()),
        };
        if is_refused { Err(NotPublic) } else { Ok(AddressCheck::Checked) }
    }

    /// Whether an address that a name resolves to may be called.
    #[must_use]
    pub fn includes(&self, address: IpAddr) -> bool {
        is_public(address) || self.networks.iter().any(|network| network.has(address))
    }
}

#[cfg(test)]
mod tests;
