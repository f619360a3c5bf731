//! Metrics of an operator. Names are stable; every label has a small closed set of values.

use std::time::Duration;

use prometheus::{
    Encoder, Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
    process_collector::ProcessCollector,
};

/// All metrics, in a registry of their own.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Passes by outcome: planned, waiting, invalid, failed, deleting.
    pub reconciles: IntCounterVec,
    /// Duration of passes in seconds.
    pub reconcile_seconds: Histogram,
    /// Objects applied, by kind and by what happened: created, changed, unchanged, deleted.
    pub objects: IntCounterVec,
    /// Requests to the API server by verb.
    pub requests: IntCounterVec,
    /// Whether the watch of a kind is synchronised.
    pub watch_synced: IntGaugeVec,
    /// Errors of watches by kind.
    pub watch_errors: IntCounterVec,
    /// Stored objects that do not parse, by kind.
    pub undecodable: IntGaugeVec,
    /// Resources that are retried after a failure.
    pub in_backoff: IntGauge,
    /// Whether this process holds the leader lease.
    pub leader: IntGauge,
    /// Resources by value of condition Ready.
    pub resources: IntGaugeVec,
    /// Single pods restarted.
    pub restarts: IntGauge,
    /// Agents of members by whether they answer: answering, silent, unheard.
    pub agents: IntGaugeVec,
    /// When the first certificate of a member ends, in seconds since 1970. Absent while there is none, so that nobody
    /// is told of one that ended in 1970.
    certificate_expiry: IntGaugeVec,
}

impl Metrics {
    /// Metrics of the operator of this name.
    ///
    /// # Errors
    /// When a name or label is not allowed or used twice.
    pub fn new(operator: &str) -> prometheus::Result<Self> {
        let labels = [("operator".to_owned(), operator.to_owned())].into();
        let registry = Registry::new_custom(None, Some(labels))?;
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            prometheus::Result::Ok(metric)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            prometheus::Result::Ok(metric)
        };
        let gauge = |name: &str, help: &str| {
            let metric = IntGauge::new(name, help)?;
            registry.register(Box::new(metric.clone()))?;
            prometheus::Result::Ok(metric)
        };
        let reconcile_seconds = Histogram::with_opts(
            HistogramOpts::new("tf_reconcile_duration_seconds", "Duration of reconcile passes")
                .buckets(vec![0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0]),
        )?;
        registry.register(Box::new(reconcile_seconds.clone()))?;
        // Resident memory and processor time of this process.
        registry.register(Box::new(ProcessCollector::for_self()))?;
        Ok(Self {
            reconciles: counters("tf_reconcile_total", "Reconcile passes by outcome", &["outcome"])?,
            reconcile_seconds,
            objects: counters("tf_objects_total", "Objects by kind and what was done to them", &["kind", "action"])?,
            requests: counters("tf_api_requests_total", "Requests to the API server by verb", &["verb"])?,
            watch_synced: gauges("tf_watch_synced", "Whether the watch of a kind is synchronised", &["kind"])?,
            watch_errors: counters("tf_watch_errors_total", "Errors of watches by kind", &["kind"])?,
            undecodable: gauges("tf_undecodable_objects", "Stored objects that do not parse, by kind", &["kind"])?,
            in_backoff: gauge("tf_resources_in_backoff", "Resources that are retried after a failure")?,
            leader: gauge("tf_leader", "Whether this process holds the leader lease")?,
            resources: gauges("tf_resources", "Resources by value of condition Ready", &["ready"])?,
            restarts: gauge("tf_pod_restarts", "Pods restarted since this process began")?,
            agents: gauges("tf_agents", "Agents of members by whether they answer", &["state"])?,
            certificate_expiry: gauges(
                "tf_certificate_expiry_timestamp_seconds",
                "When the first certificate of a member ends",
                &[],
            )?,
            registry,
        })
    }

    /// Records a finished pass.
    pub fn reconciled(&self, outcome: &str, duration: Duration) {
        self.reconciles.with_label_values(&[outcome]).inc();
        self.reconcile_seconds.observe(duration.as_secs_f64());
    }

    /// Shows when the first certificate of a member ends, in seconds since 1970; nothing where there is none.
    pub fn certificate_ends(&self, second: Option<i64>) {
        match second {
            Some(second) => self.certificate_expiry.with_label_values::<&str>(&[]).set(second),
            None => self.certificate_expiry.reset(),
        }
    }

    /// All metrics in the text format.
    ///
    /// # Errors
    /// When a metric cannot be encoded.
    pub fn encode(&self) -> prometheus::Result<Vec<u8>> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    fn metrics_carry_the_name_of_the_operator() {
        let metrics = Metrics::new("zookeeper-op").unwrap();
        metrics.leader.set(1);
        let text = String::from_utf8(metrics.encode().unwrap()).unwrap();
        assert!(text.contains("tf_leader{operator=\"zookeeper-op\"} 1"), "{text}");
        assert!(text.contains("process_resident_memory_bytes"), "{text}");
    }

    #[test]
    fn the_end_of_a_certificate_is_shown_only_while_there_is_one() {
        let metrics = Metrics::new("zookeeper-op").unwrap();
        let shown = || String::from_utf8(metrics.encode().unwrap()).unwrap().contains("tf_certificate_expiry");
        assert!(!shown());
        metrics.certificate_ends(Some(1_900_000_000));
        assert!(shown());
        metrics.certificate_ends(None);
        assert!(!shown());
    }
}
