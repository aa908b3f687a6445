//! Tools as configuration: the blocks of the course, as they are printed there.

use bosun_convert::{Conversion, ConvertOptions, FolderFiles, Format, check, read};
use bosun_core::{
    Binding, Schema, Tool, Toolset,
    schema::dialect::Dialect,
    tool::{
        Nango,
        catalog::{Catalog, Selection},
        missing::missing_parameters,
        routing::ToolRoute,
        toolset::ToolSources,
        wrapper,
    },
};
use serde_json::{Value, json};

/// The file of the section "Tools as Configuration", with the comment that it begins with.
const TOOL_CONFIG: &str = r#"// config/tool-config.json
{
  "tools": [
    {
      "name": "fetch_emails",
      "description": "Fetch Gmail emails with advanced filtering capabilities",
      "category": "Email",
      "providerConfigKey": "google-mail-ynxw",
      "source": "cache",
      "cache_model": "GmailThread",
      "parameters": {
        "type": "object",
        "properties": {
          "input": {
            "type": "object",
            "properties": {
              "operation": {
                "type": "string",
                "enum": ["fetch"]
              },
              "filters": {
                "type": "object",
                "properties": {
                  "sender": { "type": "string", "optional": true },
                  "subject": { "type": "object", "optional": true },
                  "dateRange": { "type": "object", "optional": true },
                  "hasAttachment": { "type": "boolean", "optional": true }
                }
              }
            },
            "required": ["operation"]
          }
        },
        "required": ["input"]
      }
    },
    {
      "name": "send_email",
      "description": "Send a new email via Gmail",
      "category": "Email",
      "providerConfigKey": "google-mail-ynxw",
      "source": "action",
      "parameters": {
        "type": "object",
        "properties": {
          "input": {
            "type": "object",
            "properties": {
              "to": { "type": "string", "description": "Recipient email" },
              "subject": { "type": "string", "description": "Subject line" },
              "body": { "type": "string", "description": "Email body (HTML)" },
              "cc": { "type": "string", "description": "CC recipients" }
            },
            "required": ["to", "subject", "body"]
          }
        }
      }
    }
  ]
}
"#;

/// The block of the section "CRM Entity Tools".
const FETCH_ENTITY: &str = r#"{
  "name": "fetch_entity",
  "description": "Fetch Salesforce records (Account, Contact, Lead, Deal, Opportunity)",
  "source": "cache",
  "providerConfigKey": "salesforce-ybzg",
  "category": "CRM",
  "parameters": {
    "type": "object",
    "properties": {
      "input": {
        "type": "object",
        "properties": {
          "operation": { "type": "string", "enum": ["fetch"] },
          "entityType": {
            "type": "string",
            "enum": ["Account", "Contact", "Lead", "Deal", "Opportunity"]
          },
          "identifier": { "type": "string", "optional": true },
          "filters": { "type": "object", "optional": true }
        },
        "required": ["operation", "entityType"]
      }
    }
  }
}"#;

/// The block of the section "Adding a New Tool".
const CREATE_NOTION_PAGE: &str = r#"{
  "name": "create_notion_page",
  "description": "Create a new page in Notion",
  "category": "Notes",
  "providerConfigKey": "notion",
  "source": "action",
  "parameters": {
    "type": "object",
    "properties": {
      "input": {
        "type": "object",
        "properties": {
          "title": { "type": "string", "description": "Page title" },
          "content": { "type": "string", "description": "Page content (markdown)" },
          "parentId": { "type": "string", "description": "Parent page ID" }
        },
        "required": ["title"]
      }
    }
  }
}"#;

