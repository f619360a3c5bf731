//! What resources tell of what goes wrong: within which time, in which words, and of whom.

use super::*;

/// Waits until a resource that is not Ready says this in a condition, which may take as long as a status may be wrong. `what` has happened, at
/// this moment.
pub async fn told(
    client: &Client,
    resource: (KindInfo, &str),
    condition: &str,
    words: &str,
    what: &str,
    begun: Instant,
) -> Result<()> {
    told_where(client, resource, condition, |said| said.contains(words), what, begun).await
}

/// The same of what is told by words of which there is a choice.
pub async fn told_where(
    client: &Client,
    (kind, name): (KindInfo, &str),
    condition: &str,
    is_said: impl Fn(&str) -> bool,
    what: &str,
    begun: Instant,
) -> Result<()> {
    let is_told = |it: &Resource| !it.is_ready() && is_said(&it.explain(condition));
    let told = resources::until(client, kind, NAMESPACE, name, "honest", 6 * HONEST_WITHIN, is_told).await?;
    let took = begun.elapsed();
    println!("{what}: told after {took:.1?}: {}", told.explain(condition));
    ensure!(took <= HONEST_WITHIN, "{what}: told after {took:.1?}");
    Ok(())
}

/// Whether a pod is named and then, of that pod, this: names of pods have those of daemons in them.
pub fn is_named(said: &str, pod: &str, what: &str) -> bool {
    let of_pod = said.split_once(&format!("pod {pod}: ")).map(|(_, rest)| rest.split("; pod ").next().unwrap_or(rest));
    of_pod.is_some_and(|rest| rest.contains(what))
}

/// The pod of a resource on a node.
pub async fn pod_on(client: &Client, kind: KindInfo, name: &str, node: &str) -> Result<String> {
    let pods = resources::pods(client, kind, NAMESPACE).await?;
    let is_there = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
    let its = pods.iter().filter(is_there).find(|pod| pod.name_any().starts_with(&format!("{name}-")));
    its.map(Pod::name_any).with_context(|| format!("{name} has no pod on {node}"))
}

/// What was not as promised, told together at the end, since a run takes long.
#[derive(Default)]
pub struct Findings(Vec<String>);

impl Findings {
    /// Notes it, if it was not.
    pub fn note(&mut self, what: &str, outcome: Result<()>) {
        if let Err(error) = outcome {
            let found = format!("{what}: {error:#}");
            println!("NOT AS PROMISED: {found}");
            self.0.push(found);
        }
    }

    /// Fails where there was any.
    pub fn none(self) -> Result<()> {
        ensure!(self.0.is_empty(), "{}", self.0.join("\n"));
        Ok(())
    }
}
