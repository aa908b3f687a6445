//! `bosun check --live`: compares tools with what is deployed at Nango.

use std::{path::PathBuf, sync::Arc};

use bosun_adapters::{
    outbound::Pool,
    runner::nango::{NangoSettings, check_live},
    secret::Secrets,
};
use bosun_convert::{Severity, ToolProblem};
use bosun_core::{Binding, Tool};
use bosun_reading::SourcePlace;
use url::Url;

use crate::{
    commands::{Usage, block_on},
    config::nango_url,
};

/// How to ask Nango.
#[derive(Debug, clap::Args)]
pub(super) struct Live {
    /// Compare tools of Nango with what is deployed there
    #[arg(long, requires = "nango_url")]
    live: bool,
    /// Address of Nango; its key is the secret `nango`, key `key`
    #[arg(long, value_name = "URL", value_parser = nango_url, env = "BOSUN_NANGO_URL", hide_env = true)]
    nango_url: Option<Url>,
    /// Directory of secrets, as NAMESPACE/NAME/KEY
    #[arg(long, value_name = "DIR", default_value = "./secrets")]
    secrets: PathBuf,
}

/// A tool, its file and its position there.
pub(super) type PlacedTool = (String, SourcePlace, String, Tool);

impl Live {
    pub(super) fn is_on(&self) -> bool {
        self.live
    }

    /// What differs, as problems of the files.
    pub(super) fn check(&self, placed: &[PlacedTool]) -> anyhow::Result<Vec<(String, ToolProblem)>> {
        if !self.live {
            return Ok(Vec::new());
        }
        let url = self.nango_url.clone().ok_or_else(|| Usage("`--live` needs `--nango-url`".to_owned()))?;
        let settings = NangoSettings { url, connections: Default::default() };
        let secrets = Arc::new(Secrets::new(Some(self.secrets.clone()), std::env::vars()));
        let of_nango = |(_, _, _, tool): &&PlacedTool| matches!(tool.binding, Binding::Nango(_));
        let tools: Vec<_> = placed.iter().filter(of_nango).map(|(_, _, _, tool)| tool.clone()).collect();
        let faults = block_on(async { Ok(check_live(settings, secrets, Arc::new(Pool::default()), &tools).await) })?;
        let problem = |place, path, code, message| {
            let (severity, hint) = (Severity::Error, None);
            ToolProblem { severity, place, path, code, message, hint }
        };
        let mut problems = Vec::new();
        for fault in faults {
            let Some(name) = fault.tool else {
                anyhow::bail!("the tools cannot be compared with Nango: {}", fault.message)
            };
            let found = placed.iter().find(|(_, _, _, tool)| tool.name == name);
            problems.extend(found.map(|(file, place, path, _)| {
                (file.clone(), problem(*place, path.clone(), fault.code, fault.message.clone()))
            }));
        }
        Ok(problems)
    }
}
