//! What Sentinels say: INFO sentinel, and the properties that SENTINEL MASTERS, REPLICAS and SENTINELS list.
//!
//! # Guarantees
//! 1. Never panics and never fails: a property that is not there, or isn't of its type, is `None`.
//! 2. Whoever has no name, or no address, is `None` as a whole: nothing can be done with it.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::address::Address;

/// The channels on which a Sentinel tells that something has changed, or is about to. Not among them: what it tells all the time,
/// and what others of its own words say as well.
pub const CHANNELS: &[&str] = &[
    "+convert-to-slave",
    "+failover-end",
    "+failover-end-for-timeout",
    "+monitor",
    "+odown",
    "+reboot",
    "+reset-master",
    "+sdown",
    "+sentinel",
    "+sentinel-address-switch",
    "+slave",
    "+switch-master",
    "+tilt",
    "+try-failover",
    "-failover-abort-no-good-slave",
    "-failover-abort-not-elected",
    "-failover-abort-slave-timeout",
    "-monitor",
    "-odown",
    "-sdown",
    "-tilt",
];

/// INFO sentinel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentinelInfo {
    /// `sentinel_tilt`: its clock jumped or it stood still; it only watches for a while.
    pub tilt: Option<bool>,
    /// `sentinel_masters`: how many it monitors.
    pub masters: Option<u32>,
    /// The `masterN` lines, sorted by name. A line without name or address is left out.
    pub monitored: Vec<MonitoredLine>,
}

/// A `masterN` line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonitoredLine {
    /// Name of the monitored primary.
    pub name: String,
    /// Where it is.
    pub address: Address,
    /// Whether the status is `ok`; otherwise `sdown` or `odown`.
    pub ok: Option<bool>,
    /// Replicas that it knows, the dead ones too.
    pub replicas: Option<u32>,
    /// Sentinels that it knows, itself and the dead ones included.
    pub sentinels: Option<u32>,
}

impl SentinelInfo {
    /// Reads a reply.
    pub fn parse(text: &str) -> Self {
        let mut info = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.trim_end().split_once(':')) {
            match name {
                "sentinel_tilt" => info.tilt = flag(value),
                "sentinel_masters" => info.masters = value.parse().ok(),
                _ if is_numbered_master(name) => info.monitored.extend(monitored_line(value)),
                _ => {}
            }
        }
        info.monitored.sort();
        info
    }
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn is_numbered_master(name: &str) -> bool {
    name.strip_prefix("master").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `name=...,status=...,address=ip:port,slaves=...,sentinels=...`. Read from its end: a name may have anything in it.
fn monitored_line(line: &str) -> Option<MonitoredLine> {
    let (rest, sentinels) = line.rsplit_once(",sentinels=")?;
    let (rest, replicas) = rest.rsplit_once(",slaves=")?;
    let (rest, address) = rest.rsplit_once(",address=")?;
    let (rest, status) = rest.rsplit_once(",status=")?;
    let (host, port) = address.rsplit_once(':')?;
    Some(MonitoredLine {
        name: rest.strip_prefix("name=").filter(|name| !name.is_empty())?.to_owned(),
        address: place(host, port)?,
        ok: Some(status).filter(|status| !status.is_empty()).map(|status| status == "ok"),
        replicas: replicas.parse().ok(),
        sentinels: sentinels.parse().ok(),
    })
}

/// Port 0 is that of nobody.
fn place(host: &str, port: &str) -> Option<Address> {
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some(Address { host: host.to_owned(), port }).filter(|address| !address.host.is_empty())
}

/// The properties of one thing in a list.
type Properties = BTreeMap<String, String>;

fn text(properties: &Properties, name: &str) -> Option<String> {
    properties.get(name).filter(|value| !value.is_empty()).cloned()
}

fn parsed<T: FromStr>(properties: &Properties, name: &str) -> Option<T> {
    properties.get(name)?.parse().ok()
}

fn address(properties: &Properties) -> Option<Address> {
    place(properties.get("ip")?, properties.get("port")?)
}

/// What a Sentinel finds of somebody, by its flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    /// `s_down`: it has had no valid answer for longer than `down-after-milliseconds`.
    pub subjectively_down: bool,
    /// `o_down`: so many Sentinels find so that the quorum is reached. Only of primaries.
    pub objectively_down: bool,
    /// `disconnected`: there is no connection now.
    pub disconnected: bool,
}

impl Health {
    /// `None` without flags.
    fn of(properties: &Properties) -> Option<Self> {
        let flags = text(properties, "flags")?;
        let has = |flag| flags.split(',').any(|found| found == flag);
        Some(Self { subjectively_down: has("s_down"), objectively_down: has("o_down"), disconnected: has("disconnected") })
    }

