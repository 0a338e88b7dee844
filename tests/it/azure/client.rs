//! The client of `daytable_azure`: Microsoft's client reads the written entities, and each fault on the way is
//! classified correctly.

use super::emulator::{Azurite, client, kind, wait};
use super::proxy::{Fault, Proxy};
use daytable_azure::{
    Backoff, Client, ClientOptions, DateTime, EdmValue, Entity, Error, ErrorKind, IfMatch, Pauses, Pushed, Query,
    SealedTransaction, ThrottleScope, Transaction, WriteMode, literal,
};
use std::time::Duration;

const TABLE: &str = "Log20261121";

/// Entities with RowKeys of six digits.
fn numbered(client: &Client, partition: &str, numbers: std::ops::Range<usize>) -> SealedTransaction {
    let mut transaction = Transaction::new(client.account(), TABLE, partition);
    for number in numbers {
        let properties =
            [("Message", EdmValue::from("started")), ("Number", EdmValue::Int64(number.try_into().expect("small")))];
        assert_eq!(transaction.push(&format!("{number:06}"), properties), Pushed::Added);
    }
    transaction.seal()
}

/// All entities of a query, in pages of `top`.
async fn all(client: &Client, query: Query) -> Result<Vec<Entity>, Error> {
    let (mut entities, mut next) = (Vec::new(), None);
    loop {
        let page = client.query(TABLE, &query, next.as_ref()).await?;
        entities.extend(page.entities);
        next = page.next;
        if next.is_none() {
            return Ok(entities);
        }
    }
}

#[test]
fn values_of_every_type_are_what_microsofts_client_reads() {
    let azurite = Azurite::start();
    let client = azurite.client();
    let partitions = ["web-17", "it's a \"café\" \u{2028}100%+&=;{x}"];
    let text =
        "tab\t line\nsep\u{2028} \u{1}quote\" back\\slash €\u{10348} --changeset_entities\r\n--batch_transaction--";
    let long = "é".repeat(32 << 10);
    let properties = || {
        [
            ("Text", EdmValue::from(text)),
            ("Empty", EdmValue::from("")),
            ("Long", EdmValue::from(long.as_str())),
            ("Yes", EdmValue::Boolean(true)),
            ("Small", EdmValue::Int32(i32::MIN)),
            ("Large", EdmValue::Int64(i64::MAX)),
            ("Whole", EdmValue::Double(1.0)),
            ("Third", EdmValue::Double(1.0 / 3.0)),
            ("Tiny", EdmValue::Double(5e-324)),
            ("Infinite", EdmValue::Double(f64::INFINITY)),
            ("Below", EdmValue::Double(f64::NEG_INFINITY)),
            ("NoNumber", EdmValue::Double(f64::NAN)),
            ("Time", EdmValue::DateTime(DateTime::from_ticks(639_308_160_001_234_567))),
            ("Id", EdmValue::Guid([0xab; 16])),
            ("Bytes", EdmValue::from(&[0u8, 255, 10, 13][..])),
        ]
    };
    wait(async {
        client.create_table(TABLE).await.expect("created");
        for partition in partitions {
            let mut transaction = Transaction::new(client.account(), TABLE, partition);
            for row in ["2516070815999999999-b3d1f0a27c5507e11f3a9c2e77b0d4a6-fffffffe0a12", "it's 100%+&=;{x}"] {
                assert_eq!(transaction.push(row, properties()), Pushed::Added);
            }
            client.transact(&transaction.seal()).await.expect("written");
        }
        // This client also reads them, to the last bit.
        for partition in partitions {
            let entity = client.entity(TABLE, partition, "it's 100%+&=;{x}", &[]).await.expect("read").expect("there");
            assert_eq!((entity.partition_key.as_str(), entity.row_key.as_str()), (partition, "it's 100%+&=;{x}"));
            assert!(entity.timestamp.is_some());
            for (name, value) in properties() {
                let found = entity.property(name).unwrap_or_else(|| panic!("{name} is not there"));
                // NaN does not equal itself.
                assert_eq!(format!("{found:?}"), format!("{value:?}"), "{name}");
            }
        }
        assert_eq!(client.entity(TABLE, "web-17", "none", &[]).await.expect("asked"), None);
    });
    let read = azurite.read_back(TABLE);
    assert_eq!(read.len(), 4);
    for entity in &read {
        for (name, kind, value) in [
            ("Text", "String", text),
            ("Empty", "String", ""),
            ("Long", "String", long.as_str()),
            ("Yes", "Boolean", "true"),
            ("Small", "Int32", "-2147483648"),
            ("Large", "Int64", "9223372036854775807"),
            ("Whole", "Double", "1.0"),
            ("Third", "Double", "0.3333333333333333"),
            ("Tiny", "Double", "5e-324"),
            ("Infinite", "Double", "inf"),
            ("Below", "Double", "-inf"),
            ("NoNumber", "Double", "nan"),
            ("Time", "DateTime", "2026-11-21T00:00:00.1234567Z"),
            ("Id", "Guid", "abababab-abab-abab-abab-abababababab"),
            ("Bytes", "Binary", "00ff0a0d"),
        ] {
            assert_eq!(entity["properties"][name], serde_json::json!([kind, value]), "{name}");
        }
    }
}

