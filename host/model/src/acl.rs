//! Accounts as a server shows them (ACL LIST), in a form that can be compared with the wanted ones.
//!
//! What differs between lines without meaning anything is left out: `sanitize-payload` (7.2 and 8.1 show it, 9.1 doesn't),
//! `alldbs` (9.1), and rules that only say "nothing" where nothing is the start. Order of passwords doesn't count, order of rules
//! does: later ones win.

use std::fmt;

/// The normal form of an account. Equal forms mean equal rights and equal passwords. It holds password hashes: it can be
/// compared, and not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct AclDigest {
    /// The account's name.
    pub user: String,
    enabled: bool,
    open: bool,
    hashes: Vec<String>,
    rules: Vec<String>,
}

impl fmt::Debug for AclDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AclDigest")
            .field("user", &self.user)
            .field("enabled", &self.enabled)
            .field("open", &self.open)
            .field("hashes", &self.hashes.len())
            .field("rules", &self.rules)
            .finish()
    }
}

/// Flags and resets that say what holds anyway.
const WITHOUT_MEANING: [&str; 4] = ["sanitize-payload", "alldbs", "resetkeys", "resetchannels"];

/// Digest of a line of ACL LIST, or of a `user` line of the configuration. `None` if it is neither.
pub fn acl_digest(line: &str) -> Option<AclDigest> {
    let mut words = words(line).into_iter();
    if words.next()? != "user" {
        return None;
    }
    let user = words.next()?.to_owned();
    let mut digest = AclDigest { user, enabled: false, open: false, hashes: Vec::new(), rules: Vec::new() };
    for word in words {
        match word {
            "on" => digest.enabled = true,
            "off" => digest.enabled = false,
            "nopass" => digest.open = true,
            "allkeys" => digest.rules.push("~*".to_owned()),
            "allchannels" => digest.rules.push("&*".to_owned()),
            "allcommands" => digest.rules.push("+@all".to_owned()),
            "nocommands" => digest.rules.push("-@all".to_owned()),
            _ if WITHOUT_MEANING.contains(&word) => {}
            _ => match word.strip_prefix('#') {
                Some(hash) => digest.hashes.push(hash.to_owned()),
                None => digest.rules.push(word.to_owned()),
            },
        }
    }
    digest.hashes.sort();
    digest.hashes.dedup();
    Some(digest)
}

/// Words at blanks; a selector in parentheses is one word.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut start, mut depth) = (Vec::new(), None, 0_u32);
    for (at, c) in line.char_indices() {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (c.is_ascii_whitespace() && depth == 0, start) {
            (true, Some(from)) => {
                words.extend(line.get(from..at));
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    words.extend(start.and_then(|from| line.get(from..)));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Account;
    use crate::version::Line;

    #[test]
    fn equal_accounts_have_equal_digests() {
        let cases = [
            (
                "flag of older lines",
                "user p on sanitize-payload #aa resetchannels -@all +ping",
                "user p on #aa resetkeys resetchannels -@all +ping",
            ),
            ("order of passwords", "user p on #bb #aa -@all", "user p on #aa #bb -@all"),
            ("databases of 9.1", "user p on #aa alldbs -@all", "user p on #aa -@all"),
            ("other names", "user d on nopass allkeys allchannels allcommands", "user d on nopass ~* &* +@all"),
            ("blanks", "user  p   off", "user p off\r\n"),
            ("a selector", "user p on (~x* resetchannels -@all +get)", "user p on  (~x* resetchannels -@all +get) "),
        ];
        for (name, one, two) in cases {
            assert_eq!(acl_digest(one).unwrap(), acl_digest(two).unwrap(), "{name}");
        }
    }

    #[test]
    fn different_accounts_have_different_digests() {
        let base = "user p on #aa -@all +ping";
        let cases = [
            ("off", "user p off #aa -@all +ping"),
            ("another name", "user q on #aa -@all +ping"),
            ("another password", "user p on #ab -@all +ping"),
            ("one password more", "user p on #aa #ab -@all +ping"),
            ("open", "user p on nopass #aa -@all +ping"),
            ("one right more", "user p on #aa -@all +ping +info"),
            ("one right less", "user p on #aa -@all"),
            ("another order", "user p on #aa +ping -@all"),
            ("keys", "user p on #aa ~* -@all +ping"),
            ("channels", "user p on #aa &* -@all +ping"),
            ("a selector", "user p on #aa -@all +ping (~x -@all +get)"),
            ("databases", "user p on #aa db=0 -@all +ping"),
            ("payloads not checked", "user p on skip-sanitize-payload #aa -@all +ping"),
        ];
        for (name, other) in cases {
            assert_ne!(acl_digest(base).unwrap(), acl_digest(other).unwrap(), "{name}");
        }
    }

    #[test]
    fn what_is_no_user_line_has_no_digest() {
        for text in ["", "user", "default on nopass", "(user x", "USER x on", "\u{0}"] {
            assert_eq!(acl_digest(text), None, "{text:?}");
        }
    }

    #[test]
    fn unbalanced_selectors_do_no_harm() {
        assert!(acl_digest("user p on (~x +get").is_some());
        assert!(acl_digest("user p on )) ~x").is_some());
    }

    #[test]
    fn hashes_are_not_printed() {
        let hash = "5".repeat(64);
        let line = Account::Probe
            .user_line(crate::accounts::ServerRole::Replica, Line::V9_1, std::slice::from_ref(&hash), false)
            .unwrap();
        let shown = format!("{:?}", acl_digest(&line).unwrap());
        assert!(!shown.contains("55"), "{shown}");
        assert!(shown.contains("+ping"), "{shown}");
    }
}
