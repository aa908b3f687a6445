//! The tools of a namespace, by category, provider and labels, as the end user of a request can use them.
//!
//! A tool of an integration acts with the login of the end user, so its state depends on the caller: without an end user, the
//! registry says whether the operator has connected it.

use std::collections::BTreeSet;

use axum::{extract::State, response::Response};
use bosun_core::Binding;
use bosun_engine::resource::ResourceKind;

use super::{ResourceListParams, list, show, wire};
use crate::{
    AppState,
    ark::{
        handlers::namespaces,
        params::{Params, ToolSearch},
    },
    auth::gate::{Caller, RequestNamespace},
    http::{error::ApiError, warning::with_warnings},
};

/// A page of the tools that a request looks for.
pub(crate) type ToolListParams = (ResourceListParams, ToolSearch);

/// `GET …/tools`
pub(in crate::ark) async fn list_tools(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: (paging, search), mut warnings }: Params<ToolListParams>,
) -> Result<Response, ApiError> {
    namespaces::require(&app, &caller, &namespace).await?;
    let registry = app.engine.registry();
    let mut resources = registry.resources(ResourceKind::Tool, &namespace);
    resources.retain(|resource| {
        let tool = registry.tool(&namespace, &resource.manifest.key.name);
        search.matches(tool, &resource.manifest.description.labels)
    });
    let mut listed = list(&registry, resources, &paging, show::listed_tool);
    let provider =
        |tool: &wire::ListedTool| match registry.tool(&namespace, &tool.listed.name).map(|tool| &tool.binding) {
            Some(Binding::Nango(nango)) => Some(nango.provider().to_owned()),
            _ => None,
        };
    let providers: BTreeSet<_> = listed.0.items.iter().filter_map(provider).collect();
    let connections = registry.user_connections().filter(|_| caller.actor.user().is_some() && !providers.is_empty());
    if let Some(connections) = connections {
        match connections.unconnected(&namespace, &caller.actor, providers).await {
            Ok(unconnected) => {
                for tool in &mut listed.0.items {
                    if let Some(provider) = provider(tool) {
                        set_connected(tool, unconnected.get(&provider));
                    }
                }
            }
            Err(reason) => {
                warnings.push(format!("whether the end user has connected integrations is not known: {reason}"));
            }
        }
    }
    Ok(with_warnings(listed, &warnings))
}

/// Shows whether the end user has connected the integration of a tool; `unconnected` is what to do if not. A tool that
/// nothing runs stays so.
fn set_connected(tool: &mut wire::ListedTool, unconnected: Option<&String>) {
    if matches!(tool.state, wire::ToolState::Ready | wire::ToolState::Unavailable) {
        let (available, state) = match unconnected {
            None => ("True", wire::ToolState::Ready),
            Some(_) => ("False", wire::ToolState::Unavailable),
        };
        (tool.listed.available, tool.state, tool.reason) = (available, state, unconnected.cloned());
    }
}
