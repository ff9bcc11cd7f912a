//! Secrets have a type of their own: it can't be printed or serialised, and comparing takes the same time for every content.

use std::fmt;

/// A password. `Debug` shows nothing of it; there is no `Display` and no `Serialize`.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    /// Takes a password into keeping.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The password itself, for the one place that sends or writes it. Never log the result.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Lower-case SHA-256, the form that `user` lines and ACL SETUSER take after `#`.
    pub fn acl_hash(&self) -> String {
        hex(ring::digest::digest(&ring::digest::SHA256, self.0.as_bytes()).as_ref())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.bytes().zip(other.0.bytes()).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
    }
}
impl Eq for Secret {}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(***)");
    }

    #[test]
    fn acl_hash_is_sha256_in_lower_case() {
        assert_eq!(Secret::new("abc").acl_hash(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
