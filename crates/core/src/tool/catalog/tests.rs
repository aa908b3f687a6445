#![expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]

use serde_json::{Value, json};

use super::*;
use crate::{
    schema::dialect::Dialect,
    tool::{
        Binding, Deprecation, Nango,
        toolset::{ToolSources, Toolset},
    },
};

fn input(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": {"input": {"type": "object", "properties": properties, "required": required}}})
}

fn nango_action(
    name: &str,
    provider: &str,
    action: &str,
    category: &str,
    description: &str,
    parameters: Value,
) -> Tool {
    let binding = Binding::Nango(Nango::Action { provider: provider.into(), action: action.into() });
    let mut tool = Tool::new(name, description, parameters, binding);
    tool.category = Some(category.into());
    tool
}

fn nango_cache(name: &str, provider: &str, model: &str, category: &str, description: &str, parameters: Value) -> Tool {
    let binding = Binding::Nango(Nango::Cache {
        provider: provider.into(),
        model: model.into(),
        entity_aliases: Default::default(),
    });
    let mut tool = Tool::new(name, description, parameters, binding);
    tool.category = Some(category.into());
    tool
}

/// The tools of the seed on tools as configuration.
fn aso() -> Vec<Tool> {
    let text = json!({"type": "string"});
    let mail = json!({"to": text, "subject": text, "body": text, "cc": text});
    let entity = json!({
        "operation": {"type": "string", "enum": ["fetch"]},
        "entityType": {"type": "string", "enum": ["Account", "Contact", "Lead", "Deal", "Opportunity"]},
        "identifier": {"type": "string", "optional": true},
        "filters": {"type": "object", "optional": true},
    });
    let page = json!({"title": text, "content": text, "parentId": text});
    vec![
        nango_cache(
            "fetch_emails",
            "google-mail-ynxw",
            "GmailThread",
            "Email",
            "Fetch Gmail emails with advanced filtering capabilities",
            input(json!({"operation": {"type": "string", "enum": ["fetch"]}}), &["operation"]),
        ),
        nango_action(
            "send_email",
            "google-mail-ynxw",
            "send-email",
            "Email",
            "Send a new email via Gmail",
            input(mail, &["to", "subject", "body"]),
        ),
        nango_cache(
            "fetch_entity",
            "salesforce-ybzg",
            "Salesforce{entityType}",
            "CRM",
            "Fetch Salesforce records (Account, Contact, Lead, Deal, Opportunity)",
            input(entity, &["operation", "entityType"]),
        ),
        nango_action(
            "create_notion_page",
            "notion",
            "create-page",
            "Notes",
            "Create a new page in Notion",
            input(page, &["title"]),
        ),
        Tool::new(
            "request_missing_parameters",
            "Ask the user for what is missing",
            json!({}),
            Binding::Builtin { name: "request_missing_parameters".into() },
        ),
    ]
}

fn catalog() -> Catalog {
    Catalog::new(1, aso()).unwrap()
}

fn names<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Vec<&'a str> {
    tools.into_iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn get_all_tools_keeps_the_order_of_the_file() {
    assert_eq!(
        names(catalog().tools()),
        ["fetch_emails", "send_email", "fetch_entity", "create_notion_page", "request_missing_parameters"]
    );
}

#[test]
fn get_tool_by_name() {
    assert_eq!(catalog().get("send_email").unwrap().description, "Send a new email via Gmail");
    assert!(catalog().get("Send_Email").is_none());
}

#[test]
fn get_tools_by_category() {
    let catalog = catalog();
    assert_eq!(names(catalog.by_category("Email")), ["fetch_emails", "send_email"]);
    assert_eq!(names(catalog.by_category("General")), ["request_missing_parameters"]);
    assert_eq!(names(catalog.by_category("email")), [""; 0]);
    assert_eq!(catalog.categories().collect::<Vec<_>>(), [("Email", 2), ("CRM", 1), ("Notes", 1), ("General", 1)]);
}

#[test]
fn get_tools_by_provider() {
    let catalog = catalog();
    assert_eq!(names(catalog.by_provider(" Google-Mail-YNXW ")), ["fetch_emails", "send_email"]);
    assert_eq!(names(catalog.by_provider("slack")), [""; 0]);
    assert_eq!(
        catalog.providers().map(|(provider, _)| provider).collect::<Vec<_>>(),
        ["google-mail-ynxw", "salesforce-ybzg", "notion"]
    );
}

