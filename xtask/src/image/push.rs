//! Images in a registry, without a container engine: what `docker push` does, from the tars that were written.

use std::{collections::HashMap, fs::File, io::Read as _, path::Path};

use anyhow::{Context as _, Result, bail};
use docker_credential::DockerCredential;
use oci_client::{
    Reference, RegistryOperation,
    client::{Client, ClientConfig, ClientProtocol},
    errors::OciDistributionError,
    secrets::RegistryAuth,
};
use oci_spec::image::{ImageManifest, MediaType};
use tar::Archive;

use super::{Built, archive};

/// Pushes each image to `registry` under its own repository and tag: `tungstenfabric/tf-node:1` becomes `REGISTRY/tungstenfabric/tf-node:1`. Logs in as
/// `docker login` or `podman login` noted it for that registry, else as nobody.
///
/// # Errors
/// When the registry cannot be reached, or does not take an image.
pub fn push(images: &[Built], registry: &str, plain_http: bool) -> Result<()> {
    // Fails where another one is installed already, which does as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let protocol = if plain_http { ClientProtocol::Http } else { ClientProtocol::Https };
    let client = Client::new(ClientConfig { protocol, ..ClientConfig::default() });
    let login = login(registry)?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        for image in images {
            let reference = format!("{registry}/{}", image.reference);
            one(&client, &login, image, &reference).await.with_context(|| format!("pushing {reference}"))?;
            println!("pushed {reference}@{}", image.digest);
        }
        Ok(())
    })
}

async fn one(client: &Client, login: &RegistryAuth, image: &Built, reference: &str) -> Result<()> {
    let reference: Reference = reference.parse()?;
    let mut files = files(&image.path)?;
    let mut take =
        |digest: &str| files.remove(&archive::blob(digest)).with_context(|| format!("the tar has no {digest}"));
    let manifest = take(&image.digest)?;
    let parsed = ImageManifest::from_reader(manifest.as_slice())?;
    client.auth(&reference, login, RegistryOperation::Push).await?;
    for part in parsed.layers().iter().chain([parsed.config()]) {
        let digest = part.digest().to_string();
        if !client.blob_exists(&reference, &digest).await.unwrap_or_default() {
            match client.push_blob(&reference, take(&digest)?, &digest).await {
                // Some registries do not say where they have put it (go-containerregistry).
                Err(OciDistributionError::RegistryNoLocationError)
                    if client.blob_exists(&reference, &digest).await? => {}
                outcome => drop(outcome?),
            }
        }
    }
    client.push_manifest_raw(&reference, manifest, MediaType::ImageManifest.to_string().parse()?).await?;
    Ok(())
}

/// The files of a tar by their names.
fn files(path: &Path) -> Result<HashMap<String, Vec<u8>>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut found = HashMap::new();
    for entry in Archive::new(file).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        found.insert(name, content);
    }
    Ok(found)
}

fn login(registry: &str) -> Result<RegistryAuth> {
    // Where there is no file, or nothing about this registry in it, the other one may have it.
    let found =
        docker_credential::get_credential(registry).or_else(|_| docker_credential::get_podman_credential(registry));
    match found {
        Ok(DockerCredential::UsernamePassword(user, password)) => Ok(RegistryAuth::Basic(user, password)),
        Ok(DockerCredential::IdentityToken(_)) => {
            bail!("the login for {registry} is an identity token; log in with user and password")
        }
        Err(_) => Ok(RegistryAuth::Anonymous),
    }
}
