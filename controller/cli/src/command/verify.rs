//! `verify`: proves that NICs would do what documents, or a server's resources, say, and
//! nothing else.

use penstock_policies::Ids;
use penstock_policies::model::{self, Model, VpcName};
use penstock_verify::offline::hosts;
use penstock_verify::{Limits, Path, Reach, Report, reach};
use serde_json::{Value, json};

use crate::args::{Format, Verify};
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

/// What a server has stored, with interfaces made up: penstockd proves what it writes.
pub(super) async fn online(
    session: &Session,
    args: &Verify,
    format: Format,
) -> Result<(), Failure> {
    let stored = super::diff::documents(&session.list("", None).await?)?;
    let model = model::validate(&stored.resources).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::Answer(all.join("; "))
    })?;
    prove(&model, args, format)
}

pub(super) fn offline(args: &Verify, format: Format) -> Result<(), Failure> {
    let model = super::valid(&super::load(&args.files)?, format)?;
    prove(&model, args, format)
}

fn prove(model: &Model, args: &Verify, format: Format) -> Result<(), Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let mut ids = Ids::default();
    ids.assign(model).map_err(|e| usage(&e))?;
    let hosts = hosts(model, &ids).map_err(|e| usage(&e))?;
    let isolated = match args.isolated.as_slice() {
        [a, b] => Some((vpc(model, a)?, vpc(model, b)?)),
        [] => None,
        _ => {
            let problem = "--isolated takes two VPCs, and is given once";
            return Err(Failure::Usage(problem.to_owned()));
        }
    };
    let limits = Limits::default();
    let proof = Proof {
        vpcs: model.vpcs.len(),
        report: penstock_verify::nodes(model, &ids, &hosts, limits),
        reach: reach(model, &ids, &hosts, limits),
        isolated,
    };
    output::one(format, || Ok(proof.value()), || Ok(proof.text()))?;
    if proof.holds() {
        Ok(())
    } else {
        Err(Failure::NotProved)
    }
}

/// A VPC of the documents, by its full name or TENANT/VPC.
fn vpc(model: &Model, text: &str) -> Result<VpcName, Failure> {
    let name = super::vpc_name("--isolated", text)?;
    if model.vpcs.contains_key(&name) {
        return Ok(name);
    }
    let all: Vec<&str> = model.vpcs.keys().map(VpcName::as_str).collect();
    let problem = format!(
        "--isolated: {name} is not declared; there are {}",
        all.join(", ")
    );
    Err(Failure::Usage(problem))
}

/// Everything that was found.
struct Proof {
    vpcs: usize,
    report: Report,
    reach: Reach,
    /// Asked about.
    isolated: Option<(VpcName, VpcName)>,
}

impl Proof {
    /// A packet from one of the two to the other.
    fn crossing(&self) -> Option<&Path> {
        let (a, b) = self.isolated.as_ref()?;
        let reach = &self.reach;
        reach.between(a, b).or_else(|| reach.between(b, a))
    }

    fn holds(&self) -> bool {
        self.report.is_proved()
            && self.reach.unproved.is_none()
            && self.reach.leaks().next().is_none()
            && self.crossing().is_none()
    }

    fn unproved(&self) -> impl Iterator<Item = String> + '_ {
        let both = self.report.unproved.iter().chain(&self.reach.unproved);
        both.map(ToString::to_string)
    }

    fn text(&self) -> String {
        let Self {
            vpcs,
            report,
            reach,
            isolated,
        } = self;
        let mut lines: Vec<String> = Vec::new();
        lines.extend(report.violations.iter().map(|it| format!("WRONG: {it}")));
        lines.extend(reach.leaks().map(|it| format!("LEAK: {it}")));
        lines.extend(self.unproved());
        lines.extend(report.gaps.iter().map(|it| format!("warning: {it}")));
        if let Some((a, b)) = isolated {
            match self.crossing() {
                Some(path) => lines.push(format!("not isolated: {path}")),
                None if self.holds() => lines.push(format!(
                    "isolated: no packet of {a} reaches {b}, nor the other way round"
                )),
                None => lines.push(format!("isolation of {a} and {b} is not proved")),
            }
        }
        let across = reach.pairs.keys().filter(|(from, to)| match to {
            penstock_verify::Destination::Vpc(to) => to != from,
            _ => true,
        });
        if self.holds() && isolated.is_none() {
            let across = match across.count() {
                0 => "none reaches another".to_owned(),
                count => format!("{count} pairs of peers reach each other"),
            };
            lines.push(format!(
                "proved: {} NICs, {} rows, {} intervals and cells; {vpcs} VPCs, {across}",
                report.nics,
                report.rows,
                report.cells + reach.cells,
            ));
        }
        lines.join("\n")
    }

    fn value(&self) -> Value {
        let report = &self.report;
        let violations: Vec<Value> = report
            .violations
            .iter()
            .map(|it| {
                json!({
                    "node": it.node.as_str(), "device_id": it.device_id,
                    "table": it.table.to_string(), "row": it.row,
                    "wrong": it.wrong.to_string(),
                    "packet": it.packet.map(|packet| packet.to_string()),
                })
            })
            .collect();
        let gaps = report.gaps.iter().map(|it| {
            json!({
                "node": it.node.as_str(), "device_id": it.device_id,
                "table": it.table.to_string(), "what": it.what,
            })
        });
        let leaks: Vec<Value> = self.reach.leaks().map(path).collect();
        let mut value = json!({
            "proved": self.holds(),
            "nics": report.nics, "rows": report.rows,
            "cells": report.cells + self.reach.cells,
            "violations": violations,
            "gaps": gaps.collect::<Vec<Value>>(),
            "leaks": leaks,
            "unproved": self.unproved().collect::<Vec<String>>(),
        });
        if let Some((a, b)) = &self.isolated {
            value["isolated"] = json!({
                "vpcs": [a.as_str(), b.as_str()],
                "proved": self.holds(),
                "packet": self.crossing().map(path),
            });
        }
        value
    }
}

fn path(path: &Path) -> Value {
    json!({
        "from": path.from.as_str(), "mac": path.mac.to_string(),
        "source": path.src.to_string(), "destination": path.dst.to_string(),
        "steps": path.steps, "to": path.to.to_string(),
        "port": path.port.as_ref().map(|port| port.as_str()),
    })
}
