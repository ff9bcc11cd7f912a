//! Forms of names, keys and label values, in CEL and in Rust.

/// Longest name of an instance. The longest thing made of it is the pods' label `controller-revision-hash`, `rfr-NAME-` and a
/// hash of up to 10 characters, and a label has at most 63.
pub const NAME_LENGTH_MAX: usize = 63 - "rfr-".len() - "-".len() - 10;

/// Longest name of an instance of the cluster architecture: its longest label is `drc-NAME-`, the number of a shard (below 128),
/// and that hash.
pub const CLUSTER_NAME_LENGTH_MAX: usize = 63 - "drc-".len() - "-127".len() - "-".len() - 10;

/// What to do about a name of the wrong form.
pub(crate) const NAME_FORM: &str = "use lower-case letters, digits and '-' only, because Services are named after it";
/// What to do about a name that is too long.
pub(crate) const NAME_LENGTH: &str = "use at most 48, because labels of 63 characters are made of it";

/// What to do about a cluster's name that is too long.
pub(crate) const CLUSTER_NAME_LENGTH: &str =
    "use at most 44 in the cluster architecture, because labels of 63 characters are made of it and of a shard's number";
/// What to do about a cluster's name that begins with a digit.
pub(crate) const CLUSTER_NAME_START: &str =
    "begin with a letter in the cluster architecture, because Services are called by it and their names can't begin with a digit";

/// Key of an annotation or label, as a regular expression for CEL.
pub(super) const QUALIFIED_NAME: &str = "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// Value of a label, as a regular expression for CEL.
pub(super) const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$";

/// Whether a text starts and ends with a letter or digit, has only such and `extra` between, and at most `max` characters.
fn is_word(text: &str, max: usize, alphabet: fn(u8) -> bool, extra: &[u8]) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(|&b| alphabet(b));
    let bytes = text.as_bytes();
    ends(bytes.first()) && ends(bytes.last()) && bytes.len() <= max && bytes.iter().all(|&b| alphabet(b) || extra.contains(&b))
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn any(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Whether a text has the form of an instance's name; its length is another matter.
pub(crate) fn is_name(text: &str) -> bool {
    is_word(text, usize::MAX, lower, b"-")
}

/// Whether a text is a key of an annotation or label.
pub(crate) fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_word(prefix, 253, lower, b"-.") && is_word(name, 63, any, b"-_."),
        None => is_word(key, 63, any, b"-_."),
    }
}

/// Whether a text is a value of a label.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_word(value, 63, any, b"-_.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    #[test]
    fn the_longest_names_fit_63_characters() {
        let name = "a".repeat(NAME_LENGTH_MAX);
        assert!(NAME_LENGTH.contains(&NAME_LENGTH_MAX.to_string()));
        assert_eq!(format!("{}-{}", names::data_workload(&name), "f".repeat(10)).len(), 63);
        let cluster = "a".repeat(CLUSTER_NAME_LENGTH_MAX);
        assert!(CLUSTER_NAME_LENGTH.contains(&CLUSTER_NAME_LENGTH_MAX.to_string()));
        assert_eq!(format!("drc-{cluster}-127-{}", "f".repeat(10)).len(), 63);
        assert!(names::writer_service(&name).len() <= 63);
        assert!(names::reader_service(&name).len() <= 63);
        assert!(format!("{}-4", names::data_workload(&name)).len() <= 63);
        for account in names::account::ALL {
            assert!(names::account_secret(names::component::FAILOVER, &name, account).len() <= 253);
        }
    }

    #[test]
    fn forms() {
        for (text, name, key, value) in [
            ("cache", true, true, true),
            ("9-lives", true, true, true),
            ("Cache", false, true, true),
            ("a.b", false, true, true),
            ("a_b", false, true, true),
            ("-a", false, false, false),
            ("a-", false, false, false),
            ("", false, false, true),
            ("example.com/a", false, true, false),
            ("Example.com/a", false, false, false),
            ("a/b/c", false, false, false),
            ("/a", false, false, false),
            ("ä", false, false, false),
        ] {
            assert_eq!((is_name(text), is_qualified_name(text), is_label_value(text)), (name, key, value), "{text:?}");
        }
        assert!(is_label_value(&"a".repeat(63)) && !is_label_value(&"a".repeat(64)));
    }
}
