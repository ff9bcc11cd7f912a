//! Cases of accounts and of the lines that make them.

use super::*;

fn hash(digit: char) -> String {
    digit.to_string().repeat(64)
}

#[test]
fn lines_as_the_server_reads_them() {
    let (a, b) = (hash('a'), hash('b'));
    let cases = [
        (
            Account::Probe,
            ServerRole::Replica,
            Line::V9_1,
            vec![a.clone()],
            false,
            format!("user probe on #{a} resetkeys resetchannels -@all +ping +info"),
        ),
        (
            Account::Replication,
            ServerRole::Replica,
            Line::V7_2,
            vec![a.clone(), b.clone()],
            false,
            format!("user replication on #{a} #{b} resetkeys resetchannels -@all +psync +replconf"),
        ),
        (
            Account::Replication,
            ServerRole::Replica,
            Line::V8_1,
            vec![b.clone()],
            false,
            format!("user replication on #{b} resetkeys resetchannels -@all +psync +replconf +sync"),
        ),
        (
            Account::Hook,
            ServerRole::Replica,
            Line::V8_1,
            vec![],
            false,
            "user hook off resetkeys resetchannels -@all +info +role +failover".to_owned(),
        ),
    ];
    for (account, role, line, hashes, open, expected) in cases {
        assert_eq!(account.user_line(role, line, &hashes, open), Ok(expected), "{account:?} {role:?} {line}");
    }
}

#[test]
fn an_open_default_user_has_no_hash_and_a_closed_one_without_password_is_off() {
    let open = Account::Default.user_line(ServerRole::Replica, Line::V9_1, &[hash('a')], true).unwrap();
    assert!(open.starts_with("user default on nopass ~* &* +@all -acl "), "{open}");
    assert!(!open.contains('#'), "{open}");
    let closed = Account::Default.user_line(ServerRole::Replica, Line::V9_1, &[], false).unwrap();
    assert!(closed.starts_with("user default off ~* &* "), "{closed}");
}

#[test]
fn setuser_starts_from_nothing() {
    for (account, role, line) in everything() {
        let rules = account.setuser_rules(role, line, &[hash('c')], false).unwrap();
        let rest = account.user_line(role, line, &[hash('c')], false).unwrap();
        assert_eq!(rules[0], "reset");
        assert_eq!(format!("user {} {}", account.name(), rules[1..].join(" ")), rest);
    }
}

/// Accounts of all servers of all lines.
fn everything() -> impl Iterator<Item = (Account, ServerRole, Line)> {
    let servers = ServerRole::ALL.into_iter().flat_map(|role| Line::ALL.map(|line| (role, line)));
    servers.flat_map(|(role, line)| Account::of(role).iter().map(move |account| (*account, role, line)))
}

#[test]
fn each_server_has_the_accounts_that_it_needs() {
    for role in ServerRole::ALL {
        let accounts = Account::of(role);
        assert!(accounts.is_sorted() && accounts.contains(&Account::Operator) && accounts.contains(&Account::Default));
        assert_eq!(accounts.contains(&Account::Replication), role.is_data(), "{role:?}");
        let watched = matches!(role, ServerRole::Failover | ServerRole::Sentinel);
        assert_eq!(accounts.contains(&Account::Sentinel), watched, "{role:?}");
        for absent in Account::ALL.into_iter().filter(|account| !accounts.contains(account)) {
            assert_eq!(absent.rules(role, Line::V9_1), ["resetkeys", "resetchannels", "-@all"], "{role:?} {absent:?}");
        }
    }
}

#[test]
fn only_the_default_user_and_moving_slots_touch_data() {
    for (account, role, line) in everything() {
        let rules = account.rules(role, line);
        let moves_slots = (account, role, line) == (Account::Replication, ServerRole::Cluster, Line::V9_1);
        if moves_slots || (account == Account::Default && role.is_data()) {
            continue;
        }
        assert_eq!(rules[..2], ["resetkeys", "resetchannels"], "{account:?}");
        let rest: Vec<_> = rules[2..].iter().skip_while(|rule| rule.starts_with('&')).collect();
        assert_eq!(*rest[0], "-@all", "{account:?} {role:?}");
        assert!(rest[1..].iter().all(|rule| rule.starts_with('+') && !rule.contains('@')), "{account:?} {role:?}: {rules:?}");
    }
}

#[test]
fn what_changes_a_cluster_is_not_for_clients() {
    for line in Line::ALL {
        let rules = Account::Default.rules(ServerRole::Cluster, line);
        let denied = rules.iter().position(|rule| *rule == "-cluster").unwrap();
        assert!(rules[denied + 1..].iter().all(|rule| rule.starts_with("+cluster|")), "{line}: {rules:?}");
        for change in ["meet", "forget", "failover", "reset", "setslot", "addslots", "migrateslots"] {
            assert!(!rules.contains(&format!("+cluster|{change}").as_str()), "{line} {change}");
        }
    }
}

#[test]
fn malformed_hashes_and_names_never_reach_a_line() {
    let bad =
        [String::new(), "a".repeat(63), "a".repeat(65), "A".repeat(64), "g".repeat(64), format!("{} +@all", "a".repeat(57))];
    for text in bad {
        let error = Account::Probe.user_line(ServerRole::Replica, Line::V9_1, &[hash('a'), text.clone()], false).unwrap_err();
        assert_eq!(error.reason(), "PasswordHashInvalid", "{text:?}");
    }
    for name in ["", "a b", "a\nuser evil on nopass", "a\"", "a'", "a\u{0}"] {
        let error = user_line(name, &["-@all"], &[], false).unwrap_err();
        assert_eq!(error.reason(), "AccountNameInvalid", "{name:?}");
    }
}

#[test]
fn names_lead_back_to_accounts() {
    for account in Account::ALL {
        assert_eq!(Account::from_name(account.name()), Some(account));
    }
    assert_eq!(Account::from_name("root"), None);
}
