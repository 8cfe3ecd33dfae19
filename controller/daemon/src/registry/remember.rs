//! Answers to recent requests, for clients that ask again.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use penstock_api::v1;
use prost::Message;

use super::Applied;

/// Requests that are remembered.
const MOST: usize = 1024;
/// Resources in all answers together; the oldest answers go first.
const MOST_RESOURCES: usize = 1_000_000;

/// The last requests that carried an id.
#[derive(Debug, Default)]
pub(super) struct Requests {
    answers: HashMap<String, (u64, Applied)>,
    order: VecDeque<String>,
    resources: usize,
    seed: RandomState,
}

/// What is known of an id.
#[derive(Debug)]
pub(super) enum Known {
    /// Never seen, or forgotten.
    No,
    /// Seen with another content.
    Different,
    /// The first answer.
    Answer(Applied),
}

impl Requests {
    /// A number that tells contents apart.
    pub(super) fn fingerprint(&self, request: &v1::ApplyRequest) -> u64 {
        let mut hasher = self.seed.build_hasher();
        request.validate_only.hash(&mut hasher);
        for resource in &request.resources {
            resource.encode_to_vec().hash(&mut hasher);
        }
        hasher.finish()
    }

    pub(super) fn find(&self, id: &str, fingerprint: u64) -> Known {
        match self.answers.get(id) {
            None => Known::No,
            Some((seen, answer)) if *seen == fingerprint => Known::Answer(answer.clone()),
            Some(_) => Known::Different,
        }
    }

    pub(super) fn keep(&mut self, id: &str, fingerprint: u64, answer: Applied) {
        self.resources += answer.rows.len();
        self.answers.insert(id.to_owned(), (fingerprint, answer));
        self.order.push_back(id.to_owned());
        while self.order.len() > MOST || (self.resources > MOST_RESOURCES && self.order.len() > 1) {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            if let Some((_, answer)) = self.answers.remove(&oldest) {
                self.resources -= answer.rows.len();
            }
        }
    }
}
