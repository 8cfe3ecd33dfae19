//! `replay`: a capture through the engines that documents make.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use penstock_offline::capture::Reader;
use penstock_offline::replay::{Options, Record, Replay as Run};
use penstock_policies::model::Model;

use crate::args::{Format, Replay};
use crate::failure::Failure;

mod json;
mod text;

pub(super) fn run(args: &Replay, format: Format) -> Result<(), Failure> {
    let write = match format {
        Format::Table => text::record,
        Format::Json => json::record,
        Format::Yaml => {
            let problem = "replay prints a table or, with -o json, a JSON object per line";
            return Err(Failure::Usage(problem.to_owned()));
        }
    };
    let model = super::valid(&super::load(&args.files)?, format)?;
    let vpc = args.vpc.as_deref();
    let vpc = vpc.map(|text| super::vpc_name("--vpc", text)).transpose()?;
    let options = Options {
        vpc,
        ..Options::default()
    };
    let capture = open(&args.pcap)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let told = replay(&model, options, args, capture, &mut out, write, format);
    // What was found before an error is told before it.
    out.flush().map_err(Failure::Print)?;
    told
}

fn replay(
    model: &Model,
    options: Options,
    args: &Replay,
    capture: Box<dyn Read>,
    out: &mut dyn Write,
    write: fn(&mut dyn Write, &Run<'_>, &Record) -> std::io::Result<()>,
    format: Format,
) -> Result<(), Failure> {
    let bad =
        |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", args.pcap.display()));
    let mut reader = Reader::new(capture).map_err(|e| bad(&e))?;
    let mut run = Run::new(model, options).map_err(|e| bad(&e))?;
    if format == Format::Table {
        text::header(out).map_err(Failure::Print)?;
    }
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0
        && let Some(captured) = reader.next_packet().map_err(|e| bad(&e))?
    {
        left -= 1;
        for record in run.packet(&captured).map_err(|e| bad(&e))? {
            write(out, &run, &record).map_err(Failure::Print)?;
        }
    }
    for record in run.wait().map_err(|e| bad(&e))? {
        write(out, &run, &record).map_err(Failure::Print)?;
    }
    let summary = run.summary();
    match format {
        Format::Json => json::summary(out, summary),
        Format::Table | Format::Yaml => text::summary(out, summary),
    }
    .map_err(Failure::Print)
}

/// A file, or standard input.
fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    match File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(Failure::Usage(format!(
            "cannot open {}: {error}",
            path.display()
        ))),
    }
}
