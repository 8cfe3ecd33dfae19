//! When the worker said what: its log, kept with the time of each event that
//! names a generation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// What the worker says when an update has reached it.
pub const RECEIVED: &str = "policy received";
/// What it says when an update is in force.
pub const IN_FORCE: &str = "policy in force";

type Events = BTreeMap<u64, Vec<(String, Instant)>>;

/// The worker's events by generation, in their order.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Events>>);

impl Log {
    /// Listens to everything in this process; what is worth a warning is printed.
    ///
    /// # Errors
    /// Somebody else listens already.
    pub fn listen() -> anyhow::Result<Self> {
        let log = Self::default();
        let printed = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_filter(tracing_subscriber::EnvFilter::new("warn,penstockd=error"));
        tracing_subscriber::registry()
            .with(
                Ear(log.clone()).with_filter(tracing_subscriber::filter::filter_fn(|meta| {
                    meta.target().starts_with("penstock_worker") && *meta.level() <= Level::DEBUG
                })),
            )
            .with(printed)
            .try_init()?;
        Ok(log)
    }

    /// The newest generation of which this was said, and when.
    #[must_use]
    pub fn newest(&self, message: &str) -> Option<(u64, Instant)> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events
            .iter()
            .rev()
            .find_map(|(generation, events)| Some((*generation, when(events, message)?)))
    }

    /// Begins anew: another worker counts generations from the start.
    pub fn forget(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// All that was said of a generation.
    #[must_use]
    pub fn of(&self, generation: u64) -> Vec<(String, Instant)> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.get(&generation).cloned().unwrap_or_default()
    }
}

fn when(events: &[(String, Instant)], message: &str) -> Option<Instant> {
    let found = events.iter().find(|(said, _)| said == message);
    found.map(|(_, at)| *at)
}

struct Ear(Log);

impl<S: Subscriber> Layer<S> for Ear {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let at = Instant::now();
        let mut said = Said::default();
        event.record(&mut said);
        if let Some(generation) = said.generation {
            let mut events = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
            let of_it = events.entry(generation).or_default();
            of_it.push((said.message, at));
            // Older ones nobody asks for.
            while events.len() > 64 {
                events.pop_first();
            }
        }
    }
}

#[derive(Default)]
struct Said {
    generation: Option<u64>,
    message: String,
}

impl Visit for Said {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "generation" {
            self.generation = Some(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}
