//! `wait`: until everything is programmed, or time is up.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_api::v1;
use tokio::time::Instant;

use super::status;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

/// How often to look. State is read whole each time, so nothing is missed.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(
    session: &Session,
    names: Vec<String>,
    timeout: Duration,
) -> Result<(), Failure> {
    let deadline = Instant::now() + timeout;
    let mut pause = FIRST_PAUSE;
    loop {
        let (total, pending) = match tokio::time::timeout_at(deadline, look(session, &names)).await
        {
            Ok(looked) => looked?,
            Err(_) => {
                let total = names.len();
                return Err(Failure::Pending {
                    pending: total,
                    total,
                    timeout,
                });
            }
        };
        if pending.is_empty() {
            return output::print(&format!("{total} resources programmed"));
        }
        if Instant::now() + pause >= deadline {
            let rows = pending
                .iter()
                .map(|(name, why)| [name.clone(), why.clone()]);
            eprint!("{}", output::table(["PENDING", "WHY"], rows));
            return Err(Failure::Pending {
                pending: pending.len(),
                total,
                timeout,
            });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// How many there are, and what is not programmed, and why.
async fn look(
    session: &Session,
    names: &[String],
) -> Result<(usize, BTreeMap<String, String>), Failure> {
    let all = session.list("", None).await?;
    let mut found: BTreeMap<&str, &v1::Resource> =
        all.iter().map(|r| (r.name.as_str(), r)).collect();
    let mut pending = BTreeMap::new();
    if !names.is_empty() {
        for name in names
            .iter()
            .filter(|name| !found.contains_key(name.as_str()))
        {
            pending.insert(name.clone(), "does not exist".to_owned());
        }
        found.retain(|name, _| names.iter().any(|wanted| wanted == name));
    }
    let total = found.len() + pending.len();
    for (name, resource) in found {
        if !status::programmed(resource) {
            pending.insert(name.to_owned(), status::reason(resource));
        }
    }
    Ok((total, pending))
}