#[test]
fn format_tools_for_llm() {
    let catalog = catalog();
    let toolset = Toolset::merge(ToolSources::Catalog, catalog.by_category("Notes").cloned().collect(), vec![]);
    let declared: Value = serde_json::from_str(&toolset.declarations(Dialect::OpenAiChat).json).unwrap();
    let mut parameters = catalog.get("create_notion_page").unwrap().parameters.as_ref().clone();
    parameters["required"] = json!(["input"]);
    assert_eq!(
        declared,
        json!([{"type": "function", "function": {
            "name": "create_notion_page", "description": "Create a new page in Notion", "parameters": parameters,
        }}])
    );
}

#[test]
fn input_counts_as_required_when_its_object_has_required_members() {
    let toolset = Toolset::merge(ToolSources::Catalog, catalog().tools().cloned().collect(), vec![]);
    let schema = toolset.get("send_email").unwrap().schema().unwrap();
    let violations = schema.check_arguments("{}").unwrap_err();
    assert_eq!(violations[0].message, "Missing required parameter: input");
}

#[test]
fn combine_mcp_and_custom_tools() {
    let mcp = Binding::Mcp { server: "network".into(), tool: "get_device".into() };
    let parameters =
        json!({"type": "object", "properties": {"device_name": {"type": "string"}}, "required": ["device_name"]});
    let tools = vec![
        Tool::new("get_device", "Reads a device", parameters.clone(), mcp),
        Tool::new("calculator", "Calculates", json!({}), Binding::External),
    ];
    let catalog = Catalog::new(1, tools).unwrap();
    assert_eq!(names(catalog.tools()), ["get_device", "calculator"]);
    // Neither converted nor renamed: `device_name` stays `device_name`.
    assert_eq!(*catalog.get("get_device").unwrap().parameters, parameters);
    assert_eq!(names(catalog.by_provider("network")), ["get_device"]);
}

#[test]
fn find_tool_by_name_or_lc_name() {
    let with_lc_name = |name: &str, lc_name: &str| {
        let mut tool = Tool::new(name, "", json!({}), Binding::External);
        tool.lc_name = Some(lc_name.to_owned());
        tool
    };
    let tools = vec![
        with_lc_name("search", "WebSearch"),
        with_lc_name("a", "DynamicStructuredTool"),
        with_lc_name("b", "DynamicStructuredTool"),
        with_lc_name("c", "search"),
    ];
    let catalog = Catalog::new(1, tools).unwrap();
    assert_eq!(catalog.find("search").unwrap().name, "search", "the name comes first");
    assert_eq!(catalog.find("WebSearch").unwrap().name, "search");
    assert!(catalog.find("DynamicStructuredTool").is_none(), "it counts only where it is unique");
    assert!(catalog.find("unknown").is_none());
    let warnings = catalog.check().warnings;
    assert_eq!(warnings.iter().map(|warning| warning.tool.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn all_faults_of_a_load_are_reported_at_once() {
    let mut tools = aso();
    tools.push(aso().remove(0));
    tools.push(Tool::new("a\u{200b}b", "", json!({}), Binding::External));
    tools.push(nango_cache("fetch", "x", "x{y}", "CRM", "", json!({})));
    let faults = Catalog::new(1, tools).unwrap_err();
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "tool `fetch_emails`: name: Duplicate tool names: fetch_emails (also tool 0)",
            "tool `a\u{200b}b`: name: Tool name must not contain the control or invisible character U+200B",
            "tool `fetch`: cache_model: placeholder `{y}` of the model is not a parameter of the tool",
        ]
    );
}

#[test]
fn a_full_check_finds_what_loading_defers() {
    let mut old = Tool::new(
        "old",
        "",
        json!({"properties": {"p": {"type": "strnig"}, "q": {"desciption": "x"}}}),
        Binding::External,
    );
    old.deprecated = Some(Deprecation {
        since: Some("2.0".into()),
        message: Some("it is slow".into()),
        replaced_by: Some("new".into()),
    });
    let findings = Catalog::new(1, vec![old]).unwrap().check();
    assert_eq!(findings.faults.len(), 1);
    assert_eq!(findings.faults[0].path, "parameters.properties.p.type");
    assert_eq!(
        findings.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "tool `old`: parameters.properties.q.desciption: `desciption` is not a keyword of JSON Schema; did you mean `description`?",
            "tool `old`: deprecated: tool `old` is deprecated since 2.0: it is slow; use `new` instead",
            "tool `old`: deprecated.replacedBy: its replacement `new` is not in the catalogue",
        ]
    );
}