#[test]
fn a_shared_access_signature_does_what_a_key_does() {
    let azurite = Azurite::start();
    let proxy = Proxy::start(azurite.port);
    let script = "import sys, datetime
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import generate_account_sas, ResourceTypes, AccountSasPermissions
parts = dict(pair.split('=', 1) for pair in sys.argv[1].split(';') if pair)
key = AzureNamedKeyCredential(parts['AccountName'], parts['AccountKey'])
until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
rights = AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True, update=True, process=True)
print(generate_account_sas(key, ResourceTypes(service=True, container=True, object=True), rights, until), end='')";
    let said = std::process::Command::new(crate::place::installed("venv/bin/python"))
        .args(["-c", script, &proxy.connection_string()])
        .output()
        .expect("Python can be run");
    let sas = String::from_utf8(said.stdout).expect("text");
    assert!(sas.contains("sig="), "{}", String::from_utf8_lossy(&said.stderr));
    let endpoint = format!("http://127.0.0.1:{}/devstoreaccount1", proxy.port);
    let client = client(&format!("TableEndpoint={endpoint};SharedAccessSignature={sas}"));
    wait(async {
        client.create_table(TABLE).await.expect("created");
        client.transact(&numbered(&client, "a", 0..100)).await.expect("written");
        assert_eq!(client.list_tables("Log").await.expect("listed"), [TABLE]);
        assert_eq!(all(&client, Query::partition("a").top(30)).await.expect("read").len(), 100);
        assert!(client.entity(TABLE, "a", "000005", &["Number"]).await.expect("read").is_some());
        // Errors do not contain the signature, although each address has it.
        proxy.plan(|number, _| [Fault::ResetBefore, Fault::Forbidden, Fault::HalfAnAnswer].get(number).copied());
        for _ in 0..3 {
            let error = client.query(TABLE, &Query::default(), None).await.expect_err("it fails");
            assert!(!format!("{error} {error:?}").contains("sig"), "{error:?}");
        }
        client.drop_table(TABLE).await.expect("dropped");
    });
    let asked = proxy.asked();
    assert!(asked.iter().all(|asked| asked.target.contains("sig=") && !asked.head.contains("uthorization")));
    assert!(asked.iter().all(|asked| !String::from_utf8_lossy(&asked.body).contains("sig=")));
}

