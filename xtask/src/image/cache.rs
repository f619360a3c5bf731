//! Layers that take long to make and are made once: kept beside the other things the lab builds, by what they were made from.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tf_plan::hash;
use tf_testing::assets;

use super::layer::{self, Content, Digest, Layer};

/// Raised when layers come out differently from the same recipe.
const FORMAT: &str = "1";

#[derive(Serialize, Deserialize)]
struct Digests {
    diff_id: Digest,
    digest: Digest,
}

/// The layer that `recipe` describes in full, made by `make` if it is not there. Any number of programs may ask at once.
pub fn layer(name: &str, recipe: &[&str], make: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<Layer> {
    layer_in(&assets::cache()?.join("images"), name, recipe, make)
}

fn layer_in(
    folder: &Path,
    name: &str,
    recipe: &[&str],
    make: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<Layer> {
    let key = key(name, recipe);
    let blob = folder.join(format!("{key}.tar.gz"));
    // The digests are written last: where they are, the layer is whole.
    let digests = assets::in_cache(folder, &format!("{key}.json"), |target| {
        let unfinished = folder.join(format!(".{key}.tar.gz.unfinished"));
        let out = BufWriter::new(File::create(&unfinished)?);
        let (diff_id, digest) = layer::compress(out, make)?;
        fs::rename(&unfinished, &blob)?;
        Ok(fs::write(target, serde_json::to_vec(&Digests { diff_id, digest })?)?)
    })?;
    let read = fs::read(&digests).with_context(|| format!("reading {}", digests.display()))?;
    let Digests { diff_id, digest } =
        serde_json::from_slice(&read).with_context(|| format!("reading {}", digests.display()))?;
    Ok(Layer { diff_id, digest, content: Content::File(blob) })
}

fn key(name: &str, recipe: &[&str]) -> String {
    format!("{name}-{}", hash::of_value(&json!([FORMAT, std::env::consts::ARCH, recipe])))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use anyhow::bail;
    use flate2::read::GzDecoder;

    use super::*;

    fn write(bytes: &'static [u8]) -> impl FnOnce(&mut dyn Write) -> Result<()> {
        |out| Ok(out.write_all(bytes)?)
    }

    #[test]
    fn a_layer_is_made_once_and_found_again_with_its_digests() {
        let folder = tempfile::tempdir().unwrap();
        let made = layer_in(folder.path(), "base", &["a"], write(b"content")).unwrap();
        let found = layer_in(folder.path(), "base", &["a"], |_| bail!("it is there")).unwrap();
        assert_eq!((&made.diff_id, &made.digest), (&found.diff_id, &found.digest));
        assert_eq!(made.diff_id, layer::digest(b"content"));
        let mut plain = Vec::new();
        GzDecoder::new(found.content.open().unwrap()).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, b"content");
    }

    #[test]
    fn what_failed_half_way_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let failed = layer_in(folder.path(), "base", &["a"], |out| {
            out.write_all(b"half")?;
            bail!("no network")
        });
        assert!(failed.is_err());
        let made = layer_in(folder.path(), "base", &["a"], write(b"whole")).unwrap();
        assert_eq!(made.diff_id, layer::digest(b"whole"));
    }

    #[test]
    fn another_recipe_is_another_layer() {
        assert_ne!(key("base", &["a", "bc"]), key("base", &["ab", "c"]));
        assert_ne!(key("base", &["a"]), key("base", &["b"]));
    }
}
