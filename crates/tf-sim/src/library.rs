//! `vnc_api_lib.ini`, by which clients of the API check its certificate: without an authority in it they do not get through
//! (config-daemons-observed).

use std::path::{Path, PathBuf};

use crate::{
    exit::{Exit, exception},
    ini::Ini,
};

/// Where the library looks.
const FILE: &str = "/etc/contrail/vnc_api_lib.ini";

/// The authorities that the file names, if the API speaks TLS to who reads it.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn authorities() -> Result<Option<PathBuf>, Exit> {
    of(Path::new(FILE))
}

fn of(path: &Path) -> Result<Option<PathBuf>, Exit> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    let mut ini = Ini::default();
    ini.read(&text)?;
    let port = ini.options("global")?;
    if port.get("web_port").is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(exception("ValueError: WEB_PORT"));
    }
    let is_tls = port.get("use_ssl").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    Ok(port.get("cafile").filter(|_| is_tls).map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<PathBuf>, Exit> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, text).unwrap();
        of(&path)
    }

    #[test]
    fn authorities_count_with_tls_and_a_comment_is_part_of_the_port() {
        assert_eq!(read("[global]\nuse_ssl = True\ncafile = /ca\n").unwrap(), Some("/ca".into()));
        assert_eq!(read("[global]\nuse_ssl = False\ncafile = /ca\n").unwrap(), None);
        assert_eq!(read("[global]\nWEB_PORT = 8082 ; comment\n").unwrap_err().why, "ValueError: WEB_PORT");
        assert_eq!(of(Path::new("/nothing/here")).unwrap(), None);
    }
}
