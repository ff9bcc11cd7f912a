//! Every account of the operator's, on every line: accepted, recognised, and able to do its work and nothing else.

use vko_model::Line;
use vko_model::accounts::{Account, ServerRole, setuser_rules};
use vko_model::acl::acl_digest;

use crate::support::{Server, code, hashes, user_lines};

#[test]
fn accounts_set_live_are_those_of_the_start_by_digest() {
    for role in ServerRole::ALL {
        for line in Line::ALL {
            let server = Server::start_as(role, line, if role == ServerRole::Cluster { "cluster-enabled yes" } else { "" });
            live_accounts(&server, &format!("{role:?} {line}"));
        }
    }
}

fn live_accounts(server: &Server, context: &str) {
    let (role, line) = (server.role, server.line);
    let wanted: Vec<_> = user_lines(role, line).lines().map(|text| acl_digest(text).unwrap()).collect();
    let live = || {
        let lines: Vec<String> = redis::from_redis_value(server.run(&["ACL", "LIST"])).unwrap();
        lines.iter().filter_map(|text| acl_digest(text)).filter(|user| user.user != "tester").collect::<Vec<_>>()
    };
    let set = |name: &str, rules: &[String]| {
        server.run(&["ACL", "SETUSER", name].into_iter().chain(rules.iter().map(String::as_str)).collect::<Vec<_>>());
    };
    let sorted = |mut users: Vec<vko_model::acl::AclDigest>| {
        users.sort_by(|one, two| one.user.cmp(&two.user));
        users
    };
    assert_eq!(sorted(live()), sorted(wanted.clone()), "{context}: after the start");
    for account in Account::of(role).iter().filter(|account| **account != Account::Default) {
        let name = account.name().to_owned();
        let both = [hashes(&name), hashes("another")].concat();
        for passwords in [both, hashes(&name)] {
            let rules = account.setuser_rules(role, line, &passwords, false).unwrap();
            set(&name, &rules);
            let same = sorted(live()) == sorted(wanted.clone());
            assert_eq!(same, passwords.len() == 1, "{context} {name}: a second password is drift, one is not");
        }
    }
    let open = Account::Default.setuser_rules(role, line, &[], true).unwrap();
    set("default", &open);
    assert_eq!(code(&mut server.plain(None), &["PING"]), "OK", "{context}: an open default user");
}

#[test]
fn a_default_user_that_is_off_lets_nobody_in() {
    for line in Line::ALL {
        let server = Server::start(line, "");
        assert_eq!(code(&mut server.plain(None), &["PING"]), "NOAUTH", "{line}");
    }
}

#[test]
fn the_default_user_has_its_data_and_nothing_that_harms_the_instance() {
    let allowed: &[&[&str]] = &[
        &["SET", "k", "v"],
        &["GET", "k"],
        &["PUBLISH", "c", "m"],
        &["EVAL", "return redis.call('GET', KEYS[1])", "1", "k"],
        &["INFO"],
        &["CLIENT", "LIST"],
        &["SLOWLOG", "GET"],
        &["FLUSHALL"],
    ];
    let denied: &[&[&str]] = &[
        &["ACL", "LIST"],
        &["CONFIG", "GET", "masterauth"],
        &["CONFIG", "SET", "timeout", "1"],
        &["REPLICAOF", "NO", "ONE"],
        &["SLAVEOF", "NO", "ONE"],
        &["FAILOVER", "ABORT"],
        &["SHUTDOWN", "NOSAVE"],
        &["PSYNC", "?", "-1"],
        &["SYNC"],
        &["REPLCONF", "ACK", "1"],
        &["CLIENT", "PAUSE", "1"],
        &["CLIENT", "UNPAUSE"],
    ];
    let off_for_everybody: &[&[&str]] = &[&["DEBUG", "JMAP"], &["MODULE", "LOAD", "/nowhere"]];
    for line in Line::ALL {
        let mut rights = Account::Default.rules(ServerRole::Replica, line);
        rights.retain(|rule| rule.starts_with('-'));
        for rule in rights {
            assert!(denied.iter().any(|words| is_about(rule, words)), "{line}: {rule} is not tried");
        }
        let server = Server::start(line, "");
        let rules = Account::Default.setuser_rules(ServerRole::Replica, line, &hashes("default"), false).unwrap();
        let words: Vec<_> = ["ACL", "SETUSER", "default"].into_iter().chain(rules.iter().map(String::as_str)).collect();
        server.run(&words);
        let mut client = server.plain(Some("default"));
        for words in allowed {
            assert_eq!(code(&mut client, words), "OK", "{line} {words:?}");
        }
        for words in denied {
            assert_eq!(code(&mut client, words), "NOPERM", "{line} {words:?}");
        }
        for words in off_for_everybody {
            assert_eq!(code(&mut client, words), "ERR", "{line} {words:?}");
        }
    }
}

