//! Every account of the operator's, on every line: accepted, recognised, and able to do its work and nothing else.

use vko_core::command::{Command, Reply};
use vko_model::Line;
use vko_model::accounts::{Account, setuser_rules};
use vko_model::acl::acl_digest;
use vko_valkey::Administration;

use crate::support::{Server, call, code, hashes, user_lines};

#[tokio::test(flavor = "multi_thread")]
async fn accounts_set_live_are_those_of_the_start_by_digest() {
    for line in Line::ALL {
        let server = Server::start(line, "");
        let (servers, operator) = (Administration::new(), server.target("operator"));
        let wanted: Vec<_> = user_lines(line).lines().map(|text| acl_digest(text).unwrap()).collect();
        let live = async || match call(&servers, &operator, Command::AclList).await.unwrap() {
            Reply::Lines(lines) => {
                lines.iter().filter_map(|text| acl_digest(text)).filter(|user| user.user != "tester").collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        let sorted = |mut users: Vec<vko_model::acl::AclDigest>| {
            users.sort_by(|one, two| one.user.cmp(&two.user));
            users
        };
        assert_eq!(sorted(live().await), sorted(wanted.clone()), "{line}: after the start");
        for account in Account::ALL.into_iter().filter(|account| *account != Account::Default) {
            let name = account.name().to_owned();
            let both = [hashes(&name), hashes("another")].concat();
            for passwords in [both, hashes(&name)] {
                let rules = account.setuser_rules(line, &passwords, false).unwrap();
                assert_eq!(
                    call(&servers, &operator, Command::AclSetUser { name: name.clone(), rules }).await,
                    Ok(Reply::Done),
                    "{line} {name}"
                );
                let same = sorted(live().await) == sorted(wanted.clone());
                assert_eq!(same, passwords.len() == 1, "{line} {name}: a second password is drift, one is not");
            }
        }
        let open = Account::Default.setuser_rules(line, &[], true).unwrap();
        assert_eq!(
            call(&servers, &operator, Command::AclSetUser { name: "default".into(), rules: open }).await,
            Ok(Reply::Done),
            "{line}"
        );
        assert_eq!(code(&mut server.plain(None), &["SET", "k", "v"]), "OK", "{line}: an open default user");
    }
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
        let mut rights = Account::Default.rules(line);
        rights.retain(|rule| rule.starts_with('-'));
        for rule in rights {
            let covered = |words: &&&[&str]| {
                rule[1..] == words[0].to_lowercase() || rule[1..] == words[..2.min(words.len())].join("|").to_lowercase()
            };
            assert!(denied.iter().any(|words| covered(&words)), "{line}: {rule} is not tried");
        }
        let server = Server::start(line, "");
        let rules = Account::Default.setuser_rules(line, &hashes("default"), false).unwrap();
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

#[test]
fn the_small_accounts_need_each_of_their_rights() {
    let cases: &[(Account, &[&[&str]])] = &[
        (Account::Probe, &[&["PING"], &["INFO", "server", "replication", "persistence"]]),
        (Account::Hook, &[&["INFO", "replication"], &["ROLE"], &["FAILOVER", "ABORT"]]),
    ];
    for line in Line::ALL {
        let server = Server::start(line, "");
        for (account, used) in cases {
            let name = account.name();
            let mut client = server.plain(Some(name));
            for words in *used {
                assert_ne!(code(&mut client, words), "NOPERM", "{line} {name} {words:?}");
            }
            for words in
                [["GET", "k"].as_slice(), &["CONFIG", "GET", "masterauth"], &["ACL", "LIST"], &["SHUTDOWN"], &["CLIENT", "LIST"]]
            {
                assert_eq!(code(&mut client, words), "NOPERM", "{line} {name} {words:?}");
            }
            let rights: Vec<_> = account.rules(line).into_iter().filter(|rule| rule.starts_with('+')).collect();
            assert_eq!(rights.len(), used.len(), "{line} {name}: one use for each right");
            for right in rights {
                without(&server, *account, right);
                let word = right[1..].to_uppercase();
                let words = used.iter().find(|words| words[0] == word).unwrap_or_else(|| panic!("{name}: {right} is not used"));
                assert_eq!(code(&mut client, words), "NOPERM", "{line} {name} without {right}");
            }
        }
    }
}

/// Takes one right away from an account.
pub(crate) fn without(server: &Server, account: Account, right: &str) {
    let rules: Vec<_> = account.rules(server.line).into_iter().filter(|rule| *rule != right).collect();
    assert_eq!(rules.len() + 1, account.rules(server.line).len(), "{right} is no right of {account:?}");
    let words = setuser_rules(account.name(), &rules, &hashes(account.name()), false).unwrap();
    server.run(&["ACL", "SETUSER", account.name()].into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>());
}
