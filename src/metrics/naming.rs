//! How metrics are made: with this program's prefix, and entered in the registry at once.
//!
//! Making one fails on a name that is malformed or taken. Names are written in [`super`] and never come from outside,
//! so that is a fault of the source, and every test that makes a [`super::Metrics`] would find it.

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::Collector,
};

/// Makes metrics of this program's prefix and enters them in the registry.
pub(super) struct Naming {
    pub(super) registry: Registry,
    /// The names of all families: the registry shows those alone that have a child.
    #[cfg(test)]
    pub(super) names: std::cell::RefCell<Vec<String>>,
}

impl Naming {
    pub(super) fn new() -> Naming {
        Naming {
            registry: Registry::new(),
            #[cfg(test)]
            names: Default::default(),
        }
    }

    /// Enters what was made; called directly for a metric without the prefix.
    pub(super) fn enter<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let made = made.expect("the names in this module are valid, which a test shows");
        #[cfg(test)]
        self.names.borrow_mut().extend(made.desc().iter().map(|desc| desc.fq_name.clone()));
        self.registry.register(Box::new(made.clone())).expect("the names in this module differ, which a test shows");
        made
    }

    fn opts(name: &str, help: &str) -> Opts {
        Opts::new(format!("daytable_{name}"), help)
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.enter(IntCounter::with_opts(Naming::opts(name, help)))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.enter(IntCounterVec::new(Naming::opts(name, help), labels))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.enter(IntGauge::with_opts(Naming::opts(name, help)))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.enter(IntGaugeVec::new(Naming::opts(name, help), labels))
    }

    pub(super) fn float(&self, name: &str, help: &str) -> Gauge {
        self.enter(Gauge::with_opts(Naming::opts(name, help)))
    }

    pub(super) fn floats(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.enter(GaugeVec::new(Naming::opts(name, help), labels))
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: Vec<f64>) -> Histogram {
        let opts = HistogramOpts { common_opts: Naming::opts(name, help), buckets };
        self.enter(Histogram::with_opts(opts))
    }
}

/// `count` bucket bounds, each `factor` times the one before.
pub(super) fn powers(first: f64, factor: f64, count: i32) -> Vec<f64> {
    (0..count).map(|n| first * factor.powi(n)).collect()
}
