//! Entity routing as data: which model a cache tool reads, decided by its arguments.
//!
//! `Salesforce{entityType}` with `entityType: "Contact"` reads `SalesforceContact`. A placeholder must
//! be a required parameter with a list of values, so that every model can be named when the tool is
//! loaded: a misspelled one fails then, and not as an empty answer in the middle of a query.
//!
//! ```
//! use bosun_core::tool::{Binding, Nango, Tool, routing::ToolRoute, wrapper};
//! use serde_json::json;
//!
//! let fetch_entity = Tool::new(
//!     "fetch_entity",
//!     "Fetch Salesforce records",
//!     json!({"type": "object", "properties": {"input": {
//!         "type": "object",
//!         "properties": {"entityType": {"type": "string", "enum": ["Account", "Contact", "Deal", "Opportunity"]}},
//!         "required": ["entityType"],
//!     }}}),
//!     Binding::Nango(Nango::Cache {
//!         provider: "salesforce-ybzg".into(),
//!         model: "Salesforce{entityType}".into(),
//!         entity_aliases: [("Deal".to_owned(), "Opportunity".to_owned())].into(),
//!     }),
//! );
//! let route = ToolRoute::of(&fetch_entity)?.unwrap();
//! let arguments = wrapper::unwrap(&fetch_entity.parameters, json!({"input": {"entityType": "Deal"}}));
//! assert_eq!(route.model(&arguments)?, "SalesforceOpportunity");
//! # Ok::<(), bosun_core::tool::routing::RouteFault>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Binding, Nango, Tool, wrapper};
use crate::text::clip;

/// Maximum number of models that one template may name.
const MAX_MODELS: usize = 1_000;

/// A template of a model's name, checked against the tool's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRoute {
    parts: Vec<RoutingPart>,
    aliases: BTreeMap<String, String>,
    models: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RoutingPart {
    Text(String),
    Placeholder(String),
}

/// Why a tool's model cannot be derived from its arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteFault {
    #[error("model `{0}` has an unmatched or empty pair of braces")]
    Braces(String),
    #[error("placeholder `{{{0}}}` of the model is not a parameter of the tool")]
    NotAParameter(String),
    #[error("placeholder `{{{0}}}` of the model must be a required parameter")]
    NotRequired(String),
    #[error("placeholder `{{{0}}}` of the model must be a parameter with an `enum` of texts")]
    NotAnEnum(String),
    #[error("alias `{0}` is not a value of any placeholder")]
    UnknownAlias(String),
    #[error("model `{0}` is not a name that Nango accepts: a capital letter, then letters, digits, `_` and `-`")]
    BadModel(String),
    #[error("the model has more than {MAX_MODELS} possible names")]
    TooManyModels,
    /// Only if a call was not validated against the tool's parameters.
    #[error("argument `{0}` does not choose a model")]
    Unroutable(String),
}

impl RouteFault {
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Braces(_) => "cache_model_invalid",
            Self::NotAParameter(_) => "cache_model_placeholder_unknown",
            Self::NotRequired(_) => "cache_model_placeholder_optional",
            Self::NotAnEnum(_) => "cache_model_placeholder_open",
            Self::UnknownAlias(_) => "entity_alias_unknown",
            Self::BadModel(_) => "cache_model_name_invalid",
            Self::TooManyModels => "cache_model_too_many",
            Self::Unroutable(_) => "cache_model_unroutable",
        }
    }
}

