//! Which pipeline a device runs: ours or none.
//!
//! The soft NIC is the program, compiled in; a client's p4info must be the one it
//! was compiled from. The device config belongs to other targets and is only kept,
//! so that it reads back.

use p4runtime::config::P4Info;
use p4runtime::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::{pipeline, v1};
use tonic::Status;

/// What a client has loaded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    committed: Option<Loaded>,
    saved: Option<Loaded>,
}

/// Without the p4info, which is ours.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Loaded {
    /// The client's name for this version; 0: none given.
    #[prost(uint64, tag = "1")]
    pub cookie: u64,
    /// As sent.
    #[prost(bytes = "vec", tag = "2")]
    pub device_config: Vec<u8>,
}

/// What a pipeline action does to the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// All entries of the controller go.
    Clear,
}

impl Pipeline {
    /// As kept over a restart.
    #[must_use]
    pub fn resume(committed: Option<Loaded>, saved: Option<Loaded>) -> Self {
        Self { committed, saved }
    }

    /// To be kept: committed, saved.
    #[must_use]
    pub fn parts(&self) -> (Option<Loaded>, Option<Loaded>) {
        (self.committed.clone(), self.saved.clone())
    }

    /// Refuses reads and writes before there is a pipeline.
    ///
    /// # Errors
    /// None is committed.
    pub fn require(&self) -> Result<(), Status> {
        match self.committed {
            Some(_) => Ok(()),
            None => Err(Status::failed_precondition(
                "no forwarding pipeline is committed; send SetForwardingPipelineConfig first",
            )),
        }
    }

    /// Does what a client asks for.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn set(
        &mut self,
        action: i32,
        config: Option<v1::ForwardingPipelineConfig>,
    ) -> Result<Effect, Status> {
        let action = Action::try_from(action).unwrap_or(Action::Unspecified);
        match action {
            Action::Unspecified => Err(Status::invalid_argument(
                "action: give VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, COMMIT or RECONCILE_AND_COMMIT",
            )),
            Action::Verify => verify(config).map(|_| Effect::None),
            Action::VerifyAndSave => {
                self.saved = Some(verify(config)?);
                Ok(Effect::None)
            }
            Action::VerifyAndCommit => {
                self.committed = Some(verify(config)?);
                self.saved = None;
                Ok(Effect::Clear)
            }
            // The program is the same by construction, so all entries fit it.
            Action::ReconcileAndCommit => {
                self.committed = Some(verify(config)?);
                self.saved = None;
                Ok(Effect::None)
            }
            Action::Commit => {
                if config.is_some() {
                    return Err(Status::invalid_argument(
                        "config: COMMIT takes the saved one; leave it out",
                    ));
                }
                let Some(saved) = self.saved.take() else {
                    return Err(Status::failed_precondition(
                        "nothing is saved; send VERIFY_AND_SAVE first",
                    ));
                };
                self.committed = Some(saved);
                Ok(Effect::Clear)
            }
        }
    }

    /// The committed pipeline, as much of it as asked for.
    ///
    /// # Errors
    /// None is committed, or the question is malformed.
    pub fn get(&self, response_type: i32) -> Result<v1::ForwardingPipelineConfig, Status> {
        self.require()?;
        let loaded = self.committed.clone().unwrap_or_default();
        let (info, device) = match ResponseType::try_from(response_type) {
            Ok(ResponseType::All) => (true, true),
            Ok(ResponseType::CookieOnly) => (false, false),
            Ok(ResponseType::P4infoAndCookie) => (true, false),
            Ok(ResponseType::DeviceConfigAndCookie) => (false, true),
            Err(_) => {
                return Err(Status::invalid_argument(format!(
                    "response_type: {response_type} is none of P4Runtime's"
                )));
            }
        };
        Ok(v1::ForwardingPipelineConfig {
            p4info: if info { Some(ours()?) } else { None },
            p4_device_config: if device {
                loaded.device_config
            } else {
                Vec::new()
            },
            cookie: (loaded.cookie != 0).then_some(v1::forwarding_pipeline_config::Cookie {
                cookie: loaded.cookie,
            }),
        })
    }
}

