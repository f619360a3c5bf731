//! An issuer of cert-manager takes over from the operators' own authority while a real ensemble serves over TLS, signs another one, and is
//! not wanted any more in the end. Who is outside trusts the issuer's root and nothing else.

use std::sync::Arc;

use anyhow::ensure;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tf_api::names::AUTHORITY;
use tf_testing::cert_manager;

use super::tls::{Before, ELECTION_PORT, ROTATION, TLS_PORT, connect, is_rotating, spec, trusting_these};
use super::*;
use crate::tls::own_certificate;

/// What each server shows to somebody who trusts this alone; an error where that is not enough.
async fn shown(trusts: &Arc<ClientConfig>, addresses: &[IpAddr]) -> Result<Vec<CertificateDer<'static>>> {
    let mut all = Vec::new();
    for address in addresses {
        all.push(own_certificate(&connect(trusts, *address, TLS_PORT).await?)?);
    }
    Ok(all)
}

/// Nothing is being replaced.
async fn settled(client: &Client) -> Result<()> {
    let is_settled = |zookeeper: &Resource| {
        zookeeper.is_ready() && zookeeper.is("CertificatesReady", "True") && !is_rotating(zookeeper)
    };
    resources::until(client, ZOOKEEPER, NAMESPACE, NAME, "one authority", ROTATION, is_settled).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_takes_over_renews_and_is_left_while_servers_and_clients_use_tls_and_nobody_is_interrupted()
-> Result<()> {
    if !Long::Issuer.is_drawn()? {
        return Ok(());
    }
    with_lab(3, async |lab, client| {
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec(true)).await?;
        certified(client).await?;
        let addresses = lab.real_nodes()?.addresses()?;
        let _running = cert_manager::start(lab).await?;
        let root = cert_manager::cluster_issuer(lab, "corp").await?;
        let root = vec![CertificateDer::from_pem_slice(root.as_bytes())?];
        let outside = Arc::new(trusting_these(root)?.with_no_client_auth());
        ensure!(shown(&outside, &addresses).await.is_err(), "trusted before");
        let before = Before::look(client, &addresses).await?;

        let mut signed = spec(true);
        signed["commonConfiguration"] = json!({"certificates": {"issuer": "ClusterIssuer/corp"}});
        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, signed).await?;
        let first = eventually("certificates that lead to the root", ROTATION, async || {
            Ok(shown(&outside, &addresses).await.ok())
        })
        .await?;
        settled(client).await?;
        for address in &addresses {
            connect(&outside, *address, ELECTION_PORT).await?;
        }

        cert_manager::renew(client, NAMESPACE, AUTHORITY).await?;
        eventually("certificates of another authority below the root", ROTATION, async || {
            let now = shown(&outside, &addresses).await?;
            Ok(now.iter().zip(&first).all(|(now, before)| now != before).then_some(()))
        })
        .await?;
        settled(client).await?;

        resources::apply(client, ZOOKEEPER, NAMESPACE, NAME, spec(true)).await?;
        eventually("certificates of the operators' own authority", ROTATION, async || {
            Ok(shown(&outside, &addresses).await.is_err().then_some(()))
        })
        .await?;
        settled(client).await?;
        before.still_runs(client).await?;
        let pause = before.end().await?;
        // Nobody is restarted, so nobody waits longer than for a slow machine.
        ensure!(pause < Duration::from_secs(5), "{pause:?}");
        Ok(())
    })
    .await
}
