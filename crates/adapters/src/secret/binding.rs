//! The destinations that a secret may be sent to.
//!
//! Its key `allowed-hosts` applies to every manifest. Without that list, a manifest in a file sends a secret to any
//! host it names, since an operator who writes files could read the secret as well. A manifest that a client has stored
//! does not: it sends a secret only to where a file of its namespace sends it; to its provider's own API, if no file
//! sends it anywhere; and to an address that is stored in that very secret. It never puts one into the body of a
//! request, which an API may store for the owner of the key that it is sent with.
//! `docs/decisions/006-secrets-and-hosts.md` has the reasons.

use std::{collections::BTreeSet, sync::Arc};

use bosun_core::{Namespace, tool::SecretRef};
use url::Url;

use super::{
    ALLOWED_HOSTS, SecretError, SecretSource, Secrets, clip,
    hosts::{self, BadLine},
};

/// The part of a request that a secret becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPart {
    /// The key of the API.
    Key,
    Header,
    Body,
}

/// The destination of a request.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    pub url: &'a Url,
    /// The name of the secret that holds the address, if one does.
    pub kept_in: Option<&'a str>,
}

/// Which destinations the secrets of a manifest may be sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecretReach {
    /// The manifest is a file.
    #[default]
    File,
    /// A client has stored it. `own` is the address of the provider's own API, if it has one.
    Stored { grants: Arc<Grants>, own: Option<&'static str> },
}

impl Destination<'_> {
    /// How a refusal names it. An address that is a secret is not shown.
    fn shown(&self, place: &str) -> String {
        match self.kept_in {
            Some(secret) => format!("the address in secret `{}`", clip(secret)),
            None => format!("`{}`", clip(place)),
        }
    }
}

impl SecretReach {
    /// Whether a secret may be this part of a request, to any destination.
    ///
    /// # Errors
    /// If it may not.
    pub fn permit_part(&self, name: &str, part: HostPart) -> Result<(), SecretError> {
        match self {
            Self::Stored { .. } if part == HostPart::Body => Err(SecretError::NotInBody { name: clip(name) }),
            Self::File | Self::Stored { .. } => Ok(()),
        }
    }

    fn includes(&self, namespace: &Namespace, name: &str, part: HostPart, to: Destination<'_>) -> bool {
        match self {
            Self::File => true,
            Self::Stored { grants, own } => {
                let is_own = || own.is_some_and(|own| Url::parse(own).is_ok_and(|own| own.origin() == to.url.origin()));
                // A secret that files send elsewhere is known not to be a key of this API.
                let may_be_own = || part == HostPart::Key && is_own() && !grants.know(namespace, name);
                to.kept_in == Some(name) || grants.include(namespace, name, to.url) || may_be_own()
            }
        }
    }
}

/// The addresses that the files of a server send each secret to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeSet<(Namespace, String, String)>);

impl Grants {
    /// Adds that a file of `namespace` sends `source` to `url`.
    pub fn add(&mut self, namespace: &Namespace, source: &SecretSource, url: &Url) {
        if let SecretSource::Reference(SecretRef { name, .. }) = source {
            self.0.insert((namespace.clone(), name.clone(), origin(url)));
        }
    }

    /// Whether a file sends this secret to any address.
    fn know(&self, namespace: &Namespace, name: &str) -> bool {
        let first = (namespace.clone(), name.to_owned(), String::new());
        let found = self.0.range(first..).next();
        found.is_some_and(|(owner, known, _)| owner == namespace && known == name)
    }

    fn include(&self, namespace: &Namespace, name: &str, url: &Url) -> bool {
        self.0.contains(&(namespace.clone(), name.to_owned(), origin(url)))
    }
}

/// Scheme, host and port: another port of the same machine is another service.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

