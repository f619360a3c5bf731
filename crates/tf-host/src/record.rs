//! Records of one boot, files on the host. What an earlier boot had is gone with it, so that a record of it says nothing.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::atomic;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfBoot<T> {
    boot_id: String,
    #[serde(flatten)]
    content: T,
}

/// The record of this boot; an empty one where there is none.
///
/// # Errors
/// When there is one that cannot be read.
pub fn read<T: Default + DeserializeOwned>(path: &Path, boot_id: &str) -> io::Result<T> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(error),
    };
    let record: OfBoot<T> = serde_json::from_slice(&text)?;
    Ok(if record.boot_id == boot_id { record.content } else { T::default() })
}

/// Writes it in the place of what was there, as a whole, and makes it durable.
///
/// # Errors
/// When that fails; what was there is as it was.
pub fn write<T: Serialize>(path: &Path, boot_id: &str, content: &T) -> io::Result<()> {
    let text = serde_json::to_vec(&OfBoot { boot_id: boot_id.to_owned(), content })?;
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    atomic::write(path, &text, 0o600)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_record_is_of_its_boot_and_one_that_is_torn_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/record.json");
        let content = BTreeMap::from([("made".to_owned(), 7)]);
        assert_eq!(read::<BTreeMap<String, i32>>(&path, "boot-1").unwrap(), BTreeMap::new());
        write(&path, "boot-1", &content).unwrap();
        assert_eq!(read::<BTreeMap<String, i32>>(&path, "boot-1").unwrap(), content);
        assert_eq!(read::<BTreeMap<String, i32>>(&path, "boot-2").unwrap(), BTreeMap::new());
        fs::write(&path, "{").unwrap();
        assert!(read::<BTreeMap<String, i32>>(&path, "boot-1").is_err());
    }
}