    /// Whether it finds it down, by whatever word.
    pub fn is_down(self) -> bool {
        self.subjectively_down || self.objectively_down || self.disconnected
    }
}

/// One of SENTINEL MASTERS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitored {
    /// Name.
    pub name: String,
    /// Where the primary is.
    pub address: Address,
    /// `runid` of the primary; `None` until it has answered once.
    pub run_id: Option<String>,
    /// How the primary is.
    pub health: Option<Health>,
    /// `quorum`.
    pub quorum: Option<u32>,
    /// `config-epoch`: goes up with each failover.
    pub config_epoch: Option<u64>,
    /// `num-slaves`, the dead ones included.
    pub replicas: Option<u32>,
    /// `num-other-sentinels`, the dead ones included.
    pub other_sentinels: Option<u32>,
    /// `failover-state`; only there while one goes on.
    pub failover_state: Option<String>,
    /// The options that SENTINEL SET takes and MASTERS shows, under the names that SET takes. Credentials are never shown.
    pub options: BTreeMap<String, String>,
}

/// Options of a monitor that a Sentinel shows under the names by which they are set, `quorum` aside.
pub const SHOWN_OPTIONS: &[&str] = &["down-after-milliseconds", "failover-timeout", "parallel-syncs"];

impl Monitored {
    /// Reads one; `None` without name or address.
    pub fn read(properties: &BTreeMap<String, String>) -> Option<Self> {
        let shown = SHOWN_OPTIONS.iter().filter_map(|name| Some(((*name).to_owned(), text(properties, name)?)));
        Some(Self {
            name: text(properties, "name")?,
            address: address(properties)?,
            run_id: text(properties, "runid"),
            health: Health::of(properties),
            quorum: parsed(properties, "quorum"),
            config_epoch: parsed(properties, "config-epoch"),
            replicas: parsed(properties, "num-slaves"),
            other_sentinels: parsed(properties, "num-other-sentinels"),
            failover_state: text(properties, "failover-state"),
            options: shown.collect(),
        })
    }
}

/// One of SENTINEL REPLICAS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownReplica {
    /// Where it is.
    pub address: Address,
    /// `runid`; `None` until it has answered once.
    pub run_id: Option<String>,
    /// How it is.
    pub health: Option<Health>,
    /// Whether `master-link-status` is `ok`.
    pub link_up: Option<bool>,
    /// Whom it follows, by its own word; `None` before it was asked.
    pub primary: Option<Address>,
    /// `slave-priority`; 0 is never promoted.
    pub priority: Option<u32>,
    /// `slave-repl-offset`.
    pub offset: Option<u64>,
}

impl KnownReplica {
    /// Reads one; `None` without address.
    pub fn read(properties: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self {
            address: address(properties)?,
            run_id: text(properties, "runid"),
            health: Health::of(properties),
            link_up: text(properties, "master-link-status").map(|status| status == "ok"),
            primary: properties.get("master-host").zip(properties.get("master-port")).and_then(|(ip, port)| place(ip, port)),
            priority: parsed(properties, "slave-priority"),
            offset: parsed(properties, "slave-repl-offset"),
        })
    }
}

/// One of SENTINEL SENTINELS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its own id, which outlives its process and its address.
    pub id: Option<String>,
    /// Where it is.
    pub address: Address,
    /// How it is.
    pub health: Option<Health>,
}