impl Secrets {
    /// Whether a secret may be sent to the destination of a manifest. The answer does not reveal whether the secret
    /// exists.
    ///
    /// # Errors
    /// If it may not, or if that cannot be determined.
    pub async fn permit(
        &self,
        namespace: &Namespace,
        SecretRef { name, .. }: &SecretRef,
        part: HostPart,
        to: Destination<'_>,
        reach: &SecretReach,
    ) -> Result<(), SecretError> {
        reach.permit_part(name, part)?;
        let beside = SecretRef { name: name.clone(), key: ALLOWED_HOSTS.to_owned(), optional: true };
        let Some(listed) = self.resolve(namespace, &SecretSource::Reference(beside)).await? else {
            if reach.includes(namespace, name, part, to) {
                return Ok(());
            }
            let (namespace, address) = (namespace.clone(), to.shown(&origin(to.url)));
            return Err(SecretError::NotGranted { namespace, name: clip(name), address });
        };
        match hosts::admit(listed.expose(), to.url) {
            Ok(true) => Ok(()),
            Ok(false) => Err(SecretError::HostNotAllowed { name: clip(name), address: to.shown(&origin(to.url)) }),
            // The line is not repeated: it may be a secret in the wrong file.
            Err(BadLine(line)) => Err(SecretError::BadHosts { name: clip(name), line }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const OWN: &str = "https://api.openai.com";

    fn write(root: &Path, path: &str, content: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn reference(name: &str) -> SecretRef {
        SecretRef { name: name.into(), key: "api-key".into(), optional: false }
    }

    fn stored() -> SecretReach {
        let mut grants = Grants::default();
        let granted = Url::parse("https://models.example.org/v1").unwrap();
        grants.add(&Namespace::default(), &SecretSource::Reference(reference("openai")), &granted);
        SecretReach::Stored { grants: Arc::new(grants), own: Some(OWN) }
    }

    #[tokio::test]
    async fn a_secret_with_a_list_is_sent_to_its_hosts_only() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "default/openai/allowed-hosts", "api.openai.com\n*.example.com\n");
        let secrets = Secrets::new(Some(root.path().to_owned()), []);
        for reach in [SecretReach::File, stored()] {
            let to = async |address: &str| {
                let url = if address.contains("://") { address.to_owned() } else { format!("https://{address}/v1") };
                let url = Url::parse(&url).unwrap();
                let to = Destination { url: &url, kept_in: None };
                let permitted =
                    secrets.permit(&Namespace::default(), &reference("openai"), HostPart::Key, to, &reach).await;
                permitted.map_err(|error| error.to_string())
            };
            for host in ["api.openai.com", "API.openai.com", "api.openai.com.", "a.example.com", "b.a.example.com"] {
                assert_eq!(to(host).await, Ok(()), "{host}");
            }
            for host in [
                "evil.example",
                "api.openai.com.evil.example",
                "xapi.openai.com",
                "openai.com",
                "example.com",
                "evilexample.com",
                "127.0.0.1",
                "ü.example.org",
                // A list is exhaustive, also where a file sends the secret elsewhere.
                "models.example.org",
                // It could be read in transit.
                "http://api.openai.com/v1",
            ] {
                let refused = to(host).await.unwrap_err();
                assert!(refused.contains("its key `allowed-hosts` does not list that address"), "{host}: {refused}");
            }
        }
    }

    #[tokio::test]
    async fn a_secret_with_an_invalid_list_is_sent_nowhere_and_the_list_is_not_repeated() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "default/openai/allowed-hosts", "api.openai.com\nsk cnry 7f3a\n");
        let secrets = Secrets::new(Some(root.path().to_owned()), []);
        let url = Url::parse("https://api.openai.com/v1").unwrap();
        let to = Destination { url: &url, kept_in: None };
        for reach in [SecretReach::File, stored()] {
            let refused = secrets.permit(&Namespace::default(), &reference("openai"), HostPart::Key, to, &reach).await;
            let refused = refused.unwrap_err();
            assert!(refused.is_refusal());
            assert_eq!(
                refused.to_string(),
                "secret `openai` is not sent anywhere: line 2 of its key `allowed-hosts` is not a host; write `api.example.com`, \
                 `api.example.com:8443`, `https://api.example.com` or `*.example.com`"
            );
        }
    }

