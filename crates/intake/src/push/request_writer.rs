//! Writes the records of one request as rows, and records those that are refused alone.

use super::known_layouts::RequestProfile;
use super::request::hash;
use super::unread_parts::{BodyPlace, UnreadParts};
use super::{MemoryReservation, PushRequest, PushSettings, Refusal};
use crate::counters::{SourceCounters, count};
use crate::record_writer::RecordWriter;
use crate::route::{Origin, RouteCaches};
use daytable_model::arrival::kept_arrival;
use daytable_model::batch::Batch;
use daytable_model::key::POSITION_MAX;
use daytable_model::record::{Field, Record, Value};
use daytable_model::source_id::{SourceId, SourceStart};
use daytable_model::time::Ticks;
use daytable_parse::{Envelope, Format, ParseOptions, Parsed, RawRecord, SourceProfile};
use daytable_store::entry::{DestinationHash, EntryText, PushedEntries, StreamHash};
use std::borrow::Cow;
use std::fmt::Display;

/// The bytes of a record. A longer text is cut, any other longer record is refused.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// Why a longer record is refused.
pub(super) const TOO_LONG: &str = "is longer than 1 MiB";
/// Fields that name the instance in a record of `/ingest`, by priority.
pub(super) const INSTANCE: InstanceRule<'static> = InstanceRule::Fields(&["instance", "host"]);
/// The number of refused records that an answer names.
const REASONS_MAX: usize = 10;
/// The least number of bytes that a further reservation for rows adds, unless the rows are few.
const RESERVATION_STEP: usize = 1 << 20;

/// The index of a refused record, and the reason.
pub(super) type RefusedRecord = (usize, Cow<'static, str>);

/// Writes the records of one request.
pub(crate) struct RequestWriter<'p> {
    settings: &'p PushSettings,
    request: &'p PushRequest,
    /// The instance of the request, with its secrets replaced.
    instance: Option<Cow<'p, str>>,
    identity: SourceId,
    /// The time of arrival.
    pub(super) now: Ticks,
    rows: RecordWriter,
    memory: Option<&'p mut MemoryReservation>,
    /// The part of the reservation for rows, in bytes.
    rows_reserved: usize,
    routes: RouteCaches,
    profile: RequestProfile<'p>,
    pub(super) counters: SourceCounters,
    /// The number of records that were begun.
    index: usize,
    refused: u32,
    reasons: Vec<RefusedRecord>,
    unread: UnreadParts,
    entries: PushedEntries,
}

/// How the instance of a record is found.
#[derive(Clone, Copy)]
pub(super) enum InstanceRule<'n> {
    /// This instance.
    Fixed(&'n str),
    /// The instance of the request, else the first of these fields in the record, else the address of the sender.
    Fields(&'static [&'static str]),
}

impl<'n> InstanceRule<'n> {
    fn instance<'r>(self, of_request: Option<&'r str>, peer: &'r str, record: &'r Record<'_>) -> Cow<'r, str>
    where
        'n: 'r,
    {
        let names = match self {
            InstanceRule::Fixed(instance) => return Cow::Borrowed(instance),
            InstanceRule::Fields(names) => names,
        };
        if let Some(instance) = of_request {
            return Cow::Borrowed(instance);
        }
        let found = names.iter().find_map(|name| record.text(name).filter(|value| !value.is_empty()));
        found.unwrap_or(Cow::Borrowed(peer))
    }
}

/// The rows of a request, or of a piece of an upload.
pub(crate) struct RequestRows {
    pub(super) batches: Vec<Batch>,
    pub(super) newest: Option<Ticks>,
    pub(super) counters: SourceCounters,
    pub(super) accepted: u32,
    pub(super) refused: u32,
    /// The first refused records.
    pub(super) reasons: Vec<RefusedRecord>,
    pub(super) unread: UnreadParts,
    /// Entries that are not stored twice.
    pub(super) entries: PushedEntries,
}

