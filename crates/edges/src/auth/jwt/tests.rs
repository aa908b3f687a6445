//! Tokens that are accepted, and every way to forge one.

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use bosun_core::{Namespace, Timestamp};
use ring::{
    hmac,
    rand::SystemRandom,
    rsa,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256},
};
use serde_json::{Value, json};

use super::{Issuer, Jwks, JwksError, TokenError};
use crate::auth::{Grant, Namespaces, Right, Rights};

const NOW: i64 = 1_800_000_000;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A provider with one key of each kind. The RSA key is a fixture: `ring` makes none.
struct Provider {
    rsa: rsa::KeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

fn rsa_fixture() -> Vec<u8> {
    let text = include_str!("../../../../../fixtures/auth/rsa-2048.pem");
    let lines = text.lines().skip_while(|line| !line.starts_with("-----")).filter(|line| !line.starts_with("-----"));
    BASE64_STANDARD.decode(lines.collect::<String>()).unwrap()
}

impl Provider {
    fn new() -> Self {
        let random = SystemRandom::new();
        let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: rsa::KeyPair::from_pkcs8(&rsa_fixture()).unwrap(),
            ec: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ec.as_ref(), &random).unwrap(),
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
        }
    }

    fn keys(&self) -> Value {
        let rsa: rsa::PublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        let point = self.ec.public_key().as_ref();
        json!({"keys": [
            {"kty": "RSA", "kid": "r", "use": "sig", "alg": "RS256", "n": encode(&rsa.n), "e": encode(&rsa.e)},
            {"kty": "EC", "kid": "e", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..])},
            {"kty": "OKP", "kid": "o", "crv": "Ed25519", "x": encode(self.ed.public_key())},
            {"kty": "oct", "kid": "h", "k": encode("a shared secret that must not be used")},
            {"kty": "RSA", "kid": "encryption", "use": "enc", "n": encode(&rsa.n), "e": encode(&rsa.e)},
        ]})
    }

    fn issuer(&self) -> Issuer {
        Issuer {
            id: "corp".into(),
            issuer: "https://id.example.org".into(),
            audience: "bosun".into(),
            user_claim: "sub".into(),
            namespaces_claim: Some("namespaces".into()),
            rights_claim: Some("scope".into()),
            namespaces: Namespaces::Listed(vec![Namespace::default()]),
            rights: std::iter::once(Right::Read).collect(),
            leeway: std::time::Duration::from_secs(60),
            keys: Jwks::parse(&self.keys().to_string()).unwrap(),
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = match header["alg"].as_str().unwrap_or_default() {
            "RS256" => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                let random = SystemRandom::new();
                self.rsa.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
                signature
            }
            "ES256" => self.ec.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec(),
            _ => self.ed.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", encode(signature))
    }

    fn verify(&self, token: &str) -> Result<Grant, TokenError> {
        self.issuer().verify(token, Timestamp(NOW * 1_000))
    }
}

fn claims() -> Value {
    json!({"iss": "https://id.example.org", "aud": "bosun", "sub": "alice", "exp": NOW + 300, "iat": NOW - 1})
}

fn with(field: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[field] = value.into();
    claims
}

fn without(field: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(field);
    claims
}

const ED: (&str, &str) = ("EdDSA", "o");

fn header((algorithm, key): (&str, &str)) -> Value {
    json!({"alg": algorithm, "kid": key, "typ": "JWT"})
}

#[test]
fn each_kind_of_key_signs_tokens_that_are_accepted() {
    let provider = Provider::new();
    for kind in [("RS256", "r"), ("ES256", "e"), ("EdDSA", "o"), ("Ed25519", "o")] {
        let grant = provider.verify(&provider.sign(&header(kind), &claims())).unwrap();
        assert_eq!((grant.actor.key(), grant.actor.user()), (Some("corp"), Some("alice")), "{kind:?}");
        assert_eq!(grant.expires, Some(Timestamp((NOW + 360) * 1_000)));
        assert_eq!(grant.namespaces, Namespaces::Listed(vec![Namespace::default()]));
        assert_eq!(grant.rights.iter().collect::<Vec<_>>(), [Right::Read]);
    }
    // A provider with one key need not name it.
    assert!(provider.verify(&provider.sign(&json!({"alg": "ES256"}), &claims())).is_ok());
    assert!(provider.verify(&provider.sign(&json!({"alg": "ES256", "typ": "at+JWT"}), &claims())).is_ok());
}

