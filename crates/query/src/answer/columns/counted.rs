//! The value counts of a page, or of a part of a row group: without reading columns they prune what a filter cannot match,
//! and count the records that match, in buckets of one value.

use super::filter::{ColumnFilter, is_column_of};
use daytable_logsql::{Column, FieldName, Predicate, PredicateNode};
use daytable_model::property::{Property, PropertyKind};
use daytable_store::page::LevelNumbers;
use daytable_store::{ColumnTest, CountedPage, CountedRecords, RowsOf};

/// The fields that a question needs, and that a page may have counted.
#[derive(Default)]
pub(super) struct CountedFields(Vec<FieldName>);

impl CountedFields {
    /// Those of some filters, and further ones.
    pub(super) fn of<'f>(
        filters: impl IntoIterator<Item = &'f Predicate>,
        more: impl IntoIterator<Item = &'f FieldName>,
    ) -> CountedFields {
        let mut fields = CountedFields::default();
        filters.into_iter().for_each(|filter| fields.add_node(filter.root()));
        more.into_iter().for_each(|field| fields.add(field));
        fields
    }

    fn add_node(&mut self, node: &PredicateNode) {
        match node {
            PredicateNode::And(nodes) | PredicateNode::Or(nodes) => nodes.iter().for_each(|node| self.add_node(node)),
            PredicateNode::Not(node) => self.add_node(node),
            PredicateNode::Field(name, _) => self.add(name),
            _ => {}
        }
    }

    fn add(&mut self, field: &FieldName) {
        if is_counted(field) && !self.0.contains(field) {
            self.0.push(field.clone());
        }
    }

    /// The columns that are some of them, if there are any fields.
    pub(super) fn columns(&self) -> Option<ColumnTest<'_>> {
        (!self.0.is_empty()).then(|| -> ColumnTest<'_> { Box::new(|name, kind| self.wants(name, kind)) })
    }

    /// Whether a column is one of them.
    pub(super) fn wants(&self, name: &str, kind: PropertyKind) -> bool {
        self.0.iter().any(|field| is_column_of(field, name, kind))
    }
}

/// The grouping in which precomputed counts can answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountedBy {
    /// By minute or level.
    pub(super) minutes: bool,
    /// By partition.
    pub(super) partitions: bool,
}

/// Whether the values of a field may be counted.
pub(super) fn is_counted(field: &FieldName) -> bool {
    matches!(field.column(), Column::Field | Column::Source)
}

/// What is known of a field of a page.
enum KnownField<'p> {
    /// All records have this value, or none.
    Same(Option<Property<'p>>),
    /// The records of each value.
    Different(Vec<(Option<Property<'p>>, LevelNumbers)>),
    Unknown,
}

/// The value counts of a page, by the fields of a question.
pub(super) struct PageValueCounts<'p> {
    rows: RowsOf<'p>,
    fields: Vec<(&'p FieldName, KnownField<'p>)>,
    levels: LevelNumbers,
}

/// Records with one value of a field.
pub(super) struct CountBucket<'p> {
    /// The field that differs within the page, and their value.
    varying: Option<(&'p FieldName, Option<Property<'p>>)>,
    pub(super) levels: LevelNumbers,
}

