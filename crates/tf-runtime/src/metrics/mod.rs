//! Metrics of an operator, as the table [`tf_plan::metrics`] has them. Labels have a small closed set of values, those apart that name a
//! resource; what is told of resources is read when the page is asked for (`resources`).

mod resources;

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use prometheus::{
    Encoder, Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
    process_collector::ProcessCollector,
};
use tf_plan::metrics::{self as table, Metric};

pub use resources::{Answers, Facts, Snapshot};

use self::resources::Resources;
use crate::lock::lock;

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
    in_backoff: IntGauge,
    /// The same by kind.
    retried: Mutex<BTreeMap<&'static str, usize>>,
    /// Whether this process holds the leader lease.
    pub leader: IntGauge,
    /// Single pods restarted.
    pub restarts: IntGauge,
    /// Changes asked of the config API, by outcome: done, changed, refused, failed, unanswered.
    pub registration_calls: IntCounterVec,
    resources: Resources,
    /// Two that ask at once must not see half of what is told of resources.
    page: Mutex<()>,
}

/// Registers metrics of the table.
struct Registering<'a>(&'a Registry);

impl Registering<'_> {
    fn counters(&self, metric: &Metric) -> prometheus::Result<IntCounterVec> {
        let counters = IntCounterVec::new(Opts::new(metric.name, metric.meaning), metric.labels)?;
        self.0.register(Box::new(counters.clone()))?;
        Ok(counters)
    }

    fn gauges(&self, metric: &Metric) -> prometheus::Result<IntGaugeVec> {
        let gauges = IntGaugeVec::new(Opts::new(metric.name, metric.meaning), metric.labels)?;
        self.0.register(Box::new(gauges.clone()))?;
        Ok(gauges)
    }

    fn gauge(&self, metric: &Metric) -> prometheus::Result<IntGauge> {
        let gauge = IntGauge::new(metric.name, metric.meaning)?;
        self.0.register(Box::new(gauge.clone()))?;
        Ok(gauge)
    }

    fn histogram(&self, metric: &Metric, buckets: &[f64]) -> prometheus::Result<Histogram> {
        let options = HistogramOpts::new(metric.name, metric.meaning).buckets(buckets.to_vec());
        let histogram = Histogram::with_opts(options)?;
        self.0.register(Box::new(histogram.clone()))?;
        Ok(histogram)
    }
}

