//! Agent cards of 1.0, 0.3 and 0.2: what an agent is, and the interface that it is asked through.
//!
//! A card is another server's text: it is read field by field, what cannot be used is left out, and every text has a
//! limit. Of the interfaces, 1.0 is preferred to 0.3, and JSON-RPC to HTTP+JSON. gRPC and extended cards are absent.

use bosun_core::{
    ceiling::{TOOL_DESCRIPTION_BYTES, TOOL_NAME_LENGTH},
    text::{clip, visible},
};
use bosun_engine::agent_server::AgentSkill;
use bosun_wire::a2a::{AgentInterface, AgentSkill as WireSkill};
use serde_json::Value;
use url::Url;

/// How many skills of an agent are kept, and how many bytes of each text in them.
const SKILLS: usize = 64;
const SKILL_BYTES: usize = 1024;
const TAGS: usize = 16;

/// An agent, as its card describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Card {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) version: Option<String>,
    pub(super) skills: Vec<AgentSkill>,
    pub(super) interface: Interface,
}

/// Where and how an agent is asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interface {
    pub(super) url: Url,
    pub(super) transport: Transport,
    pub(super) generation: Generation,
    pub(super) tenant: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Transport {
    JsonRpc,
    HttpJson,
}

/// The version of the protocol. 0.2 has the same methods and objects as 0.3, as far as they are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Generation {
    V1,
    V03,
}

impl Transport {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

impl Generation {
    /// The value of `A2A-Version`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V03 => "0.3",
        }
    }
}

/// Why an agent cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CardFault {
    #[error("its card is not a JSON object")]
    NotAnObject,
    #[error("its card has no `name`")]
    NoName,
    #[error(
        "its card names no interface that can be used: it has {0}; JSONRPC and HTTP+JSON of 1.0 and JSONRPC of 0.3 are \
         served"
    )]
    NoInterface(String),
}

/// Reads a card. Relative URLs are relative to `base`, the address that it was fetched from.
pub(super) fn read(card: &Value, base: &Url) -> Result<Card, CardFault> {
    if !card.is_object() {
        return Err(CardFault::NotAnObject);
    }
    let text =
        |field: &str| card.get(field).and_then(Value::as_str).map(visible).filter(|text| !text.trim().is_empty());
    let name = clip(text("name").ok_or(CardFault::NoName)?.trim(), TOOL_NAME_LENGTH);
    let mut description = text("description").unwrap_or_default();
    description.truncate(description.floor_char_boundary(TOOL_DESCRIPTION_BYTES));
    let skills = card.get("skills").and_then(Value::as_array).into_iter().flatten();
    Ok(Card {
        name,
        description,
        version: text("version").map(|version| clip(&version, TOOL_NAME_LENGTH)),
        skills: skills.filter_map(skill).take(SKILLS).collect(),
        interface: interface(card, base)?,
    })
}

fn skill(skill: &Value) -> Option<AgentSkill> {
    let WireSkill { id, name, description, tags } = serde_json::from_value(skill.clone()).ok()?;
    let short = |text: String| {
        let mut text = visible(&text);
        text.truncate(text.floor_char_boundary(SKILL_BYTES));
        text
    };
    Some(AgentSkill {
        id: short(id),
        name: short(name),
        description: short(description),
        tags: tags.into_iter().take(TAGS).map(short).collect(),
    })
}