impl<'p> PageValueCounts<'p> {
    /// Those of a page, or of a part of a row group; `None` if they contradict its `levels`.
    pub(super) fn of(
        fields: &'p CountedFields,
        CountedRecords { rows, levels, counted, .. }: &CountedRecords<'p>,
    ) -> Option<PageValueCounts<'p>> {
        let known = fields.0.iter().map(|field| Some((field, known_field(field, *counted, levels)?)));
        Some(PageValueCounts { rows: *rows, fields: known.collect::<Option<_>>()?, levels: **levels })
    }

    /// The records by the values of one field after the other, or by no field where none differs: what is known at once.
    pub(super) fn views(&self) -> impl Iterator<Item = Vec<CountBucket<'p>>> {
        let all = || vec![CountBucket { varying: None, levels: self.levels }];
        let view = |(field, known): &(&'p FieldName, KnownField<'p>)| match known {
            KnownField::Different(values) => {
                let alike = |of: &(Option<_>, _)| CountBucket { varying: Some((*field, of.0)), levels: of.1 };
                Some(values.iter().map(alike).collect())
            }
            _ => None,
        };
        let mut views = self.fields.iter().filter_map(view).peekable();
        let only = views.peek().is_none().then(all);
        only.into_iter().chain(views.collect::<Vec<_>>())
    }

    /// The value of a field of some records; `None` if it is not known.
    pub(super) fn value(&self, of: &CountBucket<'p>, field: &FieldName) -> Option<Option<Property<'p>>> {
        if let Some((varying, value)) = &of.varying
            && *varying == field
        {
            return Some(*value);
        }
        match self.fields.iter().find(|(known, _)| *known == field)? {
            (_, KnownField::Same(value)) => Some(*value),
            _ => None,
        }
    }

    /// How many of some records match, by level. `None` if that is not known.
    pub(super) fn matching(&self, filter: &ColumnFilter, of: &CountBucket<'p>) -> Option<LevelNumbers> {
        let levels = filter.levels_with(self.rows, &|field| self.value(of, field));
        let mut matching = of.levels;
        for (code, records) in matching.iter_mut().enumerate() {
            let (may, surely) = (levels.may >> code & 1 == 1, levels.surely >> code & 1 == 1);
            if *records > 0 && may && !surely {
                return None;
            }
            if !may {
                *records = 0;
            }
        }
        Some(matching)
    }

    /// All records by level, if all of them match.
    pub(super) fn all_match(&self, filter: &ColumnFilter) -> Option<LevelNumbers> {
        let is_all = |of: &CountBucket<'p>| self.matching(filter, of) == Some(of.levels);
        self.views().any(|view| view.iter().all(is_all)).then_some(self.levels)
    }

    /// Whether some record may match.
    pub(super) fn may_match(&self, filter: &ColumnFilter) -> bool {
        let may = |of: &CountBucket<'p>| {
            self.matching(filter, of).is_none_or(|levels| levels.iter().any(|records| *records > 0))
        };
        self.views().all(|view| view.iter().any(may))
    }
}

/// Whether none of some counted records can match.
pub(super) fn cannot_match(filter: &ColumnFilter, fields: &CountedFields, counted: &CountedRecords<'_>) -> bool {
    PageValueCounts::of(fields, counted).is_some_and(|numbers| !numbers.may_match(filter))
}

/// What is known of a field. `None` if numbers contradict each other.
fn known_field<'p>(field: &FieldName, counted: CountedPage<'p>, levels: &LevelNumbers) -> Option<KnownField<'p>> {
    let mut columns = counted.columns().filter(|column| is_column_of(field, column.name(), column.kind()));
    let (Some(column), None) = (columns.next(), columns.next()) else {
        // A record may have a value in two columns, of which the record says which one is meant.
        let is_absent = !counted.columns().any(|column| is_column_of(field, column.name(), column.kind()));
        return Some(if is_absent { KnownField::Same(None) } else { KnownField::Unknown });
    };
    let Some(groups) = column.groups() else { return Some(KnownField::Unknown) };
    let (mut values, mut absent): (Vec<(Option<Property<'p>>, LevelNumbers)>, _) = (Vec::with_capacity(8), *levels);
    let mut last = None;
    for (value, level, records) in groups {
        if last.is_none_or(|last| !std::ptr::eq(last, value)) {
            values.push((Some(value.as_property()), LevelNumbers::default()));
        }
        last = Some(value);
        let (level, records) = (usize::from(level), u64::from(records));
        *absent.get_mut(level)? = absent.get(level)?.checked_sub(records)?;
        values.last_mut()?.1[level] += records;
    }
    if absent.iter().any(|records| *records > 0) {
        values.push((None, absent));
    }
    Some(match &*values {
        [(value, _)] => KnownField::Same(*value),
        _ => KnownField::Different(values),
    })
}
