#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

const USERS: &str = "user default off\nuser replication on #00 -@all +psync +replconf\n";

fn inputs<'a>() -> Inputs<'a> {
    Inputs {
        conf: "tcp-keepalive 5\n",
        start: Start::Alone,
        users: USERS,
        replication: "s3cret",
        ip: "10.0.0.5".parse().unwrap(),
        port: 6379,
        data: "/data",
    }
}

#[test]
fn a_lone_member_starts_with_its_own_data() {
    let expected = "port 0\n\
                    tcp-keepalive 5\n\
                    protected-mode no\n\
                    bind 10.0.0.5 127.0.0.1\n\
                    dir \"/data\"\n\
                    masteruser replication\n\
                    masterauth \"s3cret\"\n\
                    user default off\n\
                    user replication on #00 -@all +psync +replconf\n\
                    port \"6379\"\n";
    assert_eq!(render(&inputs()).unwrap(), expected);
}

#[test]
fn one_of_several_follows_nobody_in_its_family() {
    for (ip, bind, nobody) in [
        ("10.0.0.5", "\nbind 10.0.0.5 127.0.0.1\n", "\nreplicaof 127.0.0.1 1\n"),
        ("fd00::5", "\nbind fd00::5 ::1\n", "\nreplicaof ::1 1\n"),
        ("127.9.9.9", "\nbind 127.9.9.9\nbind-source-addr 127.9.9.9\n", "\nreplicaof 127.0.0.1 1\n"),
    ] {
        let text = render(&Inputs { start: Start::Named, ip: ip.parse().unwrap(), ..inputs() }).unwrap();
        assert!(text.contains(bind) && text.contains(nobody), "{text}");
    }
}

#[test]
fn a_node_of_a_cluster_tells_its_address_and_follows_by_its_own_file() {
    for ip in ["10.0.0.5", "fd00::5"] {
        let text = render(&Inputs { start: Start::Cluster, ip: ip.parse().unwrap(), ..inputs() }).unwrap();
        assert!(text.contains(&format!("\ncluster-announce-ip {ip}\n")) && !text.contains("replicaof"), "{text}");
    }
}

#[test]
fn the_start_file_says_one_of_two_words() {
    assert_eq!(parse_start("alone\n"), Ok(Start::Alone));
    assert_eq!(parse_start(" named"), Ok(Start::Named));
    for other in ["", "primary", "alone named"] {
        assert_eq!(parse_start(other), Err(RenderError::StartUnknown(other.to_owned())));
    }
}

#[test]
fn a_value_is_the_last_one_without_quotes() {
    let conf = "appendonly no\n# appendonly maybe\nAppendOnly \"yes\"\nsave \"\"\nport\n";
    let cases = [("appendonly", Some("yes")), ("save", Some("")), ("port", None), ("append", None)];
    for (name, expected) in cases {
        assert_eq!(value(conf, name), expected, "{name}");
    }
}

#[test]
fn what_the_configuration_says_of_protected_mode_stays() {
    let text = render(&Inputs { conf: "Protected-Mode yes", ..inputs() }).unwrap();
    assert!(text.contains("\nProtected-Mode yes\nbind") && !text.contains("protected-mode no"), "{text}");
}

#[test]
fn nothing_starts_open_or_by_guess() {
    use RenderError::*;
    let reserved = |line, name: &str| DirectiveReserved(CONF, line, name.to_owned());
    let cases: [(&str, Inputs<'_>, RenderError); 13] = [
        ("no users", Inputs { users: "", ..inputs() }, UserDefaultMissing),
        ("no default user", Inputs { users: "user other off\n", ..inputs() }, UserDefaultMissing),
        ("commented out", Inputs { users: "# user default off\n", ..inputs() }, UserDefaultMissing),
        ("a directive among users", Inputs { users: "user default off\n\nport 1\n", ..inputs() }, UserMalformed(3)),
        ("a nameless user", Inputs { users: "user default off\nuser\n", ..inputs() }, UserMalformed(2)),
        ("clear", Inputs { users: "user default on >pw ~*\n", ..inputs() }, UserPasswordInClear(1, "default".to_owned())),
        ("quoted", Inputs { users: "user default on \">pw\"\n", ..inputs() }, UserPasswordInClear(1, "default".to_owned())),
        ("a role", Inputs { conf: "\nReplicaOf 10.0.0.1 6379\n", ..inputs() }, reserved(2, "replicaof")),
        ("another file", Inputs { conf: "include /tmp/x\n", ..inputs() }, reserved(1, "include")),
        ("another's address", Inputs { conf: "cluster-announce-ip 10.0.0.1\n", ..inputs() }, reserved(1, "cluster-announce-ip")),
        ("a reserved name in quotes", Inputs { conf: "maxmemory 1gb\n\"port\" 1\n", ..inputs() }, LineMalformed(CONF, 2)),
        (
            "a password with a line",
            Inputs { replication: "a\nuser x", ..inputs() },
            CharacterForbidden("the password of 'replication'"),
        ),
        ("a path with a line", Inputs { data: "/data\nport 1", ..inputs() }, CharacterForbidden("the data folder's path")),
    ];
    for (name, inputs, expected) in cases {
        assert_eq!(render(&inputs), Err(expected), "{name}");
    }
}

#[test]
fn an_error_shows_no_password() {
    let error = render(&Inputs { users: "user default on >hunter2\n", ..inputs() }).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

/// The server's own reader of a quoted word, as far as [`quote`] uses it.
fn unquote(word: &str) -> String {
    let inner = word.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
    let mut text = String::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        assert_ne!(character, '"', "ends early: {word}");
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next().unwrap() {
            'x' => {
                let hex: String = characters.by_ref().take(2).collect();
                text.push(char::from(u8::from_str_radix(&hex, 16).unwrap()));
            }
            other => text.push(other),
        }
    }
    text
}

#[test]
fn a_quoted_word_stands_for_the_text() {
    for value in ["", "plain", "two words", "#hash", "\"", "\\", "\\\"", "tab\tbell\x07del\x7f", "\\x41", "'single'", "grüße"] {
        assert_eq!(unquote(&quote(value).unwrap()), value);
    }
    for value in ["a\nb", "a\rb", "a\0b"] {
        assert_eq!(quote(value), None, "{value:?}");
    }
}

#[test]
fn cut_anywhere_it_has_no_port() {
    let text = render(&inputs()).unwrap();
    let whole = text.trim_end().len();
    for end in 0..whole {
        let rest = &text[..end];
        let ports: Vec<&str> = rest.lines().filter(|line| line.starts_with("port ")).collect();
        let listens = ports.last().is_none_or(|line| {
            let value = line.trim_start_matches("port ");
            value != "0" && value.matches('"').count() != 1 && !value.is_empty()
        });
        // Less than the first line never gets to a server: the agent itself writes the first page.
        assert!(end < "port 0".len() || !listens, "cut at {end} it would listen: {rest}");
    }
}