/// Both address styles, keys that need percent-encoding, and a transaction.
#[test]
fn signatures_are_those_of_microsofts_client() {
    let azurite = Azurite::start();
    let script = "import sys, json
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.pipeline import PipelineContext, PipelineRequest
from azure.core.pipeline.transport import HttpRequest
from azure.data.tables._authentication import SharedKeyCredentialPolicy
class Credential:
    named_key = AzureNamedKeyCredential('acme', 'c2VjcmV0').named_key
for asked in json.loads(sys.argv[1]):
    request = HttpRequest(asked['method'], 'http://acme' + asked['target'], headers=asked['headers'])
    SharedKeyCredentialPolicy(Credential()).sign_request(PipelineRequest(request, PipelineContext(None)))
    print(request.headers['Authorization'])";
    for path in ["", "/acme"] {
        let proxy = Proxy::start(azurite.port);
        proxy.always(Fault::Forbidden);
        let endpoint = format!("http://127.0.0.1:{}{path}", proxy.port);
        let client = client(&format!("AccountName=acme;AccountKey=c2VjcmV0;TableEndpoint={endpoint}"));
        wait(async {
            let _ = client.create_table(TABLE).await;
            let _ = client.drop_table(TABLE).await;
            let _ = client.list_tables("Log").await;
            let _ = client.transact(&numbered(&client, "a", 0..1)).await;
            let _ = client.entity(TABLE, "it's a café", "100%+&=;{x}~", &["Time"]).await;
            let _ = client.query(TABLE, &Query::partition("a b"), None).await;
        });
        let (mut asked, mut signed) = (Vec::new(), Vec::new());
        for request in proxy.asked() {
            let headers: std::collections::BTreeMap<String, String> = request
                .head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .filter(|(name, _)| name == "x-ms-date" || name == "content-type" || name == "authorization")
                .collect();
            signed.push(headers["authorization"].clone());
            asked.push(serde_json::json!({ "method": request.method, "target": request.target, "headers": headers }));
        }
        assert_eq!(asked.len(), 6);
        let mut python = std::process::Command::new(crate::place::installed("venv/bin/python"));
        let said =
            python.args(["-c", script, &serde_json::json!(asked).to_string()]).output().expect("Python can be run");
        let expected = String::from_utf8(said.stdout).expect("text");
        assert_eq!(signed, expected.lines().collect::<Vec<_>>(), "{}", String::from_utf8_lossy(&said.stderr));
    }
}

#[test]
fn pages_go_on_to_the_end_and_keep_the_order() {
    let azurite = Azurite::start();
    let client = azurite.client();
    wait(async {
        client.create_table(TABLE).await.expect("created");
        for partition in ["a", "b"] {
            for hundred in 0..3 {
                client
                    .transact(&numbered(&client, partition, hundred * 100..(hundred + 1) * 100))
                    .await
                    .expect("written");
            }
        }
        let keys = |entities: &[Entity]| -> Vec<(String, String)> {
            entities.iter().map(|entity| (entity.partition_key.clone(), entity.row_key.clone())).collect()
        };
        let expected = |partitions: &[&str], numbers: std::ops::Range<usize>| -> Vec<(String, String)> {
            let rows = |partition: &&str| {
                numbers.clone().map(|n| ((*partition).to_owned(), format!("{n:06}"))).collect::<Vec<_>>()
            };
            partitions.iter().flat_map(rows).collect()
        };
        let range = Query::partition("a").rows_from("000050").rows_below("000250").top(30);
        assert_eq!(keys(&all(&client, range).await.expect("read")), expected(&["a"], 50..250));
        let everything = all(&client, Query::default().top(70)).await.expect("read");
        assert_eq!(keys(&everything), expected(&["a", "b"], 0..300));
        let above = Query::default().partitions_from("b").partitions_below("c");
        assert_eq!(all(&client, above).await.expect("read").len(), 300);
        let chosen =
            Query::partition("a").filter(&format!("Number lt {}", literal(&EdmValue::Int64(5)))).select(&["Number"]);
        let chosen = all(&client, chosen).await.expect("read");
        assert_eq!(chosen.len(), 5);
        assert!(chosen.iter().all(|entity| entity.properties.len() == 1 && entity.row_key.is_empty()), "{chosen:?}");
        assert_eq!(
            client.query("Log20261122", &Query::default(), None).await.map_err(|error| error.kind()),
            Err(ErrorKind::TableNotFound)
        );
    });
}

