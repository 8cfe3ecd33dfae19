//! `make bench-policy`: what the compiled ruleset costs.
//!
//! * `classify/10x1000`: a judgement at a port with ten groups of a thousand rules
//!   each, over 100 000 prefixes in sets and CIDRs and 65 536 endpoints; random
//!   packets, so that caches help little.
//! * `classify/10x1000/at-hand`: the same, where the packets are in the nearest cache
//!   before the clock starts, as a packet is whose headers have just been read.
//! * `compile/8000-rules`, `compile/20000-ports`: from nothing.
//! * `change/one-rule`, `change/one-member`: a delta, on the latter ruleset, and how
//!   many entries it has touched.
//! * `memory/1M-rules`: what a ruleset of a million rules holds, by the allocator.

mod counting;
mod policies;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use counting::Counting;
use penstock_bench::report::{Report, percentile};
use penstock_rules::model::{Policy, Rule};
use penstock_rules::{Delta, Query, Ruleset, Work};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RUNS: usize = 5;

type Case = fn(&Report) -> anyhow::Result<()>;

fn main() -> anyhow::Result<()> {
    let report = Report::new("policy");
    let only = std::env::args().nth(1).filter(|arg| !arg.starts_with("--"));
    let cases: [(&str, Case); 4] = [
        ("classify", classify),
        ("compile/8000", small),
        ("compile/20000 change", large),
        ("memory", memory),
    ];
    for (name, case) in cases {
        if only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
        {
            case(&report)?;
        }
    }
    Ok(())
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// Judges every query of a batch once; nanoseconds for each.
fn judge_all(ruleset: &Ruleset, queries: &[Query]) -> f64 {
    let begin = Instant::now();
    for query in queries {
        black_box(ruleset.judge(black_box(query)));
    }
    begin.elapsed().as_secs_f64() * 1e9 / queries.len() as f64
}

fn classify(report: &Report) -> anyhow::Result<()> {
    let ruleset = Ruleset::compile(policies::ten_by_thousand())?;
    let queries = policies::packets(1 << 20);
    let allowed = queries.iter().filter(|q| ruleset.judge(q).allow()).count();
    report.note(&format!(
        "classify: {:.0} % of the packets are allowed",
        100.0 * allowed as f64 / queries.len() as f64
    ));
    // A clock reading costs more than a judgement: batches, each of keys of its own.
    for (case, at_hand) in [
        ("classify/10x1000", false),
        ("classify/10x1000/at-hand", true),
    ] {
        let (mut medians, mut tails) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let batches: Vec<f64> = queries
                .chunks(64)
                .map(|batch| {
                    if at_hand {
                        judge_all(&ruleset, &black_box(batch.to_vec()))
                    } else {
                        judge_all(&ruleset, batch)
                    }
                })
                .collect();
            medians.push(percentile(&batches, 50));
            tails.push(percentile(&batches, 99));
        }
        report.row(case, "p50", "ns", medians);
        report.row(case, "p99", "ns", tails);
    }
    Ok(())
}

/// How long it takes to compile, each time from a policy of its own.
fn compile(policy: &Policy) -> anyhow::Result<(Vec<f64>, Ruleset)> {
    let mut took = Vec::new();
    let mut last = None;
    for _ in 0..RUNS {
        let policy = policy.clone();
        let begin = Instant::now();
        let ruleset = Ruleset::compile(policy)?;
        took.push(ms(begin.elapsed()));
        last = Some(ruleset);
    }
    Ok((took, last.context("no run")?))
}

fn small(report: &Report) -> anyhow::Result<()> {
    let (took, _) = compile(&policies::groups_of_rules(8, 1000))?;
    report.row("compile/8000-rules", "time", "ms", took);
    Ok(())
}

fn large(report: &Report) -> anyhow::Result<()> {
    let policy = policies::ports_and_groups();
    let (took, ruleset) = compile(&policy)?;
    report.row("compile/20000-ports", "time", "ms", took);
    let by_rule = (0..).map(|i: u16| {
        let mut put = Policy::default();
        if let Some((id, list)) = policy.lists.iter().nth(usize::from(i) * 7) {
            let mut list = list.clone();
            list.rules.push(Rule {
                ports: vec![(i, i)],
                ..list.rules[0].clone()
            });
            put.lists.insert(*id, list);
        }
        put
    });
    change(report, "change/one-rule", &ruleset, by_rule)?;
    let by_member = (0..).map(|i: u16| {
        let mut put = Policy::default();
        if let Some((key, endpoint)) = policy.endpoints.iter().nth(usize::from(i) * 77) {
            let mut endpoint = endpoint.clone();
            endpoint.groups.pop();
            put.endpoints.insert(*key, endpoint);
        }
        put
    });
    change(report, "change/one-member", &ruleset, by_member)
}

/// Deltas on one ruleset, one after the other.
fn change(
    report: &Report,
    case: &str,
    ruleset: &Ruleset,
    puts: impl Iterator<Item = Policy>,
) -> anyhow::Result<()> {
    let (mut took, mut touched) = (Vec::new(), Vec::new());
    let mut current = ruleset.clone();
    for put in puts.take(50) {
        let delta = Delta::whole(Policy {
            generation: current.generation() + 1,
            ..put
        });
        let begin = Instant::now();
        let (next, work) = current.apply(delta)?;
        took.push(ms(begin.elapsed()));
        let Work {
            lists,
            services,
            prefixes,
            endpoints,
            ports,
        } = work;
        touched.push((lists + services + prefixes + endpoints + ports) as f64);
        current = next;
    }
    report.row(case, "time", "ms", took);
    report.row(case, "touched", "items", touched);
    Ok(())
}

fn memory(report: &Report) -> anyhow::Result<()> {
    let before = counting::held();
    // The policy becomes a part of the ruleset, and counts.
    let ruleset = Ruleset::compile(policies::groups_of_rules(1000, 1000))?;
    let held = counting::held() - before;
    drop(ruleset);
    let mib = held as f64 / f64::from(1 << 20);
    report.row("memory/1M-rules", "held", "MiB", vec![mib]);
    Ok(())
}