/// The best of the interfaces that a card names.
fn interface(card: &Value, base: &Url) -> Result<Interface, CardFault> {
    let named: Vec<AgentInterface> = match card.get("supportedInterfaces").and_then(Value::as_array) {
        Some(interfaces) => {
            interfaces.iter().filter_map(|interface| serde_json::from_value(interface.clone()).ok()).collect()
        }
        None => older_interfaces(card),
    };
    let usable = named.iter().filter_map(|interface| {
        let (transport, generation) = match (interface.protocol_binding.as_str(), &interface.protocol_version) {
            ("JSONRPC", version) if is_version(version, "1") => (Transport::JsonRpc, Generation::V1),
            ("HTTP+JSON", version) if is_version(version, "1") => (Transport::HttpJson, Generation::V1),
            ("JSONRPC", version) if is_version(version, "0") => (Transport::JsonRpc, Generation::V03),
            _ => return None,
        };
        let url = base.join(&interface.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        Some(Interface { url, transport, generation, tenant: interface.tenant.clone() })
    });
    // The first of the best: a card lists them in the order of the agent's preference.
    usable.min_by_key(|interface| (interface.generation, interface.transport)).ok_or_else(|| {
        let shown: Vec<_> = named
            .iter()
            .take(4)
            .map(|one| format!("{} {}", clip(&one.protocol_binding, 40), clip(&one.protocol_version, 10)))
            .collect();
        CardFault::NoInterface(if shown.is_empty() { "none".to_owned() } else { shown.join(", ") })
    })
}

/// Whether a version is one of this major version: patch releases are never negotiated, but some cards have them.
fn is_version(version: &str, major: &str) -> bool {
    version == major || version.strip_prefix(major).is_some_and(|rest| rest.starts_with('.'))
}

/// The interfaces of a card before 1.0: its `url`, and the additional ones.
fn older_interfaces(card: &Value) -> Vec<AgentInterface> {
    let text = |object: &Value, field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
    let version = text(card, "protocolVersion").unwrap_or_else(|| "0.2".to_owned());
    let interface = |url: Option<String>, transport: Option<String>| {
        Some(AgentInterface {
            url: url?,
            protocol_binding: transport.unwrap_or_else(|| "JSONRPC".to_owned()),
            tenant: None,
            protocol_version: version.clone(),
        })
    };
    let main = interface(text(card, "url"), text(card, "preferredTransport"));
    let additional = card.get("additionalInterfaces").and_then(Value::as_array).into_iter().flatten();
    let additional = additional.filter_map(|one| interface(text(one, "url"), text(one, "transport")));
    main.into_iter().chain(additional).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(card: Value, expect: Result<(&str, Transport, Generation), &str>) {
        let base = Url::parse("https://a.example/agents/x/").unwrap();
        let found = read(&card, &base).map(|card| card.interface).map_err(|fault| fault.to_string());
        match (found, expect) {
            (Ok(Interface { url, transport, generation, .. }), Ok(expect)) => {
                assert_eq!((url.as_str(), transport, generation), expect);
            }
            (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
            (found, _) => panic!("{card}: {found:?}"),
        }
    }

    #[test]
    fn the_newest_version_and_json_rpc_are_preferred() {
        let interface = |url: &str, binding: &str, version: &str| json!({"url": url, "protocolBinding": binding, "protocolVersion": version});
        let card = |interfaces: Value| json!({"name": "n", "supportedInterfaces": interfaces});
        let (rest, rpc, old, grpc) = (
            interface("https://a.example/rest", "HTTP+JSON", "1.0"),
            interface("https://a.example/rpc", "JSONRPC", "1.0"),
            interface("https://a.example/old", "JSONRPC", "0.3"),
            interface("a.example:50051", "GRPC", "1.0"),
        );
        check(card(json!([grpc, rest, old, rpc])), Ok(("https://a.example/rpc", Transport::JsonRpc, Generation::V1)));
        check(card(json!([old, rest])), Ok(("https://a.example/rest", Transport::HttpJson, Generation::V1)));
        check(card(json!([grpc, old])), Ok(("https://a.example/old", Transport::JsonRpc, Generation::V03)));
        check(
            card(json!([interface("", "JSONRPC", "1.0.1")])),
            Ok(("https://a.example/agents/x/", Transport::JsonRpc, Generation::V1)),
        );
        check(card(json!([grpc])), Err("it has GRPC 1.0;"));
        check(card(json!([interface("file:///etc", "JSONRPC", "1.0")])), Err("it has JSONRPC 1.0"));
        check(card(json!([{"url": 7}])), Err("it has none"));
    }

    #[test]
    fn cards_before_1_0_name_one_url_and_more() {
        let old = json!({"name": "n", "protocolVersion": "0.3.0", "url": "https://a.example/a"});
        check(old, Ok(("https://a.example/a", Transport::JsonRpc, Generation::V03)));
        let legacy = json!({"name": "n", "url": "https://a.example/a", "capabilities": {}});
        check(legacy, Ok(("https://a.example/a", Transport::JsonRpc, Generation::V03)));
        let additional = json!({
            "name": "n", "protocolVersion": "0.3.0", "url": "https://a.example/g", "preferredTransport": "GRPC",
            "additionalInterfaces": [{"url": "https://a.example/r", "transport": "JSONRPC"}],
        });
        check(additional, Ok(("https://a.example/r", Transport::JsonRpc, Generation::V03)));
        check(json!({"name": "n", "protocolVersion": "0.3.0"}), Err("it has none"));
        check(json!({"url": "https://a.example"}), Err("no `name`"));
        check(json!([]), Err("not a JSON object"));
    }

    #[test]
    fn texts_of_a_card_are_visible_and_bounded_and_bad_skills_are_left_out() {
        let skills = json!([{"id": "s", "name": "Sum\u{200b}", "tags": ["t"]}, {"id": "nameless"}, 7]);
        let card = json!({
            "name": "n\u{202e}", "description": "d".repeat(TOOL_DESCRIPTION_BYTES + 1), "url": "https://a.example", "skills": skills,
        });
        let card = read(&card, &Url::parse("https://a.example").unwrap()).unwrap();
        assert_eq!((card.name.as_str(), card.description.len()), ("n", TOOL_DESCRIPTION_BYTES));
        let [AgentSkill { name, tags, .. }] = &card.skills[..] else { panic!("{:?}", card.skills) };
        assert_eq!((name.as_str(), &tags[..]), ("Sum", &["t".to_owned()][..]));
    }
}
