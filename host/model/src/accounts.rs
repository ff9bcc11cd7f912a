//! The accounts that the operator makes on each server, one per purpose, with the least rights that its purpose needs.
//!
//! # Guarantees
//! 1. Every name in a rule exists on the line it is given for: an unknown one would refuse the whole ACL SETUSER and stop a start.
//! 2. A right is listed only if something fails without it (tests on real servers take each one away).
//! 3. Nothing here has a password; hashes are checked for their form before they get into a line.
//!
//! # Assumptions
//! AUTH, HELLO and QUIT need no right.

use crate::version::Line;

/// Why an account can't be rendered. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// A hash that the server would refuse (and, in the configuration, not start with).
    #[error("a password hash of account '{0}' isn't 64 lower-case hexadecimal digits; write the SHA-256 of the password")]
    PasswordHashInvalid(String),
    /// A name that would end the word or the line.
    #[error("account name {0:?} is empty or has blanks, control characters or quotes")]
    AccountNameInvalid(String),
}

impl AccountError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PasswordHashInvalid(_) => "PasswordHashInvalid",
            Self::AccountNameInvalid(_) => "AccountNameInvalid",
        }
    }
}

/// An account of the operator's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// The operator administers servers with it.
    Operator,
    /// Replicas log in to their primary with it.
    Replication,
    /// The preStop hook hands the primary's role over with it.
    Hook,
    /// The kubelet's probes.
    Probe,
    /// Clients that name no user.
    Default,
}

impl Account {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 5] = [Self::Operator, Self::Replication, Self::Hook, Self::Probe, Self::Default];

    /// Name of the ACL user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Replication => "replication",
            Self::Hook => "hook",
            Self::Probe => "probe",
            Self::Default => "default",
        }
    }

    /// The account of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|account| account.name() == name)
    }

    /// The rights, in the order in which ACL LIST repeats them. Without `on`, `off` and passwords.
    pub fn rules(self, line: Line) -> Vec<&'static str> {
        match self {
            Self::Operator => [NOTHING, OPERATOR].concat(),
            Self::Replication if line >= Line::V8_1 => [NOTHING, REPLICATION, DUAL_CHANNEL].concat(),
            Self::Replication => [NOTHING, REPLICATION].concat(),
            Self::Hook => [NOTHING, HOOK].concat(),
            Self::Probe => [NOTHING, PROBE].concat(),
            Self::Default => DEFAULT.to_vec(),
        }
    }

    /// The `user` line of the configuration. `hashes` are SHA-256 of the passwords; without any, and not `open`, the account is off.
    ///
    /// # Errors
    /// [`AccountError::PasswordHashInvalid`].
    pub fn user_line(self, line: Line, hashes: &[String], open: bool) -> Result<String, AccountError> {
        user_line(self.name(), &self.rules(line), hashes, open)
    }

    /// The rules for ACL SETUSER, `reset` first, that leave the account as [`Self::user_line`] makes it.
    ///
    /// # Errors
    /// [`AccountError::PasswordHashInvalid`].
    pub fn setuser_rules(self, line: Line, hashes: &[String], open: bool) -> Result<Vec<String>, AccountError> {
        setuser_rules(self.name(), &self.rules(line), hashes, open)
    }
}

/// No key, no channel, no command: rights are added to this.
const NOTHING: &[&str] = &["resetkeys", "resetchannels", "-@all"];

/// One right per typed command of the operator. Who may set users may give itself anything, so this bounds mistakes, not an attacker.
const OPERATOR: &[&str] = &[
    "+info",           // what a server says of itself: light probe, full look
    "+role",           // role read again just before a dangerous step
    "+replicaof",      // follow, detach, promote
    "+failover",       // hand-over of the primary's role
    "+bgsave",         // a save before the sole copy restarts
    "+config|get",     // read back what was set
    "+config|set",     // fence, live configuration, credentials
    "+acl|list",       // drift of accounts
    "+acl|setuser",    // accounts, applied live
    "+client|pause",   // hold writes back in a hand-over
    "+client|unpause", // and let them go on
    "+client|kill",    // end clients of a demoted primary, and sessions of an operator that is gone
    "+client|setname", // shows in CLIENT LIST and in logs whose connection it is
];

/// Without replconf the link comes up but nothing is acknowledged, so fence, WAIT and FAILOVER can't work.
const REPLICATION: &[&str] = &["+psync", "+replconf"];

/// The second channel of dual-channel replication (8.1 and later, off by default) asks by SYNC and is refused for ever without it.
const DUAL_CHANNEL: &[&str] = &["+sync"];

/// Who is primary, which replica is synced, FAILOVER TO it and FAILOVER ABORT (writes are held back by the server itself).
const HOOK: &[&str] = &["+info", "+role", "+failover"];

/// Liveness asks PING, readiness asks INFO.
const PROBE: &[&str] = &["+ping", "+info"];