/// The folder of the files, in which there is one with the settings of providers.
#[derive(Debug)]
struct Folder(&'static str);

impl FolderFiles for Folder {
    fn read(&self, path: &str) -> Result<String, String> {
        if path == "providers.json" { Ok(self.0.to_owned()) } else { Err("there is no such file".to_owned()) }
    }
}

const PROVIDERS: Folder = Folder(r#"{"providers": {"salesforce-ybzg": {"cache_model": "Salesforce{entityType}"}}}"#);

fn load(text: &str) -> Conversion {
    let options =
        ConvertOptions { from: Some(Format::ToolConfig), files: Some(&PROVIDERS), ..ConvertOptions::default() };
    read(text, options).unwrap()
}

fn tools(text: &str) -> Vec<Tool> {
    let conversion = load(text);
    assert_eq!(conversion.faults, []);
    conversion.tools.into_iter().map(|found| found.tool).collect()
}

/// Everything that the course defines, in one catalogue.
fn catalog() -> Catalog {
    let meta =
        r#"{"tools": [{"name": "request_missing_parameters", "description": "Ask the user", "category": "Meta"}]}"#;
    let all = [TOOL_CONFIG, FETCH_ENTITY, CREATE_NOTION_PAGE, meta].into_iter().flat_map(tools).collect();
    Catalog::new(1, all).unwrap()
}

fn names<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Vec<&'a str> {
    tools.into_iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn a_tool_is_data() {
    let send_email = json!({"tools": [{
        "name": "send_email",
        "description": "Send an email to a recipient",
        "category": "Email",
        "providerConfigKey": "google-mail",
        "source": "action",
        "parameters": {"type": "object", "properties": {"input": {
            "type": "object",
            "properties": {
                "to": {"type": "string", "description": "Recipient email address"},
                "subject": {"type": "string", "description": "Email subject"},
                "body": {"type": "string", "description": "Email body content"},
            },
            "required": ["to", "subject", "body"],
        }}},
    }]});
    let tool = tools(&send_email.to_string()).remove(0);
    assert_eq!(tool.description, "Send an email to a recipient", "what the model reads");
    assert_eq!(*tool.parameters, send_email["tools"][0]["parameters"], "what the planner needs");
    assert_eq!(tool.binding.provider(), Some("google-mail"), "the provider that runs it");
    assert_eq!(tool.category(), "Email", "where the page shows it");
}

#[test]
fn tools_as_configuration() {
    let checked = check(TOOL_CONFIG, ConvertOptions::default());
    assert_eq!(checked.format, Some(Format::ToolConfig), "recognised by its content, comment and all");
    assert_eq!(checked.problems, []);
    assert_eq!(names(checked.tools.iter().map(|found| &found.tool)), ["fetch_emails", "send_email"]);
}

#[test]
fn the_tool_config_interface() {
    let whole = json!({"tools": [{
        "name": "fetch_emails", "description": "For LLM context", "category": "Email", "display_name": "Fetch Emails",
        "providerConfigKey": "google-mail-ynxw", "parameters": {"type": "object", "properties": {}},
        "source": "cache", "cache_model": "GmailThread",
    }]});
    let tool = tools(&whole.to_string()).remove(0);
    assert_eq!(tool.display_name.as_deref(), Some("Fetch Emails"));
    let least = json!({"tools": [{"name": "a", "description": "A", "providerConfigKey": "p"}]});
    let tool = tools(&least.to_string()).remove(0);
    assert_eq!((tool.category(), tool.display_name.as_deref()), ("General", None));
    assert_eq!(tool.binding, Binding::Nango(Nango::Action { provider: "p".to_owned(), action: "a".to_owned() }));
}

#[test]
fn source_cache_is_for_read_operations() {
    let fetch_emails = tools(TOOL_CONFIG).remove(0);
    let Binding::Nango(Nango::Cache { provider, model, .. }) = &fetch_emails.binding else { panic!("a cache") };
    assert_eq!((provider.as_str(), model.as_str()), ("google-mail-ynxw", "GmailThread"));
}

#[test]
fn source_action_is_for_write_operations() {
    let send_email = tools(TOOL_CONFIG).remove(1);
    let Binding::Nango(Nango::Action { provider, action }) = &send_email.binding else { panic!("an action") };
    assert_eq!((provider.as_str(), action.as_str()), ("google-mail-ynxw", "send-email"));
}

#[test]
fn get_all_tools() {
    let expect = ["fetch_emails", "send_email", "fetch_entity", "create_notion_page", "request_missing_parameters"];
    assert_eq!(names(catalog().tools()), expect);
}

#[test]
fn get_tool_by_name() {
    assert_eq!(catalog().get("send_email").unwrap().description, "Send a new email via Gmail");
    assert_eq!(catalog().get("unknown"), None);
}

#[test]
fn get_tools_by_category() {
    assert_eq!(names(catalog().by_category("Email")), ["fetch_emails", "send_email"]);
    assert_eq!(names(catalog().by_category("Calendar")), [""; 0]);
}

#[test]
fn get_tools_by_provider() {
    assert_eq!(names(catalog().by_provider("salesforce-ybzg")), ["fetch_entity"]);
    assert_eq!(names(catalog().by_provider("slack")), [""; 0]);
}

#[test]
fn format_tools_for_llm() {
    let tool = tools(r#"{"tools": [{"name": "now", "description": "The time", "providerConfigKey": "clock"}]}"#);
    let toolset = Toolset::merge(ToolSources::Catalog, tool, vec![]);
    let declared: Value = serde_json::from_str(&toolset.declarations(Dialect::OpenAiChat).json).unwrap();
    assert_eq!(
        declared,
        json!([{"type": "function", "function": {
            "name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}},
        }}])
    );
    // Keywords that validators do not know never reach a model.
    let toolset = Toolset::merge(ToolSources::Catalog, tools(TOOL_CONFIG), vec![]);
    assert!(!toolset.declarations(Dialect::OpenAiChat).json.contains("\"optional\""));
}

/// "Don't send 50 tools when user asks about calendar."
#[test]
fn tool_categories() {
    let catalog = catalog();
    let counted: Vec<(&str, usize)> = catalog.categories().collect();
    assert_eq!(counted, [("Email", 2), ("CRM", 1), ("Notes", 1), ("Meta", 1)]);
    let notes = Selection { categories: vec!["Notes".to_owned()], ..Selection::default() };
    assert_eq!(names(catalog.select(&notes).unwrap()), ["create_notion_page"]);
    let about_mail = Selection { text: Some("send an email".to_owned()), limit: Some(1), ..Selection::default() };
    assert_eq!(names(catalog.select(&about_mail).unwrap()), ["send_email"]);
}

#[test]
fn the_input_wrapper_pattern() {
    let send_email = tools(TOOL_CONFIG).remove(1);
    let parameters = send_email.checked_parameters();
    let schema = Schema::compile(&parameters).unwrap();
    let arguments =
        schema.check_arguments(r#"{"input": {"to": "ada@example.com", "subject": "Hi", "body": "…"}}"#).unwrap();
    let input = wrapper::unwrap(&parameters, arguments.into_value());
    assert_eq!(input, json!({"to": "ada@example.com", "subject": "Hi", "body": "…"}), "what the action is given");
    // Missing parameters are searched inside of the wrapper.
    let missing = missing_parameters(&schema, &json!({"input": {"to": "ada@example.com"}}));
    assert_eq!(
        missing.iter().map(|parameter| parameter.path.as_str()).collect::<Vec<_>>(),
        ["input.subject", "input.body"]
    );
}

/// As it is printed, the block does not say which model it reads; the answer says what to add.
#[test]
fn crm_entity_tools() {
    let options = ConvertOptions { from: Some(Format::ToolConfig), ..ConvertOptions::default() };
    let conversion = read(&format!(r#"{{"tools": [{FETCH_ENTITY}]}}"#), options).unwrap();
    assert_eq!(conversion.faults[0].code, "cache_model_missing");
    assert!(conversion.faults[0].hint.as_ref().unwrap().contains("providers.salesforce-ybzg"));
}

#[test]
fn the_orchestrator_routes_entities() {
    let catalog = catalog();
    let fetch_entity = catalog.get("fetch_entity").unwrap();
    let route = ToolRoute::of(fetch_entity).unwrap().unwrap();
    assert_eq!(route.model(&json!({"operation": "fetch", "entityType": "Contact"})).unwrap(), "SalesforceContact");
    assert!(route.model(&json!({"entityType": "Cat"})).is_err());
}

#[test]
fn adding_a_new_tool() {
    let tool = tools(&format!(r#"{{"tools": [{CREATE_NOTION_PAGE}]}}"#)).remove(0);
    assert_eq!(tool.category(), "Notes");
    // The action script is called `create-page` there, which no rule could derive: it is a field.
    let derived =
        Binding::Nango(Nango::Action { provider: "notion".to_owned(), action: "create-notion-page".to_owned() });
    assert_eq!(tool.binding, derived);
    let named = CREATE_NOTION_PAGE.replace("\"source\"", "\"action\": \"create-page\", \"source\"");
    let tool = tools(&format!(r#"{{"tools": [{named}]}}"#)).remove(0);
    assert_eq!(
        tool.binding,
        Binding::Nango(Nango::Action { provider: "notion".to_owned(), action: "create-page".to_owned() })
    );
}

/// The exercise: a definition for "search Slack messages".
#[test]
fn exercise_search_slack_messages() {
    let slack = json!({"tools": [{
        "name": "search_slack_messages", "description": "Search Slack messages", "category": "Messaging",
        "providerConfigKey": "slack", "source": "cache", "cache_model": "SlackMessage",
        "parameters": {"type": "object", "properties": {"input": {
            "type": "object", "properties": {"query": {"type": "string"}, "channel": {"type": "string", "optional": true}},
            "required": ["query"],
        }}},
    }]});
    let text = slack.to_string();
    let checked = check(&text, ConvertOptions::default());
    assert_eq!(checked.problems, []);
    let catalog = Catalog::new(1, checked.tools.into_iter().map(|found| found.tool).collect()).unwrap();
    let selection = Selection { text: Some("what did they say on slack".to_owned()), ..Selection::default() };
    assert_eq!(names(catalog.select(&selection).unwrap()), ["search_slack_messages"]);
}

#[test]
fn the_model_of_a_provider_may_be_in_the_same_file_or_beside_it() {
    let model = |text: &str, folder: Option<&Folder>| {
        let files = folder.map(|folder| folder as &dyn FolderFiles);
        let conversion = read(text, ConvertOptions { files, ..ConvertOptions::default() }).unwrap();
        let codes: Vec<_> = conversion.faults.iter().map(|fault| fault.code).collect();
        let warnings: Vec<_> = conversion.warnings.iter().map(|warning| warning.code).collect();
        let model = conversion.tools.first().and_then(|found| match &found.tool.binding {
            Binding::Nango(Nango::Cache { model, .. }) => Some(model.clone()),
            _ => None,
        });
        (model, codes, warnings)
    };
    let template = || Some("Salesforce{entityType}".to_owned());
    assert_eq!(model(FETCH_ENTITY, Some(&PROVIDERS)), (template(), vec![], vec![]), "as it is printed");
    let own = format!(
        r#"{{"tools": [{FETCH_ENTITY}], "providers": {{"salesforce-ybzg": {{"cache_model": "{{entityType}}"}}}}}}"#
    );
    assert_eq!(model(&own, Some(&PROVIDERS)).0.as_deref(), Some("{entityType}"), "its own come first");
    let missing = vec!["cache_model_missing"];
    assert_eq!(model(FETCH_ENTITY, None), (None, missing.clone(), vec![]));
    let other = Folder(r#"{"providers": {"notion": {"cache_model": "Page"}}}"#);
    assert_eq!(model(FETCH_ENTITY, Some(&other)), (None, missing.clone(), vec![]));
    for unreadable in ["{", "[]", r#"{"providers": []}"#] {
        let found = model(FETCH_ENTITY, Some(&Folder(unreadable)));
        assert_eq!(found, (None, missing.clone(), vec!["providers_unreadable"]), "{unreadable}");
    }
}
