//! One request on its way: its records become rows one by one, what is refused alone is noted with its index.

use super::request::hash;
use super::{MemoryReservation, Refusal, Request, Setting};
use crate::counters::{SourceCounters, count};
use crate::record_writer::RecordWriter;
use crate::route::{Origin, RouteCaches};
use daytable_model::batch::Batch;
use daytable_model::key::POSITION_MAX;
use daytable_model::record::{Field, Record, Value};
use daytable_model::time::Ticks;
use daytable_parse::{Envelope, Format, Learned, Parsed, Reading};
use std::borrow::Cow;

/// Bytes of a record at most: what is longer is cut where it is text, and refused where it is not.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// Refused records whose index and reason are told.
const REASONS_TOLD: usize = 10;
/// Bytes of room that rows take at once where they need more than was foreseen.
const ROOM_STEP: usize = 1 << 20;

/// The records of a request so far.
pub(crate) struct Taking<'p> {
    setting: &'p Setting,
    request: &'p Request,
    identity: u64,
    /// The time of arrival.
    pub(super) now: Ticks,
    rows: RecordWriter,
    /// What the room for the rows is taken of.
    reservation: Option<&'p mut MemoryReservation>,
    /// Bytes of room that the rows have.
    room: usize,
    lanes: RouteCaches,
    learned: Learned,
    pub(super) counters: SourceCounters,
    /// Records that were begun.
    index: usize,
    refused: u32,
    reasons: Vec<(usize, Cow<'static, str>)>,
}

/// Whose a record is.
#[derive(Clone, Copy)]
pub(super) enum Instance<'n> {
    /// This one's.
    Is(&'n str),
    /// Whose the request says, else the first of these fields that the record has, else the sender's.
    Named(&'static [&'static str]),
}

impl<'n> Instance<'n> {
    fn name<'r>(self, request: &'r Request, record: &'r Record<'_>) -> Cow<'r, str>
    where
        'n: 'r,
    {
        let names = match self {
            Instance::Is(instance) => return Cow::Borrowed(instance),
            Instance::Named(names) => names,
        };
        if let Some(instance) = &request.instance {
            return Cow::Borrowed(instance);
        }
        let named = names.iter().find_map(|name| record.text(name).filter(|value| !value.is_empty()));
        named.unwrap_or(Cow::Borrowed(&request.peer))
    }
}

/// What became of the records of a request.
pub(crate) struct Gathered {
    pub(super) batches: Vec<Batch>,
    pub(super) newest: Option<Ticks>,
    pub(super) counters: SourceCounters,
    pub(super) taken: u32,
    pub(super) refused: u32,
    /// The first refused ones: index and reason.
    pub(super) reasons: Vec<(usize, Cow<'static, str>)>,
}

impl<'p> Taking<'p> {
    /// Of a request whose records have this identity, and their index in it for a position.
    pub(crate) fn new(setting: &'p Setting, request: &'p Request, identity: u64, now: Ticks) -> Taking<'p> {
        let rows = RecordWriter::new(request.sender.router(&setting.router).clone());
        Taking {
            setting,
            request,
            identity,
            now,
            rows,
            reservation: None,
            room: 0,
            lanes: RouteCaches::default(),
            learned: Learned::default(),
            counters: SourceCounters::default(),
            index: 0,
            refused: 0,
            reasons: Vec::new(),
        }
    }

