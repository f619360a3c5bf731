//! Layers of images: compressed tars whose bytes depend on nothing but names, modes and contents.
//!
//! Entries are sorted, belong to root and carry one time. The compressor is the one of miniz_oxide, whose output, unlike
//! that of the faster ones, is the same on every processor.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

/// Bytes, wherever they are.
#[derive(Clone, Debug)]
pub enum Content {
    /// Here.
    Memory(Vec<u8>),
    /// In a file that nobody changes.
    File(PathBuf),
}

impl Content {
    /// Reads them from the start.
    pub fn open(&self) -> Result<Box<dyn Read + '_>> {
        Ok(match self {
            Self::Memory(bytes) => Box::new(bytes.as_slice()),
            Self::File(path) => {
                Box::new(BufReader::new(File::open(path).with_context(|| format!("opening {}", path.display()))?))
            }
        })
    }

    /// How many there are.
    pub fn size(&self) -> Result<u64> {
        Ok(match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(path) => path.metadata().with_context(|| format!("reading {}", path.display()))?.len(),
        })
    }
}

/// SHA-256 as images write it, `sha256:` and 64 digits.
pub type Digest = String;

/// A compressed layer.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Digest of the tar.
    pub diff_id: Digest,
    /// Digest of the compressed tar.
    pub digest: Digest,
    /// The compressed tar.
    pub content: Content,
}

/// Files and folders of a layer.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
enum Entry {
    Folder,
    File { mode: u32, content: Content },
    Link { to: String },
}

impl Tree {
    /// Adds a file, and the folders it is in. `path` is absolute.
    pub fn file(&mut self, path: &str, mode: u32, content: Content) {
        self.insert(path, Entry::File { mode, content });
    }

    /// Adds a symbolic link, and the folders it is in. `path` is absolute.
    pub fn link(&mut self, path: &str, to: &str) {
        self.insert(path, Entry::Link { to: to.to_owned() });
    }

    fn insert(&mut self, path: &str, entry: Entry) {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            self.entries.entry(path[..end].to_owned()).or_insert(Entry::Folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// The layer, in memory. Times are in seconds since 1970.
    pub fn layer(&self, mtime: u64) -> Result<Layer> {
        let mut compressed = Vec::new();
        let (diff_id, digest) = compress(&mut compressed, |out| self.write(out, mtime))?;
        Ok(Layer { diff_id, digest, content: Content::Memory(compressed) })
    }

    /// Writes the tar.
    pub fn write(&self, out: &mut dyn Write, mtime: u64) -> Result<()> {
        let mut builder = tar::Builder::new(out);
        for (path, entry) in &self.entries {
            let mut header = Header::new_gnu();
            header.set_mtime(mtime);
            header.set_uid(0);
            header.set_gid(0);
            match entry {
                Entry::Folder => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(0o755);
                    header.set_size(0);
                    builder.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
                Entry::Link { to } => {
                    header.set_entry_type(EntryType::Symlink);
                    header.set_mode(0o777);
                    header.set_size(0);
                    builder.append_link(&mut header, path, to)?;
                }
                Entry::File { mode, content } => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_mode(*mode);
                    header.set_size(content.size()?);
                    builder.append_data(&mut header, path, content.open()?)?;
                }
            }
        }
        Ok(builder.finish()?)
    }
}

/// Compresses what `write` writes. Digests of what was written and of what came out.
pub fn compress(out: impl Write, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<(Digest, Digest)> {
    let gzip = GzBuilder::new().mtime(0).write(Hashing::new(out), Compression::new(6));
    let mut plain = Hashing::new(gzip);
    write(&mut plain)?;
    let (gzip, diff_id) = plain.finish();
    let (mut out, digest) = gzip.finish()?.finish();
    out.flush()?;
    Ok((diff_id, digest))
}

/// Digest of bytes.
pub fn digest(bytes: &[u8]) -> Digest {
    named(&Sha256::digest(bytes))
}

/// Digest of a file, in hexadecimal.
pub fn sha256_of(path: &Path) -> Result<String> {
    let mut hash = Hashing::new(io::sink());
    io::copy(&mut File::open(path).with_context(|| format!("opening {}", path.display()))?, &mut hash)?;
    Ok(hash.finish().1.trim_start_matches("sha256:").to_owned())
}

fn named(hash: &[u8]) -> Digest {
    hash.iter().fold("sha256:".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// Passes bytes on and hashes them.
struct Hashing<W> {
    out: W,
    hash: Sha256,
}

impl<W> Hashing<W> {
    fn new(out: W) -> Self {
        Self { out, hash: Sha256::new() }
    }

    fn finish(self) -> (W, Digest) {
        (self.out, named(&self.hash.finalize()))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use flate2::read::GzDecoder;

    use super::*;

    fn entries(layer: &Layer) -> Vec<(String, u32, u64, Vec<u8>)> {
        let mut archive = tar::Archive::new(GzDecoder::new(layer.content.open().unwrap()));
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let path = entry.path().unwrap().display().to_string();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            (path, header.mode().unwrap(), header.mtime().unwrap(), content)
        });
        entries.collect()
    }

    #[test]
    fn entries_are_sorted_with_their_folders_before_them() {
        let mut tree = Tree::default();
        tree.file("/usr/share/sbom/b", 0o644, Content::Memory(b"b".to_vec()));
        tree.file("/program", 0o755, Content::Memory(b"p".to_vec()));
        let layer = tree.layer(1_700_000_000).unwrap();
        let time = 1_700_000_000;
        assert_eq!(
            entries(&layer),
            [
                ("program".into(), 0o755, time, b"p".to_vec()),
                ("usr/".into(), 0o755, time, Vec::new()),
                ("usr/share/".into(), 0o755, time, Vec::new()),
                ("usr/share/sbom/".into(), 0o755, time, Vec::new()),
                ("usr/share/sbom/b".into(), 0o644, time, b"b".to_vec()),
            ]
        );
    }

    #[test]
    fn neither_the_order_of_adding_nor_where_content_lies_changes_a_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("content");
        std::fs::write(&path, b"same").unwrap();
        let mut one = Tree::default();
        one.file("/a", 0o644, Content::Memory(b"same".to_vec()));
        one.file("/b/c", 0o644, Content::Memory(b"other".to_vec()));
        let mut two = Tree::default();
        two.file("/b/c", 0o644, Content::Memory(b"other".to_vec()));
        two.file("/a", 0o644, Content::File(path));
        assert_eq!(one.layer(1).unwrap().digest, two.layer(1).unwrap().digest);
        assert_ne!(one.layer(1).unwrap().digest, one.layer(2).unwrap().digest);
    }

    #[test]
    fn digests_are_those_of_the_tar_and_of_its_compressed_form() {
        let mut tree = Tree::default();
        tree.file("/a", 0o644, Content::Memory(b"content".repeat(1000)));
        let layer = tree.layer(1).unwrap();
        let mut plain = Vec::new();
        GzDecoder::new(layer.content.open().unwrap()).read_to_end(&mut plain).unwrap();
        let Content::Memory(compressed) = &layer.content else { panic!("not in memory") };
        assert_eq!((digest(&plain), digest(compressed)), (layer.diff_id, layer.digest));
    }

    #[test]
    fn a_file_has_the_digest_of_its_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of(file.path()).unwrap(), expected);
        assert_eq!(digest(b"abc"), format!("sha256:{expected}"));
    }
}
