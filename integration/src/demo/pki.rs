//! The demo's certificates, from `penstock admin certs` as anybody would make them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::bed::run;

/// A folder of them.
#[derive(Clone, Debug)]
pub struct Pki(PathBuf);

impl Pki {
    /// An authority with one controller, one operator and these nodes.
    ///
    /// # Errors
    /// What `penstock admin certs` says.
    pub fn issue(binaries: &Path, folder: PathBuf, nodes: &[&str]) -> Result<Self> {
        let penstock = binaries.join("penstock").display().to_string();
        let out = folder.display().to_string();
        let mut command = vec![&*penstock, "admin", "certs", "--out", &out];
        for node in nodes {
            command.extend(["--node", node]);
        }
        run(&command, Duration::from_secs(20))?.success(&command)?;
        Ok(Self(folder))
    }

    /// The authority's certificate.
    #[must_use]
    pub fn ca(&self) -> String {
        self.file("ca.crt")
    }

    /// Certificate and key.
    #[must_use]
    pub fn of(&self, kind: &str, name: &str) -> (String, String) {
        let file = |end| self.file(&format!("{kind}-{name}.{end}"));
        (file("crt"), file("key"))
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}
