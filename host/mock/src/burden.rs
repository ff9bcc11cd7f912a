//! Makes a server's next start slow: commands that take time and change nothing are put at the end of its append-only file, which
//! it reads again when it starts. While it does, it answers as one that loads.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Where append-only files are in a server's folder.
const FOLDER: &str = "appendonlydir";
/// Takes a tenth of a millisecond: the server answers others after each 1,024 commands that it has read.
const SCRIPT: &str = "for i = 1, 10000 do end";

/// Puts so many commands there. The server must not run.
///
/// # Errors
/// It has no append-only file, or that can't be written.
pub fn burden(data: &Path, commands: usize) -> io::Result<()> {
    let files = fs::read_dir(data.join(FOLDER))?.flatten().map(|entry| entry.path());
    let newest = files.filter(|file| file.to_string_lossy().ends_with(".incr.aof")).max_by_key(|file| number(file));
    let newest = newest.ok_or_else(|| io::Error::other(format!("{} holds no append-only file", data.display())))?;
    let command = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{SCRIPT}\r\n$1\r\n0\r\n", SCRIPT.len());
    File::options().append(true).open(newest)?.write_all(command.repeat(commands).as_bytes())
}

/// Of `appendonly.aof.12.incr.aof`.
fn number(file: &Path) -> u64 {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit('.').find_map(|part| part.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_file_is_longer() {
        let data = std::env::temp_dir().join(format!("vko-burden-{}", std::process::id()));
        let folder = data.join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        assert!(burden(&data, 1).is_err(), "there is none yet");
        for name in ["appendonly.aof.9.incr.aof", "appendonly.aof.10.incr.aof", "appendonly.aof.10.base.rdb"] {
            fs::write(folder.join(name), "x").unwrap();
        }
        burden(&data, 2).unwrap();
        let lengths = ["9.incr.aof", "10.incr.aof", "10.base.rdb"].map(|name| {
            let text = fs::read_to_string(folder.join(format!("appendonly.aof.{name}"))).unwrap();
            (text.matches("EVAL").count(), text.starts_with('x'))
        });
        assert_eq!(lengths, [(0, true), (2, true), (0, true)]);
        fs::remove_dir_all(&data).unwrap();
    }
}