/// What small accounts do, one use for each right.
const USES: &[(ServerRole, Account, &[&[&str]])] = &[
    (ServerRole::Replica, Account::Probe, &[&["PING"], &["INFO", "server", "replication", "persistence"]]),
    (ServerRole::Replica, Account::Hook, &[&["INFO", "replication"], &["ROLE"], &["FAILOVER", "ABORT"]]),
    (
        ServerRole::Failover,
        Account::Hook,
        &[
            &["INFO", "replication"],
            &["ROLE"],
            &["FAILOVER", "ABORT"],
            &["CLIENT", "PAUSE", "1", "WRITE"],
            &["CLIENT", "UNPAUSE"],
        ],
    ),
    (ServerRole::Failover, Account::Probe, &[&["PING"], &["INFO", "replication"]]),
    (ServerRole::Cluster, Account::Probe, &[&["PING"], &["INFO", "replication"], &["CLUSTER", "INFO"]]),
    (
        ServerRole::Cluster,
        Account::Hook,
        &[&["INFO", "replication"], &["ROLE"], &["CLUSTER", "NODES"], &["CLUSTER", "FAILOVER", "FORCE"]],
    ),
    (ServerRole::Sentinel, Account::Probe, &[&["PING"]]),
    (ServerRole::Sentinel, Account::Hook, &[&["SENTINEL", "FAILOVER", "mymaster"]]),
];

#[test]
fn the_small_accounts_need_each_of_their_rights() {
    for line in Line::ALL {
        for role in ServerRole::ALL {
            let server = Server::start_as(role, line, if role == ServerRole::Cluster { "cluster-enabled yes" } else { "" });
            for account in [Account::Probe, Account::Hook] {
                let uses = USES.iter().find(|(of, whose, _)| (*of, *whose) == (role, account));
                let (.., used) = uses.unwrap_or_else(|| panic!("{role:?}: no uses of {account:?}"));
                small_account(&server, account, used);
            }
        }
    }
}

fn small_account(server: &Server, account: Account, used: &[&[&str]]) {
    let (context, name) = (format!("{:?} {}", server.role, server.line), account.name());
    let mut client = server.plain(Some(name));
    for words in used {
        assert_ne!(code(&mut client, words), "NOPERM", "{context} {name} {words:?}");
    }
    let foreign: &[&[&str]] = if server.role.is_data() {
        &[&["GET", "k"], &["CONFIG", "GET", "masterauth"], &["ACL", "LIST"], &["SHUTDOWN"], &["CLIENT", "LIST"]]
    } else {
        &[&["SENTINEL", "MASTERS"], &["ACL", "LIST"], &["SHUTDOWN"], &["CLIENT", "LIST"]]
    };
    for words in foreign {
        assert_eq!(code(&mut client, words), "NOPERM", "{context} {name} {words:?}");
    }
    let rights: Vec<_> = account.rules(server.role, server.line).into_iter().filter(|rule| rule.starts_with('+')).collect();
    assert_eq!(rights.len(), used.len(), "{context} {name}: one use for each right");
    for right in rights {
        without(server, account, right);
        let words = used.iter().find(|words| is_about(right, words)).unwrap_or_else(|| panic!("{name}: {right} is not used"));
        assert_eq!(code(&mut client, words), "NOPERM", "{context} {name} without {right}");
    }
}

