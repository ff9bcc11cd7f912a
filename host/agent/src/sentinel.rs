//! The one file of a Sentinel, which it reads at its start and writes whenever its state changes.
//!
//! # Guarantees
//! - Pure: files' contents and flags in, text or an error out.
//! - What it has learnt (whom it watches, who else watches, epochs) is kept over a restart of the container; what is ours is new
//!   each time.
//! - The same identity gives the same id, so that a Sentinel that is replaced doesn't stay behind as a ghost in the others'
//!   counts.
//!
//! # Assumptions
//! - A Sentinel takes no configuration from a pipe: it needs a file to save its state in. The folder is in memory, because the
//!   file has the passwords that a Sentinel logs in with in clear.
//! - Never two live Sentinels have one identity: two leaders could be elected at once.
//! - It reads the lines of its state in any order.
//!
//! # Flow
//! 1. `sentinel.conf` as it is, then address, id, accounts.
//! 2. The lines `sentinel ...` of the file from before, but for those that are ours.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::IpAddr;

use sha2::{Digest, Sha256};

use crate::render::{self, RenderError};

/// The file that everything else is added to.
pub(crate) const CONF: &str = "sentinel.conf";

/// Directives that it may not hold: the agent's own, and those that open another way in. `sentinel` is looked at by itself.
const RESERVED: [&str; 10] =
    ["aclfile", "bind", "bind-source-addr", "daemonize", "dir", "include", "port", "requirepass", "unixsocket", "user"];

/// Words behind `sentinel` that are the agent's.
const OWN: [&str; 5] = ["announce-ip", "announce-port", "myid", "sentinel-pass", "sentinel-user"];

/// Digits of an id.
const ID_DIGITS: usize = 40;

/// What the file is made of.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Content of `sentinel.conf`.
    pub(crate) conf: &'a str,
    /// Content of `users.acl`.
    pub(crate) users: &'a str,
    /// Password of the account `sentinel`, which Sentinels log in to each other with.
    pub(crate) password: &'a str,
    /// What the id is made of.
    pub(crate) identity: &'a str,
    /// The pod's address.
    pub(crate) ip: IpAddr,
    /// Client port.
    pub(crate) port: u16,
    /// The Sentinel's working directory.
    pub(crate) data: &'a str,
    /// The file as the Sentinel left it; empty at the pod's first start.
    pub(crate) before: &'a str,
}

/// The file for this start.
///
/// # Errors
/// Says which input is wrong; then no Sentinel may start.
pub(crate) fn render(inputs: &Inputs<'_>) -> Result<String, RenderError> {
    let Inputs { conf, users, ip, port, .. } = *inputs;
    let names = render::directives(CONF, conf, &RESERVED)?;
    let set = options(conf);
    if let Some((line, option)) = set.iter().find(|(_, option)| OWN.contains(&option.as_str())) {
        return Err(RenderError::DirectiveReserved(CONF, *line, format!("sentinel {option}")));
    }
    render::check_users(users)?;
    let data = render::quote(inputs.data).ok_or(RenderError::CharacterForbidden("the data folder's path"))?;
    let password = render::quote(inputs.password).ok_or(RenderError::CharacterForbidden("the password of 'sentinel'"))?;

    let mut text = String::with_capacity(conf.len() + users.len() + inputs.before.len() + 512);
    render::push_lines(&mut text, conf);
    render::push_address(&mut text, &names, ip);
    // Writing to a String can't fail.
    let _ = write!(
        text,
        "port {port}\ndir {data}\nsentinel myid {}\nsentinel announce-ip {ip}\nsentinel announce-port {port}\n\
         sentinel sentinel-user sentinel\nsentinel sentinel-pass {password}\n",
        id(inputs.identity)
    );
    render::push_lines(&mut text, users);
    let ours = |option: &str| OWN.contains(&option) || set.iter().any(|(_, set)| set == option);
    for line in inputs.before.lines() {
        if option(line).is_some_and(|option| !ours(&option)) {
            render::push_lines(&mut text, &readable(line));
        }
    }
    Ok(text)
}

/// The line as the Sentinel can read it again: lines before 9.x write the password of `sentinel auth-pass NAME PASSWORD` without
/// quotes, and don't start with it if it holds a blank or a quote.
fn readable(line: &str) -> Cow<'_, str> {
    let words: Vec<&str> = line.splitn(4, ' ').collect();
    let [_, option, name, password] = words[..] else { return line.into() };
    let quoted = password.len() > 1 && password.starts_with('"') && password.ends_with('"');
    match render::quote(password).filter(|_| option.eq_ignore_ascii_case("auth-pass") && !quoted) {
        Some(password) => format!("sentinel auth-pass {name} {password}").into(),
        None => line.into(),
    }
}

