//! dnsmasq, which gives addresses and images to new devices: its exit codes are 1 for what it cannot make sense of, 2 for a port it does not
//! get and 3 for files (`EXIT CODES` of its manual).

use std::{
    fs,
    path::{Path, PathBuf},
};

use tokio::net::UdpSocket;

use crate::{exit::Exit, log};

/// Options that stand there without a value, and those that have one.
const SWITCHES: [&str; 3] = ["bogus-priv", "log-dhcp", "enable-tftp"];
const SETTINGS: [&str; 6] =
    ["conf-dir", "log-facility", "dhcp-reply-delay", "dhcp-leasefile", "tftp-root", "dhcp-range"];
const TFTP: u16 = 69;

/// What the files say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    folder: Option<(PathBuf, String)>,
    leases: Option<PathBuf>,
    root: Option<PathBuf>,
    tftp: bool,
}

/// Plays it.
///
/// # Errors
/// What ends it.
pub async fn run(arguments: &[String]) -> Result<(), Exit> {
    let file = arguments.iter().find_map(|argument| argument.strip_prefix("--conf-file="));
    let mut options = Options::default();
    options.read(&text(Path::new(file.ok_or_else(|| bad("no --conf-file"))?))?)?;
    if let Some((folder, suffix)) = options.folder.clone() {
        let entries = fs::read_dir(&folder).map_err(|error| files(&folder, &error))?;
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().ends_with(&suffix) {
                options.read(&text(&entry.path())?)?;
            }
        }
    }
    if let Some(leases) = &options.leases {
        fs::OpenOptions::new().append(true).create(true).open(leases).map_err(|error| files(leases, &error))?;
    }
    if options.tftp {
        if let Some(root) = &options.root {
            fs::read_dir(root).map_err(|error| files(root, &error))?;
        }
        let socket = UdpSocket::bind(("0.0.0.0", TFTP)).await;
        let socket = socket.map_err(|error| Exit { code: 2, why: format!("port {TFTP}: {error}") })?;
        tokio::spawn(async move {
            // It has nothing to give.
            let mut buffer = [0; 512];
            while socket.recv_from(&mut buffer).await.is_ok() {}
        });
    }
    log::say("started");
    Ok(())
}

impl Options {
    fn read(&mut self, text: &str) -> Result<(), Exit> {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once('=') {
                None if SWITCHES.contains(&line) => self.tftp |= line == "enable-tftp",
                Some((option, value)) if SETTINGS.contains(&option) => match option {
                    "conf-dir" => {
                        let (folder, pattern) = value.split_once(',').unwrap_or((value, "*"));
                        self.folder = Some((folder.into(), pattern.trim_start_matches('*').to_owned()));
                    }
                    "dhcp-leasefile" => self.leases = Some(value.into()),
                    "tftp-root" => self.root = Some(value.into()),
                    "dhcp-reply-delay"
                        if value.rsplit(',').next().is_none_or(|delay| delay.parse::<u32>().is_err()) =>
                    {
                        return Err(bad(option));
                    }
                    _ => {}
                },
                _ => return Err(bad(line.split('=').next().unwrap_or_default())),
            }
        }
        Ok(())
    }
}

fn text(path: &Path) -> Result<String, Exit> {
    fs::read_to_string(path).map_err(|error| files(path, &error))
}

fn files(path: &Path, error: &std::io::Error) -> Exit {
    Exit { code: 3, why: format!("{}: {error}", path.display()) }
}

fn bad(option: &str) -> Exit {
    Exit { code: 1, why: format!("bad option: {option}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, Exit> {
        let mut options = Options::default();
        options.read(text).map(|()| options)
    }

    #[test]
    fn an_option_that_there_is_not_is_refused() {
        for text in ["no-such-option", "enable-tftp=yes", "conf-dir", "dhcp-reply-delay=x"] {
            assert_eq!(read(text).unwrap_err().code, 1, "{text}");
        }
    }

    #[test]
    fn a_folder_may_say_which_of_its_files_count() {
        assert_eq!(read("conf-dir=/a/,*.conf\n").unwrap().folder, Some(("/a/".into(), ".conf".into())));
        assert_eq!(read("dhcp-reply-delay=2\nenable-tftp\n").unwrap(), Options { tftp: true, ..Options::default() });
    }
}
