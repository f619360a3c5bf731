//! Changes one after the other in one cluster, as over a year: each begins where the one before has ended.

use super::named::Findings;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn every_change_goes_through_one_after_the_other_in_one_cluster() -> Result<()> {
    Long::Together.run(story).await
}

async fn story(lab: &Lab, client: &Client) -> Result<()> {
    let mut findings = Findings::default();
    findings.note("authority", changes::authority(lab, client).await);
    findings.note("settings", settings::story(lab, client).await);
    findings.note("images", images::story(lab, client).await);
    findings.note("a node that is lost for a while", nodes::lost_for_a_while(lab, client).await);
    findings.note("a node that is lost for good", nodes::story(lab, client).await);
    findings.note("credentials", changes::credentials(lab, client).await);
    findings.none()
}