/// Everything that is about the user's own data; not what would take the instance out of the operator's hands. DEBUG and MODULE LOAD
/// need no rule: the configuration has them off for everybody.
const DEFAULT: &[&str] = &[
    "~*",
    "&*",
    "+@all",
    "-acl",            // accounts are the operator's: a right given here would be gone at the next restart
    "-config",         // CONFIG GET shows the replication password; a directive set here would be gone at the next restart
    "-replicaof",      // re-parents a server: two primaries, or a wiped one
    "-slaveof",        // its old name
    "-failover",       // moves the primary's role behind the operator's back
    "-shutdown",       // NOSAVE loses data; pods are restarted by the operator
    "-psync",          // whoever acts as a replica gets the whole data set, and counts as one for the fence
    "-sync",           // the same
    "-replconf",       // false acknowledgements would open the fence and mislead a hand-over
    "-client|pause",   // freezes everybody, the operator and the probes included
    "-client|unpause", // ends the pause that makes a hand-over lose nothing
];

/// `user NAME on #hash... rules...`, for the configuration.
///
/// # Errors
/// [`AccountError`] if the name or a hash doesn't have its form.
pub fn user_line(name: &str, rules: &[&str], hashes: &[String], open: bool) -> Result<String, AccountError> {
    if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'')) {
        return Err(AccountError::AccountNameInvalid(name.to_owned()));
    }
    let mut words = vec!["user".to_owned(), name.to_owned()];
    words.extend(access(name, hashes, open)?);
    words.extend(rules.iter().map(|rule| (*rule).to_owned()));
    Ok(words.join(" "))
}

/// The rules for ACL SETUSER: `reset` first, so that nothing of an older state stays; the server applies all of them or none.
///
/// # Errors
/// [`AccountError::PasswordHashInvalid`].
pub fn setuser_rules(name: &str, rules: &[&str], hashes: &[String], open: bool) -> Result<Vec<String>, AccountError> {
    let mut words = vec!["reset".to_owned()];
    words.extend(access(name, hashes, open)?);
    words.extend(rules.iter().map(|rule| (*rule).to_owned()));
    Ok(words)
}

/// `on` or `off`, `nopass` or hashes. An open account keeps no hash: `nopass` would make them meaningless.
fn access(name: &str, hashes: &[String], open: bool) -> Result<Vec<String>, AccountError> {
    if open {
        return Ok(vec!["on".to_owned(), "nopass".to_owned()]);
    }
    if !hashes.iter().all(|hash| is_hash(hash)) {
        return Err(AccountError::PasswordHashInvalid(name.to_owned()));
    }
    let state = if hashes.is_empty() { "off" } else { "on" };
    let mut words = vec![state.to_owned()];
    words.extend(hashes.iter().map(|hash| format!("#{hash}")));
    Ok(words)
}

/// 64 digits, lower case only: the server refuses others.
fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
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
                Line::V9_1,
                vec![a.clone()],
                false,
                format!("user probe on #{a} resetkeys resetchannels -@all +ping +info"),
            ),
            (
                Account::Replication,
                Line::V7_2,
                vec![a.clone(), b.clone()],
                false,
                format!("user replication on #{a} #{b} resetkeys resetchannels -@all +psync +replconf"),
            ),
            (
                Account::Replication,
                Line::V8_1,
                vec![b.clone()],
                false,
                format!("user replication on #{b} resetkeys resetchannels -@all +psync +replconf +sync"),
            ),
            (
                Account::Hook,
                Line::V8_1,
                vec![],
                false,
                "user hook off resetkeys resetchannels -@all +info +role +failover".to_owned(),
            ),
        ];
        for (account, line, hashes, open, expected) in cases {
            assert_eq!(account.user_line(line, &hashes, open), Ok(expected), "{account:?} {line}");
        }
    }

    #[test]
    fn an_open_default_user_has_no_hash_and_a_closed_one_without_password_is_off() {
        let open = Account::Default.user_line(Line::V9_1, &[hash('a')], true).unwrap();
        assert!(open.starts_with("user default on nopass ~* &* +@all -acl "), "{open}");
        assert!(!open.contains('#'), "{open}");
        let closed = Account::Default.user_line(Line::V9_1, &[], false).unwrap();
        assert!(closed.starts_with("user default off ~* &* "), "{closed}");
    }

    #[test]
    fn setuser_starts_from_nothing() {
        for account in Account::ALL {
            for line in Line::ALL {
                let rules = account.setuser_rules(line, &[hash('c')], false).unwrap();
                let rest = account.user_line(line, &[hash('c')], false).unwrap();
                assert_eq!(rules[0], "reset");
                assert_eq!(format!("user {} {}", account.name(), rules[1..].join(" ")), rest);
            }
        }
    }

    #[test]
    fn only_the_default_user_touches_data() {
        for account in Account::ALL.into_iter().filter(|account| *account != Account::Default) {
            for line in Line::ALL {
                let rules = account.rules(line);
                assert_eq!(rules[..3], ["resetkeys", "resetchannels", "-@all"], "{account:?}");
                assert!(rules[3..].iter().all(|rule| rule.starts_with('+') && !rule.contains('@')), "{account:?}: {rules:?}");
            }
        }
    }

    #[test]
    fn malformed_hashes_and_names_never_reach_a_line() {
        let bad =
            [String::new(), "a".repeat(63), "a".repeat(65), "A".repeat(64), "g".repeat(64), format!("{} +@all", "a".repeat(57))];
        for text in bad {
            let error = Account::Probe.user_line(Line::V9_1, &[hash('a'), text.clone()], false).unwrap_err();
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
}
