//! `delete`: all of some names, or none.

use penstock_api::v1;
use serde_json::json;

use crate::args::Format;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

pub(super) async fn run(
    session: &Session,
    names: Vec<String>,
    allow_missing: bool,
    format: Format,
) -> Result<(), Failure> {
    let request = v1::DeleteRequest {
        names,
        allow_missing,
        etag: String::new(),
    };
    let mut resources = session.client.resources.clone();
    let v1::DeleteResponse { revision, deleted } = session
        .call(request, |r| async move { resources.delete(r).await })
        .await?;
    output::one(
        format,
        || Ok(json!({ "revision": revision, "deleted": deleted })),
        || Ok(format!("{deleted} resources deleted, revision {revision}")),
    )
}