impl<'p> RequestWriter<'p> {
    /// The row keys consist of the time of a record, this identity, and the index of the record.
    pub(crate) fn new(
        settings: &'p PushSettings,
        request: &'p PushRequest,
        identity: SourceId,
        now: Ticks,
    ) -> RequestWriter<'p> {
        let instance = request.instance.as_deref().map(Cow::Borrowed);
        let redacted = |instance| match &settings.lines.redactor {
            Some(redactor) => redactor.redact_text(instance),
            None => instance,
        };
        RequestWriter {
            settings,
            request,
            instance: instance.map(redacted),
            identity,
            now,
            rows: RecordWriter::new(request.sender.router(&settings.router).clone()),
            memory: None,
            rows_reserved: 0,
            routes: RouteCaches::default(),
            profile: settings.known_layouts.profile(),
            counters: SourceCounters::default(),
            index: 0,
            refused: 0,
            reasons: Vec::new(),
            unread: UnreadParts::default(),
            entries: PushedEntries::default(),
        }
    }

    /// Reserves the memory of the rows: as many bytes as the body at once, which usually is enough, and more on demand. So a
    /// lack of memory usually shows before the work.
    ///
    /// # Errors
    ///
    /// Too little memory is left.
    pub(super) fn within(
        mut self,
        memory: &'p mut MemoryReservation,
        body_bytes: usize,
    ) -> Result<RequestWriter<'p>, Refusal> {
        self.rows_reserved = body_bytes.min(memory.available_max());
        memory.grow(self.rows_reserved)?;
        self.memory = Some(memory);
        Ok(self)
    }

    /// The bytes of a decoded body at most.
    pub(super) fn decoded_bytes_max(&self) -> usize {
        self.settings.limits.decoded_bytes_max
    }

    /// Reserves memory that is not for rows.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.memory.as_mut().map_or(Ok(()), |memory| memory.grow(bytes))
    }

    /// A body as text. Each invalid byte becomes U+FFFD, which has three bytes.
    pub(super) fn text_of<'b>(&mut self, body: &'b [u8]) -> Result<Cow<'b, str>, Refusal> {
        if let Ok(text) = std::str::from_utf8(body) {
            return Ok(Cow::Borrowed(text));
        }
        self.reserve(body.len().saturating_mul(3))?;
        Ok(String::from_utf8_lossy(body))
    }

    /// Reserves the memory of the rows so far.
    fn reserve_rows(&mut self) -> Result<(), Refusal> {
        let wanted = self.memory();
        let Some(memory) = &mut self.memory else { return Ok(()) };
        if wanted > self.rows_reserved {
            let missing = wanted - self.rows_reserved;
            let more = (missing + RESERVATION_STEP.min(wanted / 4)).min(memory.available_max()).max(missing);
            memory.grow(more)?;
            self.rows_reserved += more;
        }
        Ok(())
    }

    /// Begins the next record, and returns its index.
    ///
    /// # Errors
    ///
    /// The request has too many records or rows, or too little memory is left.
    pub(super) fn begin(&mut self) -> Result<usize, Refusal> {
        let limits = &self.settings.limits;
        if self.index >= limits.records_max {
            return Err(Refusal::TooLarge(format!("{} records in a request", limits.records_max)));
        }
        if self.rows.bytes() > limits.rows_bytes_max() {
            return Err(Refusal::TooLarge(format!("{} bytes in the rows of a request", limits.rows_bytes_max())));
        }
        self.reserve_rows()?;
        self.index += 1;
        Ok(self.index - 1)
    }

    /// The index of the next record.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Refuses the record with this index.
    pub(super) fn refuse(&mut self, index: usize, reason: impl Into<Cow<'static, str>>) {
        self.refused += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push((index, reason.into()));
        }
    }

    /// The first refused record from this index on, if its reason was kept.
    pub(super) fn first_refused_from(&self, index: usize) -> Option<RefusedRecord> {
        self.reasons.iter().find(|(at, _)| *at >= index).cloned()
    }

    /// Notes a part of the body that is not known here, and so is not stored.
    pub(super) fn note_unread(&mut self, name: impl Display) {
        self.unread.note(name);
    }

    /// Notes the unread parts of a record.
    pub(super) fn note_unread_parts(&mut self, parts: UnreadParts) {
        self.unread.add(parts);
    }

    /// Where the body is now, for [`RequestWriter::unread_since`].
    pub(super) fn place(&self) -> BodyPlace {
        BodyPlace { index: self.index, unread: self.unread.count }
    }

    /// Why the part of the body since this place gives no record although it holds something: nothing of it is known here.
    /// `None` if it has records, or is empty.
    pub(super) fn unread_since(&self, place: BodyPlace) -> Option<String> {
        let is_unread = self.index == place.index && self.unread.count > place.unread;
        is_unread.then(|| format!("has no record that is read here, but {}, which is not known", self.unread.first))
    }

    /// Refuses the part of the body since this place like a record, if it holds something and nothing of it is known.
    ///
    /// # Errors
    ///
    /// The request has too many records.
    pub(super) fn refuse_unread_since(&mut self, place: BodyPlace) -> Result<(), Refusal> {
        if let Some(reason) = self.unread_since(place) {
            let index = self.begin()?;
            self.refuse(index, reason);
        }
        Ok(())
    }

    /// How to read lines of any format, and how to read JSON objects.
    pub(super) fn readings(&self) -> (&'p ParseOptions, &'p ParseOptions) {
        (&self.settings.lines, &self.settings.objects)
    }

    /// The formats of earlier lines.
    pub(super) fn profile(&self) -> &SourceProfile {
        &self.profile
    }

    /// Parses a text like a line of a file.
    pub(super) fn parse<'a>(&mut self, text: &'a str, envelope: Envelope<'a>, reading: &'a ParseOptions) -> Parsed<'a> {
        self.profile.record(text, envelope, reading, self.now)
    }

    /// Parses a record of a body like one of a file.
    pub(super) fn parse_raw<'a>(&mut self, raw: &'a RawRecord<'_>, reading: &'a ParseOptions) -> Parsed<'a> {
        self.profile.raw_record(raw, reading, self.now)
    }

    /// Counts a parsed record, and marks a cut record.
    pub(super) fn count_record(&self, format: Format, is_invalid: bool, cut: usize, record: &mut Record<'_>) {
        count(&self.counters.by_format[format.number()], 1);
        if is_invalid {
            count(&self.counters.invalid_utf8, 1);
        }
        if cut > 0 {
            count(&self.counters.truncated, 1);
            record.fields.push(Field { name: "truncated".into(), value: Value::Boolean(true) });
        }
    }

    /// The text with its secrets replaced.
    pub(super) fn redact<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        match &self.settings.lines.redactor {
            Some(redactor) => redactor.redact_text(text),
            None => text,
        }
    }

    /// A text field with its secrets replaced.
    pub(super) fn clean_field<'a>(&self, name: Cow<'a, str>, value: Cow<'a, str>) -> Field<'a> {
        let mut field = Field { name, value: Value::String(value) };
        if let Some(redactor) = &self.settings.lines.redactor {
            redactor.redact_field(&mut field);
        }
        field
    }

    /// The address of the sender, which is the instance of records that name no instance.
    pub(super) fn peer(&self) -> &'p str {
        &self.request.peer
    }

    /// Writes the record with this index. `key` is the identity and the position of a record with its own name.
    pub(super) fn write<'a>(
        &mut self,
        index: usize,
        instance: InstanceRule<'_>,
        mut record: Record<'a>,
        key: Option<(SourceId, u64)>,
    ) where
        'p: 'a,
    {
        let (identity, position) = key.unwrap_or_else(|| self.key(index));
        let request = self.request;
        let (source, tenant) = (request.endpoint.source(), request.sender.tenant.as_deref());
        let origin = Origin { identity, position, source, tenant };
        request.sender.mark(&mut record);
        record.arrived = kept_arrival(record.time, self.now);
        let instance = instance.instance(self.instance.as_deref(), &request.peer, &record);
        self.rows.write(&mut self.routes, &instance, &record, origin, self.now, &self.counters);
    }

    /// The hash of where the entries of a stream with this instance go to.
    pub(super) fn destination(&self, instance: &str) -> DestinationHash {
        DestinationHash::of(self.request.sender.tenant.as_deref(), instance)
    }

    /// Notes that the record with this index is an entry, of which a repeat is not stored.
    pub(super) fn note_entry(&mut self, index: usize, stream: (StreamHash, DestinationHash), entry: &EntryText<'_>) {
        self.entries.add(index as u64, stream.0, stream.1, entry);
    }

    /// Identity and position of a record without its own name.
    pub(super) fn key(&self, index: usize) -> (SourceId, u64) {
        (self.identity, index as u64)
    }

    /// Identity and position of a record with a name of its own. The same sender gets the same key for the same name.
    ///
    /// # Errors
    ///
    /// The bucket plan is not loaded yet. Without the plan, a repeated record could go to another partition.
    pub(super) fn key_of_name(&self, name: &[&[u8]]) -> Result<(SourceId, u64), Refusal> {
        if !self.settings.router.is_loaded() {
            return Err(Refusal::Busy("the bucket plan of the remote store is not loaded yet"));
        }
        let PushRequest { sender, endpoint, .. } = self.request;
        let hash = hash(&[&[sender.name.as_bytes(), endpoint.source().as_bytes()], name].concat());
        let word = |at: usize| hash[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let identity = SourceId::new(SourceStart::NONE, self.settings.router.host(), word(0));
        Ok((identity, word(8) & POSITION_MAX))
    }

    /// The bytes of the rows so far.
    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// The memory of the rows so far, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.rows.memory() + self.entries.memory()
    }

    /// Removes the rows so far, and begins again with index 0.
    pub(crate) fn take_rows(&mut self) -> RequestRows {
        let (batches, newest) = self.rows.take();
        let refused = std::mem::take(&mut self.refused);
        let begun = u32::try_from(std::mem::take(&mut self.index)).unwrap_or(u32::MAX);
        RequestRows {
            batches,
            newest,
            counters: std::mem::take(&mut self.counters),
            accepted: begun - refused.min(begun),
            refused,
            reasons: std::mem::take(&mut self.reasons),
            unread: std::mem::take(&mut self.unread),
            entries: std::mem::take(&mut self.entries),
        }
    }
}
