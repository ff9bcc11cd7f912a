//! Rules about the text of all files that git knows or would take.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

/// Longer files are cut by subject.
const LINES_MAX: usize = 600;
/// As `max_width` in rustfmt.toml, which keeps code within it and leaves comments alone.
const COLUMNS_MAX: usize = 130;
/// Written apart so that this file doesn't break its own rule.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];

/// What is broken, one line each.
pub(crate) fn violations(workspace: &Workspace) -> Result<Vec<String>> {
    let machine = machine_names(&workspace.root);
    let mut found = Vec::new();
    for file in files(&workspace.root)? {
        // A file that is gone from the folder but not from the index, or that is no text: nothing to check.
        if let Ok(text) = std::fs::read_to_string(workspace.root.join(&file)) {
            found.extend(violations_of(&file, &text, &machine));
        }
    }
    Ok(found)
}

fn files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .output()
        .context("git can't be run")?;
    ensure!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).split_terminator('\0').map(String::from).collect())
}

/// What belongs to the machine that runs this and to nobody else: its folders, the hosts of its mirrors and proxies.
fn machine_names(root: &Path) -> Vec<String> {
    let mut names = vec![root.display().to_string()];
    names.extend(std::env::home_dir().map(|home| home.display().to_string()));
    // A folder of one word ("/src") says nothing, apart from root's.
    names.retain(|path| path.matches('/').count() > 1 || path == "/root");
    names.iter_mut().for_each(|path| path.push('/'));
    for variable in
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "PIP_INDEX_URL", "CARGO_REGISTRIES_CRATES_IO_INDEX"]
    {
        let value = std::env::var(variable).unwrap_or_default();
        names.extend(host_of(&value).map(String::from));
    }
    names
}

fn host_of(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    let host = authority.rsplit('@').next()?;
    (host.contains('.') && !host.starts_with("127.")).then_some(host)
}

fn violations_of(file: &str, text: &str, machine: &[String]) -> Vec<String> {
    let generated = text.lines().next().is_some_and(|line| line.contains("@generated"));
    let mut found = Vec::new();
    let lines = text.lines().count();
    if file.ends_with(".rs") && !generated && lines > LINES_MAX {
        found.push(format!("{file}: {lines} lines, at most {LINES_MAX}; cut it by subject"));
    }
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{file}:{}", number + 1);
        found.extend(
            machine.iter().filter(|name| line.contains(*name)).map(|name| format!("{}: names this machine's {name}", place())),
        );
        if file.ends_with(".rs") {
            found.extend(UNFINISHED.iter().filter(|word| line.contains(*word)).map(|word| format!("{}: {word}", place())));
            if is_long_comment(line) {
                found.push(format!("{}: a comment of more than {COLUMNS_MAX} columns; wrap it", place()));
            }
        }
    }
    found
}

/// A row of a table can't be wrapped.
fn is_long_comment(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix("//");
    let prose = comment.is_some_and(|text| !text.trim_start_matches(['/', '!', ' ']).starts_with('|'));
    prose && line.chars().count() > COLUMNS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_text() {
        let machine = ["/home/me/".to_owned()];
        let long = "x\n".repeat(LINES_MAX + 1);
        let unfinished = format!("// {} later", UNFINISHED[0]);
        let wide = |prefix: &str| format!("{prefix} {}", "x".repeat(COLUMNS_MAX - prefix.len()));
        let (comment, row, code) = (wide("    //!"), wide("/// | a"), wide("let a ="));
        let cases: [(&str, &str, &str, usize); 11] = [
            ("short", "a.rs", "fn main() {}", 0),
            ("too long", "a.rs", &long, 1),
            ("long, but generated", "a.rs", &format!("// @generated from b\n{long}"), 0),
            ("long, but no code", "a.md", &long, 0),
            ("a path of this machine", "a.md", "see /home/me/notes", 1),
            ("unfinished code", "a.rs", &unfinished, 1),
            ("prose may speak of it", "a.md", &unfinished, 0),
            ("a wide comment", "a.rs", &comment, 1),
            ("a comment as wide as may be", "a.rs", &comment[1..], 0),
            ("a wide row of a table", "a.rs", &row, 0),
            ("wide code is rustfmt's business", "a.rs", &code, 0),
        ];
        for (name, file, text, expected) in cases {
            assert_eq!(violations_of(file, text, &machine).len(), expected, "{name}");
        }
    }

    #[test]
    fn hosts_of_mirrors_are_read_without_credentials() {
        assert_eq!(host_of("https://me:secret@mirror.example/simple"), Some("mirror.example"));
        assert_eq!(host_of("http://127.0.0.1:3128"), None);
        assert_eq!(host_of(""), None);
    }
}