impl ToolRoute {
    /// The route of a tool that reads Nango's cache; `None` for every other tool.
    ///
    /// # Errors
    /// When the template does not match the tool's parameters, or names a model that cannot exist.
    pub fn of(tool: &Tool) -> Result<Option<Self>, RouteFault> {
        match &tool.binding {
            Binding::Nango(Nango::Cache { model, entity_aliases, .. }) => {
                Self::compile(model, entity_aliases, &tool.parameters).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn compile(template: &str, aliases: &BTreeMap<String, String>, parameters: &Value) -> Result<Self, RouteFault> {
        let parts = parse(template)?;
        let schema = wrapper::inner_schema(parameters).unwrap_or(parameters);
        let mut models = BTreeSet::from([String::new()]);
        let mut used = BTreeSet::new();
        for part in &parts {
            let choices = match part {
                RoutingPart::Text(text) => vec![text.as_str()],
                RoutingPart::Placeholder(name) => {
                    let values = values_of(schema, name)?;
                    used.extend(values.iter().copied());
                    values.into_iter().map(|value| aliases.get(value).map_or(value, String::as_str)).collect()
                }
            };
            if models.len().saturating_mul(choices.len()) > MAX_MODELS {
                return Err(RouteFault::TooManyModels);
            }
            models =
                models.iter().flat_map(|model| choices.iter().map(move |choice| format!("{model}{choice}"))).collect();
        }
        if let Some(alias) = aliases.keys().find(|alias| !used.contains(alias.as_str())) {
            return Err(RouteFault::UnknownAlias(clip(alias, 80)));
        }
        match models.iter().find(|model| !is_model_name(model)) {
            Some(bad) => Err(RouteFault::BadModel(clip(bad, 80))),
            None => Ok(Self { parts, aliases: aliases.clone(), models }),
        }
    }

    /// The parameters that choose the model.
    pub fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            RoutingPart::Text(_) => None,
            RoutingPart::Placeholder(name) => Some(name.as_str()),
        })
    }

    /// Every model that a call may read.
    #[must_use]
    pub fn models(&self) -> &BTreeSet<String> {
        &self.models
    }

    /// The model that a call with these arguments reads. They are the validated ones, without their wrapper.
    ///
    /// # Errors
    /// When the arguments were not validated.
    pub fn model(&self, arguments: &Value) -> Result<String, RouteFault> {
        let mut model = String::new();
        for part in &self.parts {
            match part {
                RoutingPart::Text(text) => model.push_str(text),
                RoutingPart::Placeholder(name) => {
                    let value = arguments.get(name).and_then(Value::as_str);
                    let value = value.ok_or_else(|| RouteFault::Unroutable(name.clone()))?;
                    model.push_str(self.aliases.get(value).map_or(value, String::as_str));
                }
            }
        }
        // An argument never makes up a model that was not checked when the tool was loaded.
        if self.models.contains(&model) { Ok(model) } else { Err(RouteFault::Unroutable(clip(&model, 80))) }
    }
}

fn parse(template: &str) -> Result<Vec<RoutingPart>, RouteFault> {
    let braces = || RouteFault::Braces(clip(template, 80));
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find(['{', '}']) {
        let (text, placeholder) = rest.split_at(open);
        let (name, after) = placeholder.strip_prefix('{').and_then(|tail| tail.split_once('}')).ok_or_else(braces)?;
        if name.is_empty() || name.contains('{') {
            return Err(braces());
        }
        if !text.is_empty() {
            parts.push(RoutingPart::Text(text.to_owned()));
        }
        parts.push(RoutingPart::Placeholder(name.to_owned()));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(RoutingPart::Text(rest.to_owned()));
    }
    Ok(parts)
}

/// The values that a required parameter may have.
fn values_of<'a>(schema: &'a Value, name: &str) -> Result<Vec<&'a str>, RouteFault> {
    let shown = || clip(name, 80);
    let property = schema.get("properties").and_then(|properties| properties.get(name));
    let property = property.ok_or_else(|| RouteFault::NotAParameter(shown()))?;
    let required = schema.get("required").and_then(Value::as_array);
    if !required.is_some_and(|names| names.iter().any(|required| required == name)) {
        return Err(RouteFault::NotRequired(shown()));
    }
    let values: Option<Vec<&str>> = match (property.get("enum"), property.get("const")) {
        (Some(Value::Array(values)), _) => values.iter().map(Value::as_str).collect(),
        (_, Some(value)) => value.as_str().map(|value| vec![value]),
        _ => None,
    };
    values.filter(|values| !values.is_empty()).ok_or_else(|| RouteFault::NotAnEnum(shown()))
}