impl Peer {
    /// Reads one; `None` without address.
    pub fn read(properties: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self { id: text(properties, "runid"), address: address(properties)?, health: Health::of(properties) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn info_of_a_sentinel() {
        let line = |name: &str, address: &str, ok, replicas, sentinels| MonitoredLine {
            name: name.into(),
            address: at(address),
            ok: Some(ok),
            replicas: Some(replicas),
            sentinels: Some(sentinels),
        };
        let text = "# Sentinel\r\nsentinel_masters:3\r\nsentinel_tilt:0\r\nsentinel_tilt_since_seconds:-1\r\n\
                    master0:name=mymaster,status=ok,address=10.0.0.1:6379,slaves=2,sentinels=3\r\n\
                    master1:name=b,status=odown,address=fd00::1:6379,slaves=0,sentinels=1\r\n\
                    master2:name=a,status=sdown,address=10.0.0.3:6379,slaves=1,sentinels=1\r\n\
                    masters:name=x\r\nmaster3:name=,status=ok,address=10.0.0.1:6379,slaves=2,sentinels=3\r\n\
                    master4:name=c,status=ok,address=:0,slaves=2,sentinels=3\r\nmaster5:nonsense\r\n";
        let expected = SentinelInfo {
            tilt: Some(false),
            masters: Some(3),
            monitored: vec![
                line("a", "10.0.0.3:6379", false, 1, 1),
                line("b", "[fd00::1]:6379", false, 0, 1),
                line("mymaster", "10.0.0.1:6379", true, 2, 3),
            ],
        };
        assert_eq!(SentinelInfo::parse(text), expected);
        assert_eq!(SentinelInfo::parse(""), SentinelInfo::default());
        assert_eq!(SentinelInfo::parse("sentinel_tilt:1").tilt, Some(true));
        assert_eq!(SentinelInfo::parse("sentinel_tilt:perhaps").tilt, None);
    }

    fn properties(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn monitored_primaries() {
        let all = properties(&[
            ("name", "mymaster"),
            ("ip", "10.0.0.1"),
            ("port", "6379"),
            ("runid", ""),
            ("flags", "master,s_down,o_down,failover_in_progress"),
            ("quorum", "2"),
            ("config-epoch", "4"),
            ("num-slaves", "2"),
            ("num-other-sentinels", "2"),
            ("failover-state", "wait_start"),
            ("down-after-milliseconds", "5000"),
            ("failover-timeout", "10000"),
            ("parallel-syncs", "1"),
            ("last-ping-sent", "3"),
        ]);
        let expected = Monitored {
            name: "mymaster".into(),
            address: at("10.0.0.1:6379"),
            run_id: None,
            health: Some(Health { subjectively_down: true, objectively_down: true, disconnected: false }),
            quorum: Some(2),
            config_epoch: Some(4),
            replicas: Some(2),
            other_sentinels: Some(2),
            failover_state: Some("wait_start".into()),
            options: properties(&[("down-after-milliseconds", "5000"), ("failover-timeout", "10000"), ("parallel-syncs", "1")]),
        };
        assert_eq!(Monitored::read(&all), Some(expected));
        for missing in ["name", "ip", "port"] {
            let mut some = all.clone();
            some.remove(missing);
            assert_eq!(Monitored::read(&some), None, "without {missing}");
        }
        let least = Monitored::read(&properties(&[("name", "a"), ("ip", "fd00::1"), ("port", "1")])).unwrap();
        assert_eq!((least.address, least.health, least.quorum), (at("[fd00::1]:1"), None, None));
    }

    #[test]
    fn known_replicas() {
        let read = |pairs: &[(&str, &str)]| KnownReplica::read(&properties(pairs));
        let all = read(&[
            ("name", "10.0.0.2:6379"),
            ("ip", "10.0.0.2"),
            ("port", "6379"),
            ("runid", "r"),
            ("flags", "slave"),
            ("master-link-status", "ok"),
            ("master-host", "10.0.0.1"),
            ("master-port", "6379"),
            ("slave-priority", "100"),
            ("slave-repl-offset", "77"),
        ]);
        let expected = KnownReplica {
            address: at("10.0.0.2:6379"),
            run_id: Some("r".into()),
            health: Some(Health::default()),
            link_up: Some(true),
            primary: Some(at("10.0.0.1:6379")),
            priority: Some(100),
            offset: Some(77),
        };
        assert_eq!(all, Some(expected));
        let new = read(&[
            ("ip", "10.0.0.2"),
            ("port", "6379"),
            ("master-host", "?"),
            ("master-port", "0"),
            ("master-link-status", "err"),
        ]);
        let new = new.unwrap();
        assert_eq!((new.primary, new.link_up, new.priority), (None, Some(false), None));
        assert_eq!(read(&[("ip", "10.0.0.2")]), None);
    }

    #[test]
    fn other_sentinels() {
        let read = |pairs: &[(&str, &str)]| Peer::read(&properties(pairs));
        let dead = read(&[("ip", "10.0.0.5"), ("port", "26379"), ("runid", "i"), ("flags", "s_down,sentinel,disconnected")]);
        let dead = dead.unwrap();
        assert_eq!((dead.id.as_deref(), dead.address), (Some("i"), at("10.0.0.5:26379")));
        assert!(dead.health.is_some_and(Health::is_down));
        let fine = read(&[("ip", "10.0.0.5"), ("port", "26379"), ("runid", ""), ("flags", "sentinel")]).unwrap();
        assert_eq!((fine.id, fine.health.map(Health::is_down)), (None, Some(false)));
        assert_eq!(read(&[("runid", "i")]), None);
    }

    #[test]
    fn channels_are_sorted_and_each_is_there_once() {
        assert!(CHANNELS.is_sorted_by(|one, next| one < next));
    }
}
