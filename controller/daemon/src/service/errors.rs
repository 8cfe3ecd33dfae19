//! The one place where errors become gRPC statuses.

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, StatusExt};

use crate::registry::{Error, Violation};
use crate::store;

/// Details travel in HTTP/2 trailers. gRPC's C core, and so Python's, turns some
/// answers with more than 8 KiB of them into errors of its own, by chance. All
/// must fit: the details, which hold the message again and grow by a third on the
/// way, and the message, where a byte may become three.
const DETAILS_LIMIT: usize = 3900;
const MESSAGE_LIMIT: usize = 512;

pub(super) fn status(error: &Error) -> Status {
    let message = shortened(error.to_string(), MESSAGE_LIMIT);
    match error {
        Error::Invalid(violations) => invalid(message, violations),
        Error::Etag { .. } => Status::aborted(message),
        Error::NotFound(_) => Status::not_found(message),
        Error::Referred(references) => {
            let violations = fitting(references.iter().map(|reference| {
                PreconditionViolation::new(
                    "REFERENCE",
                    shortened(reference.from.clone(), 300),
                    shortened(reference.description.clone(), 1000),
                )
            }));
            let details = ErrorDetails::with_precondition_failure(violations);
            Status::with_error_details(Code::FailedPrecondition, message, details)
        }
        Error::NoIds(_) => Status::resource_exhausted(message),
        Error::Store(store::Error::Conflict { .. }) => Status::unavailable(message),
        Error::Store(_) | Error::Random(_) => {
            tracing::error!(error = message, "a request failed");
            Status::internal(message)
        }
    }
}

/// A name as a client sent it, fit for a message.
pub(super) fn quoted(name: &str) -> String {
    format!("{:?}", shortened(name.to_owned(), 200))
}

/// One problem of a request.
pub(super) fn invalid_field(field: &str, description: impl Into<String>) -> Status {
    let violation = Violation {
        field: field.to_owned(),
        description: description.into(),
    };
    let message = format!("{}: {}", violation.field, violation.description);
    invalid(shortened(message, MESSAGE_LIMIT), &[violation])
}

fn invalid(message: String, violations: &[Violation]) -> Status {
    let mut shown = fitting(violations.iter().map(|violation| {
        FieldViolation::new(
            shortened(violation.field.clone(), 300),
            shortened(violation.description.clone(), 1000),
        )
    }));
    let hidden = violations.len() - shown.len();
    if hidden > 0 {
        shown.push(FieldViolation::new(
            "",
            format!("and {hidden} more; correct these first"),
        ));
    }
    let details = ErrorDetails::with_bad_request(shown);
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// Something whose size on the wire can be guessed.
trait Weight {
    fn size(&self) -> usize;
}

impl Weight for FieldViolation {
    fn size(&self) -> usize {
        self.field.len() + self.description.len() + 8
    }
}

impl Weight for PreconditionViolation {
    fn size(&self) -> usize {
        self.subject.len() + self.description.len() + 24
    }
}

fn fitting<T: Weight>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut size = 0;
    all.take_while(|item| {
        size += item.size();
        size <= DETAILS_LIMIT
    })
    .collect()
}

fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}