fn ours() -> Result<P4Info, Status> {
    pipeline::p4info().map_err(|error| {
        Status::internal(format!("the worker's own p4info does not decode: {error}"))
    })
}

fn verify(config: Option<v1::ForwardingPipelineConfig>) -> Result<Loaded, Status> {
    let Some(v1::ForwardingPipelineConfig {
        p4info,
        p4_device_config,
        cookie,
    }) = config
    else {
        return Err(Status::invalid_argument(
            "config: give the pipeline's p4info and cookie",
        ));
    };
    if p4info != Some(ours()?) {
        return Err(Status::invalid_argument(
            "config.p4info: not this worker's pipeline; controller and worker are of different \
             versions, or the p4info belongs to another program",
        ));
    }
    Ok(Loaded {
        cookie: cookie.map_or(0, |c| c.cookie),
        device_config: p4_device_config,
    })
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn config(cookie: u64) -> Option<v1::ForwardingPipelineConfig> {
        let mut config = pipeline::forwarding_config(b"device").expect("ours");
        config.cookie = Some(v1::forwarding_pipeline_config::Cookie { cookie });
        Some(config)
    }

    fn set(
        pipeline: &mut Pipeline,
        action: Action,
        config: Option<v1::ForwardingPipelineConfig>,
    ) -> Result<Effect, Code> {
        pipeline
            .set(action.into(), config)
            .map_err(|status| status.code())
    }

    fn cookie(pipeline: &Pipeline) -> Option<u64> {
        let read = pipeline.get(ResponseType::CookieOnly.into()).ok()?;
        assert_eq!((read.p4info, read.p4_device_config), (None, Vec::new()));
        read.cookie.map(|c| c.cookie)
    }

    #[test]
    fn actions_commit_what_they_say() {
        let mut p = Pipeline::default();
        assert!(p.require().is_err());
        assert_eq!(set(&mut p, Action::Verify, config(1)), Ok(Effect::None));
        assert_eq!(
            set(&mut p, Action::VerifyAndSave, config(2)),
            Ok(Effect::None)
        );
        assert_eq!(cookie(&p), None);
        assert_eq!(set(&mut p, Action::Commit, None), Ok(Effect::Clear));
        assert_eq!(cookie(&p), Some(2));
        assert_eq!(
            set(&mut p, Action::Commit, None),
            Err(Code::FailedPrecondition)
        );
        assert_eq!(
            set(&mut p, Action::ReconcileAndCommit, config(3)),
            Ok(Effect::None)
        );
        assert_eq!(cookie(&p), Some(3));
        assert_eq!(
            set(&mut p, Action::VerifyAndCommit, config(4)),
            Ok(Effect::Clear)
        );
        assert_eq!(cookie(&p), Some(4));
        let all = p.get(ResponseType::All.into()).expect("all of it");
        assert_eq!(Some(all), config(4));
        let (committed, saved) = p.parts();
        assert_eq!(Pipeline::resume(committed, saved), p);
    }

    #[test]
    fn only_our_program_is_taken() {
        let mut p = Pipeline::default();
        let mut other = config(1);
        if let Some(info) = other.as_mut().and_then(|c| c.p4info.as_mut()) {
            info.tables.pop();
        }
        for action in [
            Action::Verify,
            Action::VerifyAndSave,
            Action::VerifyAndCommit,
            Action::ReconcileAndCommit,
        ] {
            let refused = Err(Code::InvalidArgument);
            assert_eq!(set(&mut p, action, other.clone()), refused);
            assert_eq!(set(&mut p, action, None), refused);
        }
        let refused = Err(Code::InvalidArgument);
        assert_eq!(set(&mut p, Action::Unspecified, config(1)), refused);
        assert_eq!(set(&mut p, Action::Commit, config(1)), refused);
        assert_eq!(p, Pipeline::default());
    }
}