#[test]
fn claims_decide_what_a_token_may_do() {
    let provider = Provider::new();
    let grant = |claims: Value| provider.verify(&provider.sign(&header(ED), &claims)).unwrap();
    let rights = |rights: Rights| rights.iter().map(Right::as_str).collect::<Vec<_>>().join(" ");
    for (scope, expect) in [
        (json!("openid read deliver profile"), "read deliver"),
        (json!("bosun:run bosun:read other:manage"), "read run"),
        (json!(["read", "manage", 7]), "read manage"),
        (json!(""), ""),
        (json!(null), ""),
        (json!({"read": true}), ""),
        (json!("READ"), ""),
    ] {
        assert_eq!(rights(grant(with("scope", scope.clone())).rights), expect, "{scope}");
    }
    let listed = |names: &[&str]| Namespaces::Listed(names.iter().map(|name| name.parse().unwrap()).collect());
    for (claim, expect) in [
        (json!(["team-a", "team-b"]), listed(&["team-a", "team-b"])),
        (json!("team-a team-b"), listed(&["team-a", "team-b"])),
        (json!("*"), Namespaces::All),
        (json!(["Not A Name", "../default", ""]), listed(&[])),
        (json!([]), listed(&[])),
        (json!(true), listed(&[])),
    ] {
        assert_eq!(grant(with("namespaces", claim.clone())).namespaces, expect, "{claim}");
    }
    let mut deep = provider.issuer();
    deep.rights_claim = Some("/resource_access/bosun/roles".into());
    deep.user_claim = "email".into();
    let mut claims = with("resource_access", json!({"bosun": {"roles": ["audit"]}}));
    claims["email"] = "alice@example.org".into();
    let grant = deep.verify(&provider.sign(&header(ED), &claims), Timestamp(NOW * 1_000)).unwrap();
    assert_eq!((rights(grant.rights).as_str(), grant.actor.user()), ("audit", Some("alice@example.org")));
}

#[test]
fn claims_that_are_not_for_us_are_refused() {
    let provider = Provider::new();
    for (claims, expect) in [
        (with("iss", "https://evil.example.org"), TokenError::Issuer),
        (with("iss", "https://id.example.org/"), TokenError::Issuer),
        (with("iss", json!(["https://id.example.org"])), TokenError::Issuer),
        (without("iss"), TokenError::Issuer),
        (with("aud", "another"), TokenError::Audience),
        (with("aud", "bosun another"), TokenError::Audience),
        (with("aud", json!(["another", 7])), TokenError::Audience),
        (with("aud", ""), TokenError::Audience),
        (without("aud"), TokenError::Audience),
        (without("exp"), TokenError::Expired),
        (with("exp", NOW - 60), TokenError::Expired),
        (with("exp", "2099-01-01"), TokenError::Expired),
        (with("exp", json!(-1)), TokenError::Expired),
        (with("exp", json!(1e300)), TokenError::Expired),
        (with("nbf", NOW + 61), TokenError::Early),
        (with("nbf", "tomorrow"), TokenError::Malformed),
        (with("iat", NOW + 61), TokenError::Early),
        (without("sub"), TokenError::NoUser),
        (with("sub", ""), TokenError::NoUser),
        (with("sub", "a\nb"), TokenError::NoUser),
        (with("sub", 7), TokenError::NoUser),
        (json!("claims"), TokenError::Malformed),
        (json!([]), TokenError::Malformed),
    ] {
        assert_eq!(provider.verify(&provider.sign(&header(ED), &claims)), Err(expect), "{claims}");
    }
    for claims in [
        with("aud", json!(["another", "bosun"])),
        with("exp", NOW - 59),
        with("exp", json!(1_800_000_299.5)),
        with("nbf", NOW + 60),
        with("iat", NOW + 60),
    ] {
        assert!(provider.verify(&provider.sign(&header(ED), &claims)).is_ok(), "{claims}");
    }
}

