//! How to use an instance, in lines for people: addresses, the account, where its password is, a line to paste. Pure.

use std::path::Path;

use vko_api::names::MONITOR;

use crate::view::{Instance, Purpose, Way};

/// The lines.
pub(crate) fn lines(instance: &Instance) -> Vec<String> {
    let mut lines: Vec<String> = instance.ways.iter().map(way).collect();
    if let Some(way) = instance.ways.iter().find(|way| way.purpose != Purpose::Sentinel) {
        if let Some(file) = &instance.password_file {
            lines.push(format!("  account default, its password is in {}", file.display()));
        }
        lines.push(format!("  {}", command(instance, way)));
    }
    lines
}

fn way(way: &Way) -> String {
    let master = if way.purpose == Purpose::Sentinel { format!(", the master's name is {MONITOR}") } else { String::new() };
    format!("  {:<16} {}:{} ({}{master})", way.purpose.words(), way.ip, way.port, way.service)
}

/// For a shell. The password goes from the file to the client by its environment, past the screen, the history and the arguments.
fn command(instance: &Instance, way: &Way) -> String {
    let password =
        instance.password_file.as_deref().map(|file| format!("REDISCLI_AUTH=$(cat {}) ", quoted(file))).unwrap_or_default();
    let cluster = if way.purpose == Purpose::Cluster { " -c" } else { "" };
    format!("{password}{}{cluster} -h {} -p {}", quoted(&instance.client), way.ip, way.port)
}

/// A path as a shell's word.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    if text.bytes().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_to_paste_by_table() {
        let way = |purpose| Way { service: "s".into(), purpose, ip: "127.96.1.2".into(), port: 6379 };
        let instance = |purpose, password: Option<&str>| Instance {
            ways: vec![way(purpose)],
            password_file: password.map(Into::into),
            client: "/usr/bin/valkey-cli".into(),
            ..Instance::default()
        };
        for (instance, expected) in [
            (instance(Purpose::ReadWrite, None), Some("  /usr/bin/valkey-cli -h 127.96.1.2 -p 6379")),
            (
                instance(Purpose::Cluster, Some("/s/p")),
                Some("  REDISCLI_AUTH=$(cat /s/p) /usr/bin/valkey-cli -c -h 127.96.1.2 -p 6379"),
            ),
            (
                instance(Purpose::ReadOnly, Some("/a b/p")),
                Some("  REDISCLI_AUTH=$(cat '/a b/p') /usr/bin/valkey-cli -h 127.96.1.2 -p 6379"),
            ),
        ] {
            assert_eq!(lines(&instance).last().map(String::as_str), expected);
        }
        assert_eq!(
            lines(&instance(Purpose::Sentinel, None)),
            ["  Sentinel clients 127.96.1.2:6379 (s, the master's name is mymaster)"]
        );
    }

    #[test]
    fn paths_are_one_word_of_a_shell() {
        for (path, expected) in [("/a/b-c.d", "/a/b-c.d"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("/$(x)", "'/$(x)'")] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
