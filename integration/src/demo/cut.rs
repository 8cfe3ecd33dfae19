//! Takes a permission away while a connection that needs it is busy.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::stage::Stage;
use crate::bed::{Interrupt, eventually};

const GROUP: &str = "tenants/blue/vpcs/main/securityGroups/web";
const RULE: &str = "from-client";

/// What was seen.
#[derive(Debug)]
pub(super) struct Cut {
    /// From the moment that `apply` had returned to the last answer on the connection.
    stopped_after: Duration,
    limit: Duration,
    /// What `penstock drops` says of it.
    explanation: String,
    rule: String,
}

impl Cut {
    pub(super) fn is_as_expected(&self) -> bool {
        self.stopped_after <= self.limit && self.rule == format!("{GROUP}/rules/{RULE}")
    }

    pub(super) fn print(&self) {
        println!(
            "  blue client -> web, HTTP over one open connection: last answer {:.0} ms after the change was accepted",
            self.stopped_after.as_secs_f64() * 1e3
        );
        println!("  cut because: {}", self.explanation);
        println!(
            "  rule: {}  {}",
            self.rule,
            if self.is_as_expected() { "ok" } else { "WRONG" }
        );
    }
}

pub(super) fn run(stage: &mut Stage, interrupt: &Interrupt, limit: Duration) -> Result<Cut> {
    let pulse = [
        stage.workload_binary(),
        "pulse".into(),
        "10.0.0.11".into(),
        "80".into(),
        "30".into(),
    ];
    stage.spawn("blue-client", "pulse", &pulse)?;
    eventually(
        interrupt,
        Duration::from_secs(5),
        "answers on the open connection",
        || {
            let answers = stage.output("pulse")?.lines().count();
            if answers < 20 {
                bail!("{answers} answers so far");
            }
            Ok(())
        },
    )?;

    let penstock = stage.penstock();
    let group = penstock.json(&["get", GROUP])?;
    let file = stage.scratch_file("web-without-http.yaml");
    fs::write(&file, without_rule(group)?.to_string())
        .with_context(|| format!("write {}", file.display()))?;
    penstock.run(&["apply", "-f", &file.display().to_string()])?;
    let accepted = Instant::now();

    let mut answers = stage.output("pulse")?.lines().count();
    let mut last = accepted;
    while accepted.elapsed() < limit * 2 {
        interrupt.check()?;
        sleep(Duration::from_millis(5));
        let now = stage.output("pulse")?.lines().count();
        if now > answers {
            (answers, last) = (now, Instant::now());
        }
    }
    let stopped_after = last - accepted;
    eventually(
        interrupt,
        Duration::from_secs(3),
        "`penstock drops` to name the rule",
        || {
            let drops = penstock.json(&["drops", "--port", "tenants/blue/vpcs/main/ports/web"])?;
            let drops = drops["drops"].as_array().context("no list of drops")?;
            let cut = drops.iter().find(|d| {
                d["rule"]
                    .as_str()
                    .is_some_and(|r| r.ends_with(&format!("web/rules/{RULE}")))
            });
            let cut = cut.with_context(|| format!("no drop names {RULE} in {drops:?}"))?;
            let text = |field: &str| cut[field].as_str().unwrap_or_default().to_owned();
            Ok(Cut {
                stopped_after,
                limit,
                explanation: text("explanation"),
                rule: text("rule"),
            })
        },
    )
}

/// The group without the rule; JSON is YAML too, so it can be applied as it is.
fn without_rule(mut group: Value) -> Result<Value> {
    let rules = group["spec"]["rules"]
        .as_array_mut()
        .context("the group has no list of rules")?;
    let before = rules.len();
    rules.retain(|rule| rule["name"] != RULE);
    if rules.len() + 1 != before {
        bail!("the group has no rule {RULE:?}");
    }
    Ok(group)
}