/// The properties of an entity as the service has them, and its version.
async fn stored(client: &Client, row: &str) -> (Vec<(String, String)>, daytable_azure::ETag) {
    let entity = client.entity(TABLE, "a", row, &[]).await.expect("read").expect("there");
    let text = |(name, value): (String, EdmValue<'static>)| match value {
        EdmValue::String(text) => (name, text.into_owned()),
        value => panic!("{value:?}"),
    };
    (entity.properties.into_iter().map(text).collect(), entity.etag.expect("a version"))
}

#[test]
fn each_mode_does_what_it_says_to_an_entity() {
    let azurite = Azurite::start();
    let client = azurite.client();
    let write = async |row: &str, mode: WriteMode<'_>, name: &str| {
        client.write(TABLE, "a", row, mode, [(name, EdmValue::from(name))]).await
    };
    let names =
        async |row: &str| -> Vec<String> { stored(&client, row).await.0.into_iter().map(|(name, _)| name).collect() };
    wait(async {
        assert_eq!(kind(write("1", WriteMode::Insert, "A").await), ErrorKind::TableNotFound);
        client.create_table(TABLE).await.expect("created");
        // What must be there is not, and nothing appears.
        for mode in [WriteMode::Replace(IfMatch::Any), WriteMode::Merge(IfMatch::Any)] {
            assert_eq!(kind(write("1", mode, "A").await), ErrorKind::NotFound, "{mode:?}");
        }
        assert_eq!(kind(client.delete(TABLE, "a", "1", IfMatch::Any).await), ErrorKind::NotFound);
        assert_eq!(client.entity(TABLE, "a", "1", &[]).await.expect("asked"), None);

        let inserted = write("1", WriteMode::Insert, "A").await.expect("written").expect("a version");
        assert_eq!(stored(&client, "1").await, (vec![("A".into(), "A".into())], inserted));
        let twice = write("1", WriteMode::Insert, "B").await;
        assert_eq!(kind(twice), ErrorKind::EntityAlreadyExists { index: None });
        write("1", WriteMode::InsertOrMerge, "B").await.expect("written");
        assert_eq!(names("1").await, ["A", "B"]);
        write("1", WriteMode::Merge(IfMatch::Any), "C").await.expect("written");
        assert_eq!(names("1").await, ["A", "B", "C"]);
        write("1", WriteMode::Replace(IfMatch::Any), "D").await.expect("written");
        assert_eq!(names("1").await, ["D"]);
        write("1", WriteMode::InsertOrReplace, "E").await.expect("written");
        assert_eq!(names("1").await, ["E"]);
        // Both upserts insert.
        write("2", WriteMode::InsertOrReplace, "A").await.expect("written");
        write("it's 100%", WriteMode::InsertOrMerge, "A").await.expect("written");
        assert_eq!(names("it's 100%").await, ["A"]);
        client.delete(TABLE, "a", "it's 100%", IfMatch::Any).await.expect("deleted");
        assert_eq!(client.entity(TABLE, "a", "it's 100%", &[]).await.expect("asked"), None);
        // An entity that no request takes is not sent.
        let long = "x".repeat(5 << 20);
        let error = client.write(TABLE, "a", "3", WriteMode::Insert, [("A", EdmValue::from(long.as_str()))]).await;
        let error = error.expect_err("too large");
        assert_eq!((error.kind(), error.may_have_happened()), (ErrorKind::TooLarge, false), "{error}");
    });
    let read = azurite.read_back(TABLE);
    assert_eq!(read.iter().map(|entity| entity["RowKey"].clone()).collect::<Vec<_>>(), ["1", "2"]);
}