/// The id of an identity: the first half of its SHA-256, roughly, in hex.
fn id(identity: &str) -> String {
    let digest = Sha256::digest(identity.as_bytes());
    let mut digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(ID_DIGITS);
    digits
}

/// Line numbers and options of the lines `sentinel OPTION ...`.
fn options(conf: &str) -> Vec<(usize, String)> {
    conf.lines().enumerate().filter_map(|(index, line)| Some((index + 1, option(line)?))).collect()
}

/// The word behind `sentinel`, in lower case; `None` for any other line.
fn option(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    words.next()?.eq_ignore_ascii_case("sentinel").then(|| words.next().unwrap_or_default().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn inputs<'a>() -> Inputs<'a> {
        Inputs {
            conf: "loglevel notice\nsentinel deny-scripts-reconfig yes\n",
            users: "user default on nopass -@all\n",
            password: "s3\"cret",
            identity: "uid.rfs-a-0",
            ip: "10.0.0.5".parse().unwrap(),
            port: 26379,
            data: "/data",
            before: "",
        }
    }

    const OURS: &str = "loglevel notice\n\
                        sentinel deny-scripts-reconfig yes\n\
                        protected-mode no\n\
                        bind 10.0.0.5 127.0.0.1\n\
                        port 26379\n\
                        dir \"/data\"\n\
                        sentinel myid dc338a1008b8a7101e82c72ce537080717e038d5\n\
                        sentinel announce-ip 10.0.0.5\n\
                        sentinel announce-port 26379\n\
                        sentinel sentinel-user sentinel\n\
                        sentinel sentinel-pass \"s3\\\"cret\"\n\
                        user default on nopass -@all\n";

    #[test]
    fn at_first_it_knows_nobody() {
        assert_eq!(render(&inputs()).unwrap(), OURS);
    }

    #[test]
    fn state_is_kept_and_what_is_ours_is_new() {
        let state = "sentinel monitor mymaster 10.0.0.7 6379 2\nsentinel auth-pass mymaster \"x\"\nsentinel config-epoch mymaster 3\n\
                     sentinel known-replica mymaster 10.0.0.8 6379\nsentinel current-epoch 3\n";
        let before = format!(
            "port 1\nuser old on nopass ~* +@all\nsentinel myid 0000000000000000000000000000000000000000\n\
             sentinel announce-ip \"10.0.0.4\"\nSentinel Sentinel-Pass old\nsentinel deny-scripts-reconfig no\n{state}\
             latency-tracking-info-percentiles 50 99 99.9\n# Generated\n"
        );
        assert_eq!(render(&Inputs { before: &before, ..inputs() }).unwrap(), format!("{OURS}{state}"));
    }

    #[test]
    fn a_password_that_it_wrote_without_quotes_is_readable() {
        let cases = [
            ("sentinel auth-pass mymaster a\"b\\ c", "sentinel auth-pass mymaster \"a\\\"b\\\\ c\""),
            ("sentinel auth-pass mymaster plain", "sentinel auth-pass mymaster \"plain\""),
            ("sentinel auth-pass mymaster \"a\\\"b\"", "sentinel auth-pass mymaster \"a\\\"b\""),
            ("sentinel known-replica mymaster 10.0.0.8 6379", "sentinel known-replica mymaster 10.0.0.8 6379"),
            ("sentinel current-epoch 3", "sentinel current-epoch 3"),
        ];
        for (line, expected) in cases {
            assert_eq!(readable(line), expected);
        }
    }

    #[test]
    fn an_id_is_the_identitys() {
        let one = id("uid.rfs-a-0");
        assert!(one.len() == ID_DIGITS && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(one, id("uid.rfs-a-0"));
        assert_ne!(one, id("uid.rfs-a-1"));
    }

    #[test]
    fn what_is_wrong_starts_nothing() {
        let reserved = |line, name: &str| RenderError::DirectiveReserved(CONF, line, name.to_owned());
        let cases = [
            ("an id", Inputs { conf: "\nSENTINEL MyID x\n", ..inputs() }, reserved(2, "sentinel myid")),
            ("a port", Inputs { conf: "port 1\n", ..inputs() }, reserved(1, "port")),
            ("no users", Inputs { users: "", ..inputs() }, RenderError::UserDefaultMissing),
            (
                "a password with a line",
                Inputs { password: "a\nuser x", ..inputs() },
                RenderError::CharacterForbidden("the password of 'sentinel'"),
            ),
        ];
        for (name, inputs, expected) in cases {
            assert_eq!(render(&inputs), Err(expected), "{name}");
        }
    }
}
