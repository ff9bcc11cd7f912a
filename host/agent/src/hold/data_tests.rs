#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use super::*;

const LINEAGE: &str = "0123456789abcdef0123456789abcdef01234567";

/// An RDB's head with these fields, as a server writes them.
fn rdb(magic: &str, fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = magic.as_bytes().to_vec();
    for (name, value) in fields {
        bytes.extend([0xfa, name.len() as u8]);
        bytes.extend(name.as_bytes());
        bytes.extend(*value);
    }
    bytes.extend([0xfe, 0, 0xfb, 1, 0]);
    bytes
}

fn lineage() -> Vec<u8> {
    [&[40], LINEAGE.as_bytes()].concat()
}

#[test]
fn a_position_in_each_spelling_of_the_offset() {
    let cases: [(&str, &[u8], Option<u64>); 8] = [
        ("a byte", &[0xc0, 42], Some(42)),
        ("two", &[0xc1, 0x94, 0x0b], Some(2964)),
        ("four", &[0xc2, 0, 0, 1, 0], Some(65_536)),
        ("text", b"\x0b12345678901", Some(12_345_678_901)),
        ("none yet", &[0xc0, 0xff], None),
        ("cut short", &[0xc2, 0], None),
        ("a longer text than there is", b"\x0b123", None),
        ("compressed", &[0xc3, 2, 9, b'x', b'x'], None),
    ];
    for (name, value, expected) in cases {
        for magic in ["REDIS0011", "VALKEY080"] {
            let fields: [(&str, &[u8]); 4] =
                [("valkey-ver", b"\x059.1.2"), ("redis-bits", &[0xc0, 64]), ("repl-id", &lineage()), ("repl-offset", value)];
            let expected = expected.map(|offset| Position { lineage: LINEAGE.to_owned(), offset });
            assert_eq!(position(&rdb(magic, &fields)), expected, "{name}, {magic}");
        }
    }
}

#[test]
fn what_names_no_lineage_has_no_position() {
    let alone: [(&str, &[u8]); 1] = [("repl-offset", &[0xc0, 1])];
    let short: [(&str, &[u8]); 2] = [("repl-id", b"\x01a"), ("repl-offset", &[0xc0, 1])];
    for head in
        [rdb("REDIS0011", &[]), rdb("REDIS0011", &alone), rdb("VALKEY080", &short), b"REDI".to_vec(), b"nonsense".to_vec()]
    {
        assert_eq!(position(&head), None, "{head:?}");
    }
}

#[test]
fn only_what_the_server_would_load_counts() {
    let folder = std::env::temp_dir().join(format!("agent-data-{}", std::process::id()));
    fs::create_dir_all(folder.join("appendonlydir")).unwrap();
    let look = |conf: &str| look(&folder, conf).unwrap();
    assert_eq!((look("appendonly no\n"), look("appendonly yes\n")), (Own::Nothing, Own::Nothing));

    fs::write(folder.join("dump.rdb"), rdb("VALKEY080", &[])).unwrap();
    assert_eq!((look("save \"\"\n"), look("appendonly yes\n")), (Own::Rdb(None), Own::Nothing));
    assert_eq!(look("dbfilename other.rdb\n"), Own::Nothing);

    fs::write(folder.join("appendonlydir/appendonly.aof.manifest"), "file appendonly.aof.1.base.rdb seq 1 type b\n").unwrap();
    assert_eq!((look("save \"\"\n"), look("appendonly \"yes\"\n")), (Own::Rdb(None), Own::Aof));
    assert_eq!(look("appendonly yes\nappendfilename x.aof\n"), Own::Nothing);

    fs::remove_file(folder.join("dump.rdb")).unwrap();
    fs::create_dir(folder.join("dump.rdb")).unwrap();
    assert!(super::look(&folder, "").is_err_and(|(path, _)| path.ends_with("dump.rdb")));
    fs::remove_dir_all(folder).unwrap();
}
