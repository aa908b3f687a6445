//! Bearer tokens of an identity provider: JWTs with a signature that its published keys verify.
//!
//! The key decides how a signature is checked, and the token's own `alg` must agree: so there is no
//! `none`, and no public key is ever mistaken for a shared secret. RS256, ES256 and EdDSA are accepted; keys
//! of other kinds are skipped. Every fault of a token gets the same refusal. Keys are given as text: fetching
//! and refreshing them is not decided here. `docs/decisions/013-tokens.md` says why no library for tokens does this.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bosun_core::{Actor, Timestamp, json};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use super::{EndUsers, Grant, Namespaces, Right, Rights};

/// An optional prefix of the words in a claim, so that scopes of several programs can coexist.
const SCOPE_PREFIX: &str = "bosun:";

/// An identity provider whose tokens are accepted, and what they grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The key id that journals record for callers with such a token, before the name of the user.
    pub id: String,
    /// `iss` must be this.
    pub issuer: String,
    /// `aud` must be this, or have it.
    pub audience: String,
    /// The claim that names the user.
    pub user_claim: String,
    /// The claims that list namespaces and rights: a name, or a JSON pointer if it begins with `/`.
    pub namespaces_claim: Option<String>,
    pub rights_claim: Option<String>,
    /// The defaults of a token without these claims.
    pub namespaces: Namespaces,
    pub rights: Rights,
    /// The tolerated clock skew.
    pub leeway: Duration,
    pub keys: Jwks,
}

/// Why a token is rejected. The log has the reason, and the client gets the same 401 for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    #[error("the token is not a JWT")]
    Malformed,
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// Its provider may have new keys.
    #[error("the token is signed with a key that is not known")]
    UnknownKey,
    #[error("the signature of the token is wrong")]
    Signature,
    #[error("the token is of another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    Early,
    #[error("the token names no user")]
    NoUser,
}

impl Issuer {
    /// What the bearer of `token` may do.
    pub(super) fn verify(&self, token: &str, now: Timestamp) -> Result<Grant, TokenError> {
        let mut parts = token.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Malformed);
        };
        let signed = &token[..header.len() + 1 + claims.len()];
        self.verify_signature(&object(header)?, signed, &bytes(signature)?)?;
        self.read(&object(claims)?, now)
    }

    fn verify_signature(&self, header: &Value, signed: &str, signature: &[u8]) -> Result<(), TokenError> {
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        let algorithm = text("alg").and_then(Algorithm::parse).ok_or(TokenError::Algorithm)?;
        // A critical header is not understood (RFC 7515, 4.1.11), and a token of another type is not an access token.
        let is_token = text("typ").is_none_or(|kind| {
            ["jwt", "at+jwt", "application/at+jwt"].iter().any(|known| kind.eq_ignore_ascii_case(known))
        });
        if header.get("crit").is_some() || !is_token {
            return Err(TokenError::Malformed);
        }
        let keys: Vec<_> = self.keys.find(text("kid"), algorithm).collect();
        if keys.is_empty() {
            return Err(TokenError::UnknownKey);
        }
        let verified = keys.iter().any(|key| key.verify(signed.as_bytes(), signature));
        if verified { Ok(()) } else { Err(TokenError::Signature) }
    }

    fn read(&self, claims: &Value, now: Timestamp) -> Result<Grant, TokenError> {
        if claims.get("iss").and_then(Value::as_str) != Some(self.issuer.as_str()) {
            return Err(TokenError::Issuer);
        }
        if !words(claims.get("aud"), false).any(|audience| audience == self.audience) {
            return Err(TokenError::Audience);
        }
        let leeway = i64::try_from(self.leeway.as_millis()).unwrap_or(i64::MAX);
        let expires = seconds(claims.get("exp")).ok_or(TokenError::Expired)?;
        let expires = Timestamp(expires.0.saturating_add(leeway));
        if now >= expires {
            return Err(TokenError::Expired);
        }
        for name in ["nbf", "iat"] {
            match claims.get(name) {
                None => {}
                Some(value) => {
                    let from = seconds(Some(value)).ok_or(TokenError::Malformed)?;
                    if from.0 > now.0.saturating_add(leeway) {
                        return Err(TokenError::Early);
                    }
                }
            }
        }
        let user = claim(claims, &self.user_claim).and_then(Value::as_str).ok_or(TokenError::NoUser)?;
        let actor = Actor::of_key(&self.id).and_then(|actor| actor.acting_for(user));
        Ok(Grant {
            actor: actor.map_err(|_| TokenError::NoUser)?,
            namespaces: self.namespaces_of(claims),
            rights: self.rights_of(claims),
            may_act_for: EndUsers::Listed(Vec::new()),
            expires: Some(expires),
        })
    }

    fn namespaces_of(&self, claims: &Value) -> Namespaces {
        let Some(listed) = self.namespaces_claim.as_deref().and_then(|name| claim(claims, name)) else {
            return self.namespaces.clone();
        };
        if words(Some(listed), true).any(|word| word == "*") {
            return Namespaces::All;
        }
        // A word that is not a valid namespace grants none.
        Namespaces::Listed(words(Some(listed), true).filter_map(|word| word.parse().ok()).collect())
    }

    fn rights_of(&self, claims: &Value) -> Rights {
        let Some(listed) = self.rights_claim.as_deref().and_then(|name| claim(claims, name)) else {
            return self.rights;
        };
        // Scopes of other programs are ignored.
        let named = |word: &str| {
            let word = word.strip_prefix(SCOPE_PREFIX).unwrap_or(word);
            Right::ALL.iter().copied().find(|right| right.as_str() == word)
        };
        words(Some(listed), true).filter_map(named).collect()
    }
}