#[test]
fn an_entity_that_somebody_else_wrote_is_left_as_it_is() {
    let azurite = Azurite::start();
    let client = azurite.client();
    let value = |text: &'static str| [("A", EdmValue::from(text))];
    wait(async {
        client.create_table(TABLE).await.expect("created");
        let first = client.write(TABLE, "a", "1", WriteMode::Insert, value("mine")).await.expect("written");
        let first = first.expect("a version");
        let second = client
            .write(TABLE, "a", "1", WriteMode::Replace(IfMatch::Version(&first)), value("other"))
            .await
            .expect("the version is that of the entity")
            .expect("a version");
        assert_ne!(first, second);
        // Each kind of write with the old version, alone and in a transaction, where nothing else happens either.
        let old = IfMatch::Version(&first);
        for mode in [Some(WriteMode::Replace(old)), Some(WriteMode::Merge(old)), None] {
            let alone = match mode {
                Some(mode) => client.write(TABLE, "a", "1", mode, value("late")).await.map(drop),
                None => client.delete(TABLE, "a", "1", old).await,
            };
            let error = alone.expect_err("another version");
            assert_eq!(error.kind(), ErrorKind::PreconditionFailed { index: None }, "{mode:?}: {error}");
            assert_eq!((error.status(), error.may_have_happened()), (Some(412), false), "{error}");
            let mut both = Transaction::new(client.account(), TABLE, "a");
            assert_eq!(both.push("2", value("beside")), Pushed::Added);
            let pushed = match mode {
                Some(mode) => both.push_write(mode, "1", value("late")),
                None => both.push_delete("1", old),
            };
            assert_eq!(pushed, Pushed::Added);
            let failed = kind(client.transact(&both.seal()).await);
            assert!(matches!(failed, ErrorKind::PreconditionFailed { .. }), "{mode:?}: {failed:?}");
            assert_eq!(stored(&client, "1").await, (vec![("A".into(), "other".into())], second.clone()));
            assert_eq!(client.entity(TABLE, "a", "2", &[]).await.expect("asked"), None);
        }
        // A page has the versions, too, and a transaction of every kind gives the new ones.
        let page = client.query(TABLE, &Query::partition("a"), None).await.expect("read");
        assert_eq!(page.entities[0].etag.as_ref(), Some(&second));
        client.write(TABLE, "a", "gone", WriteMode::Insert, value("x")).await.expect("written");
        let mut all = Transaction::new(client.account(), TABLE, "a");
        for (row, mode) in [
            ("1", WriteMode::Merge(IfMatch::Version(&second))),
            ("2", WriteMode::Insert),
            ("3", WriteMode::InsertOrReplace),
            ("4", WriteMode::InsertOrMerge),
        ] {
            assert_eq!(all.push_write(mode, row, [("B", EdmValue::from("b"))]), Pushed::Added);
        }
        assert_eq!(all.push_delete("gone", IfMatch::Any), Pushed::Added);
        let versions = client.transact(&all.seal()).await.expect("written");
        assert_eq!(versions.len(), 5);
        for (row, version) in ["1", "2", "3", "4"].iter().zip(&versions) {
            assert_eq!(version.as_ref(), Some(&stored(&client, row).await.1), "{row}");
        }
        let both = vec![("A".to_owned(), "other".to_owned()), ("B".to_owned(), "b".to_owned())];
        assert_eq!((stored(&client, "1").await.0, versions[4].clone()), (both, None));
    });
}

#[test]
fn tables_come_and_go() {
    let azurite = Azurite::start();
    let client = azurite.client();
    wait(async {
        for day in 20..23 {
            client.create_table(&format!("Log202611{day}")).await.expect("created");
        }
        client.create_table("Other20261121").await.expect("created");
        assert_eq!(kind(client.create_table("Log20261121").await), ErrorKind::TableAlreadyExists);
        assert_eq!(client.list_tables("Log").await.expect("listed"), ["Log20261120", "Log20261121", "Log20261122"]);
        assert_eq!(client.list_tables("").await.expect("listed").len(), 4);
        client.drop_table("Log20261120").await.expect("dropped");
        assert_eq!(kind(client.drop_table("Log20261120").await), ErrorKind::TableNotFound);
        assert_eq!(client.list_tables("Log").await.expect("listed"), ["Log20261121", "Log20261122"]);
    });
}