/// `^[A-Z][a-zA-Z0-9_-]+$`: anything else is answered with 400.
fn is_model_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() > 1
        && bytes[0].is_ascii_uppercase()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fetch_entity(model: &str, aliases: &[(&str, &str)]) -> Tool {
        let parameters = json!({"type": "object", "properties": {"input": {
            "type": "object",
            "properties": {
                "operation": {"type": "string", "enum": ["fetch"]},
                "entityType": {"type": "string", "enum": ["Account", "Contact", "Lead", "Deal", "Opportunity"]},
                "identifier": {"type": "string", "optional": true},
                "kind": {"type": "string", "enum": ["A"]},
                "filters": {"type": "object", "optional": true},
            },
            "required": ["operation", "entityType", "identifier"],
        }}});
        let binding = Binding::Nango(Nango::Cache {
            provider: "salesforce-ybzg".into(),
            model: model.into(),
            entity_aliases: aliases.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect(),
        });
        Tool::new("fetch_entity", "Fetch Salesforce records", parameters, binding)
    }

    #[track_caller]
    fn refuses(model: &str, aliases: &[(&str, &str)], expect: &str) {
        assert_eq!(ToolRoute::of(&fetch_entity(model, aliases)).unwrap_err().to_string(), expect);
    }

    #[test]
    fn one_tool_reads_several_models() {
        let route = ToolRoute::of(&fetch_entity("Salesforce{entityType}", &[])).unwrap().unwrap();
        assert_eq!(route.model(&json!({"entityType": "Contact"})).unwrap(), "SalesforceContact");
        assert_eq!(route.models().len(), 5);
    }

    #[test]
    fn a_deal_is_an_opportunity() {
        let route =
            ToolRoute::of(&fetch_entity("Salesforce{entityType}", &[("Deal", "Opportunity")])).unwrap().unwrap();
        assert_eq!(route.model(&json!({"entityType": "Deal"})).unwrap(), "SalesforceOpportunity");
        assert!(!route.models().contains("SalesforceDeal"));
    }

    #[test]
    fn a_model_without_placeholders_is_used_as_it_is() {
        let route = ToolRoute::of(&fetch_entity("GmailThread", &[])).unwrap().unwrap();
        assert_eq!(route.model(&json!({})).unwrap(), "GmailThread");
    }

    #[test]
    fn only_models_that_were_checked_are_read() {
        let route = ToolRoute::of(&fetch_entity("Salesforce{entityType}", &[])).unwrap().unwrap();
        for arguments in [json!({}), json!({"entityType": 5}), json!({"entityType": "../Secret"})] {
            assert!(matches!(route.model(&arguments), Err(RouteFault::Unroutable(_))), "{arguments}");
        }
    }

    #[test]
    fn a_template_is_checked_when_it_is_loaded() {
        refuses("Salesforce{entityType", &[], "model `Salesforce{entityType` has an unmatched or empty pair of braces");
        refuses("Salesforce}", &[], "model `Salesforce}` has an unmatched or empty pair of braces");
        refuses("S{}", &[], "model `S{}` has an unmatched or empty pair of braces");
        refuses("S{entity}", &[], "placeholder `{entity}` of the model is not a parameter of the tool");
        refuses("S{kind}", &[], "placeholder `{kind}` of the model must be a required parameter");
        refuses(
            "S{identifier}",
            &[],
            "placeholder `{identifier}` of the model must be a parameter with an `enum` of texts",
        );
        refuses("S{entityType}", &[("Opp", "Opportunity")], "alias `Opp` is not a value of any placeholder");
        refuses(
            "salesforce{entityType}",
            &[],
            "model `salesforceAccount` is not a name that Nango accepts: a capital letter, then letters, digits, `_` and `-`",
        );
        refuses(&"{entityType}".repeat(5), &[], "the model has more than 1000 possible names");
    }

    #[test]
    fn other_tools_have_no_route() {
        assert_eq!(ToolRoute::of(&Tool::new("x", "", json!({}), Binding::External)), Ok(None));
    }
}
