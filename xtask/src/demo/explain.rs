//! Why a cluster is not Ready: which condition of which resource waits for what.

use tf_api::contract::is_telling;
use tf_testing::resources::Resource;

/// A paragraph for each resource that is not Ready.
pub fn explain(found: &[Resource]) -> String {
    let mut paragraphs: Vec<String> =
        found.iter().filter(|resource| !resource.is_ready()).map(|resource| one(resource).join("\n  ")).collect();
    if paragraphs.is_empty() {
        let what = if found.is_empty() { "there is no resource" } else { "every resource that exists is Ready" };
        return what.into();
    }
    paragraphs.insert(0, "what is not Ready, and why:".into());
    paragraphs.join("\n\n")
}

fn one(resource: &Resource) -> Vec<String> {
    let mut lines = vec![format!("{} {}", resource.kind.kind, resource.name)];
    let conditions = &resource.status.conditions;
    if conditions.is_empty() {
        lines.push("no condition is reported; the operator of this kind has not seen it".into());
    } else if resource.status.observed_generation != Some(resource.generation) {
        let seen = resource.status.observed_generation.unwrap_or_default();
        lines.push(format!(
            "its conditions are about generation {seen}, its spec is generation {}",
            resource.generation
        ));
    }
    let telling = conditions.iter().filter(|condition| is_telling(condition));
    lines.extend(telling.map(|condition| resource.explain(&condition.type_)));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tf_api::{KindInfo, kinds};

    use super::*;

    fn resource(kind: KindInfo, name: &str, generation: i64, status: Value) -> Resource {
        let object = json!({
            "apiVersion": "tf.tungsten.io/v1alpha1",
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": "tf", "generation": generation},
            "status": status,
        });
        Resource::new(kind, serde_json::from_value(object).unwrap())
    }

    fn status(generation: i64, conditions: &[(&str, &str, &str, &str)]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status, reason, message)| {
                json!({"type": kind, "status": status, "reason": reason, "message": message,
                       "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation})
            })
            .collect();
        json!({"contract": "v1", "observedGeneration": generation, "conditions": conditions})
    }

    #[test]
    fn each_resource_that_is_not_ready_is_named_with_the_conditions_that_hold_it_back_and_no_other() {
        let found = [
            resource(kinds::ZOOKEEPER, "zk", 1, status(1, &[("Ready", "True", "Succeeded", "3 of 3 members")])),
            resource(
                kinds::RABBITMQ,
                "mq",
                1,
                status(
                    1,
                    &[
                        ("ConfigReady", "True", "Succeeded", "written"),
                        ("Degraded", "False", "Succeeded", "as wanted"),
                        ("InputsReady", "False", "SecretNotFound", "Secret tf/login does not exist; create it"),
                        ("Ready", "False", "SecretNotFound", "Secret tf/login does not exist; create it"),
                        ("Reconciling", "True", "Progressing", "waiting"),
                        ("WorkloadReady", "Unknown", "NotYetReported", "no pods yet"),
                    ],
                ),
            ),
            resource(
                kinds::MANAGER,
                "sdn",
                1,
                status(
                    1,
                    &[
                        ("RabbitmqReady", "False", "SecretNotFound", "mq: Secret tf/login does not exist"),
                        ("Ready", "False", "DependencyNotReady", "1 of 2 is Ready"),
                        ("WebuiReady", "Unknown", "NotRequested", "not listed"),
                    ],
                ),
            ),
        ];
        assert_eq!(
            explain(&found),
            "what is not Ready, and why:

Rabbitmq mq
  InputsReady=False SecretNotFound: Secret tf/login does not exist; create it
  Ready=False SecretNotFound: Secret tf/login does not exist; create it
  Reconciling=True Progressing: waiting
  WorkloadReady=Unknown NotYetReported: no pods yet

Manager sdn
  RabbitmqReady=False SecretNotFound: mq: Secret tf/login does not exist
  Ready=False DependencyNotReady: 1 of 2 is Ready"
        );
    }

    #[test]
    fn a_resource_nobody_has_looked_at_and_one_whose_conditions_are_old_are_said_to_be_so() {
        let found = [
            resource(kinds::CASSANDRA, "db", 1, Value::Null),
            resource(kinds::CONFIG, "api", 4, status(3, &[("Ready", "True", "Succeeded", "3 of 3 members")])),
        ];
        assert_eq!(
            explain(&found),
            "what is not Ready, and why:

Cassandra db
  no condition is reported; the operator of this kind has not seen it

Config api
  its conditions are about generation 3, its spec is generation 4"
        );
    }

    #[test]
    fn there_is_nothing_to_explain_when_everything_is_ready() {
        let ready = resource(kinds::CONFIG, "api", 2, status(2, &[("Ready", "True", "Succeeded", "3 of 3 members")]));
        assert_eq!(explain(&[ready]), "every resource that exists is Ready");
        assert_eq!(explain(&[]), "there is no resource");
    }
}