impl Metrics {
    /// Metrics of the operator of this name.
    ///
    /// # Errors
    /// When a name or label is not allowed or used twice.
    pub fn new(operator: &str) -> prometheus::Result<Self> {
        let labels = [(table::OPERATOR_LABEL.to_owned(), operator.to_owned())].into();
        let registry = Registry::new_custom(None, Some(labels))?;
        // Resident memory and processor time of this process.
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let new = Registering(&registry);
        Ok(Self {
            reconciles: new.counters(&table::RECONCILES)?,
            reconcile_seconds: new.histogram(&table::RECONCILE_DURATION, &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0])?,
            objects: new.counters(&table::OBJECTS)?,
            requests: new.counters(&table::API_REQUESTS)?,
            watch_synced: new.gauges(&table::WATCH_SYNCED)?,
            watch_errors: new.counters(&table::WATCH_ERRORS)?,
            undecodable: new.gauges(&table::UNDECODABLE)?,
            in_backoff: new.gauge(&table::IN_BACKOFF)?,
            retried: Mutex::default(),
            leader: new.gauge(&table::LEADER)?,
            restarts: new.gauge(&table::POD_RESTARTS)?,
            registration_calls: new.counters(&table::REGISTRATION_CALLS)?,
            resources: Resources::new(&new)?,
            page: Mutex::default(),
            registry,
        })
    }

    /// Records a finished pass.
    pub fn reconciled(&self, outcome: &str, duration: Duration) {
        self.reconciles.with_label_values(&[outcome]).inc();
        self.reconcile_seconds.observe(duration.as_secs_f64());
    }

    /// Records how many resources of a kind are retried after a failure.
    pub fn retries(&self, kind: &'static str, count: usize) {
        let mut retried = lock(&self.retried);
        retried.insert(kind, count);
        self.in_backoff.set(i64::try_from(retried.values().sum::<usize>()).unwrap_or(i64::MAX));
    }

    /// All metrics in the text format, with what a process that leads knows of its resources, kind by kind. One that does not lead knows nothing
    /// that counts: what it counted before it lost the lease would stay for ever.
    ///
    /// # Errors
    /// When a metric cannot be encoded.
    pub fn page(&self, snapshots: &[Snapshot]) -> prometheus::Result<Vec<u8>> {
        let _one_at_a_time = lock(&self.page);
        self.resources.show(snapshots);
        if snapshots.is_empty() {
            self.in_backoff.set(0);
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use tf_plan::metrics::{self as table, Type};

    use super::{Metrics, Snapshot, resources};

    fn page(metrics: &Metrics, snapshots: &[Snapshot]) -> String {
        String::from_utf8(metrics.page(snapshots).unwrap()).unwrap()
    }

    #[test]
    fn metrics_carry_the_name_of_the_operator() {
        let metrics = Metrics::new("zookeeper-op").unwrap();
        metrics.leader.set(1);
        let text = page(&metrics, &[]);
        assert!(text.contains("tf_leader{operator=\"zookeeper-op\"} 1"), "{text}");
        assert!(text.contains("process_resident_memory_bytes"), "{text}");
    }

    /// With everything counted once: names, types and labels are those of the table, and nothing of the table is missing.
    #[test]
    fn what_is_registered_is_what_the_table_has() {
        let metrics = Metrics::new("zookeeper-op").unwrap();
        metrics.reconciled("planned", std::time::Duration::from_secs(1));
        metrics.objects.with_label_values(&["Pod", "created"]).inc();
        metrics.requests.with_label_values(&["get"]).inc();
        metrics.watch_synced.with_label_values(&["Pod"]).set(1);
        metrics.watch_errors.with_label_values(&["Pod"]).inc();
        metrics.undecodable.with_label_values(&["Pod"]).set(0);
        metrics.registration_calls.with_label_values(&["done"]).inc();
        let text = page(&metrics, &[resources::tests::full()]);

        let mut types = BTreeMap::new();
        let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for line in text.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                types.insert(name, kind);
            } else if let Some((name, rest)) = line.split_once('{') {
                let pairs = rest.split_once('}').unwrap().0.split("\",");
                let found = pairs.map(|pair| pair.split_once('=').unwrap().0);
                labels.entry(name).or_default().extend(found.filter(|label| *label != table::OPERATOR_LABEL));
            }
        }
        let expected = table::OPERATOR.iter().chain(&table::PROCESS);
        assert_eq!(types, expected.clone().map(|metric| (metric.name, metric.kind.into())).collect());
        for metric in expected.filter(|metric| metric.kind != Type::Histogram) {
            assert_eq!(labels[metric.name], metric.labels.iter().copied().collect(), "{}", metric.name);
        }
    }

    #[test]
    fn a_process_that_lost_the_lease_tells_nothing_of_resources_any_more() {
        let metrics = Metrics::new("zookeeper-op").unwrap();
        metrics.retries("Zookeeper", 2);
        let text = page(&metrics, &[resources::tests::full()]);
        assert!(
            text.contains("resource_name=") && text.contains("tf_resources_in_backoff{operator=\"zookeeper-op\"} 2")
        );
        let text = page(&metrics, &[]);
        let told = table::OPERATOR.iter().filter(|metric| metric.told != table::Told::Always);
        for metric in told {
            assert!(!text.contains(&format!("{}{{", metric.name)), "{}: {text}", metric.name);
        }
        assert!(text.contains("tf_resources_in_backoff{operator=\"zookeeper-op\"} 0"), "{text}");
    }
}