fn claim<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    if name.starts_with('/') { claims.pointer(name) } else { claims.get(name) }
}

/// The texts of a claim that is one text or a list of them. In a list of words, one text may be several.
fn words(value: Option<&Value>, split: bool) -> impl Iterator<Item = &str> {
    let texts: Vec<&str> = match value {
        Some(Value::String(text)) if split => text.split_ascii_whitespace().collect(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    texts.into_iter()
}

/// A `NumericDate`: seconds, which may have a fraction.
fn seconds(value: Option<&Value>) -> Option<Timestamp> {
    let number = value?.as_f64().filter(|number| number.is_finite() && (0.0..1e14).contains(number))?;
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    let millis = (number * 1_000.0) as i64;
    Some(Timestamp(millis))
}

fn bytes(part: &str) -> Result<Vec<u8>, TokenError> {
    BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}

/// A part that must be an object. One with a duplicate key is ambiguous, and is rejected.
fn object(part: &str) -> Result<Value, TokenError> {
    let text = String::from_utf8(bytes(part)?).map_err(|_| TokenError::Malformed)?;
    let value = json::parse(&text, json::JsonLimits::BODY).map_err(|_| TokenError::Malformed)?;
    if value.is_object() { Ok(value) } else { Err(TokenError::Malformed) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            // RFC 9864 gives the curve its own name.
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// The keys that an identity provider publishes (RFC 7517).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jwks(Vec<Jwk>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Jwk {
    id: Option<String>,
    material: KeyMaterial,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyMaterial {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// The uncompressed point.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Why a set of keys is not read.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    #[error("the key set is not JSON")]
    NotJson(#[source] json::JsonError),
    #[error("the key set has no list `keys`")]
    NoList,
    #[error("the key set has no key for RS256, ES256 or EdDSA")]
    NoKey,
}

impl Jwks {
    /// Reads a key set. Keys of other kinds, or for other uses, are skipped.
    ///
    /// # Errors
    /// If it is not a key set, or has no key that can verify anything.
    pub fn parse(text: &str) -> Result<Self, JwksError> {
        let document = json::parse(text, json::JsonLimits::BODY).map_err(JwksError::NotJson)?;
        let listed = document.get("keys").and_then(Value::as_array).ok_or(JwksError::NoList)?;
        let keys: Vec<_> = listed.iter().filter_map(Jwk::read).collect();
        if keys.is_empty() { Err(JwksError::NoKey) } else { Ok(Self(keys)) }
    }

    /// The keys that may have made a signature. A token without a `kid` may be signed by any of them.
    fn find<'a>(&'a self, id: Option<&'a str>, algorithm: Algorithm) -> impl Iterator<Item = &'a Jwk> {
        self.0.iter().filter(move |key| key.algorithm() == algorithm && (id.is_none() || key.id.as_deref() == id))
    }
}

impl Jwk {
    fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let part = |name: &str| bytes(text(name)?).ok();
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyMaterial::Rsa { modulus: part("n")?, exponent: part("e")? },
            ("EC", Some("P-256")) => {
                let (x, y) = (part("x")?, part("y")?);
                let is_point = x.len() == 32 && y.len() == 32;
                KeyMaterial::P256(is_point.then(|| [&[4], x.as_slice(), y.as_slice()].concat())?)
            }
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(part("x").filter(|x| x.len() == 32)?),
            _ => return None,
        };
        let key = Self { id: text("kid").map(str::to_owned), material };
        let for_signatures = text("use").is_none_or(|purpose| purpose == "sig");
        let agrees = text("alg").is_none_or(|name| Algorithm::parse(name) == Some(key.algorithm()));
        (for_signatures && agrees).then_some(key)
    }

    fn algorithm(&self) -> Algorithm {
        match self.material {
            KeyMaterial::Rsa { .. } => Algorithm::Rs256,
            KeyMaterial::P256(_) => Algorithm::Es256,
            KeyMaterial::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            KeyMaterial::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                &signature::RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            KeyMaterial::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            KeyMaterial::Ed25519(point) => {
                UnparsedPublicKey::new(&signature::ED25519, point).verify(message, signature)
            }
        }
        .is_ok()
    }
}

#[cfg(test)]
mod tests;
