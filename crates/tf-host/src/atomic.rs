//! Files that are there as a whole or not at all.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Writes a file with this mode and makes it durable, then puts it in the place of what was there. On an error the old file
/// is as it was.
///
/// # Errors
/// When it cannot be written; the message has the path.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    copy(&mut &*content, path, mode)
}

/// The same with the content of a reader.
///
/// # Errors
/// As [`write`].
pub fn copy(from: &mut impl Read, path: &Path, mode: u32) -> io::Result<()> {
    let temporary = beside(path)?;
    let result = fill(from, &temporary, mode).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(|error| named(path, &error))
}

/// Writes a file that is not needed after a power failure.
///
/// # Errors
/// As [`write`].
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = beside(path)?;
    let _ = fs::remove_file(&temporary);
    let result = create(&temporary, mode)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| drop(fs::remove_file(&temporary)));
    result.map_err(|error| named(path, &error))
}

/// The same for several files that belong together: all are written before the first one takes its place, in their order. A
/// reader can meet the new first one with the old second one for the time between two renames.
///
/// # Errors
/// As [`write`].
pub fn replace_together(files: &[(PathBuf, &[u8])], mode: u32) -> io::Result<()> {
    let mut written = Vec::new();
    let result = files.iter().try_for_each(|(path, content)| {
        let temporary = beside(path)?;
        let _ = fs::remove_file(&temporary);
        written.push(temporary.clone());
        create(&temporary, mode).and_then(|mut file| file.write_all(content)).map_err(|error| named(path, &error))
    });
    let result = result.and_then(|()| {
        let mut pairs = written.iter().zip(files);
        pairs.try_for_each(|(temporary, (path, _))| fs::rename(temporary, path).map_err(|error| named(path, &error)))
    });
    if result.is_err() {
        for temporary in written {
            let _ = fs::remove_file(temporary);
        }
    }
    result
}

/// Makes names in a directory durable.
///
/// # Errors
/// When the directory cannot be opened or written.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Creates a file with exactly this mode, whatever the umask is.
///
/// # Errors
/// When it is there already, or cannot be made.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

fn fill(from: &mut impl Read, temporary: &Path, mode: u32) -> io::Result<()> {
    // Left over by a predecessor with the same process id.
    let _ = fs::remove_file(temporary);
    // Nobody else opens it before its mode is right.
    let mut file = create(temporary, 0o600)?;
    io::copy(from, &mut file)?;
    file.flush()?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn beside(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not the path of a file", path.display()),
        ));
    };
    Ok(path.with_file_name(format!(".{}.tmp-{}", name.to_string_lossy(), std::process::id())))
}

/// Removes a file. One that is not there is removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// An error with the path that it is about.
pub(crate) fn of(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("write {}: {error}", path.display()))
}