/// Whether a rule about a command, or about a part of it, is about this one.
fn is_about(rule: &str, words: &[&str]) -> bool {
    rule[1..] == words[0].to_lowercase() || rule[1..] == words[..2.min(words.len())].join("|").to_lowercase()
}

/// What clients may ask a cluster and Sentinels, one use for each right.
const QUESTIONS: &[(ServerRole, &[&[&str]])] = &[
    (
        ServerRole::Cluster,
        &[
            &["CLUSTER", "SLOTS"],
            &["CLUSTER", "SHARDS"],
            &["CLUSTER", "NODES"],
            &["CLUSTER", "INFO"],
            &["CLUSTER", "MYID"],
            &["CLUSTER", "MYSHARDID"],
            &["CLUSTER", "SLOT-STATS", "SLOTSRANGE", "0", "1"],
            &["CLUSTER", "LINKS"],
            &["CLUSTER", "REPLICAS", "x"],
            &["CLUSTER", "SLAVES", "x"],
            &["CLUSTER", "KEYSLOT", "k"],
            &["CLUSTER", "COUNTKEYSINSLOT", "1"],
            &["CLUSTER", "GETKEYSINSLOT", "1", "1"],
            &["CLUSTER", "COUNT-FAILURE-REPORTS", "x"],
            &["CLUSTER", "HELP"],
        ],
    ),
    (
        ServerRole::Sentinel,
        &[
            &["PING"],
            &["INFO"],
            &["ROLE"],
            &["COMMAND"],
            &["CLIENT", "SETNAME", "x"],
            &["CLIENT", "SETINFO", "LIB-NAME", "x"],
            &["CLIENT", "ID"],
            &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"],
            &["SENTINEL", "MASTER", "mymaster"],
            &["SENTINEL", "MASTERS"],
            &["SENTINEL", "REPLICAS", "mymaster"],
            &["SENTINEL", "SLAVES", "mymaster"],
            &["SENTINEL", "SENTINELS", "mymaster"],
            &["SENTINEL", "CKQUORUM", "mymaster"],
            &["SENTINEL", "MYID"],
            &["SUBSCRIBE", "+switch-master"],
            &["UNSUBSCRIBE"],
            &["PSUBSCRIBE", "*"],
            &["PUNSUBSCRIBE"],
        ],
    ),
];

#[test]
fn clients_need_each_of_their_rights_at_a_cluster_and_at_sentinels() {
    for line in Line::ALL {
        for (role, questions) in QUESTIONS {
            let server = Server::start_as(*role, line, if *role == ServerRole::Cluster { "cluster-enabled yes" } else { "" });
            drop(open(&server));
            let context = format!("{role:?} {line}");
            let rules = Account::Default.rules(*role, line);
            // Of the data itself the other test tells.
            let about_all = |rule: &&&str| role.is_data() && (rule.starts_with("+@") || rule.starts_with('&'));
            for right in rules.iter().filter(|rule| rule.starts_with(['+', '&'])).filter(|rule| !about_all(rule)) {
                let subscribes = |words: &&&[&str]| right.starts_with('&') && words[0] == "SUBSCRIBE";
                let words = questions.iter().find(|words| is_about(right, words) || subscribes(words));
                let words = words.unwrap_or_else(|| panic!("{context}: {right} is not used"));
                // A new connection each time: a subscription changes what one may ask.
                assert_ne!(code(&mut server.plain(None), words), "NOPERM", "{context} {words:?}");
                let fewer: Vec<&str> = rules.iter().filter(|rule| *rule != right).copied().collect();
                let set = setuser_rules("default", &fewer, &[], true).unwrap();
                let set = ["ACL", "SETUSER", "default"].into_iter().chain(set.iter().map(String::as_str));
                server.run(&set.collect::<Vec<_>>());
                assert_eq!(code(&mut server.plain(None), words), "NOPERM", "{context} without {right}");
                drop(open(&server));
            }
        }
    }
}

