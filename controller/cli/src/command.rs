//! The commands.

use std::path::PathBuf;
use std::process::ExitCode;

use penstock_policies::document::{self, Documents};
use penstock_policies::model::{Model, VpcName};

use crate::args::{Admin, Args, Command};
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

mod apply;
mod certs;
mod delete;
mod diff;
mod explain;
mod get;
mod observe;
mod replay;
mod status;
mod table;
mod verify;
mod wait;

pub(crate) use certs::Error as CertsError;

/// Runs what the command line says.
pub(crate) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let Args { global, command } = args;
    let format = global.output;
    let done = match command {
        Command::Diff(wanted) => {
            let compared = diff::run(&global, &wanted).await;
            return Ok(compared.unwrap_or_else(|failure| failure.tell_as(diff::UNKNOWN)));
        }
        Command::Check { files } => check(&files, format),
        Command::Admin(Admin::Certs(wanted)) => certs::run(&wanted, format),
        Command::Explain(explain) if !explain.files.is_empty() => {
            explain::offline(&explain, format)
        }
        Command::Explain(explain) => {
            explain::online(&Session::open(&global).await?, &explain, format).await
        }
        Command::Replay(wanted) => replay::run(&wanted, format),
        Command::Verify(wanted) if !wanted.files.is_empty() => verify::offline(&wanted, format),
        Command::Verify(wanted) => {
            verify::online(&Session::open(&global).await?, &wanted, format).await
        }
        Command::Apply { files, dry_run } => {
            // What cannot be read need not be sent.
            let documents = read(&files, format)?;
            apply::run(&Session::open(&global).await?, documents, dry_run, format).await
        }
        Command::Delete {
            names,
            files,
            ignore_missing,
        } => {
            let mut names = names;
            names.extend(read(&files, format)?.resources.into_iter().map(|r| r.name));
            delete::run(
                &Session::open(&global).await?,
                names,
                ignore_missing,
                format,
            )
            .await
        }
        Command::Get { what, parent } => {
            let selection = get::Selection::parse(&what, parent)?;
            get::run(&Session::open(&global).await?, &selection, format).await
        }
        Command::Nodes => get::nodes(&Session::open(&global).await?, format).await,
        Command::Flows { scope } => {
            observe::flows(&Session::open(&global).await?, &scope, format).await
        }
        Command::Drops { scope } => {
            observe::drops(&Session::open(&global).await?, &scope, format).await
        }
        Command::Log { scope } => {
            observe::log(&Session::open(&global).await?, &scope, format).await
        }
        Command::Wait {
            names,
            files,
            timeout,
        } => {
            let mut names = names;
            names.extend(read(&files, format)?.resources.into_iter().map(|r| r.name));
            wait::run(&Session::open(&global).await?, names, timeout).await
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// All documents; problems of their form are printed and end the command.
fn read(files: &[PathBuf], format: crate::args::Format) -> Result<Documents, Failure> {
    let documents = load(files)?;
    if documents.problems.is_empty() {
        return Ok(documents);
    }
    output::problems(format, &documents.problems)?;
    Err(Failure::Problems(documents.problems.len()))
}

/// A VPC's full name from itself or from TENANT/VPC.
fn vpc_name(argument: &str, text: &str) -> Result<VpcName, Failure> {
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [tenant, vpc] => format!("tenants/{tenant}/vpcs/{vpc}"),
        _ => text.to_owned(),
    };
    VpcName::parse(&name).map_err(|error| Failure::Usage(format!("{argument}: {error}")))
}

fn load(files: &[PathBuf]) -> Result<Documents, Failure> {
    let mut all = Documents::default();
    for file in files {
        let Documents {
            resources,
            places,
            problems,
        } = document::load(file)?;
        all.resources.extend(resources);
        all.places.extend(places);
        all.problems.extend(problems);
    }
    Ok(all)
}

/// The model; problems of the documents are printed and end the command.
fn valid(documents: &Documents, format: crate::args::Format) -> Result<Model, Failure> {
    documents
        .validate()
        .map_err(|all| match output::problems(format, &all) {
            Ok(()) => Failure::Problems(all.len()),
            Err(failure) => failure,
        })
}

fn check(files: &[PathBuf], format: crate::args::Format) -> Result<(), Failure> {
    let documents = load(files)?;
    valid(&documents, format)?;
    output::many(
        format,
        || Ok(Vec::new()),
        || {
            Ok(format!(
                "{} resources, no problems",
                documents.resources.len()
            ))
        },
    )
}
