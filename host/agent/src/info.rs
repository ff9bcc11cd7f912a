//! Reads INFO: lines of `name:value`, sections headed by `#`.

use std::net::{IpAddr, SocketAddr};

/// A replica as its primary sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    /// Where it listens; `None` if it announces a name.
    pub(crate) address: Option<SocketAddr>,
    /// `state=online`: it gets the stream. On 9.1 this shows before its first sync has ended; the offset is 0 then.
    pub(crate) online: bool,
    /// What it has acknowledged.
    pub(crate) offset: u64,
    /// Seconds since its last acknowledgement; it sends one a second.
    pub(crate) lag_seconds: u64,
}

/// A field's value.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

/// The lines `slave0:ip=...,port=...,state=...,offset=...,lag=...`. A line that lacks something counts as not online.
pub(crate) fn attached(info: &str) -> Vec<Attached> {
    let lines = info.lines().filter_map(|line| {
        let (index, rest) = line.trim_end().strip_prefix("slave")?.split_once(':')?;
        index.bytes().all(|byte| byte.is_ascii_digit()).then_some(rest)
    });
    lines.map(attached_line).collect()
}

fn attached_line(line: &str) -> Attached {
    let part = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let address = || Some(SocketAddr::new(part("ip")?.parse::<IpAddr>().ok()?, part("port")?.parse().ok()?));
    Attached {
        address: address(),
        online: part("state") == Some("online"),
        offset: part("offset").and_then(|offset| offset.parse().ok()).unwrap_or(0),
        lag_seconds: part("lag").and_then(|lag| lag.parse().ok()).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const INFO: &str = "# Replication\r\nrole:master\r\nconnected_slaves:3\r\n\
        slave0:ip=10.0.0.7,port=6379,state=online,offset=2964,lag=0,type=replica\r\n\
        slave1:ip=fd00::7,port=6380,state=wait_bgsave,offset=0,lag=7\r\n\
        slave2:ip=replica.example,port=6379,state=online\r\n\
        slave_read_only:1\r\nmaster_replid:abc\r\n";

    #[test]
    fn fields_by_their_whole_name() {
        assert_eq!(field(INFO, "role"), Some("master"));
        assert_eq!(field(INFO, "master_replid"), Some("abc"));
        assert_eq!((field(INFO, "master"), field(INFO, "ole"), field("", "role")), (None, None, None));
    }

    #[test]
    fn replicas_with_what_they_lack() {
        let expected = [
            Attached { address: "10.0.0.7:6379".parse().ok(), online: true, offset: 2964, lag_seconds: 0 },
            Attached { address: "[fd00::7]:6380".parse().ok(), online: false, offset: 0, lag_seconds: 7 },
            Attached { address: None, online: true, offset: 0, lag_seconds: u64::MAX },
        ];
        assert_eq!(attached(INFO), expected);
    }
}