#[track_caller]
fn check_search(selection: Selection, expect: &[&str]) {
    assert_eq!(names(catalog().search(&selection).into_iter().map(|hit| hit.tool)), expect);
}

#[test]
fn search_ranks_names_before_descriptions_before_nothing() {
    let text = |text: &str| Selection { text: Some(text.to_owned()), ..Selection::default() };
    check_search(text("send an email"), &["send_email", "fetch_emails"]);
    check_search(text("emails"), &["fetch_emails", "send_email"]);
    check_search(text("salesforce contacts"), &["fetch_entity"]);
    check_search(text("parent id of a page"), &["create_notion_page", "send_email"]);
    check_search(text("nothing like it"), &[]);
}

#[test]
fn search_takes_filters() {
    let base = Selection { text: Some("fetch".to_owned()), ..Selection::default() };
    check_search(Selection { categories: vec!["CRM".into()], ..base.clone() }, &["fetch_entity"]);
    check_search(Selection { providers: vec!["google-mail-ynxw".into()], ..base.clone() }, &["fetch_emails"]);
    check_search(Selection { limit: Some(0), ..base }, &[]);
}

#[test]
fn only_calendar_tools_are_sent_when_the_user_asks_about_the_calendar() {
    let catalog = catalog();
    let mail = Selection { categories: vec!["Email".into()], ..Selection::default() };
    assert_eq!(names(catalog.select(&mail).unwrap()), ["fetch_emails", "send_email"]);
    let notion = Selection { providers: vec!["notion".into()], ..Selection::default() };
    assert_eq!(
        names(catalog.select(&notion).unwrap()),
        ["create_notion_page", "request_missing_parameters"],
        "our own tools need no provider"
    );
    assert_eq!(catalog.select(&Selection::default()).unwrap().len(), 5);
}

#[test]
fn a_selection_by_name_keeps_its_order_and_refuses_unknown_names() {
    let catalog = catalog();
    let named = |names: &[&str]| Selection {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Selection::default()
    };
    assert_eq!(names(catalog.select(&named(&["send_email", "fetch_emails"])).unwrap()), ["send_email", "fetch_emails"]);
    assert_eq!(
        catalog.select(&named(&["send_emial", "x"])).unwrap_err().to_string(),
        "no such tool: `send_emial` (did you mean `send_email`?), `x`"
    );
}

#[test]
fn labels_and_read_only_select() {
    let mut tools = aso();
    tools[0].labels.insert("team".into(), "sales".into());
    tools[0].annotations.read_only_hint = Some(true);
    let catalog = Catalog::new(1, tools).unwrap();
    let selection: Selection = serde_json::from_value(json!({"labels": {"team": "sales"}})).unwrap();
    assert_eq!(names(catalog.select(&selection).unwrap()), ["fetch_emails"]);
    let selection = Selection { read_only: Some(false), ..Selection::default() };
    assert_eq!(catalog.select(&selection).unwrap().len(), 4);
    assert!(serde_json::from_value::<Selection>(json!({"lables": {}})).is_err());
}

/// A query's filter makes a catalogue of its own for each request: it must not cost a full-text index.
#[test]
fn a_filter_without_text_builds_no_index() {
    let catalog = Catalog::new(0, aso()).unwrap();
    let by_name = Selection { names: vec!["fetch_emails".into()], ..Selection::default() };
    assert_eq!(catalog.select(&by_name).unwrap().len(), 1);
    let by_category = Selection { categories: vec!["Email".into()], ..Selection::default() };
    assert!(!catalog.select(&by_category).unwrap().is_empty());
    assert!(catalog.index.get().is_none());
    let by_text = Selection { text: Some("emails".into()), ..Selection::default() };
    assert!(!catalog.select(&by_text).unwrap().is_empty());
    assert!(catalog.index.get().is_some());
}
