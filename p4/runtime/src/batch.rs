//! Outcomes of a batch of updates: one status on the wire, one answer each here.

use prost::Message;
use thiserror::Error;
use tonic::{Code, Status};

use crate::v1;

/// Updates in one batch, at most. The answer carries an error for each of them
/// in its headers, and bmv2 fails above about 100.
pub const MAX_UPDATES: usize = 100;

const TYPE_URL: &str = "type.googleapis.com/p4.v1.Error";

/// Why one update was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{code:?}: {message}")]
pub struct Refusal {
    /// Never `Ok`.
    pub code: Code,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }
}

impl From<crate::DecodeError> for Refusal {
    fn from(error: crate::DecodeError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// What became of a batch.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Told for each update, in order.
    Each(Vec<Result<(), Refusal>>),
    /// Told for the batch only: nothing is known about single updates. They may
    /// have been applied, for instance when the details were too long to send.
    Whole(Status),
}

/// What a server answers.
///
/// # Errors
///
/// UNKNOWN with details as soon as one update was refused.
pub fn answer(outcomes: &[Result<(), Refusal>]) -> Result<(), Status> {
    let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    if refused == 0 {
        return Ok(());
    }
    let details = outcomes
        .iter()
        .map(|outcome| {
            let (code, message) = match outcome {
                Ok(()) => (Code::Ok, String::new()),
                Err(refusal) => (refusal.code, refusal.message.clone()),
            };
            prost_types::Any {
                type_url: TYPE_URL.to_owned(),
                value: v1::Error {
                    canonical_code: code.into(),
                    message,
                    space: "penstock".to_owned(),
                    ..Default::default()
                }
                .encode_to_vec(),
            }
        })
        .collect();
    let message = format!("{refused} of {} updates were refused", outcomes.len());
    let status = tonic_types::Status {
        code: Code::Unknown.into(),
        message: message.clone(),
        details,
    };
    Err(Status::with_details(
        Code::Unknown,
        message,
        status.encode_to_vec().into(),
    ))
}

/// What a client learns from a failed batch of `updates` updates.
#[must_use]
pub fn outcome(status: Status, updates: usize) -> Outcome {
    match each(&status) {
        Some(each) if each.len() == updates && each.iter().any(Result::is_err) => {
            Outcome::Each(each)
        }
        _ => Outcome::Whole(status),
    }
}

fn each(status: &Status) -> Option<Vec<Result<(), Refusal>>> {
    let details = tonic_types::Status::decode(status.details()).ok()?.details;
    details
        .into_iter()
        .map(|detail| {
            let (_, name) = detail.type_url.rsplit_once('/')?;
            if name != "p4.v1.Error" {
                return None;
            }
            let error = v1::Error::decode(detail.value.as_slice()).ok()?;
            Some(match Code::from_i32(error.canonical_code) {
                Code::Ok => Ok(()),
                code => Err(Refusal::new(code, error.message)),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_update_keeps_its_outcome() {
        let mut outcomes = vec![Ok(()); MAX_UPDATES];
        outcomes[57] = Err(Refusal::new(Code::InvalidArgument, "acl: dport: too wide"));
        let status = answer(&outcomes).unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        let Outcome::Each(back) = outcome(status, MAX_UPDATES) else {
            panic!("details were lost");
        };
        assert_eq!(back, outcomes);
    }

    #[test]
    fn a_batch_without_refusal_is_ok() {
        assert!(answer(&[]).is_ok());
        assert!(answer(&[Ok(()), Ok(())]).is_ok());
    }

    #[test]
    fn what_does_not_add_up_speaks_for_the_batch() {
        let status = answer(&[Err(Refusal::new(Code::AlreadyExists, "")), Ok(())]).unwrap_err();
        let others = [
            (status.clone(), 3),
            (Status::permission_denied("not primary"), 2),
            (
                Status::with_details(Code::Unknown, "", vec![0xff; 3].into()),
                2,
            ),
        ];
        for (status, updates) in others {
            let code = status.code();
            assert!(
                matches!(outcome(status, updates), Outcome::Whole(whole) if whole.code() == code)
            );
        }
    }
}
