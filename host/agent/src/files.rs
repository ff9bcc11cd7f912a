//! Mounted files: read whole, with a limit, as text. An error names the file, never its content.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest file that is read. A ConfigMap or Secret holds 1 MiB; this leaves room and still bounds memory.
const FILE_BYTES_MAX: u64 = 2 << 20;
/// Longest password; the server itself takes a query of this many bytes before login, no more.
const PASSWORD_BYTES_MAX: usize = 4096;

/// Why a file couldn't be used.
#[derive(Debug)]
pub(crate) enum FileError {
    /// It can't be opened or read.
    FileUnreadable(PathBuf, io::Error),
    /// It is larger than [`FILE_BYTES_MAX`].
    FileTooLarge(PathBuf),
    /// It isn't UTF-8.
    FileNotText(PathBuf),
    /// A password that is empty, too long, or holds a line break or NUL.
    PasswordInvalid(PathBuf, &'static str),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileUnreadable(path, error) => write!(f, "{}: {error}; check the pod's volumes", path.display()),
            Self::FileTooLarge(path) => write!(f, "{}: larger than {FILE_BYTES_MAX} bytes", path.display()),
            Self::FileNotText(path) => write!(f, "{}: not UTF-8", path.display()),
            Self::PasswordInvalid(path, what) => write!(f, "{}: the password {what}; set another in its Secret", path.display()),
        }
    }
}

/// The whole file.
///
/// # Errors
/// It isn't there, too large, or not text.
pub(crate) fn text(folder: &Path, name: &str) -> Result<String, FileError> {
    let path = folder.join(name);
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(FileError::FileUnreadable(path, error)),
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => Err(FileError::FileTooLarge(path)),
        Ok(_) => String::from_utf8(bytes).map_err(|_| FileError::FileNotText(path)),
    }
}

/// The password of an account: the content of the file that has the account's name.
///
/// # Errors
/// As [`text`], and for a password that can't be sent or rendered.
pub(crate) fn password(accounts: &Path, account: &str) -> Result<String, FileError> {
    let password = text(accounts, account)?;
    let wrong = if password.is_empty() {
        "is empty"
    } else if password.len() > PASSWORD_BYTES_MAX {
        "is longer than 4096 bytes"
    } else if password.contains(['\n', '\r', '\0']) {
        "holds a line break or NUL"
    } else {
        return Ok(password);
    };
    Err(FileError::PasswordInvalid(accounts.join(account), wrong))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_password_that_could_add_a_line_is_refused() {
        let folder = std::env::temp_dir().join(format!("agent-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let cases: [(&[u8], bool); 6] =
            [(b"good \"one\"", true), (b"", false), (b"a\n", false), (b"a\rb", false), (b"a\0b", false), (b"\xff", false)];
        for (content, fits) in cases {
            std::fs::write(folder.join("probe"), content).unwrap();
            assert_eq!(password(&folder, "probe").is_ok(), fits, "{content:?}");
        }
        std::fs::write(folder.join("probe"), "x".repeat(PASSWORD_BYTES_MAX + 1)).unwrap();
        let error = password(&folder, "probe").unwrap_err().to_string();
        assert!(error.contains("probe: the password is longer") && !error.contains("xxx"), "{error}");
        assert!(matches!(password(&folder, "absent"), Err(FileError::FileUnreadable(..))));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
