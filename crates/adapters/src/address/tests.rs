use super::*;

/// Spellings of addresses that are not public, as a URL may contain them.
const PRIVATE: &[&str] = &[
    // This machine, in every spelling that a URL allows.
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "0x7f.0x0.0x0.0x1",
    "127.0.0.1.",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "0",
    "0.0.0.0",
    "0.1.2.3",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "a.b.localhost.",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    // Its own network.
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "3232235521",
    "100.64.0.1",
    "100.127.255.255",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[fe80::1]",
    "[fec0::1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:192.168.0.1]",
    // Metadata services of clouds.
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:a9fe:a9fe]",
    "[fd00:ec2::254]",
    // Embedded addresses.
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001::1]",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    // Reserved, multicast, documentation.
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "[ff02::1]",
    "[100::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[5f00::1]",
    "[4000::1]",
    "[::1:2:3]",
];

const PUBLIC: &[&str] = &[
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "203.0.112.255",
    "223.255.255.255",
    "[2606:4700::1111]",
    "[2001:200::1]",
    "[2003::1]",
    "[2a00:1450::1]",
    "[3ffe::1]",
    "[::ffff:1.1.1.1]",
    "api.openai.com",
    "localhost.example",
    "notlocalhost",
    "10.example",
];

fn url(host: &str) -> Url {
    Url::parse(&format!("http://{host}:8000/v1")).unwrap_or_else(|error| panic!("{host}: {error}"))
}

#[test]
fn private_addresses_are_refused_in_every_spelling() {
    let reachable = Reachable::default();
    for host in PRIVATE {
        assert!(reachable.check_of(&url(host)).is_err(), "{host} is {}", url(host));
    }
    for host in PUBLIC {
        assert_eq!(reachable.check_of(&url(host)), Ok(AddressCheck::Checked), "{host} is {}", url(host));
    }
}

#[test]
fn a_resolved_address_is_checked_like_a_literal_one() {
    let reachable = Reachable::default();
    for (hosts, expect) in [(PRIVATE, false), (PUBLIC, true)] {
        for address in hosts.iter().filter_map(|host| literal(&url(host))) {
            assert_eq!(reachable.includes(address), expect, "{address}");
        }
    }
}

#[test]
fn an_exception_is_one_host_or_one_network_and_no_other() {
    let check = |exceptions: &[&str], host: &str, expect: Result<AddressCheck, ()>| {
        let exceptions = exceptions.iter().map(|text| text.parse().unwrap_or_else(|_| panic!("{text}")));
        let way = Reachable::new(exceptions).check_of(&Url::parse(host).unwrap());
        assert_eq!(way.map_err(|_| ()), expect, "{host}");
    };
    let (free, checked) = (Ok(AddressCheck::Free), Ok(AddressCheck::Checked));
    check(&["localhost"], "http://localhost:11434/v1", free);
    check(&["LocalHost."], "https://LOCALHOST./v1", free);
    check(&["localhost"], "http://127.0.0.1:11434/v1", Err(()));
    check(&["localhost"], "http://a.localhost/v1", Err(()));
    check(&["localhost:11434"], "http://localhost:11434/v1", free);
    check(&["localhost:11434"], "http://localhost:11435/v1", Err(()));
    check(&["localhost:80"], "http://localhost/v1", free);
    check(&["localhost:443"], "http://localhost/v1", Err(()));
    check(&["localhost:443"], "https://localhost/v1", free);
    check(&["127.0.0.1:9"], "http://127.0.0.1:9/", free);
    check(&["127.0.0.1:9"], "http://2130706433:9/", free);
    check(&["127.0.0.1:9"], "http://127.0.0.1/", Err(()));
    check(&["::1"], "http://[::1]:9/", free);
    check(&["[::1]:9"], "http://[::1]:9/", free);
    check(&["[::1]:9"], "http://[::1]:8/", Err(()));
    check(&["models.internal"], "http://models.internal:8000/", free);
    check(&["models.internal"], "http://other.internal:8000/", checked);
    check(&["models.internal"], "http://xmodels.internal/", checked);
    check(&["10.1.0.0/16"], "http://10.1.2.3/", checked);
    check(&["10.1.0.0/16"], "http://10.2.0.1/", Err(()));
    check(&["10.1.0.0/16"], "http://[::ffff:10.1.2.3]/", checked);
    check(&["127.0.0.0/8"], "http://localhost:9/", checked);
    check(&["fd00::/8"], "http://[fd12::1]/", checked);
    check(&["fd00::/8"], "http://[fc00::1]/", Err(()));
    check(&["0.0.0.0/0"], "http://169.254.169.254/", checked);
    check(&["0.0.0.0/0"], "http://[::1]/", Err(()));
    check(&["1.2.3.4", "10.1.0.0/16"], "http://127.0.0.1/", Err(()));
}

#[test]
fn an_invalid_exception_is_an_error() {
    for text in [
        "",
        " ",
        "a b",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/",
        "/8",
        "x/8",
        "::/129",
        "http://localhost",
        "localhost:",
        "localhost:99999",
        "localhost:x",
        "user@localhost",
        "localhost?x",
        "localhost#x",
        "localhost\\x",
        "*.internal",
        "*",
        "%6c",
    ] {
        assert_eq!(text.parse::<Exception>(), Err(InvalidException), "{text}");
    }
}
