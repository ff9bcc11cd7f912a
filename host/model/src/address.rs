//! Addresses of servers. IPv6 brackets exist only in text of the form `host:port`; a host on its own never has them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Why a text is no address. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No `:port` at the end, or one that is no number from 1 to 65535.
    #[error("'{0}' has no valid port: write host:port with a port from 1 to 65535")]
    PortInvalid(String),
    /// An empty host, one with characters that no host has, or brackets round something that is no IPv6 address.
    #[error("'{0}' has no valid host: write a name, an IPv4 address, or an IPv6 address in brackets")]
    HostInvalid(String),
    /// An IPv6 address without brackets: where it ends and the port begins can't be told.
    #[error("'{0}' is ambiguous: put the IPv6 address in brackets, like [fd00::1]:6379")]
    BracketsMissing(String),
}

impl AddressError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PortInvalid(_) => "PortInvalid",
            Self::HostInvalid(_) => "HostInvalid",
            Self::BracketsMissing(_) => "BracketsMissing",
        }
    }
}

/// Host and port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Address {
    /// Of an IP address.
    pub fn of_ip(ip: IpAddr, port: u16) -> Self {
        Self { host: ip.to_string(), port }
    }

    /// The IP address, if the host is one. Compare these, not texts: an IPv6 address has many spellings.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Whether it leads to the same place as an IP address and port.
    pub fn is(&self, ip: IpAddr, port: u16) -> bool {
        self.port == port && self.ip() == Some(ip)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or_else(|| AddressError::PortInvalid(text.to_owned()))?;
        let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) if inner.parse::<Ipv6Addr>().is_ok() => inner,
            Some(_) => return Err(AddressError::HostInvalid(text.to_owned())),
            None if host.contains(':') && !host.contains(['[', ']']) => {
                return Err(AddressError::BracketsMissing(text.to_owned()));
            }
            None => host,
        };
        let port = parse_port(port).ok_or_else(|| AddressError::PortInvalid(text.to_owned()))?;
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':'))
        {
            return Err(AddressError::HostInvalid(text.to_owned()));
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

/// 1 to 65535, digits only.
fn parse_port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?.filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn parses_and_prints() {
        let cases = [
            ("10.0.0.1:6379", address("10.0.0.1", 6379)),
            ("rfr-a-0.rfr-a.ns.svc:6379", address("rfr-a-0.rfr-a.ns.svc", 6379)),
            ("[fd00:213::1]:6379", address("fd00:213::1", 6379)),
            ("[::1]:1", address("::1", 1)),
            ("localhost:65535", address("localhost", 65535)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_address() {
        let cases = [
            ("", "PortInvalid"),
            ("10.0.0.1", "PortInvalid"),
            ("10.0.0.1:", "PortInvalid"),
            ("10.0.0.1:0", "PortInvalid"),
            ("10.0.0.1:65536", "PortInvalid"),
            ("10.0.0.1:+80", "PortInvalid"),
            ("10.0.0.1:6379x", "PortInvalid"),
            (":6379", "HostInvalid"),
            ("[]:6379", "HostInvalid"),
            ("[10.0.0.1]:6379", "HostInvalid"),
            ("[fd00::1:6379", "HostInvalid"),
            ("a b:6379", "HostInvalid"),
            ("fd00::1:6379", "BracketsMissing"),
            ("::1:6379", "BracketsMissing"),
        ];
        for (text, reason) in cases {
            assert_eq!(text.parse::<Address>().unwrap_err().reason(), reason, "{text:?}");
        }
    }

    #[test]
    fn places_are_compared_by_value() {
        let long = address("fd00:0:0::0001", 6379);
        assert!(long.is("fd00::1".parse().unwrap(), 6379));
        assert!(!long.is("fd00::1".parse().unwrap(), 6380));
        assert!(!address("name", 6379).is("::1".parse().unwrap(), 6379));
        assert_eq!(Address::of_ip("::1".parse().unwrap(), 1).to_string(), "[::1]:1");
    }
}
