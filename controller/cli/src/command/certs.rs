//! `penstock admin certs`: an authority for development in a folder.
//!
//! `ca.crt` and `ca.key` are the authority, `KIND-NAME.crt` and `KIND-NAME.key` what it has
//! issued. What is there and good is kept, so the command can be run again to add nodes. Keys
//! are readable for their owner only, and nothing is ever overwritten without `--force`; the
//! authority not even then.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use penstock_identity::authority::{self, Authority, Issued};
use penstock_identity::{Credentials, CredentialsError, Files, Identity, Kind, NameError};
use serde_json::json;

use crate::args::{Certs, Format};
use crate::failure::Failure;
use crate::output;

const CONTROLLER: &str = "main";
const OPERATOR: &str = "admin";

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("--{kind} {source}")]
    Name { kind: Kind, source: NameError },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{present} is there, and {missing} is not; bring it back, or use another folder")]
    HalfAuthority { present: PathBuf, missing: PathBuf },
    #[error("{present} is there, and {missing} is not; --force issues both anew")]
    Half { present: PathBuf, missing: PathBuf },
    #[error("{0}; --force issues it anew")]
    NoGood(CredentialsError),
    #[error("{path} is a certificate of {found}; --force issues the right one")]
    Another { path: PathBuf, found: Identity },
    #[error(transparent)]
    Authority(#[from] authority::Error),
}

/// What became of one certificate.
#[derive(Clone, Copy, Debug)]
enum Done {
    Issued,
    Replaced,
    Kept,
}

impl Done {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Replaced => "replaced",
            Self::Kept => "kept",
        }
    }
}

pub(crate) fn run(wanted: &Certs, format: Format) -> Result<(), Failure> {
    let rows = issue(wanted)?;
    let text = |path: &Path| path.display().to_string();
    output::many(
        format,
        || {
            Ok(rows
                .iter()
                .map(|(identity, files, done)| {
                    json!({
                        "identity": identity.to_string(), "state": done.as_str(),
                        "ca": text(&files.ca), "certificate": text(&files.certificate),
                        "key": text(&files.key),
                    })
                })
                .collect())
        },
        || {
            Ok(output::table(
                ["IDENTITY", "CERTIFICATE", "KEY", "STATE"],
                rows.iter().map(|(identity, files, done)| {
                    [
                        identity.to_string(),
                        text(&files.certificate),
                        text(&files.key),
                        done.as_str().to_owned(),
                    ]
                }),
            ))
        },
    )
}

type Row = (Identity, Files, Done);

fn issue(wanted: &Certs) -> Result<Vec<Row>, Error> {
    let new = !exists(&wanted.out.join("ca.crt"))? && !exists(&wanted.out.join("ca.key"))?;
    // All names first: a wrong one leaves nothing half done.
    let names = names(wanted, new)?;
    let authority = if new {
        create(&wanted.out)?
    } else {
        open(&wanted.out)?
    };
    names
        .into_iter()
        .map(|identity| one(&authority, wanted, identity))
        .collect()
}

fn names(wanted: &Certs, new: bool) -> Result<Vec<Identity>, Error> {
    let or_default = |given: &[String], default: &str| match given {
        [] if new => vec![default.to_owned()],
        given => given.to_vec(),
    };
    let mut all = Vec::new();
    for (kind, names) in [
        (
            Kind::Controller,
            or_default(&wanted.controllers, CONTROLLER),
        ),
        (Kind::Operator, or_default(&wanted.operators, OPERATOR)),
        (Kind::Node, wanted.nodes.clone()),
    ] {
        for name in names {
            let identity =
                Identity::new(kind, &name).map_err(|source| Error::Name { kind, source })?;
            if !all.contains(&identity) {
                all.push(identity);
            }
        }
    }
    Ok(all)
}

fn create(out: &Path) -> Result<Authority, Error> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(out);
    made.map_err(|source| failed(out, source))?;
    let (authority, kept) = Authority::create()?;
    write(&out.join("ca.key"), &kept.key, 0o600)?;
    write(&out.join("ca.crt"), &kept.certificate, 0o644)?;
    Ok(authority)
}

fn open(out: &Path) -> Result<Authority, Error> {
    let (certificate, key) = (out.join("ca.crt"), out.join("ca.key"));
    for (present, missing) in [(&certificate, &key), (&key, &certificate)] {
        if !exists(missing)? {
            return Err(Error::HalfAuthority {
                present: present.clone(),
                missing: missing.clone(),
            });
        }
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|source| failed(path, source));
    Ok(Authority::open(&Issued {
        certificate: read(&certificate)?,
        key: read(&key)?,
    })?)
}

fn one(authority: &Authority, wanted: &Certs, identity: Identity) -> Result<Row, Error> {
    let path = |end| {
        let name = format!("{}-{}.{end}", identity.kind(), identity.name());
        wanted.out.join(name)
    };
    let files = Files {
        ca: wanted.out.join("ca.crt"),
        certificate: path("crt"),
        key: path("key"),
    };
    let there = [&files.certificate, &files.key].map(|path| exists(path));
    let done = match there {
        [Err(error), _] | [_, Err(error)] => return Err(error),
        [Ok(false), Ok(false)] => Done::Issued,
        _ if wanted.force => Done::Replaced,
        [Ok(true), Ok(true)] => {
            let there = Credentials::load(&files).map_err(Error::NoGood)?;
            if there.identity() != &identity {
                return Err(Error::Another {
                    path: files.certificate,
                    found: there.identity().clone(),
                });
            }
            return Ok((identity, files, Done::Kept));
        }
        [Ok(certificate), Ok(_)] => {
            let (present, missing) = if certificate {
                (files.certificate, files.key)
            } else {
                (files.key, files.certificate)
            };
            return Err(Error::Half { present, missing });
        }
    };
    let issued = authority.issue(&identity, wanted.days)?;
    write(&files.key, &issued.key, 0o600)?;
    write(&files.certificate, &issued.certificate, 0o644)?;
    Ok((identity, files, done))
}

fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|source| failed(path, source))
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}

/// A file is there with all of its content, or not at all.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}", std::process::id()));
    let part = PathBuf::from(part);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&part)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&part, path));
    written.map_err(|source| {
        // It may not have been made; the error that is told is the first.
        let _ = fs::remove_file(&part);
        failed(path, source)
    })
}
