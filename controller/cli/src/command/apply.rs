//! `apply`: all of some documents, or nothing.

use penstock_api::{convert, v1};
use penstock_policies::document::Documents;
use penstock_policies::{Diagnostic, Position};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::args::Format;
use crate::failure::Failure;
use crate::message::Messages;
use crate::output;
use crate::session::Session;

mod dry;

pub(super) async fn run(
    session: &Session,
    documents: Documents,
    dry_run: bool,
    format: Format,
) -> Result<(), Failure> {
    let request = v1::ApplyRequest {
        resources: documents
            .resources
            .iter()
            .map(convert::from_document)
            .collect(),
        validate_only: dry_run,
        request_id: String::new(),
    };
    let count = request.resources.len();
    let mut resources = session.client.resources.clone();
    let answer = session
        .call(request, |r| async move { resources.apply(r).await })
        .await;
    let answer = match answer {
        Err(Failure::Server(status)) if status.code() == Code::InvalidArgument => {
            return refused(&documents, status, format);
        }
        answer => answer?,
    };
    let v1::ApplyResponse {
        revision,
        resources,
        changed,
    } = answer;
    if dry_run {
        let outlook = dry::outlook(session, documents, format).await?;
        return output::one(
            format,
            || {
                let mut value = outlook.value();
                value["resources"] = count.into();
                value["changed"] = changed.into();
                Ok(value)
            },
            || {
                let told = outlook.text();
                Ok(format!(
                    "{count} resources are valid, {changed} would change; nothing was stored\n{told}"
                ))
            },
        );
    }
    let messages = Messages::new()?;
    output::many(
        format,
        || resources.iter().map(|r| messages.resource(r)).collect(),
        || {
            Ok(format!(
                "{count} resources accepted, {changed} changed, revision {revision}"
            ))
        },
    )
}

/// The server's problems, at their lines.
fn refused(documents: &Documents, status: Status, format: Format) -> Result<(), Failure> {
    let Some(bad) = status.get_details_bad_request() else {
        return Err(Failure::Server(status));
    };
    if bad.field_violations.is_empty() {
        return Err(Failure::Server(status));
    }
    let mut all: Vec<Diagnostic> = bad
        .field_violations
        .iter()
        .map(|violation| locate(documents, &violation.field, &violation.description))
        .collect();
    all.sort_by(|a, b| (&a.file, a.at).cmp(&(&b.file, b.at)));
    output::problems(format, &all)?;
    Err(Failure::Problems(all.len()))
}

fn locate(documents: &Documents, field: &str, description: &str) -> Diagnostic {
    // The server tells what is wrong and what to do in one sentence.
    let (message, suggestion) = description
        .split_once("; ")
        .unwrap_or((description, "correct it"));
    let place = convert::parse_violation_field(field).and_then(|(index, field)| {
        Some((
            documents.places.get(index)?,
            documents.resources.get(index)?,
            field,
        ))
    });
    let told = |file: &str, at, name: &str, field: &str| Diagnostic {
        file: file.into(),
        at,
        name: name.to_owned(),
        field: field.to_owned(),
        message: message.to_owned(),
        suggestion: suggestion.to_owned(),
    };
    match place {
        Some((place, resource, field)) => {
            told(place.file(), place.find(field), &resource.name, field)
        }
        // About what is stored already, or about the request as a whole.
        None => told("server", Position::default(), "", field),
    }
}