    #[tokio::test]
    async fn without_a_list_a_stored_manifest_is_bound_by_the_files() {
        let secrets = Secrets::default();
        let check = async |reach: &SecretReach, namespace: &str, name: &str, part, to: &str, kept_in| {
            let url = Url::parse(to).unwrap();
            let to = Destination { url: &url, kept_in };
            secrets.permit(&namespace.parse().unwrap(), &reference(name), part, to, reach).await.is_ok()
        };
        for part in [HostPart::Key, HostPart::Header, HostPart::Body] {
            assert!(check(&SecretReach::File, "default", "openai", part, "http://anywhere.example", None).await);
        }
        let stored = stored();
        for (namespace, name, part, to, kept_in, expect) in [
            ("default", "openai", HostPart::Key, "https://models.example.org/v2?x=1", None, true),
            ("default", "openai", HostPart::Header, "https://models.example.org", None, true),
            ("default", "openai", HostPart::Body, "https://models.example.org", None, false),
            ("default", "openai", HostPart::Key, "http://models.example.org", None, false),
            ("default", "openai", HostPart::Key, "https://models.example.org:8443", None, false),
            ("default", "openai", HostPart::Key, "https://models.example.org.", None, false),
            ("default", "other", HostPart::Key, "https://models.example.org", None, false),
            ("team-b", "openai", HostPart::Key, "https://models.example.org", None, false),
            ("default", "other", HostPart::Key, "https://api.openai.com/v1", None, true),
            ("default", "openai", HostPart::Key, "https://api.openai.com/v1", None, false),
            ("team-b", "openai", HostPart::Key, "https://api.openai.com/v1", None, true),
            ("default", "other", HostPart::Header, "https://api.openai.com/v1", None, false),
            ("default", "other", HostPart::Key, "http://api.openai.com/v1", None, false),
            ("default", "other", HostPart::Key, "https://api.openai.com:444/v1", None, false),
            ("default", "other", HostPart::Key, "https://evil.example", Some("other"), true),
            ("default", "other", HostPart::Key, "https://evil.example", Some("openai"), false),
            ("default", "other", HostPart::Body, "https://evil.example", Some("other"), false),
        ] {
            let found = check(&stored, namespace, name, part, to, kept_in).await;
            assert_eq!(found, expect, "{namespace}/{name} as {part:?} to {to}");
        }
    }

    #[tokio::test]
    async fn a_refusal_does_not_reveal_an_address_that_is_a_secret() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "default/listed/allowed-hosts", "api.openai.com\n");
        let secrets = Secrets::new(Some(root.path().to_owned()), []);
        let url = Url::parse("https://cnry.example:8443/v1").unwrap();
        let to = Destination { url: &url, kept_in: Some("address") };
        for name in ["none", "listed"] {
            let refused = secrets.permit(&Namespace::default(), &reference(name), HostPart::Key, to, &stored()).await;
            let shown = refused.unwrap_err().to_string();
            let expect = format!("secret `{name}` may not be sent to the address in secret `address`");
            assert!(shown.starts_with(&expect) && !shown.contains("cnry") && !shown.contains("8443"), "{shown}");
        }
    }

    #[tokio::test]
    async fn a_refusal_says_what_to_do_and_not_whether_the_secret_exists() {
        let secrets = Secrets::default();
        let url = Url::parse("http://127.0.0.1:9/v1?key=cnry").unwrap();
        let to = Destination { url: &url, kept_in: None };
        let refused = secrets.permit(&Namespace::default(), &reference("none"), HostPart::Key, to, &stored()).await;
        assert_eq!(
            refused.unwrap_err().to_string(),
            "secret `none` may not be sent to `http://127.0.0.1:9` by a stored manifest: no manifest in a file of \
             namespace `default` sends it there; list the host in `<secrets>/default/none/allowed-hosts`, or put the \
             manifest in a file"
        );
        let refused = secrets.permit(&Namespace::default(), &reference("none"), HostPart::Body, to, &stored()).await;
        assert_eq!(
            refused.unwrap_err().to_string(),
            "secret `none` may not be sent in the body of a request by a stored manifest; use `headers` or a model's \
             `apiKey`, or put the manifest in a file"
        );
    }
}