/// Clients of a cluster learn all about it and change nothing.
#[test]
fn clients_of_a_cluster_only_look_at_it() {
    for line in Line::ALL {
        let server = Server::start_as(ServerRole::Cluster, line, "cluster-enabled yes");
        let mut client = open(&server);
        for words in [["CLUSTER", "SLOTS"], ["CLUSTER", "SHARDS"], ["CLUSTER", "NODES"], ["CLUSTER", "INFO"], ["CLUSTER", "MYID"]]
        {
            assert_eq!(code(&mut client, &words), "OK", "{line} {words:?}");
        }
        let changes: &[&[&str]] = &[
            &["CLUSTER", "MEET", "127.0.0.1", "1"],
            &["CLUSTER", "FORGET", "x"],
            &["CLUSTER", "REPLICATE", "x"],
            &["CLUSTER", "ADDSLOTS", "1"],
            &["CLUSTER", "DELSLOTS", "1"],
            &["CLUSTER", "SETSLOT", "1", "STABLE"],
            &["CLUSTER", "FAILOVER"],
            &["CLUSTER", "RESET"],
            &["CLUSTER", "BUMPEPOCH"],
            &["CLUSTER", "FLUSHSLOTS"],
        ];
        for words in changes {
            assert_eq!(code(&mut client, words), "NOPERM", "{line} {words:?}");
        }
    }
}

/// Clients of a Sentinel ask for the primary, listen, and change nothing.
#[test]
fn clients_of_a_sentinel_only_ask_it() {
    for line in Line::ALL {
        let server = Server::start_as(ServerRole::Sentinel, line, "");
        let mut client = open(&server);
        let allowed: &[&[&str]] = &[
            &["PING"],
            &["INFO"],
            &["ROLE"],
            &["SENTINEL", "MASTERS"],
            &["SENTINEL", "MYID"],
            &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"],
            &["CLIENT", "SETNAME", "x"],
        ];
        for words in allowed {
            assert_eq!(code(&mut client, words), "OK", "{line} {words:?}");
        }
        let denied: &[&[&str]] = &[
            &["SENTINEL", "MONITOR", "x", "127.0.0.1", "1", "1"],
            &["SENTINEL", "SET", "x", "quorum", "1"],
            &["SENTINEL", "REMOVE", "x"],
            &["SENTINEL", "RESET", "*"],
            &["SENTINEL", "FAILOVER", "x"],
            &["SENTINEL", "CONFIG", "GET", "*"],
            &["ACL", "LIST"],
            &["SHUTDOWN"],
            &["PUBLISH", "__sentinel__:hello", "x"],
        ];
        for words in denied {
            assert_eq!(code(&mut client, words), "NOPERM", "{line} {words:?}");
        }
        assert_eq!(code(&mut client, &["SUBSCRIBE", "+switch-master"]), "OK", "{line}");
    }
}

/// A connection of the default user, which is opened for it.
fn open(server: &Server) -> redis::Connection {
    let rules = Account::Default.setuser_rules(server.role, server.line, &[], true).unwrap();
    server.run(&["ACL", "SETUSER", "default"].into_iter().chain(rules.iter().map(String::as_str)).collect::<Vec<_>>());
    server.plain(None)
}

/// Takes one right away from an account.
pub(crate) fn without(server: &Server, account: Account, right: &str) {
    let rules: Vec<_> = account.rules(server.role, server.line).into_iter().filter(|rule| *rule != right).collect();
    assert_eq!(rules.len() + 1, account.rules(server.role, server.line).len(), "{right} is no right of {account:?}");
    let words = setuser_rules(account.name(), &rules, &hashes(account.name()), false).unwrap();
    server.run(&["ACL", "SETUSER", account.name()].into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>());
}
