//! Which model a new folder has, and the manifest that describes it.

use std::str::FromStr;

use reqwest::Url;
use serde_json::Value;

/// What can be chosen with `--model`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ModelChoice {
    /// Answers from a script: no key, no network.
    Scripted,
    OpenAi,
    Anthropic,
    /// Another API that speaks OpenAI's chat completions, by its base URL.
    Compatible(Url),
}

impl FromStr for ModelChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "scripted" => return Ok(Self::Scripted),
            "openai" => return Ok(Self::OpenAi),
            "anthropic" => return Ok(Self::Anthropic),
            _ => {}
        }
        match Url::parse(text) {
            Ok(url) if !url.username().is_empty() || url.password().is_some() || url.query().is_some() => {
                Err("a base URL has no user, password or parameters: a key goes into a file".into())
            }
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Self::Compatible(url)),
            _ => Err(format!(
                "`{text}` is not a model: expected scripted, openai, anthropic or a base URL, for instance \
                 http://127.0.0.1:11434/v1"
            )),
        }
    }
}

impl ModelChoice {
    /// The name of the model in the API, if there is a common one.
    pub(super) fn usual_name(&self) -> Option<&'static str> {
        match self {
            // A script ignores the name.
            Self::Scripted => Some("scripted"),
            Self::OpenAi => Some("gpt-4o-mini"),
            Self::Anthropic => Some("claude-sonnet-4-5"),
            Self::Compatible(_) => None,
        }
    }

    /// The name of the secret that holds the key. No key is sent over plain http.
    pub(super) fn secret(&self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("openai"),
            Self::Anthropic => Some("anthropic"),
            Self::Compatible(url) if url.scheme() == "https" => Some("model"),
            Self::Scripted | Self::Compatible(_) => None,
        }
    }

    /// The manifest of the model `default`. Servers with one model accept any name for it.
    pub(super) fn manifest(&self, name: Option<&str>) -> String {
        let (provider, base_url) = match self {
            Self::Scripted => return include_str!("files/scripted.yaml").to_owned(),
            Self::OpenAi => ("openai", Some("https://api.openai.com/v1")),
            Self::Anthropic => ("anthropic", None),
            Self::Compatible(url) => ("openai", Some(url.as_str().trim_end_matches('/'))),
        };
        let name = quoted(name.or(self.usual_name()).unwrap_or("default"));
        let mut text = String::from("# The model of agents that name none.\n");
        if let Some(secret) = self.secret() {
            let variable = format!("BOSUN_SECRET_{}_API_KEY", secret.to_uppercase());
            text.push_str(&format!(
                "# Its key is in ../secrets/default/{secret}/api-key or in the variable {variable}, never in this file.\n"
            ));
        }
        text.push_str(&format!(
            "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Model\nmetadata:\n  name: default\nspec:\n  \
             provider: {provider}\n  model:\n    # Its name in the API.\n    value: {name}\n  config:\n    {provider}:\n"
        ));
        if let Some(url) = base_url {
            text.push_str(&format!("      baseUrl:\n        value: {}\n", quoted(url)));
        }
        if let Some(secret) = self.secret() {
            text.push_str(&format!(
                "      apiKey:\n        valueFrom:\n          secretKeyRef:\n            name: {secret}\n            \
                 key: api-key\n"
            ));
        }
        text
    }
}

/// A YAML string: every JSON string is one.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_a_provider_or_the_base_url_of_an_api() {
        for (text, secret) in [
            ("scripted", None),
            ("openai", Some("openai")),
            ("anthropic", Some("anthropic")),
            ("https://api.example.com/v1", Some("model")),
            ("http://127.0.0.1:11434/v1", None),
        ] {
            assert_eq!(ModelChoice::from_str(text).map(|model| model.secret()), Ok(secret), "{text}");
        }
        for text in ["", "gpt", "ftp://host/v1", "127.0.0.1:11434", "https://key@host/v1", "https://host/v1?key=1"] {
            assert!(ModelChoice::from_str(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_is_referred_to_and_never_written() {
        let check = |model: &str, name: Option<&str>, expect: &[&str]| {
            let manifest = ModelChoice::from_str(model).unwrap().manifest(name);
            for part in expect {
                assert!(manifest.contains(part), "`{part}` is not in:\n{manifest}");
            }
            assert_eq!(manifest.contains("apiKey"), manifest.contains("secretKeyRef"), "{manifest}");
        };
        check("openai", None, &["value: \"gpt-4o-mini\"", "name: openai", "https://api.openai.com/v1"]);
        check("anthropic", Some("claude-x"), &["provider: anthropic", "value: \"claude-x\"", "name: anthropic"]);
        check("http://127.0.0.1:1/v1/", None, &["value: \"http://127.0.0.1:1/v1\"", "value: \"default\""]);
        check("https://host/v1", Some("a: b"), &["value: \"a: b\"", "BOSUN_SECRET_MODEL_API_KEY"]);
    }
}
