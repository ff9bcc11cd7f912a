//! Server versions, and the lines of them that the operator knows.
//!
//! A line is what a person asks for (`spec.version`) and what an image is chosen by; a version is what a server says it is.

use std::fmt;
use std::str::FromStr;

/// Why a version can't be used. The variant is the metric label, the event reason and the condition reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Not three numbers with dots between them.
    #[error("'{0}' is no version: three numbers with dots are expected, like 8.1.4")]
    VersionMalformed(String),
    /// A line that is neither delivered nor tested.
    #[error("version {asked} is not supported: only 7.2, 8.1 and 9.1 are delivered and tested; {remedy}")]
    LineUnsupported {
        /// What was asked for, or what a server is.
        asked: String,
        /// What to use.
        remedy: &'static str,
    },
}

impl VersionError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::VersionMalformed(_) => "VersionMalformed",
            Self::LineUnsupported { .. } => "LineUnsupported",
        }
    }
}

/// A server's version. Ordered as versions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl Version {
    /// A version out of its numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// Three numbers; what follows a `-` or `+` (a release candidate's name) doesn't count.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || VersionError::VersionMalformed(text.to_owned());
        let numbers = text.split(['-', '+']).next().unwrap_or_default();
        let mut parts = numbers.split('.').map(number);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) => Ok(Self { major, minor, patch }),
            _ => Err(malformed()),
        }
    }
}

/// Digits only: `u32::from_str` alone would take a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A server line. Ordered from old to new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Line {
    /// 7.2.
    V7_2,
    /// 8.1.
    V8_1,
    /// 9.1.
    V9_1,
}

impl Line {
    /// All lines, old to new.
    pub const ALL: [Self; 3] = [Self::V7_2, Self::V8_1, Self::V9_1];

    /// As people write it in `spec.version`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V7_2 => "7.2",
            Self::V8_1 => "8.1",
            Self::V9_1 => "9.1",
        }
    }

    /// The line of a server that calls itself Valkey of this version. All of the seventh generation count as 7.2: its servers,
    /// whatever their name, share commands, directives and file formats.
    ///
    /// # Errors
    /// [`VersionError::LineUnsupported`] for any other line than the known ones.
    pub fn of(version: &Version) -> Result<Self, VersionError> {
        match (version.major, version.minor) {
            (7, _) => Ok(Self::V7_2),
            (8, 1) => Ok(Self::V8_1),
            (9, 1) => Ok(Self::V9_1),
            (major, _) => Err(VersionError::LineUnsupported { asked: version.to_string(), remedy: remedy(major) }),
        }
    }
}

/// The line next to an unsupported one.
const fn remedy(major: u32) -> &'static str {
    match major {
        8 => "use 8.1",
        0..8 => "use 7.2",
        _ => "use 9.1",
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Line {
    type Err = VersionError;

    /// `7.2`, `8.1` or `9.1`, nothing more: a patch release is chosen by the operator's image map.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(line) = Self::ALL.into_iter().find(|line| line.as_str() == text) {
            return Ok(line);
        }
        let major = text.split('.').next().and_then(number);
        let remedy = major.map_or("use one of them", remedy);
        Err(VersionError::LineUnsupported { asked: text.to_owned(), remedy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        let cases = [
            ("8.1.4", Some(Version::new(8, 1, 4))),
            ("9.1.0-rc1", Some(Version::new(9, 1, 0))),
            ("7.2.11+b2", Some(Version::new(7, 2, 11))),
            ("255.255.255", Some(Version::new(255, 255, 255))),
            ("", None),
            ("8", None),
            ("8.1", None),
            ("8.1.4.2", None),
            ("8.1.x", None),
            ("8..4", None),
            ("+8.1.4", None),
            ("8.1.-4", None),
            ("8.1.99999999999", None),
            (" 8.1.4", None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Version>().ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert!(Version::new(8, 1, 10) > Version::new(8, 1, 9));
        assert!(Version::new(9, 1, 0) > Version::new(8, 10, 99));
        assert!(Line::V7_2 < Line::V8_1 && Line::V8_1 < Line::V9_1);
    }

    #[test]
    fn lines_of_servers() {
        let cases = [
            ("7.2.4", Some(Line::V7_2)),
            ("7.0.15", Some(Line::V7_2)),
            ("7.3.6", Some(Line::V7_2)),
            ("8.1.1", Some(Line::V8_1)),
            ("9.1.2", Some(Line::V9_1)),
            ("6.2.14", None),
            ("8.0.3", None),
            ("8.2.0", None),
            ("9.0.1", None),
            ("10.0.0", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Line::of(&text.parse().unwrap()).ok(), expected, "{text}");
        }
    }

    #[test]
    fn lines_as_people_write_them() {
        for line in Line::ALL {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        let refused = [
            ("8.0", "version 8.0 is not supported: only 7.2, 8.1 and 9.1 are delivered and tested; use 8.1"),
            ("9.0", "version 9.0 is not supported: only 7.2, 8.1 and 9.1 are delivered and tested; use 9.1"),
            ("7.0", "version 7.0 is not supported: only 7.2, 8.1 and 9.1 are delivered and tested; use 7.2"),
            ("8.1.1", "version 8.1.1 is not supported: only 7.2, 8.1 and 9.1 are delivered and tested; use 8.1"),
            ("latest", "version latest is not supported: only 7.2, 8.1 and 9.1 are delivered and tested; use one of them"),
        ];
        for (text, message) in refused {
            let error = text.parse::<Line>().unwrap_err();
            assert_eq!(error.to_string(), message);
            assert_eq!(error.reason(), "LineUnsupported");
        }
    }
}