#[test]
fn transactions_are_all_or_nothing_and_may_be_repeated() {
    let azurite = Azurite::start();
    let proxy = Proxy::start(azurite.port);
    let client = client(&proxy.connection_string());
    wait(async {
        assert_eq!(kind(client.transact(&numbered(&client, "a", 0..2)).await), ErrorKind::TableNotFound);
        client.create_table(TABLE).await.expect("created");
        let transaction = numbered(&client, "a", 0..100);
        for _ in 0..3 {
            client.transact(&transaction).await.expect("written");
        }
        assert_eq!(all(&client, Query::default()).await.expect("read").len(), 100);

        let mut refused = Transaction::new(client.account(), TABLE, "b");
        let long = "x".repeat((32 << 10) + 1);
        for number in 0..10 {
            let text = if number == 7 { long.as_str() } else { "short" };
            assert_eq!(refused.push(&number.to_string(), [("Message", EdmValue::from(text))]), Pushed::Added);
        }
        let error = client.transact(&refused.seal()).await.expect_err("refused");
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Refused { index: Some(7) }, "PropertyValueTooLarge"),
            "{error}"
        );
        assert!(!error.may_have_happened() && error.service_request_id().is_some(), "{error}");
        assert_eq!(all(&client, Query::partition("b")).await.expect("read"), []);

        let mut inserts = Transaction::new(client.account(), TABLE, "a");
        assert_eq!(inserts.push_write(WriteMode::Insert, "new", [("Message", EdmValue::from("new"))]), Pushed::Added);
        assert_eq!(
            inserts.push_write(WriteMode::Insert, "000005", [("Message", EdmValue::from("new"))]),
            Pushed::Added
        );
        assert_eq!(kind(client.transact(&inserts.seal()).await), ErrorKind::EntityAlreadyExists { index: Some(1) });
        let mut changes = Transaction::new(client.account(), TABLE, "a");
        assert_eq!(changes.push_write(WriteMode::Insert, "new", [("Message", EdmValue::from("new"))]), Pushed::Added);
        assert_eq!(changes.push_delete("000005", IfMatch::Any), Pushed::Added);
        let changes = changes.seal();
        client.transact(&changes).await.expect("written");
        assert_eq!(client.entity(TABLE, "a", "000005", &[]).await.expect("read"), None);
        assert!(client.entity(TABLE, "a", "new", &[]).await.expect("read").is_some());
    });
    // The same bytes three times, each with its own number and signature.
    let sent: Vec<_> = proxy.asked().into_iter().filter(|asked| asked.entities() == 100).collect();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|asked| asked.body == sent[0].body));
    let id = |head: &str| head.lines().find(|line| line.starts_with("x-ms-client-request-id")).map(str::to_owned);
    assert!(id(&sent[0].head).is_some() && id(&sent[0].head) != id(&sent[1].head));
    assert!(sent.iter().all(|asked| !asked.head.to_ascii_lowercase().contains("\r\nexpect:")));
}