#[test]
fn forged_tokens_are_refused() {
    let provider = Provider::new();
    let check = |token: String, expect: TokenError| assert_eq!(provider.verify(&token), Err(expect), "{token}");
    let unsigned = |header: Value| format!("{}.{}.", encode(header.to_string()), encode(claims().to_string()));
    // No signature at all.
    for none in ["none", "None", "NONE", "nOnE", ""] {
        check(unsigned(json!({"alg": none, "kid": "r"})), TokenError::Algorithm);
    }
    check(unsigned(json!({"kid": "r"})), TokenError::Algorithm);
    check(unsigned(header(("RS256", "r"))), TokenError::Signature);
    // The public key as a shared secret, in every form in which it is published.
    let rsa: rsa::PublicKeyComponents<Vec<u8>> = provider.rsa.public().into();
    for secret in [rsa.n.clone(), encode(&rsa.n).into_bytes(), provider.keys().to_string().into_bytes(), Vec::new()] {
        for algorithm in ["HS256", "HS384", "HS512"] {
            let signed = unsigned(header((algorithm, "r")));
            let signed = signed.trim_end_matches('.');
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), signed.as_bytes());
            check(format!("{signed}.{}", encode(tag)), TokenError::Algorithm);
            // And under the name of an algorithm that is accepted.
            let signed = unsigned(header(("RS256", "r")));
            let signed = signed.trim_end_matches('.');
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), signed.as_bytes());
            check(format!("{signed}.{}", encode(tag)), TokenError::Signature);
        }
    }
    // Algorithms and keys that do not belong together, and keys that are not for signatures.
    for (kind, expect) in [
        (("RS256", "e"), TokenError::UnknownKey),
        (("RS256", "o"), TokenError::UnknownKey),
        (("ES256", "r"), TokenError::UnknownKey),
        (("EdDSA", "e"), TokenError::UnknownKey),
        (("RS256", "encryption"), TokenError::UnknownKey),
        (("RS256", "h"), TokenError::UnknownKey),
        (("RS256", "unknown"), TokenError::UnknownKey),
        (("RS256", ""), TokenError::UnknownKey),
        (("RS512", "r"), TokenError::Algorithm),
        (("PS256", "r"), TokenError::Algorithm),
        (("ES384", "e"), TokenError::Algorithm),
        (("rs256", "r"), TokenError::Algorithm),
    ] {
        check(provider.sign(&header(kind), &claims()), expect);
    }
    // Headers that bring their own key, and critical ones that are not understood.
    let other = Provider::new();
    let own_key = json!({"alg": "EdDSA", "kid": "o", "jwk": other.keys()["keys"][2], "jku": "https://evil.example"});
    check(other.sign(&own_key, &claims()), TokenError::Signature);
    check(
        provider.sign(&json!({"alg": "EdDSA", "kid": "o", "crit": ["b64"], "b64": false}), &claims()),
        TokenError::Malformed,
    );
    check(provider.sign(&json!({"alg": "EdDSA", "kid": "o", "typ": "logout+jwt"}), &claims()), TokenError::Malformed);
    // Not three parts, or not what parts are.
    let good = provider.sign(&header(ED), &claims());
    for bad in [
        String::new(),
        ".".into(),
        "..".into(),
        format!("{good}."),
        format!("{good}.x"),
        format!(".{good}"),
        good.replacen('.', "", 1),
        format!("{good}="),
        good.replace('.', ". "),
    ] {
        check(bad, TokenError::Malformed);
    }
    // A duplicate key is ambiguous.
    let twice = format!("{}.{}", encode(r#"{"alg":"none","alg":"EdDSA","kid":"o"}"#), encode(claims().to_string()));
    let signature = encode(provider.ed.sign(twice.as_bytes()));
    check(format!("{twice}.{signature}"), TokenError::Malformed);
}

#[test]
fn a_token_that_is_changed_anywhere_is_refused() {
    let provider = Provider::new();
    for kind in [("RS256", "r"), ("ES256", "e"), ("EdDSA", "o")] {
        let good = provider.sign(&header(kind), &claims());
        let issuer = provider.issuer();
        for index in 0..good.len() {
            let mut bytes = good.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            let refused = issuer.verify(&changed, Timestamp(NOW * 1_000));
            assert!(refused.is_err(), "{kind:?} at {index}: {changed}");
        }
        for length in 0..good.len() {
            assert!(issuer.verify(&good[..length], Timestamp(NOW * 1_000)).is_err(), "{kind:?} cut at {length}");
        }
    }
}

#[test]
fn key_sets_that_verify_nothing_are_refused() {
    for (text, expect) in [
        ("", "not JSON"),
        ("[]", "no list"),
        (r#"{"keys": {}}"#, "no list"),
        (r#"{"keys": []}"#, "no key"),
        (r#"{"keys": [{"kty": "oct", "k": "AAAA"}]}"#, "no key"),
        (r#"{"keys": [{"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"}]}"#, "no key"),
        (r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "not base64!"}]}"#, "no key"),
        (r#"{"keys": [{"kty": "EC", "crv": "P-384", "x": "AAAA", "y": "AAAA"}]}"#, "no key"),
    ] {
        let error: JwksError = Jwks::parse(text).unwrap_err();
        assert!(error.to_string().contains(expect), "{text}: {error}");
    }
}