    /// Takes room for what the body becomes of `memory`: at once so much as it has bytes, which is what is usual, and more where
    /// that is not enough. So it is seen before the work whether there is room for it.
    ///
    /// # Errors
    ///
    /// Where there is not that much.
    pub(super) fn within(
        mut self,
        memory: &'p mut MemoryReservation,
        body_bytes: usize,
    ) -> Result<Taking<'p>, Refusal> {
        let room = body_bytes.min(memory.available_max());
        memory.grow(room)?;
        (self.reservation, self.room) = (Some(memory), room);
        Ok(self)
    }

    /// Takes room for bytes that are no rows.
    pub(super) fn make_room(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.reservation.as_mut().map_or(Ok(()), |memory| memory.grow(bytes))
    }

    /// A body as text. Bytes that are no UTF-8 are within a text of it, where U+FFFD may stand for them: three bytes for each,
    /// at worst.
    pub(super) fn text_of<'b>(&mut self, body: &'b [u8]) -> Result<Cow<'b, str>, Refusal> {
        if let Ok(text) = std::str::from_utf8(body) {
            return Ok(Cow::Borrowed(text));
        }
        self.make_room(body.len().saturating_mul(3))?;
        Ok(String::from_utf8_lossy(body))
    }

    /// Has room for the rows so far, and for one record more.
    fn cover_rows(&mut self) -> Result<(), Refusal> {
        let Some(memory) = &mut self.reservation else { return Ok(()) };
        let wanted = self.rows.memory();
        if wanted > self.room {
            let ahead = ROOM_STEP.min(wanted / 4);
            let more = (wanted - self.room + ahead).min(memory.available_max()).max(wanted - self.room);
            memory.grow(more)?;
            self.room += more;
        }
        Ok(())
    }

    /// Begins the next record, and gives its index.
    pub(super) fn begin(&mut self) -> Result<usize, Refusal> {
        if self.index >= self.setting.limits.records_max {
            return Err(Refusal::TooLarge(format!("{} records in a request", self.setting.limits.records_max)));
        }
        if self.rows.bytes() > self.setting.limits.rows_bytes_max() {
            let most = self.setting.limits.rows_bytes_max();
            return Err(Refusal::TooLarge(format!("{most} bytes in the rows of a request")));
        }
        self.cover_rows()?;
        self.index += 1;
        Ok(self.index - 1)
    }

    /// How many records were begun: the index of the next.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Refuses a record that was begun, alone.
    pub(super) fn refuse(&mut self, index: usize, reason: impl Into<Cow<'static, str>>) {
        self.refused += 1;
        if self.reasons.len() < REASONS_TOLD {
            self.reasons.push((index, reason.into()));
        }
    }

    /// The first record from this index on that was refused, as far as that is known.
    pub(super) fn first_refused_from(&self, index: usize) -> Option<(usize, Cow<'static, str>)> {
        self.reasons.iter().find(|(at, _)| *at >= index).cloned()
    }

    /// How lines are read that may be of any format, and how those that have to be objects.
    pub(super) fn readings(&self) -> (&'p Reading, &'p Reading) {
        (&self.setting.lines, &self.setting.objects)
    }

    /// What was learnt of the lines before.
    pub(super) fn learned(&self) -> &Learned {
        &self.learned
    }

    /// Reads a text as a line of a file is read.
    pub(super) fn parse<'a>(&mut self, text: &'a str, envelope: Envelope, reading: &'a Reading) -> Parsed<'a> {
        self.learned.record(text, envelope, reading, self.now)
    }

    /// Counts a record by what it was read as.
    pub(super) fn note(&self, format: Format, is_invalid: bool, cut: usize, record: &mut Record<'_>) {
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
    pub(super) fn clean<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        let mut record = Record { message: text, ..Record::default() };
        if let Some(redactor) = &self.setting.lines.redactor {
            redactor.redact_parts(&mut record);
        }
        record.message
    }

    /// Who sends, where nothing else says whose the records are.
    pub(super) fn peer(&self) -> &'p str {
        &self.request.peer
    }

    /// Writes a record that was begun. `key`: what its row key is made of, where the record has a name of its own.
    pub(super) fn write<'a>(&mut self, index: usize, of: Instance<'_>, mut record: Record<'a>, key: Option<(u64, u64)>)
    where
        'p: 'a,
    {
        let (identity, position) = key.unwrap_or((self.identity, index as u64));
        let request = self.request;
        let (source, tenant) = (request.endpoint.source(), request.sender.tenant.as_deref());
        let origin = Origin { identity, position, source, tenant };
        request.sender.mark(&mut record);
        let instance = of.name(request, &record);
        self.rows.write(&mut self.lanes, &instance, &record, origin, self.now, &self.counters);
    }

    /// Identity and position of a record without a name of its own, for those who are told how it is called.
    pub(super) fn key_of(&self, index: usize) -> (u64, u64) {
        (self.identity, index as u64)
    }

    /// Identity and position of a record that has a name of its own: the same for the same name, whoever else has it. Sent
    /// again it has to come to lie where it did, so it waits like a file until it is known how instances are spread.
    pub(super) fn key_of_name(&self, name: &[&[u8]]) -> Result<(u64, u64), Refusal> {
        if !self.setting.router.is_loaded() {
            return Err(Refusal::Busy("the remote store has not said yet how instances are spread"));
        }
        let Request { sender, endpoint, .. } = self.request;
        let hash = hash(&[&[sender.name.as_bytes(), endpoint.source().as_bytes()], name].concat());
        let word = |at: usize| hash[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Ok((word(0), word(8) & POSITION_MAX))
    }

    /// Bytes of the rows so far.
    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Bytes that the rows so far take in memory.
    pub(super) fn memory(&self) -> usize {
        self.rows.memory()
    }

    /// What there is, and begins anew behind it.
    pub(crate) fn gather(&mut self) -> Gathered {
        let (batches, newest) = self.rows.take();
        let refused = std::mem::take(&mut self.refused);
        let begun = u32::try_from(std::mem::take(&mut self.index)).unwrap_or(u32::MAX);
        Gathered {
            batches,
            newest,
            counters: std::mem::take(&mut self.counters),
            taken: begun - refused.min(begun),
            refused,
            reasons: std::mem::take(&mut self.reasons),
        }
    }
}