#[test]
fn whatever_goes_wrong_is_known_for_what_it_is() {
    let azurite = Azurite::start();
    let proxy = Proxy::start(azurite.port);
    // Long enough for a busy machine; one answer does not come.
    let options = ClientOptions { request: Duration::from_secs(6), ..ClientOptions::new(super::emulator::now) };
    let account = proxy.connection_string().parse().expect("an account");
    let client = Client::new(account, options).expect("a client");
    let (retry, throttled) =
        (ErrorKind::Retry { after: None }, ErrorKind::Throttled { scope: ThrottleScope::Partition, after: None });
    let after = Some(Duration::from_secs(7));
    wait(async {
        client.create_table(TABLE).await.expect("created");
        for (number, (fault, kind, is_done)) in [
            (Fault::Busy, throttled, false),
            (Fault::TooMany(7), ErrorKind::Throttled { scope: ThrottleScope::Partition, after }, false),
            (Fault::Status(502), retry, false),
            (Fault::Status(503), retry, false),
            (Fault::Status(404), ErrorKind::Unknown, false),
            (Fault::FailsAfter, retry, true),
            (Fault::ResetBefore, retry, false),
            (Fault::ResetAfter, retry, true),
            (Fault::HalfAnAnswer, retry, true),
            (Fault::Drips(100), retry, true),
            (Fault::Silence, retry, false),
            (Fault::WrongContent, ErrorKind::Unknown, false),
            (Fault::BeingDeleted, ErrorKind::TableBeingDeleted, false),
            (Fault::Forbidden, ErrorKind::Denied, false),
            (Fault::TooLarge, ErrorKind::TooLarge, false),
            (Fault::PartFails(503, "ServerBusy", 0), throttled, false),
            (Fault::PartFails(500, "OperationTimedOut", 0), retry, false),
            (Fault::PartFails(404, "TableNotFound", 0), ErrorKind::TableNotFound, false),
            (Fault::PartFails(400, "InvalidInput", 1), ErrorKind::Refused { index: Some(1) }, false),
            (Fault::PartFails(400, "InvalidInput", 2), ErrorKind::Refused { index: None }, false),
        ]
        .into_iter()
        .enumerate()
        {
            let partition = number.to_string();
            proxy.plan(move |number, _| (number == 0).then_some(fault));
            let error = client.transact(&numbered(&client, &partition, 0..2)).await.expect_err("it fails");
            assert_eq!(error.kind(), kind, "{fault:?}: {error}");
            assert!(error.may_have_happened() || !is_done, "{fault:?}: {error}");
            let there = all(&client, Query::partition(&partition)).await.expect("read").len();
            assert_eq!(there, if is_done { 2 } else { 0 }, "{fault:?}");
            // The next transaction is unaffected.
            client.transact(&numbered(&client, &partition, 0..2)).await.expect("written");
        }
    });
}

/// Retries until success, like a sender with a backlog.
async fn insist(client: &Client, transaction: &SealedTransaction, backoff: &mut Backoff) -> usize {
    let mut tries = 1;
    while let Err(error) = client.transact(transaction).await {
        let named = match error.kind() {
            ErrorKind::Retry { after } | ErrorKind::Throttled { after, .. } => after,
            ErrorKind::Unknown => None,
            _ => panic!("{error}"),
        };
        assert!(tries < 50, "{error}");
        tokio::time::sleep(backoff.failed(named)).await;
        tries += 1;
    }
    backoff.succeeded();
    tries
}

#[test]
fn with_faults_at_random_every_entity_is_there_once() {
    let azurite = Azurite::start();
    let proxy = Proxy::start(azurite.port);
    let client = client(&proxy.connection_string());
    wait(async {
        client.create_table(TABLE).await.expect("created");
        proxy.at_random(20_261_121, 2, &Fault::PASSING);
        let pauses =
            Pauses { first: Duration::from_millis(2), longest: Duration::from_millis(20), ..Pauses::default() };
        let (mut backoff, mut tries) = (Backoff::new(pauses, 1), 0);
        for start in (0..1000).step_by(20) {
            tries += insist(&client, &numbered(&client, "web-17", start..start + 20), &mut backoff).await;
        }
        assert!(tries > 60, "hardly anything went wrong: {tries} tries");
    });
    let rows: Vec<_> =
        azurite.read_back(TABLE).into_iter().map(|entity| entity["RowKey"].as_str().map(str::to_owned)).collect();
    assert_eq!(rows, (0..1000).map(|number| Some(format!("{number:06}"))).collect::<Vec<_>>());
}
