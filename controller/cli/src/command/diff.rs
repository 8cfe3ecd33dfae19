//! `diff`: who may talk to whom after documents are applied, and before.

use std::collections::BTreeMap;
use std::process::ExitCode;

use penstock_api::v1;
use penstock_policies::diff::{Comparison, Difference, Live};
use penstock_policies::document::Documents;
use penstock_policies::explain::Direction;
use penstock_policies::model::{Model, PortName, VpcName};

use crate::args::{Diff, Format, Global};
use crate::failure::Failure;
use crate::message::document_of;
use crate::output;
use crate::session::Session;

mod text;
mod value;

/// Exit code where something changes.
const CHANGES: u8 = 1;
/// Exit code where that cannot be said.
pub(super) const UNKNOWN: u8 = 2;

/// Connections that workers hold now.
struct Flows {
    /// Those that were looked at.
    seen: usize,
    /// Those of them that the later documents cut.
    cut: usize,
    /// A node has more than it tells, or has not answered.
    more: bool,
}

/// What is printed.
struct Report {
    difference: Difference,
    flows: Option<Flows>,
    /// Changes, and names in a group, that are printed at most.
    most: usize,
}

pub(super) async fn run(global: &Global, args: &Diff) -> Result<ExitCode, Failure> {
    let format = global.output;
    if args.against.is_empty() {
        online(&Session::open(global).await?, args, format).await
    } else {
        offline(args, format)
    }
}

fn offline(args: &Diff, format: Format) -> Result<ExitCode, Failure> {
    let before = model(&super::load(&args.against)?, format)?;
    let after = model(&super::load(&args.files)?, format)?;
    let (_, difference) = compare(args, &before, &after)?;
    report(args, difference, None, format)
}

async fn online(session: &Session, args: &Diff, format: Format) -> Result<ExitCode, Failure> {
    let wanted = super::load(&args.files)?;
    if !wanted.problems.is_empty() {
        model(&wanted, format)?;
    }
    let stored = documents(&session.list("", None).await?)?;
    let before = model(&stored, format)?;
    let after = model(&merged(stored, wanted), format)?;
    let (comparison, difference) = compare(args, &before, &after)?;
    let flows = flows(session, &comparison).await?;
    report(args, difference, Some(flows), format)
}

/// What the server has, as documents.
pub(super) fn documents(resources: &[v1::Resource]) -> Result<Documents, Failure> {
    let mut documents = Documents::default();
    for resource in resources {
        documents.resources.push(document_of(resource)?);
    }
    Ok(documents)
}

/// What the server would have after `documents` are applied.
pub(super) fn merged(stored: Documents, documents: Documents) -> Documents {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    let mut merged = documents;
    for (i, resource) in merged.resources.iter().enumerate() {
        all.insert(resource.name.clone(), i);
    }
    let kept = stored.resources.into_iter();
    let kept = kept.filter(|resource| !all.contains_key(&resource.name));
    merged.resources.extend(kept);
    merged
}

pub(super) fn model(documents: &Documents, format: Format) -> Result<Model, Failure> {
    documents.validate().map_err(|all| {
        if all.is_empty() {
            // It is about what the server has, which has no line.
            let problem = "the documents contradict what the server has; \
                           `penstock apply --dry-run` tells where";
            return Failure::Usage(problem.to_owned());
        }
        match output::problems(format, &all) {
            Ok(()) => Failure::NotComparable(all.len()),
            Err(failure) => failure,
        }
    })
}

fn compare(
    args: &Diff,
    before: &Model,
    after: &Model,
) -> Result<(Comparison, Difference), Failure> {
    let vpc: Option<VpcName> = match &args.vpc {
        Some(text) => Some(super::vpc_name("--vpc", text)?),
        None => None,
    };
    if let Some(vpc) = &vpc
        && ![before, after]
            .iter()
            .any(|model| model.vpcs.contains_key(vpc))
    {
        return Err(Failure::Usage(format!(
            "--vpc: {vpc} is on neither side; name one that is declared"
        )));
    }
    let comparison = Comparison::new(before, after).map_err(|e| Failure::Usage(e.to_string()))?;
    let difference = comparison
        .difference(vpc.as_ref(), args.limit)
        .map_err(|e| Failure::Usage(e.to_string()))?;
    Ok((comparison, difference))
}

async fn flows(session: &Session, comparison: &Comparison) -> Result<Flows, Failure> {
    let mut flows = Flows {
        seen: 0,
        cut: 0,
        more: false,
    };
    let request = v1::ListFlowsRequest::default();
    let mut diagnostics = session.client.diagnostics.clone();
    let mut stream = session
        .call(request, |r| async move { diagnostics.list_flows(r).await })
        .await?;
    let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        match session.next(&mut stream).await {
            Ok(Some(flow)) => {
                flows.seen += 1;
                flows.cut += usize::from(is_cut(comparison, &flow));
                let of_node = per_node.entry(flow.node).or_default();
                *of_node += 1;
                flows.more |= *of_node >= MOST_FLOWS;
            }
            Ok(None) => return Ok(flows),
            // The comparison stands, whoever does not answer.
            Err(Failure::Server(_)) => {
                flows.more = true;
                return Ok(flows);
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// What a node tells at most.
const MOST_FLOWS: usize = 10_000;

fn is_cut(comparison: &Comparison, flow: &v1::Flow) -> bool {
    let direction = match flow.direction() {
        v1::Direction::Egress => Direction::Egress,
        v1::Direction::Ingress | v1::Direction::Unspecified => Direction::Ingress,
    };
    let peer = match direction {
        Direction::Ingress => &flow.source_ip,
        Direction::Egress => &flow.destination_ip,
    };
    let parts = (
        PortName::parse(&flow.port),
        peer.parse::<std::net::IpAddr>(),
        u8::try_from(flow.protocol),
        u16::try_from(flow.source_port),
        u16::try_from(flow.destination_port),
    );
    let (Ok(port), Ok(peer), Ok(protocol), Ok(source_port), Ok(destination_port)) = parts else {
        return false;
    };
    comparison.cuts(&Live {
        port: &port,
        direction,
        peer: peer.into(),
        protocol,
        source_port,
        destination_port,
    })
}

fn report(
    args: &Diff,
    difference: Difference,
    flows: Option<Flows>,
    format: Format,
) -> Result<ExitCode, Failure> {
    let report = Report {
        difference,
        flows,
        most: args.most,
    };
    output::one(
        format,
        || Ok(value::value(&report)),
        || Ok(text::text(&report)),
    )?;
    Ok(if report.difference.changes.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(CHANGES)
    })
}

/// The first names, and how many more there are.
fn shortened(names: &[String], most: usize) -> (&[String], usize) {
    let shown = names.get(..most).unwrap_or(names);
    (shown, names.len() - shown.len())
}
